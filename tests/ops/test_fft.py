"""Fourier transforms against NumPy: keywords, precision, gradients of both orders, refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import DTypeError, ShapeError

GENERATOR = np.random.default_rng(3)
NORMS = ("backward", "ortho", "forward")
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")
OF_REALS = ("rfft", "ihfft", "rfftn")
TOLERANCE = {"float32": 1e-5, "complex64": 1e-5, "float64": 1e-12, "complex128": 1e-12}
Array = np.ndarray[Any, Any]


def numbers(shape: tuple[int, ...], name: str, single: bool = False) -> Array:
    x = GENERATOR.normal(size=shape)
    if name not in OF_REALS:
        x = x + 1j * GENERATOR.normal(size=shape)
    return x.astype("complex64" if x.dtype.kind == "c" else "float32") if single else x


def close(got: Any, wanted: Array) -> None:
    found = got.numpy()
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE[str(found.dtype)] * scale)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("name", ONE)
def test_one_axis(name: str, single: bool, norm: str) -> None:
    x = numbers((3, 4, 5), name, single)
    for n, axis in itertools.product((None, 1, 3, 8), (-1, 0, 1)):
        found = getattr(bp.fft, name)(bp.tensor(x), n=n, axis=axis, norm=norm)
        close(found, getattr(np.fft, name)(x, n=n, axis=axis, norm=norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes(name: str, norm: str) -> None:
    x = numbers((3, 4, 5), name)
    for s, axes in (
        (None, None),
        (None, (2, 0)),
        ((2, 8), (0, 2)),
        ((4, -1), (1, 2)),
        (None, (1,)),
    ):
        found = getattr(bp.fft, name)(bp.tensor(x), s=s, axes=axes, norm=norm)
        close(found, getattr(np.fft, name)(x, s=s, axes=axes, norm=norm))
    last = getattr(bp.fft, name)(bp.tensor(x), s=(3, 6), norm=norm)
    close(last, getattr(np.fft, name)(x, s=(3, 6), axes=(-2, -1), norm=norm))


def test_no_axes_transform_nothing() -> None:
    x = numbers((2, 3), "fftn")
    close(bp.fft.fftn(bp.tensor(x), axes=()), x)


def test_real_numbers_are_complex_ones_without_imaginary_part() -> None:
    x = GENERATOR.normal(size=(2, 6))
    close(bp.fft.fft(bp.tensor(x)), np.fft.fft(x))
    close(bp.fft.irfft(bp.tensor(x)), np.fft.irfft(x))
    for n in range(1, 8):
        for norm in NORMS:
            row = GENERATOR.normal(size=(2, n, 3))
            for name in ("fft", "ifft"):
                found = getattr(bp.fft, name)(bp.tensor(row), axis=1, norm=norm)
                close(found, getattr(np.fft, name)(row, axis=1, norm=norm))
            close(bp.fft.ifftn(bp.tensor(row), norm=norm), np.fft.ifftn(row, norm=norm))
    for dtype in ("int32", "float16", "bfloat16", "float32"):
        narrow = bp.tensor(x).astype(dtype)
        wanted = np.fft.fft(narrow.astype("float32").numpy())
        close(bp.fft.fft(narrow), wanted)
        assert bp.fft.rfft(narrow).dtype is bp.complex64


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_views_and_empty_stacks(device: str) -> None:
    x = numbers((4, 6), "fft")
    t = bp.tensor(x, device=device)
    close(bp.fft.fft(t.T), np.fft.fft(x.T))
    close(bp.fft.fft(t[::-1, ::2]), np.fft.fft(x[::-1, ::2]))
    close(
        bp.fft.fft(t[:1].broadcast_to((3, 6)), axis=0), np.fft.fft(np.repeat(x[:1], 3, 0), axis=0)
    )
    empty = bp.tensor(np.zeros((0, 6)), device=device)
    assert bp.fft.fft(empty).shape == (0, 6) and bp.fft.rfftn(empty, axes=(1,)).shape == (0, 4)


def test_frequencies_and_shifts() -> None:
    for n in (1, 2, 5, 8):
        for d in (1.0, 0.25):
            wanted = np.fft.fftfreq(n, d)
            np.testing.assert_allclose(bp.fft.fftfreq(n, d=d, dtype="float64").numpy(), wanted)
            wanted = np.fft.rfftfreq(n, d)
            np.testing.assert_allclose(bp.fft.rfftfreq(n, d=d, dtype="float64").numpy(), wanted)
    assert bp.fft.fftfreq(4).dtype is bp.float32
    assert bp.fft.rfftfreq(4, device="reference").device == bp.Device("reference")
    x = GENERATOR.normal(size=(4, 5, 3))
    for axes in (None, 1, (0, 2), (-1,)):
        close(bp.fft.fftshift(bp.tensor(x), axes=axes), np.fft.fftshift(x, axes=axes))
        close(bp.fft.ifftshift(bp.tensor(x), axes=axes), np.fft.ifftshift(x, axes=axes))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ONE)
def test_gradients_of_both_orders(name: str, norm: str) -> None:
    transform = getattr(bp.fft, name)

    def squares(x: Any) -> Any:
        """Of pairs (or reals); squared, so that the second gradient is not zeros."""
        z = x if name in OF_REALS else bp.as_complex(x)
        y = transform(z, n=4, axis=0, norm=norm)
        y = bp.as_real(y) if y.dtype.kind == "c" else y
        return y * y

    for size in (3, 5):  # filled with zeros, and cut off
        shape = (size, 2) if name in OF_REALS else (size, 2, 2)
        x = bp.tensor(GENERATOR.normal(size=shape))
        assert bp.gradcheck(squares, x)
        assert bp.gradgradcheck(squares, x)


@pytest.mark.parametrize("name", SEVERAL)
def test_gradients_over_several_axes(name: str) -> None:
    def parts(x: Any) -> Any:
        y = getattr(bp.fft, name)(x if name in OF_REALS else bp.as_complex(x))
        return bp.as_real(y) if y.dtype.kind == "c" else y

    shape = (3, 4) if name in OF_REALS else (3, 3, 2)
    assert bp.gradcheck(parts, bp.tensor(GENERATOR.normal(size=shape)))


def test_gradients_of_real_numbers() -> None:
    def squares(x: Any) -> Any:
        y = bp.as_real(bp.fft.ifftn(x, s=(2, 5)))
        return y * y

    x = bp.tensor(GENERATOR.normal(size=(3, 4)))
    assert bp.gradcheck(squares, x)
    assert bp.gradgradcheck(squares, x)


@pytest.mark.parametrize("n", [6, 7])
def test_parseval(n: int) -> None:
    """The gradient of half the squared norm of an orthonormal transform is the input."""
    x = bp.tensor(GENERATOR.normal(size=n), requires_grad=True)
    y = bp.fft.fft(x, norm="ortho")
    (bp.real(y * bp.conj(y)).sum() / 2).backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), x.numpy(), rtol=1e-12)


def test_captured() -> None:
    @bp.jit
    def smoothed(x: Any) -> Any:
        return bp.fft.irfft(bp.fft.rfft(x) * 0.5, n=8)

    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=(2, 8))
        np.testing.assert_allclose(smoothed(bp.tensor(x)).numpy(), x / 2, rtol=1e-12)


X = bp.tensor(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: bp.fft.fft(X, axis=2), ShapeError, "fft: axis 2 is out of range"),
        (lambda: bp.fft.fft(X, n=0), ShapeError, r"fft: a transform of 0 numbers\n  x  \(2, 3\)"),
        (lambda: bp.fft.fft(bp.zeros((2, 0))), ShapeError, "fft: a transform of 0 numbers"),
        (lambda: bp.fft.irfft(bp.zeros((2, 1))), ShapeError, "irfft: a transform of 0 numbers"),
        (lambda: bp.fft.fft(X, norm="unitary"), ValueError, "fft: unknown norm 'unitary'"),
        (lambda: bp.fft.hfft(X, norm="unitary"), ValueError, "hfft: unknown norm 'unitary'"),
        (lambda: bp.fft.rfft(bp.fft.fft(X)), DTypeError, "rfft: the input must be real"),
        (lambda: bp.fft.ihfft(bp.fft.fft(X)), DTypeError, "ihfft: the input must be real"),
        (lambda: bp.fft.fftn(X, s=(2,), axes=(0, 1)), ShapeError, "fftn: 1 sizes for 2 axes"),
        (lambda: bp.fft.fftn(X, axes=(0, -2)), ShapeError, "fftn: axes .* name one axis twice"),
        (lambda: bp.fft.rfftn(X, axes=()), ShapeError, "rfftn: no axes to transform"),
        (lambda: bp.fft.irfftn(X, axes=()), ShapeError, "irfftn: no axes to transform"),
        (lambda: bp.fft.fftfreq(0), ValueError, "fftfreq: a transform of 0 numbers"),
        (lambda: bp.fft.rfftfreq(4, dtype="int32"), DTypeError, "frequencies are real floats"),
        (lambda: bp.fft.fftshift(X, axes=5), ShapeError, "fftshift: axis 5 is out of range"),
    ],
)
def test_refusals(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
