"""Discrete Fourier transforms in the Array API's names; records.py has what computes them."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from bedplate.errors import DTypeError, ShapeError
from bedplate.ops.build import Value, normalised_axes, normalised_axis, number, several
from bedplate.ops.complex_numbers.parts import complex_, conj
from bedplate.ops.fourier.records import ADJOINT, FFTN, FFTN_OF_REAL, IRFFT, RFFT
from bedplate.ops.host import widened
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.rearrange import roll
from bedplate.ops.shape.regions import narrow, pad
from bedplate.ops.shape.views import Axes


def _norm(name: str, norm: str) -> str:
    if norm not in ADJOINT:
        raise ValueError(
            f"{name}: unknown norm {norm!r}\n  expected 'backward' (1/n on the inverse), 'ortho' "
            "(1/sqrt(n) on both) or 'forward' (1/n on the transform)"
        )
    return norm


def _complex_value(name: str, x: Value) -> Value:
    (x,), _ = widened(name, x)
    return x if x.dtype.kind == "c" else complex_(x, number(x, 0.0))


def _real_value(name: str, x: Value) -> Value:
    (x,), _ = widened(name, x)
    if x.dtype.kind == "c":
        refuse(DTypeError, name, "the input must be real", {"x": x}, "try fft for complex numbers")
    return x


def _require_numbers(name: str, x: Value, axis: int, size: int) -> None:
    if size < 1:
        refuse(
            ShapeError, name, f"a transform of {size} numbers", {"x": x},
            f"axis {axis} needs at least one",
        )  # fmt: skip


def _resized(name: str, x: Value, axis: int, size: int) -> Value:
    """x cut off, or filled with zeros, to a size along an axis."""
    _require_numbers(name, x, axis, size)
    now = x.shape[axis]
    if size <= now:
        return narrow(x, axis, 0, size)
    return pad(x, [(0, size - now if i == axis else 0) for i in range(len(x.shape))])


def _one(name: str, x: Value, n: int | None, axis: int) -> tuple[int, int]:
    place = normalised_axis(name, axis, len(x.shape), x)
    return place, x.shape[place] if n is None else operator.index(n)


def _several(
    name: str, x: Value, s: Sequence[int] | None, axes: Axes | None
) -> tuple[tuple[int, ...], list[int]]:
    """The axes in the order given, and the size along each."""
    ndim = len(x.shape)
    if axes is None:
        given = tuple(range(ndim)) if s is None else tuple(range(-len(s), 0))
    else:
        given = several(axes)
    normalised_axes(name, given, x)  # each is there, none twice
    places = tuple(normalised_axis(name, axis, ndim, x) for axis in given)
    if s is None:
        return places, [x.shape[axis] for axis in places]
    if len(s) != len(places):
        refuse(ShapeError, name, f"{len(s)} sizes for {len(places)} axes", {"x": x})
    sizes = [operator.index(size) for size in s]
    return places, [x.shape[a] if n == -1 else n for a, n in zip(places, sizes, strict=True)]


def _transformed(
    name: str, x: Value, places: tuple[int, ...], sizes: list[int], inverse: bool, norm: str
) -> Value:
    (x,), _ = widened(name, x)
    for axis, size in zip(places, sizes, strict=True):
        x = _resized(name, x, axis, size)
    if not places:
        return _complex_value(name, x)
    transform = FFTN if x.dtype.kind == "c" else FFTN_OF_REAL
    return transform(x, axes=places, inverse=inverse, norm=_norm(name, norm))


def fft(x: Value, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Value:
    """The discrete Fourier transform: y[k] = sum over j of x[j] exp(-2 pi i j k / n).

    x        real or complex; integers become float32, float16 and bfloat16 too
    n        how many numbers are transformed: x is cut off, or filled with zeros; None for all
    axis     along which
    norm     "backward": divided by n on the inverse; "forward": on the transform; "ortho": by
             sqrt(n) on both
    returns  complex64 for float32 and complex64, else complex128
    raises   ShapeError for an axis that is not there, or nothing to transform; ValueError
    cost     about 5 n log2(n) flops, by pocketfft
    >>> import bedplate as bp
    >>> bp.fft.fft(bp.tensor([1.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    place, size = _one("fft", x, n, axis)
    return _transformed("fft", x, (place,), [size], False, norm)


def ifft(x: Value, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Value:
    """The inverse of `fft`: x[j] = 1/n sum over k of y[k] exp(2 pi i j k / n).

    x, n, axis, norm  as for `fft`
    returns           complex64 for float32 and complex64, else complex128
    >>> import bedplate as bp
    >>> bp.fft.ifft(bp.tensor([1.0, 1.0, 1.0, 1.0])).real.tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    place, size = _one("ifft", x, n, axis)
    return _transformed("ifft", x, (place,), [size], True, norm)


def fftn(
    x: Value, /, *, s: Sequence[int] | None = None, axes: Axes | None = None, norm: str = "backward"
) -> Value:
    """The Fourier transform over several axes.

    x        real or complex
    s        how many numbers are transformed along each axis, -1 for all; None for all along all
    axes     which; None for all, or for the last ones if there are sizes
    norm     as for `fft`
    returns  complex64 for float32 and complex64, else complex128
    raises   ShapeError, ValueError
    >>> import bedplate as bp
    >>> bp.fft.fftn(bp.tensor([[1.0, 0.0], [0.0, 0.0]])).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return _transformed("fftn", x, *_several("fftn", x, s, axes), False, norm)


def ifftn(
    x: Value, /, *, s: Sequence[int] | None = None, axes: Axes | None = None, norm: str = "backward"
) -> Value:
    """The inverse of `fftn`.

    x, s, axes, norm  as for `fftn`
    returns           complex64 for float32 and complex64, else complex128
    >>> import bedplate as bp
    >>> bp.fft.ifftn(bp.tensor([[4.0, 0.0], [0.0, 0.0]])).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _transformed("ifftn", x, *_several("ifftn", x, s, axes), True, norm)


def rfft(x: Value, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Value:
    """The Fourier transform of real numbers: the first n // 2 + 1 numbers, which say all.

    x        real
    n, axis, norm  as for `fft`
    returns  complex64 for float32, complex128 for float64
    raises   DTypeError for complex numbers; ShapeError, ValueError
    cost     about 2.5 n log2(n) flops, by pocketfft
    >>> import bedplate as bp
    >>> bp.fft.rfft(bp.tensor([1.0, 0.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """
    place, size = _one("rfft", x, n, axis)
    x = _resized("rfft", _real_value("rfft", x), place, size)
    return RFFT(x, axis=place, norm=_norm("rfft", norm))


def irfft(x: Value, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Value:
    """The inverse of `rfft`: real numbers from the first half of their transform.

    x        complex; the imaginary part of the first number (and of the last, for even n), which
             real numbers cannot have, is not read and has gradient 0
    n        how many real numbers; None for 2 (m - 1), where m is the size of x along the axis
    axis, norm  as for `fft`
    returns  float32 for complex64, float64 for complex128
    >>> import bedplate as bp
    >>> bp.fft.irfft(bp.tensor([1.0, 1.0, 1.0])).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    return _to_real("irfft", x, n, axis, norm)


def _to_real(name: str, x: Value, n: int | None, axis: int, norm: str) -> Value:
    place = normalised_axis(name, axis, len(x.shape), x)
    size = 2 * (x.shape[place] - 1) if n is None else operator.index(n)
    x = _complex_value(name, x)
    _require_numbers(name, x, place, size)
    x = _resized(name, x, place, size // 2 + 1)
    return IRFFT(x, axis=place, n=size, norm=_norm(name, norm))


def rfftn(
    x: Value, /, *, s: Sequence[int] | None = None, axes: Axes | None = None, norm: str = "backward"
) -> Value:
    """The Fourier transform of real numbers over several axes: half of it along the last one.

    x, s, axes, norm  as for `fftn`, x real
    returns           complex64 for float32, complex128 for float64
    raises            DTypeError for complex numbers; ShapeError, ValueError
    >>> import bedplate as bp
    >>> bp.fft.rfftn(bp.tensor([[1.0, 0.0], [0.0, 0.0]])).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    places, sizes = _several("rfftn", x, s, axes)
    x = _real_value("rfftn", x)
    if not places:
        refuse(ShapeError, "rfftn", "no axes to transform", {"x": x})
    for axis, size in zip(places, sizes, strict=True):
        x = _resized("rfftn", x, axis, size)
    x = RFFT(x, axis=places[-1], norm=_norm("rfftn", norm))
    return FFTN(x, axes=places[:-1], inverse=False, norm=norm) if places[1:] else x


def irfftn(
    x: Value, /, *, s: Sequence[int] | None = None, axes: Axes | None = None, norm: str = "backward"
) -> Value:
    """The inverse of `rfftn`.

    x        complex
    s        sizes of the result along the axes; None for those of x, and 2 (m - 1) for the last
    axes, norm  as for `fftn`
    returns  float32 for complex64, float64 for complex128
    raises   ShapeError where there is no axis to transform
    >>> import bedplate as bp
    >>> bp.fft.irfftn(bp.tensor([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    places, sizes = _several("irfftn", x, s, axes)
    if not places:
        refuse(ShapeError, "irfftn", "no axes to transform", {"x": x})
    last = None if s is None else sizes[-1]
    if places[1:]:
        x = _transformed("irfftn", x, places[:-1], sizes[:-1], True, norm)
    return _to_real("irfftn", x, last, places[-1], norm)


def hfft(x: Value, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Value:
    """The Fourier transform, which is real, of numbers with x[-j] = conj(x[j]): given half of them.

    x        complex: the first n // 2 + 1 numbers
    n        how many real numbers; None for 2 (m - 1), where m is the size of x along the axis
    axis, norm  as for `fft`
    returns  float32 for complex64, float64 for complex128
    >>> import bedplate as bp
    >>> bp.fft.hfft(bp.tensor([1.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _to_real("hfft", conj(_complex_value("hfft", x)), n, axis, ADJOINT[_norm("hfft", norm)])


def ihfft(x: Value, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Value:
    """The inverse of `hfft`.

    x, n, axis, norm  as for `fft`, x real
    returns           complex64 for float32, complex128 for float64
    >>> import bedplate as bp
    >>> bp.fft.ihfft(bp.tensor([4.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0]
    """
    place, size = _one("ihfft", x, n, axis)
    x = _resized("ihfft", _real_value("ihfft", x), place, size)
    return conj(RFFT(x, axis=place, norm=ADJOINT[_norm("ihfft", norm)]))


def fftshift(x: Value, /, *, axes: Axes | None = None) -> Value:
    """Move the frequency 0 to the middle of each axis.

    axes     which; None for all
    >>> import bedplate as bp
    >>> bp.fft.fftshift(bp.tensor([0, 1, 2, -2, -1])).tolist()
    [-2, -1, 0, 1, 2]
    """
    places = _shifted("fftshift", x, axes)
    return roll(x, tuple(x.shape[a] // 2 for a in places), axis=places)


def ifftshift(x: Value, /, *, axes: Axes | None = None) -> Value:
    """The inverse of `fftshift`.

    axes     which; None for all
    >>> import bedplate as bp
    >>> bp.fft.ifftshift(bp.tensor([-2, -1, 0, 1, 2])).tolist()
    [0, 1, 2, -2, -1]
    """
    places = _shifted("ifftshift", x, axes)
    return roll(x, tuple(-(x.shape[a] // 2) for a in places), axis=places)


def _shifted(name: str, x: Value, axes: Axes | None) -> tuple[int, ...]:
    return normalised_axes(name, axes, x)
