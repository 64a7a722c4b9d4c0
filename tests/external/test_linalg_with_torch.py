"""Linear algebra, einsum and Fourier transforms against torch: values and gradients, real and
complex, single precision and double."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import bedplate as bp

DTYPES = ("float32", "float64", "complex64", "complex128")
TOLERANCE = {"float32": 2e-3, "complex64": 2e-3, "float64": 1e-9, "complex128": 1e-9}


def matrices(shape: tuple[int, ...], kind: str, dtype: str) -> np.ndarray[Any, Any]:
    """Random matrices: "any", "square" and well conditioned, "hermitian", "positive"."""
    generator = np.random.default_rng(sum(shape))
    x = generator.normal(size=shape)
    if "complex" in dtype:
        x = x + 1j * generator.normal(size=shape)
    if kind == "square":
        x = x + 3 * np.eye(shape[-1])
    if kind == "hermitian":
        x = x + np.conj(np.swapaxes(x, -1, -2)) + np.diag(4.0 * np.arange(shape[-1]))
    if kind == "positive":
        x = x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])
    return x.astype(dtype)


def rebuilt_from_svd(library: Any) -> Callable[..., Any]:
    """A function of all three factors that no sign or phase of the vectors changes."""

    def function(x: Any) -> Any:
        u, s, vh = library.linalg.svd(x, full_matrices=False)
        return ((u * (s**2)[..., None, :]) @ vh, s)

    return function


def rebuilt_from_eigh(library: Any) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        x = (x + library.conj(x).swapaxes(-1, -2)) / 2
        w, v = library.linalg.eigh(x)
        return (v * (w**3)[..., None, :]) @ library.conj(v).swapaxes(-1, -2)

    return function


def projections_of_eig(library: Any) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        w, v = library.linalg.eig(x)
        return (v * (w**2)[..., None, :]) @ library.linalg.inv(v)

    return function


def same(name: str, *arguments: Any, **options: Any) -> Callable[[Any], Callable[..., Any]]:
    """One function under the same name in both libraries."""

    def of(library: Any) -> Callable[..., Any]:
        function = library
        for part in name.split("."):
            function = getattr(function, part)
        return lambda *x: function(*x, *arguments, **options)

    return of


CASES: dict[str, tuple[Any, list[tuple[tuple[int, ...], str]]]] = {
    "inv": (same("linalg.inv"), [((2, 3, 3), "square")]),
    "solve": (same("linalg.solve"), [((2, 1, 3, 3), "square"), ((4, 3, 2), "any")]),
    "solve_triangular": (
        same("linalg.solve_triangular", upper=True),
        [((3, 3), "square"), ((3, 2), "any")],
    ),
    "unit triangular from the right": (
        same("linalg.solve_triangular", upper=False, left=False, unitriangular=True),
        [((3, 3), "square"), ((2, 3), "any")],
    ),
    "det": (same("linalg.det"), [((2, 3, 3), "square")]),
    "slogdet": (same("linalg.slogdet"), [((2, 3, 3), "square")]),
    "pinv": (same("linalg.pinv"), [((2, 4, 3), "any")]),
    "lstsq": (
        lambda library: lambda a, b: library.linalg.lstsq(a, b)[0],
        [((4, 3), "any"), ((4, 2), "any")],
    ),
    "cholesky": (
        lambda library: (
            lambda x: library.linalg.cholesky((x + library.conj(x).swapaxes(-1, -2)) / 2)
        ),
        [((2, 3, 3), "positive")],
    ),
    "qr tall": (same("linalg.qr"), [((2, 4, 3), "any")]),
    "qr wide": (same("linalg.qr"), [((3, 4), "any")]),
    "svd tall": (rebuilt_from_svd, [((2, 4, 3), "any")]),
    "svd wide": (rebuilt_from_svd, [((3, 4), "any")]),
    "svdvals": (same("linalg.svdvals"), [((3, 4), "any")]),
    "eigh": (rebuilt_from_eigh, [((2, 3, 3), "hermitian")]),
    "eigvalsh": (same("linalg.eigvalsh"), [((3, 3), "hermitian")]),
    "eig": (projections_of_eig, [((3, 3), "square")]),
    "matrix_exp": (same("linalg.matrix_exp"), [((2, 3, 3), "any")]),
    "matrix_power": (same("linalg.matrix_power", 3), [((3, 3), "any")]),
    "negative power": (same("linalg.matrix_power", -2), [((3, 3), "square")]),
    "vector_norm": (same("linalg.vector_norm"), [((3, 4), "any")]),
    "vector_norm 3": (same("linalg.vector_norm", 3), [((3, 4), "any")]),
    "nuclear": (same("linalg.matrix_norm", "nuc"), [((3, 4), "any")]),
    "spectral": (same("linalg.matrix_norm", 2), [((3, 4), "any")]),
    "tensordot": (same("tensordot", 1), [((2, 3, 4), "any"), ((4, 2), "any")]),
    "vecdot": (same("linalg.vecdot"), [((3, 4), "any"), ((4,), "any")]),
    "cross": (same("linalg.cross"), [((2, 3), "any"), ((2, 3), "any")]),
    "kron": (same("kron"), [((2, 3), "any"), ((2, 2), "any")]),
    "diagonal": (same("diagonal", 1), [((3, 4, 2), "any")]),
    "fft": (same("fft.fft", 5, 0, "ortho"), [((4, 3), "any")]),
    "ifftn": (same("fft.ifftn"), [((4, 3), "any")]),
    "irfft": (same("fft.irfft", 5), [((2, 4), "any")]),
    "hfft": (same("fft.hfft"), [((2, 4), "any")]),
}
# options that are positional in torch and keywords in the standard
OURS = {
    "vector_norm 3": same("linalg.vector_norm", ord=3),
    "nuclear": same("linalg.matrix_norm", ord="nuc"),
    "spectral": same("linalg.matrix_norm", ord=2),
    "tensordot": same("tensordot", axes=1),
    "fft": same("fft.fft", n=5, axis=0, norm="ortho"),
    "irfft": same("fft.irfft", n=5),
}
REAL_ONLY: dict[str, tuple[Any, list[tuple[tuple[int, ...], str]]]] = {
    "rfft": (same("fft.rfft"), [((4, 5), "any")]),
    "rfftn": (same("fft.rfftn"), [((4, 6), "any")]),
    "ihfft": (same("fft.ihfft"), [((4, 5), "any")]),
    "maximal column sum": (same("linalg.norm", 1), [((4, 5), "any")]),
}


def weights_for(shape: tuple[int, ...], is_complex: bool, number: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(number)
    w = generator.uniform(0.5, 1.5, shape)
    return w + 1j * generator.uniform(0.5, 1.5, shape) if is_complex else w


def torch_side(function: Any, arrays: list[Any]) -> tuple[list[Any], list[Any]]:
    """Values, and gradients of the real part of their weighted sum."""
    inputs = [torch.tensor(a, requires_grad=True) for a in arrays]
    found = function(*inputs)
    values = list(found) if isinstance(found, tuple) else [found]
    total = 0.0
    for i, value in enumerate(values):
        w = torch.tensor(weights_for(tuple(value.shape), value.is_complex(), i)).to(value.dtype)
        total = total + (value * w).sum().real
    total.backward()
    return [_array(v) for v in values], [_array(x.grad) for x in inputs]


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    return tensor.detach().resolve_conj().numpy()


def our_side(function: Any, arrays: list[Any]) -> tuple[list[Any], list[Any]]:
    inputs = [bp.tensor(a, requires_grad=True) for a in arrays]
    found = function(*inputs)
    values = list(found) if isinstance(found, tuple) else [found]
    total = None
    for i, value in enumerate(values):
        is_complex = value.dtype.kind == "c"
        w = weights_for(value.shape, is_complex, i).astype(value.dtype.numpy)
        part = bp.real((value * bp.tensor(w)).sum())
        total = part if total is None else total + part
    total.backward()
    return [v.numpy() for v in values], [x.grad.numpy() for x in inputs]


def check(name: str, case: Any, dtype: str) -> None:
    function, specifications = case
    arrays = [matrices(shape, kind, dtype) for shape, kind in specifications]
    ours = our_side(OURS.get(name, function)(bp), arrays)
    theirs = torch_side(function(torch), arrays)
    for what, found, wanted in zip(("value", "gradient"), ours, theirs, strict=True):
        for number, (got, expected) in enumerate(zip(found, wanted, strict=True)):
            assert got.shape == expected.shape, f"{what} {number}"
            assert got.dtype == expected.dtype, f"{what} {number}"
            scale = max(float(np.abs(expected).max()), 1.0)
            np.testing.assert_allclose(
                got, expected, rtol=0, atol=TOLERANCE[dtype] * scale, err_msg=f"{what} {number}"
            )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_agree_with_torch(name: str, dtype: str) -> None:
    check(name, CASES[name], dtype)


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("name", REAL_ONLY)
def test_functions_of_reals_agree_with_torch(name: str, dtype: str) -> None:
    check(name, REAL_ONLY[name], dtype)


EINSUMS = {
    "ij,jk->ik": [(3, 4), (4, 2)],
    "bhqd,bhkd->bhqk": [(2, 2, 3, 4), (2, 2, 5, 4)],
    "...ij,...jk->...ik": [(2, 1, 3, 4), (5, 4, 2)],
    "ii->i": [(3, 3)],
    "i,ij,j->": [(3,), (3, 4), (4,)],
    "abc,cd,be->ade": [(2, 3, 4), (4, 2), (3, 2)],
    "ijk,jl->kil": [(2, 3, 4), (3, 2)],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("text", EINSUMS)
def test_einsum_agrees_with_torch(text: str, dtype: str) -> None:
    case = (
        lambda library: lambda *x: library.einsum(text, *x),
        [(s, "any") for s in EINSUMS[text]],
    )
    check("einsum", case, dtype)
