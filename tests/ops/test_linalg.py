"""Linear algebra against NumPy and SciPy in float64, gradients of both orders, edges, refusals.

Long, because factors, solvers, norms and products are held by the same few tables of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import bedplate as bp
from bedplate.errors import DTypeError, GradientError, LinAlgError, ShapeError

GENERATOR = np.random.default_rng(7)
INF = math.inf
Array = np.ndarray[Any, Any]
TOLERANCE = {"float32": 2e-4, "float64": 1e-10, "complex64": 2e-4, "complex128": 1e-10}
DTYPES = tuple(TOLERANCE)
BATCHES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 1), (0,))


def numbers(shape: tuple[int, ...], dtype: str = "float64") -> Array:
    x = GENERATOR.normal(size=shape)
    if "complex" in dtype:
        x = x + 1j * GENERATOR.normal(size=shape)
    return x.astype(dtype)


def square(shape: tuple[int, ...], dtype: str = "float64") -> Array:
    return (numbers((*shape, 4, 4), dtype) + 4 * np.eye(4)).astype(dtype)


def positive(shape: tuple[int, ...], dtype: str = "float64") -> Array:
    x = numbers((*shape, 4, 4), dtype)
    return (x @ adjoint(x) + np.eye(4)).astype(dtype)


def adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def close(got: Any, wanted: Any, dtype: str = "float64") -> None:
    found, wanted = got.numpy(), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE[dtype] * scale)


def each(x: Array, function: Callable[[Array], Array]) -> Array:
    """A function of one matrix on each of a stack."""
    shown = function(np.eye(x.shape[-1], dtype=x.dtype))
    flat = x.reshape(-1, *x.shape[-2:])
    found = [function(m).astype(shown.dtype) for m in flat]
    return np.array(found, shown.dtype).reshape(*x.shape[:-2], *shown.shape)


# values


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
def test_values_of_square_matrices(batch: tuple[int, ...], dtype: str) -> None:
    a, p = square(batch, dtype), positive(batch, dtype)
    x, y = bp.tensor(a), bp.tensor(p)
    close(bp.linalg.inv(x), np.linalg.inv(a), dtype)
    close(bp.linalg.det(x), np.linalg.det(a), dtype)
    sign, log = bp.linalg.slogdet(x)
    close(sign, np.linalg.slogdet(a)[0], dtype)
    close(log, np.linalg.slogdet(a)[1], dtype)
    close(bp.linalg.cholesky(y), np.linalg.cholesky(p), dtype)
    close(bp.linalg.cholesky(y, upper=True), adjoint(np.linalg.cholesky(p)), dtype)
    close(bp.linalg.eigvalsh(y), np.linalg.eigvalsh(p), dtype)
    for power in (-2, -1, 0, 1, 5):
        close(bp.linalg.matrix_power(x, power), np.linalg.matrix_power(a, power), dtype)
    close(bp.linalg.matrix_exp(x), each(a, scipy.linalg.expm), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 3), (0, 3, 2), (0, 3), (3, 0)])
def test_factors_multiply_to_the_matrix(shape: tuple[int, ...], dtype: str) -> None:
    a = numbers(shape, dtype)
    x = bp.tensor(a)
    for full in (False, True):
        u, s, vh = bp.linalg.svd(x, full_matrices=full)
        for got, wanted in zip((u, s, vh), np.linalg.svd(a, full_matrices=full), strict=True):
            assert got.shape == wanted.shape and got.dtype.numpy == wanted.dtype
        k = s.shape[-1]
        close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, dtype)
    for mode in ("reduced", "complete"):
        q, r = bp.linalg.qr(x, mode=mode)
        close(q @ r, a, dtype)
        close(bp.conj(q).swapaxes(-1, -2) @ q + 0 * q[..., :1, :], each_identity(q), dtype)
        assert not np.tril(r.numpy(), -1).any()
    close(bp.linalg.svdvals(x), np.linalg.svd(a, compute_uv=False), dtype)
    if a.size:
        close(bp.linalg.pinv(x), np.linalg.pinv(a), dtype)


def each_identity(q: Any) -> Array:
    n = q.shape[-1]
    return np.broadcast_to(np.eye(n, dtype=q.dtype.numpy), (*q.shape[:-2], n, n))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
def test_eigenvectors_belong_to_their_values(batch: tuple[int, ...], dtype: str) -> None:
    p, a = positive(batch, dtype), square(batch, dtype)
    w, v = bp.linalg.eigh(bp.tensor(p))
    close(w, np.linalg.eigh(p)[0], dtype)
    close((v * w[..., None, :]) @ bp.conj(v).mT, p, dtype)
    w, v = bp.linalg.eig(bp.tensor(a))
    complex_dtype = "complex64" if dtype in ("float32", "complex64") else "complex128"
    assert w.dtype.name == v.dtype.name == complex_dtype
    close(v * w[..., None, :], a @ v.numpy(), complex_dtype)
    found = bp.linalg.eigvals(bp.tensor(a)).numpy()
    np.testing.assert_allclose(
        np.sort_complex(found), np.sort_complex(w.numpy()), atol=TOLERANCE[dtype] * 10
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions(dtype: str) -> None:
    a, b, v = square((2, 1), dtype), numbers((3, 4, 2), dtype), numbers((4,), dtype)
    x = bp.tensor(a)
    close(bp.linalg.solve(x, bp.tensor(b)), np.linalg.solve(a, b), dtype)
    close(bp.linalg.solve(x, bp.tensor(v)), np.linalg.solve(a, v), dtype)
    t = a[0, 0]
    close(bp.linalg.solve(bp.tensor(t), bp.tensor(b)), np.linalg.solve(t, b), dtype)
    for upper in (False, True):
        for unit in (False, True):
            wanted = scipy.linalg.solve_triangular(t, b[0], lower=not upper, unit_diagonal=unit)
            found = bp.linalg.solve_triangular(
                bp.tensor(t), bp.tensor(b[0]), upper=upper, unitriangular=unit
            )
            close(found, wanted.astype(dtype), dtype)
            triangle = np.triu(t) if upper else np.tril(t)
            if unit:
                np.fill_diagonal(triangle, 1)
            found = bp.linalg.solve_triangular(
                bp.tensor(t), bp.tensor(b[0].T.copy()), upper=upper, left=False, unitriangular=unit
            )
            close(found @ bp.tensor(triangle), b[0].T, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares(dtype: str) -> None:
    a, b = numbers((6, 3), dtype), numbers((6, 2), dtype)
    fit = bp.linalg.lstsq(bp.tensor(a), bp.tensor(b))
    solution, residuals, rank, values = np.linalg.lstsq(a, b, rcond=None)
    close(fit.solution, solution, dtype)
    close(fit.residuals, residuals, dtype)
    close(fit.singular_values, values, dtype)
    assert fit.rank.item() == rank == 3
    a[:, 2] = a[:, 0] + a[:, 1]
    fit = bp.linalg.lstsq(bp.tensor(a), bp.tensor(b[:, 0]))
    wide = a.astype("complex128" if "complex" in dtype else "float64")
    wanted = np.linalg.lstsq(wide, b[:, 0].astype(wide.dtype), rcond=1e-5)[0]
    close(fit.solution, wanted.astype(dtype), dtype)
    assert fit.rank.item() == 2 and fit.residuals.shape == ()
    stacked = bp.linalg.lstsq(
        bp.tensor(numbers((5, 2, 3), dtype)), bp.tensor(numbers((2, 4), dtype))
    )
    assert stacked.solution.shape == (5, 3, 4) and stacked.rank.tolist() == [2] * 5


def test_ranks_and_tolerances() -> None:
    a = np.diag([1.0, 1e-3, 1e-9])
    x = bp.tensor(np.stack([a, np.eye(3), np.zeros((3, 3))]))
    assert bp.linalg.matrix_rank(x).tolist() == [3, 3, 0]
    assert bp.linalg.matrix_rank(x, rtol=1e-6).tolist() == [2, 3, 0]
    assert bp.linalg.matrix_rank(x, rtol=bp.tensor([1e-2, 0.5, 0.0])).tolist() == [1, 3, 0]
    assert bp.linalg.matrix_rank(bp.zeros((2, 0, 3))).tolist() == [0, 0]
    close(bp.linalg.pinv(x, rtol=[1e-2, 1e-2, 1e-2])[0], np.diag([1.0, 0, 0]))
    close(bp.linalg.pinv(x, rtol=1e-6)[0], np.diag([1.0, 1e3, 0]))


VECTOR_ORDERS = (2, 1, 3, 0.5, 0, INF, -INF, -1, -2, 2.5)


@pytest.mark.parametrize("ord", VECTOR_ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_vector_norms(ord: float, dtype: str) -> None:
    a = numbers((3, 4, 2), dtype)
    for axis in (None, 0, -1, (0, 2), (1, 0, 2)):
        axes = tuple(range(3)) if axis is None else (axis,) if isinstance(axis, int) else axis
        moved = np.moveaxis(a, axes, range(len(axes)))
        wanted = np.linalg.norm(moved.reshape(-1, *moved.shape[len(axes) :]), ord, 0)
        x = bp.tensor(a)
        close(bp.linalg.vector_norm(x, axis=axis, ord=ord), wanted, dtype)
        kept = tuple(1 if i in {n % 3 for n in axes} else n for i, n in enumerate(a.shape))
        found = bp.linalg.vector_norm(x, axis=axis, ord=ord, keepdims=True)
        close(found, wanted.reshape(kept), dtype)


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, INF, -INF])
@pytest.mark.parametrize("dtype", DTYPES)
def test_matrix_norms(ord: Any, dtype: str) -> None:
    a = numbers((2, 3, 4), dtype)
    x = bp.tensor(a)
    wanted = np.asarray(np.linalg.matrix_norm(a, ord=ord))
    close(bp.linalg.matrix_norm(x, ord=ord), wanted, dtype)
    close(bp.linalg.matrix_norm(x, ord=ord, keepdims=True), wanted[:, None, None], dtype)
    if ord == "fro":
        close(bp.linalg.matrix_norm(x, ord=None), wanted, dtype)
    close(bp.linalg.norm(x, ord, (0, -1)), np.linalg.norm(a, ord, (0, -1)), dtype)
    close(bp.linalg.norm(x, ord, (2, 1), True), np.linalg.norm(a, ord, (2, 1), True), dtype)


def test_norms_overflow_and_underflow_only_where_they_must() -> None:
    for dtype, large, small in ((np.float32, 1e20, 1e-30), (np.float64, 1e200, 1e-200)):
        for size in (large, small):
            x = bp.tensor(np.full(100, size, dtype))
            for p, factor in ((2, 10.0), (3, 100 ** (1 / 3))):
                assert bp.linalg.vector_norm(x, ord=p).item() == pytest.approx(size * factor, 1e-6)
    inf = bp.linalg.vector_norm(bp.tensor([1.0, -INF]))
    assert inf.item() == INF
    assert math.isnan(bp.linalg.vector_norm(bp.tensor([1.0, math.nan])).item())
    narrow = bp.tensor([3e4, 4e4], dtype="float16")
    assert bp.linalg.vector_norm(narrow).item() == float(np.float16(5e4))


def test_the_words_of_pytorch() -> None:
    x = bp.tensor([[3.0, 4.0], [6.0, 8.0]])
    assert bp.linalg.vector_norm(x, dim=1, keepdim=True).tolist() == [[5.0], [10.0]]
    assert bp.linalg.norm(x, dim=1).tolist() == [5.0, 10.0]


def test_empty_norms() -> None:
    x = bp.zeros((2, 0))
    assert bp.linalg.vector_norm(x, axis=1).tolist() == [0.0, 0.0]
    assert bp.linalg.vector_norm(x, axis=1, ord=INF).tolist() == [0.0, 0.0]
    assert bp.linalg.vector_norm(x, axis=1, ord=3).tolist() == [0.0, 0.0]
    assert bp.linalg.matrix_norm(x, ord="nuc").item() == 0.0
    assert bp.linalg.matrix_norm(x, ord=2).item() == 0.0


def test_products() -> None:
    a, b = numbers((2, 3), "complex128"), numbers((2, 3), "complex128")
    close(bp.cross(bp.tensor(a), bp.tensor(b)), np.linalg.cross(a, b))
    close(bp.linalg.cross(bp.tensor(a.T.copy()), bp.tensor(b[0][:, None]), axis=0),
          np.linalg.cross(a.T, b[0][:, None], axis=0))  # fmt: skip
    close(bp.vecdot(bp.tensor(a), bp.tensor(b)), np.linalg.vecdot(a, b))
    columns = bp.vecdot(bp.tensor(a), bp.tensor(b[:, :1]), axis=-2)
    close(columns, np.linalg.vecdot(a.T, b[:, :1].T))
    close(bp.outer(bp.tensor(a[0]), bp.tensor(b[1])), np.outer(a[0], b[1]))
    close(bp.kron(bp.tensor(a), bp.tensor(b[0])), np.kron(a, b[0]))
    c = numbers((3, 4, 5))
    for offset in range(-5, 7):
        x = bp.tensor(c)
        close(bp.linalg.diagonal(x, offset=offset), np.linalg.diagonal(c, offset=offset))
        close(bp.diagonal(x, offset), np.diagonal(c, offset))
        close(bp.diagonal(x, offset, 2, 0), np.diagonal(c, offset, 2, 0))
        close(bp.linalg.trace(x, offset=offset), np.linalg.trace(c, offset=offset))
        close(x.trace(offset, 0, 2), np.trace(c, offset, 0, 2))
    trace = bp.linalg.trace(bp.tensor(np.eye(3, dtype=np.int8) * 100))
    assert (trace.item(), trace.dtype) == (300, bp.int64)
    assert bp.linalg.trace(bp.tensor(np.eye(3)), dtype="float32").dtype is bp.float32


def test_more_products_and_diagonals() -> None:
    a, b = numbers((4,), "complex128"), numbers((4,), "complex128")
    close(bp.dot(bp.tensor(a), bp.tensor(b)), np.dot(a, b), "complex128")
    close(bp.vdot(bp.tensor(a), bp.tensor(b)), np.vdot(a, b), "complex128")
    c = numbers((3, 4))
    close(bp.inner(bp.tensor(c), bp.tensor(c[:2])), np.inner(c, c[:2]))
    close(bp.inner(bp.tensor(c), 2.0), 2 * c)
    chain = [numbers(shape) for shape in ((10, 3), (3, 50), (50, 2), (2, 7))]
    close(bp.linalg.multi_dot(list(map(bp.tensor, chain))), np.linalg.multi_dot(chain))
    ends = [chain[0][0] @ chain[1], chain[2], numbers((2,))]
    close(bp.linalg.multi_dot(list(map(bp.tensor, ends))), np.linalg.multi_dot(ends))
    for offset in (-2, 0, 1):
        close(bp.diag(bp.tensor(c[0]), offset), np.diag(c[0], offset))
        close(bp.diag(bp.tensor(c), offset), np.diag(c, offset))
        stack = bp.diag_embed(bp.tensor(c), offset, 0, 2)
        close(bp.diagonal(stack, offset, 0, 2), c)
        close(stack.sum((0, 2)), c.sum(1))
    close(bp.block_diag(bp.tensor(c), bp.tensor(c[0]), bp.tensor(2.0, dtype="float64")),
          scipy.linalg.block_diag(c, c[0], 2.0))  # fmt: skip
    for p in (None, 2, -2, 1, INF, "fro", "nuc"):
        close(bp.linalg.cond(bp.tensor(A), p), np.linalg.cond(A, p))
    stacked = bp.tensor(np.stack([A, -A, SINGULAR * 0]))
    np.testing.assert_allclose(
        bp.logdet(stacked).numpy(), [np.log(np.linalg.det(A)), math.nan, -INF], rtol=1e-12
    )
    close(bp.logdet(bp.tensor(B)), np.log(np.linalg.det(B)), "complex128")


@pytest.mark.parametrize("axes", [0, 1, 2, ([0], [1]), ([1, 0], [2, 1]), ([-1], [0]), ([], [])])
@pytest.mark.parametrize("dtype", ["float64", "complex128", "int32"])
def test_tensordot(axes: Any, dtype: str) -> None:
    a = (10 * numbers((3, 3, 3), "float64")).astype(dtype)
    b = (10 * numbers((3, 3, 3), "float64")).astype(dtype)
    found = bp.tensordot(bp.tensor(a), bp.tensor(b), axes=axes)
    wanted = np.tensordot(a, b, axes)
    assert found.dtype.numpy == wanted.dtype
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_integers_and_narrow_floats_are_computed_in_float32() -> None:
    x = bp.tensor([[2, 0], [0, 4]])
    assert bp.linalg.inv(x).dtype is bp.float32
    for dtype in (bp.float16, bp.bfloat16):
        narrow = x.astype(dtype)
        assert bp.linalg.inv(narrow).dtype is dtype
        assert bp.linalg.inv(narrow).tolist() == [[0.5, 0.0], [0.0, 0.25]]
        assert bp.linalg.svd(narrow).S.tolist() == [4.0, 2.0]
        assert bp.linalg.eig(narrow).eigenvalues.dtype is bp.complex64
        assert bp.linalg.solve(narrow, narrow).dtype is dtype
    assert bp.linalg.solve(x.astype("float64"), x).dtype is bp.float64
    assert bp.linalg.matrix_power(x, 3).tolist() == [[8, 0], [0, 64]]


# gradients


def factors_of_svd(x: Any) -> Any:
    u, s, vh = bp.linalg.svd(x, full_matrices=False)
    return (u * (s**2)[..., None, :]) @ vh


def power_by_eigh(x: Any) -> Any:
    w, v = bp.linalg.eigh(x)
    return (v * (w**3)[..., None, :]) @ v.mT


def real_part_of_eig(x: Any) -> Any:
    w, v = bp.linalg.eig(x)
    return bp.real((v * (w**2)[..., None, :]) @ bp.linalg.inv(v))


A = np.array([[1.0, 0.3, -0.6], [0.2, 2.5, 0.1], [-0.4, 0.7, 4.0]])
SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.5, -1.0]])
TALL = np.array([[1.0, 0.3], [0.2, 2.5], [-0.4, 0.7], [0.9, -0.2]])
GRADIENTS: dict[str, tuple[Callable[..., Any], list[Array]]] = {
    "inv": (bp.linalg.inv, [A]),
    "solve": (bp.linalg.solve, [A, TALL[:3]]),
    "solve vector": (bp.linalg.solve, [np.stack([A, A + 1]), TALL[:3, 0]]),
    "one matrix for a stack": (bp.linalg.solve, [A, np.stack([TALL[:3], TALL[1:]])]),
    "triangular": (lambda a, b: bp.linalg.solve_triangular(a, b, upper=True), [A, TALL[:3]]),
    "det": (bp.linalg.det, [np.stack([A, A + 1])]),
    "det of a singular matrix": (bp.linalg.det, [SINGULAR]),
    "det of zeros": (bp.linalg.det, [np.zeros((2, 2))]),
    "slogdet": (lambda x: bp.linalg.slogdet(x).logabsdet, [A]),
    "cholesky": (bp.linalg.cholesky, [A @ A.T]),
    "upper cholesky": (lambda x: bp.linalg.cholesky(x, upper=True), [A @ A.T]),
    "qr": (lambda x: bp.linalg.qr(x), [A]),
    "qr tall": (lambda x: bp.linalg.qr(x), [TALL]),
    "qr wide": (lambda x: bp.linalg.qr(x), [TALL.T.copy()]),
    "svd": (factors_of_svd, [A]),
    "svd tall": (factors_of_svd, [TALL]),
    "svd wide": (factors_of_svd, [TALL.T.copy()]),
    "svdvals": (bp.linalg.svdvals, [TALL]),
    "eigh": (power_by_eigh, [A]),
    "eigvalsh": (bp.linalg.eigvalsh, [np.stack([A, A + 1])]),
    "eig": (real_part_of_eig, [A]),
    "eigvals": (lambda x: bp.real(bp.linalg.eigvals(x)), [A]),
    "pinv": (bp.linalg.pinv, [TALL]),
    "lstsq": (lambda a, b: bp.linalg.lstsq(a, b).solution, [TALL, TALL[:, :1] * 2 + 1]),
    "residuals": (lambda a, b: bp.linalg.lstsq(a, b).residuals, [TALL, TALL[:, :1] * 2 + 1]),
    "power": (lambda x: bp.linalg.matrix_power(x, -3), [A]),
    "exp": (bp.linalg.matrix_exp, [A]),
    "nuclear": (lambda x: bp.linalg.matrix_norm(x, ord="nuc"), [TALL]),
    "spectral": (lambda x: bp.linalg.matrix_norm(x, ord=2), [TALL]),
    "smallest": (lambda x: bp.linalg.matrix_norm(x, ord=-2), [TALL]),
    "frobenius": (lambda x: bp.linalg.matrix_norm(x, keepdims=True), [TALL]),
    "column sums": (lambda x: bp.linalg.matrix_norm(x, ord=1), [TALL]),
    "norm 3": (lambda x: bp.linalg.vector_norm(x, ord=3, axis=0), [TALL]),
    "norm -2": (lambda x: bp.linalg.vector_norm(x, ord=-2, axis=0), [TALL]),
    "norm inf": (lambda x: bp.linalg.vector_norm(x, ord=INF, axis=0), [TALL]),
    "cross": (bp.cross, [A, A[0]]),
    "vecdot": (bp.vecdot, [A, A[0]]),
    "kron": (bp.kron, [TALL[:2], A[0]]),
    "tensordot": (lambda a, b: bp.tensordot(a, b, axes=([0], [1])), [A, TALL[:2, :].T @ A[:2]]),
    "diagonal": (lambda x: bp.diagonal(x, 1), [A]),
    "trace": (lambda x: bp.linalg.trace(x, offset=-1), [A]),
    "chain": (lambda *x: bp.linalg.multi_dot(x), [TALL.T.copy(), TALL, TALL[:2]]),
    "blocks": (bp.block_diag, [TALL, A[0]]),
    "embedded": (lambda x: bp.diag_embed(x, -1), [TALL]),
    "condition": (bp.linalg.cond, [A]),
    "logdet": (bp.logdet, [A]),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_first_and_second_gradient(name: str) -> None:
    function, arrays = GRADIENTS[name]
    inputs = [bp.tensor(array) for array in arrays]
    assert bp.gradcheck(function, inputs)
    assert bp.gradgradcheck(function, inputs)


B = A + 1j * np.array([[0.2, -0.5, 0.1], [0.7, 0.3, -0.2], [0.4, 0.6, -0.8]])
SLIM = TALL + 1j * TALL[::-1]


def complex_power_by_eigh(x: Any) -> Any:
    w, v = bp.linalg.eigh(x)
    return (v * (w**3)[..., None, :]) @ bp.conj(v).mT


OF_COMPLEX: dict[str, tuple[Callable[..., Any], list[Array]]] = {
    "inv": (bp.linalg.inv, [B]),
    "solve": (bp.linalg.solve, [B, SLIM[:3]]),
    "det": (bp.linalg.det, [B]),
    "det of a singular matrix": (bp.linalg.det, [SLIM[:3] @ SLIM[1:].T]),
    "logabsdet": (lambda x: bp.linalg.slogdet(x).logabsdet, [B]),
    "sign": (lambda x: bp.linalg.slogdet(x).sign, [B]),
    "cholesky": (bp.linalg.cholesky, [B @ adjoint(B)]),
    "qr": (lambda x: bp.linalg.qr(x), [SLIM[:3]]),
    "svd": (factors_of_svd, [SLIM[:3]]),
    "svdvals": (bp.linalg.svdvals, [SLIM[:3]]),
    "eigh": (complex_power_by_eigh, [B[:2, :2]]),
    "eig": (lambda x: bp.linalg.eigvals(x) ** 2, [B]),
    "pinv": (bp.linalg.pinv, [SLIM[:3]]),
    "exp": (bp.linalg.matrix_exp, [B]),
    "norm": (lambda x: bp.linalg.vector_norm(x, axis=0), [SLIM[:3]]),
    "norm 3": (lambda x: bp.linalg.vector_norm(x, axis=0, ord=3), [SLIM[:3]]),
    "nuclear": (lambda x: bp.linalg.matrix_norm(x, ord="nuc"), [SLIM[:3]]),
    "vecdot": (bp.vecdot, [B, B[0]]),
}


@pytest.mark.parametrize("name", OF_COMPLEX)
def test_first_and_second_gradient_of_complex_matrices(name: str) -> None:
    function, arrays = OF_COMPLEX[name]
    inputs = [bp.tensor(array) for array in arrays]
    assert bp.gradcheck(function, inputs)
    assert bp.gradgradcheck(function, inputs)


@pytest.mark.parametrize("view", [lambda x: x.mT, lambda x: x[::-1], lambda x: x[:1] + 0 * x])
def test_gradients_through_views(view: Callable[[Any], Any]) -> None:
    assert bp.gradcheck(lambda x: bp.linalg.inv(view(x) + 3 * bp.eye(3)), bp.tensor(A))


@pytest.mark.parametrize("ord", [1, 2, 3, INF, 1.5])
def test_the_gradient_of_a_norm_at_zeros_is_zeros(ord: float) -> None:
    x = bp.tensor(np.zeros((2, 3)), requires_grad=True)
    bp.linalg.vector_norm(x, ord=ord, axis=1).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, 2, INF])
def test_the_gradient_of_a_matrix_norm_at_zeros_is_zeros(ord: Any) -> None:
    x = bp.tensor(np.zeros((2, 3)), requires_grad=True)
    bp.linalg.matrix_norm(x, ord=ord).backward()
    assert x.grad is not None and x.grad.tolist() == [[0.0] * 3] * 2


def test_the_squared_norm_is_smooth_at_zeros() -> None:
    x = bp.tensor(np.zeros(3), requires_grad=True)
    (bp.linalg.vector_norm(x) ** 2).backward()
    assert x.grad is not None and x.grad.tolist() == [0.0] * 3


def test_equal_eigenvalues() -> None:
    x = bp.tensor(np.eye(3), requires_grad=True)
    bp.linalg.eigvalsh(x).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-12)
    x.grad = None
    w, v = bp.linalg.eigh(x)
    ((v * w) @ v.mT).sum().backward()
    assert x.grad is not None and np.isnan(x.grad.numpy()).any()  # no vectors, no gradient


def test_gradients_of_empty_matrices() -> None:
    for function in (bp.linalg.inv, bp.linalg.cholesky, bp.linalg.det, bp.linalg.eigvalsh):
        x = bp.tensor(np.zeros((2, 0, 0)), requires_grad=True)
        function(x).sum().backward()
        assert x.grad is None or x.grad.shape == (2, 0, 0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bp.linalg.svd(tracked(TALL)).U, "svd: with full_matrices=True the vectors beyond"),
        (
            lambda: bp.linalg.qr(tracked(TALL), mode="complete").Q,
            "qr: with mode='complete' the",
        ),
    ],
)
def test_vectors_that_are_free_have_no_gradient(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(GradientError, match=words):
        call().sum().backward()


def tracked(array: Array) -> Any:
    return bp.tensor(array, requires_grad=True)


# refusals


def word(text: str) -> Any:
    return text


VECTOR, MATRIX, WIDE = np.ones(3), np.ones((3, 3)), np.ones((3, 4))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: bp.linalg.inv(bp.tensor(WIDE)), ShapeError,
         r"inv: the last two sizes of x differ\n  x  \(3, 4\)"),
        (lambda: bp.linalg.det(bp.tensor(VECTOR)), ShapeError, "det: x must be a matrix"),
        (lambda: bp.linalg.cholesky(bp.tensor(WIDE)), ShapeError, "cholesky: the last two sizes"),
        (lambda: bp.linalg.eigh(bp.tensor(WIDE)), ShapeError, "eigh: the last two sizes"),
        (lambda: bp.linalg.svd(bp.tensor(VECTOR)), ShapeError, "svd: x must be a matrix"),
        (lambda: bp.linalg.qr(bp.tensor(MATRIX), mode="raw"), ValueError, "unknown mode 'raw'"),
        (lambda: bp.linalg.solve(bp.tensor(MATRIX), bp.tensor(WIDE.T.copy())), ShapeError,
         r"solve: the right side does not fit the matrix\n  x1 .*\n  x2 .*\n.*expected x2 of"),
        (lambda: bp.linalg.solve(bp.ones((2, 3, 3)), bp.ones((5, 3, 1))), ShapeError,
         r"solve: the shapes do not broadcast\n  a  \(2,\).*\n  b  \(5,\)"),
        (lambda: bp.linalg.solve_triangular(bp.tensor(MATRIX), bp.ones((4, 3)), upper=True),
         ShapeError, "solve_triangular: the right side does not fit"),
        (lambda: bp.linalg.lstsq(bp.tensor(WIDE), bp.ones(4)), ShapeError,
         "lstsq: the right side does not fit"),
        (lambda: bp.linalg.matrix_power(bp.tensor(WIDE), 2), ShapeError, "matrix_power: the last"),
        (lambda: bp.linalg.matrix_exp(bp.tensor(WIDE)), ShapeError, "matrix_exp: the last"),
        (lambda: bp.linalg.vector_norm(bp.tensor(WIDE), axis=2), ShapeError, "axis 2 is out of"),
        (lambda: bp.linalg.vector_norm(bp.tensor(WIDE), ord=word("fro")), ValueError,
         "vector_norm: unknown order 'fro'"),
        (lambda: bp.linalg.vector_norm(bp.zeros((0,)), ord=-INF), ShapeError,
         "vector_norm: nothing to choose from"),
        (lambda: bp.linalg.matrix_norm(bp.tensor(VECTOR)), ShapeError, "matrix_norm: x must be"),
        (lambda: bp.linalg.matrix_norm(bp.tensor(WIDE), ord=3), ValueError, "no norm of order 3"),
        (lambda: bp.linalg.matrix_norm(bp.tensor(WIDE), ord="max"), ValueError, "order 'max'"),
        (lambda: bp.linalg.norm(bp.ones((2, 2, 2)), 2), ShapeError, "needs one or two axes, not 3"),
        (lambda: bp.linalg.norm(bp.tensor(WIDE), 2, (0, -2)), ShapeError, "name one axis twice"),
        (lambda: bp.cross(bp.ones(4), bp.ones(4)), ShapeError, "cross: both must have size 3"),
        (lambda: bp.vecdot(bp.ones(4), bp.ones(3)), ShapeError, "vecdot: the vectors differ"),
        (lambda: bp.outer(bp.ones((2, 2)), bp.ones(3)), ShapeError, "outer: both must be vectors"),
        (lambda: bp.tensordot(bp.ones((2, 3)), bp.ones((2, 3))[:, :2], axes=1), ShapeError,
         r"tensordot: axes \[1\] of x1 do not fit axes \[0\] of x2"),
        (lambda: bp.tensordot(bp.ones(2), bp.ones(2), axes=2), ShapeError, "there are not 2 axes"),
        (lambda: bp.tensordot(bp.ones((2, 2)), bp.ones(2), axes=([0, 0], [0, 0])), ShapeError,
         "name one axis twice"),
        (lambda: bp.linalg.matrix_rank(bp.ones((2, 3, 3)), rtol=bp.ones(5)), ShapeError,
         r"matrix_rank: rtol does not fit the stack of matrices \(2,\)"),
        (lambda: bp.linalg.pinv(bp.ones((3, 3)), rtol=[0.1]), ShapeError, "pinv: rtol does not"),
        (lambda: bp.tensordot(bp.ones((2, 2)), bp.ones((2, 2)), axes=([0],)), ShapeError,
         "tensordot: axes=.*\n(.*\n)*  expected a number, or two sequences"),
        (lambda: bp.dot(bp.ones((2, 2)), bp.ones(2)), ShapeError, "dot: both must be vectors"),
        (lambda: bp.vdot(bp.ones((2, 2)), bp.ones(2)), ShapeError, "vdot: both must be vectors"),
        (lambda: bp.linalg.multi_dot([bp.ones(2)]), ValueError, "multi_dot: 1 matrices"),
        (lambda: bp.linalg.multi_dot([bp.ones((2, 2)), bp.ones(2), bp.ones((2, 2))]), ShapeError,
         "multi_dot: operand 1 is no matrix"),
        (lambda: bp.diag(bp.ones((2, 2, 2))), ShapeError, "diag: x must be a vector or a matrix"),
        (lambda: bp.diag_embed(bp.tensor(1.0)), ShapeError, "diag_embed: a 0-d value has no axis"),
        (lambda: bp.diag_embed(bp.ones((2, 2)), 0, 1, 1), ShapeError, "axes 1 and 1 are one"),
        (lambda: bp.block_diag(bp.ones((2, 2, 2))), ShapeError, "block_diag: a block has more"),
        (lambda: bp.linalg.diagonal(bp.tensor(VECTOR)), ShapeError, "diagonal: x must be a matrix"),
        (lambda: bp.diagonal(bp.tensor(MATRIX), 0, 1, -1), ShapeError, "axes 1 and -1 are one"),
    ],
)  # fmt: skip
def test_refusals(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


NOT_FINITE = np.array([[1.0, math.nan], [0.0, 1.0]])


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("function", "array", "words"),
    [
        (bp.linalg.inv, np.zeros((3, 3)), "inv: Singular matrix\n"),
        (
            bp.linalg.inv,
            np.stack([np.eye(2), np.ones((2, 2))])[:, None],
            r"inv: Singular matrix, matrix \(1, 0\) of the stack \(2, 1\)\n  a  \(2, 1, 2, 2\)",
        ),
        (lambda x: bp.linalg.solve(x, x), np.ones((3, 3)), "solve: Singular matrix"),
        (bp.linalg.cholesky, -np.eye(2), "cholesky: Matrix is not positive definite"),
        (
            bp.linalg.eigh,
            NOT_FINITE,
            "eigh: Array must not contain infs",
        ),
        (bp.linalg.eigvalsh, NOT_FINITE, "eigvalsh: Array must not contain infs or NaNs"),
        (bp.linalg.svdvals, NOT_FINITE, "svdvals: Array must not contain infs or NaNs"),
        (bp.linalg.pinv, NOT_FINITE, "pinv: Array must not contain infs or NaNs"),
        (lambda x: bp.linalg.svd(x).S, NOT_FINITE, "svd: Array must not contain infs or NaNs"),
        (bp.linalg.eig, NOT_FINITE, "eig: Array must not contain infs or NaNs"),
    ],
)
def test_matrices_that_cannot_be_treated(
    function: Any, array: Array, words: str, device: str
) -> None:
    result = function(bp.tensor(array, device=device))
    with pytest.raises(LinAlgError, match=words):
        (result[0] if isinstance(result, tuple) else result).numpy()


def test_a_host_op_refuses_other_dtypes() -> None:
    x = bp.tensor(np.eye(2, dtype=np.float16))
    with pytest.raises(DTypeError, match="inv: no such op for these dtypes"):
        bp.ops.record.apply(bp.ops.record.REGISTRY["inv"], (x,), {"pairs": False})
