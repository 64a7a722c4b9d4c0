"""The Fourier transforms that pocketfft computes, as records; single precision stays single.

Every transform is linear, so its gradient is a transform too: of y = F x it is F^H g, the
transform in the other direction with the other scaling.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.graph.node import Shape
from bedplate.ops.build import Value, number
from bedplate.ops.host import COMPLEX, REAL, Array, Counted, host_op
from bedplate.ops.pointwise.arithmetic import multiply
from bedplate.ops.pointwise.comparison import equal, logical_or
from bedplate.ops.pointwise.convert import where
from bedplate.ops.record import Sample
from bedplate.ops.samples import mixed
from bedplate.ops.shape.creation import index_along

# the scaling of the adjoint: what divides forth divides back
ADJOINT = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _numbers(shape: Shape, **attributes: Any) -> Sample:
    return mixed(lambda r: [r.uniform(-1, 1, shape)], f"{shape} {attributes}", **attributes)


def _transform_cost(factor: float) -> Counted:
    """factor n log2(n) for each transform of n numbers."""

    def flops(x: Shape, *, axes: Shape = (), axis: int = 0, n: int = 0, **_: Any) -> float:
        places = axes or (axis,)
        size = n or math.prod(x[place] for place in places)
        return factor * math.prod(x) * math.log2(max(size, 1))

    return f"{factor:g} n log2(n) flops", flops


def fftn_gradient(
    grads: Any, inputs: Any, values: Any, *, axes: Shape, inverse: bool, norm: str
) -> tuple[Any]:
    """The transform in the other direction, scaled the other way."""
    return (FFTN(grads[0], axes=axes, inverse=not inverse, norm=ADJOINT[norm]),)


def _fftn(x: Array, *, axes: Shape, inverse: bool, norm: str) -> Array:
    return (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axes, norm=norm)  # type: ignore[arg-type]


FFTN = host_op(
    "fftn",
    lambda x, **_: (x,),
    _fftn,
    fftn_gradient,
    samples=(
        _numbers((3, 8, 2), axes=(1,), inverse=False, norm="backward", pairs=True),
        _numbers((3, 5, 4, 2), axes=(0, 2), inverse=True, norm="backward", pairs=True),
        _numbers((7, 2), axes=(0,), inverse=True, norm="ortho", pairs=True),
        _numbers((2, 3, 2), axes=(1, 0), inverse=False, norm="forward", pairs=True),
        _numbers((0, 4, 2), axes=(1,), inverse=False, norm="backward", pairs=True),
    ),
    doc="The discrete Fourier transform of complex numbers over axes, or its inverse.",
    cost=_transform_cost(5),
    takes=COMPLEX,
    gives=COMPLEX,
)


def _fftn_of_real(x: Array, *, axes: Shape, inverse: bool, norm: str) -> Array:
    """Half of it along the last axis, and the mirror image y[n - k] = conj(y[k])."""
    axis, others = axes[-1], axes[:-1]
    half = np.fft.rfft(x, axis=axis, norm=ADJOINT[norm] if inverse else norm)  # type: ignore[arg-type]
    half = np.moveaxis(np.conj(half) if inverse else half, axis, -1)
    whole = np.empty(x.shape, half.dtype)
    rows = np.moveaxis(whole, axis, -1)
    known = half.shape[-1]
    rows[..., :known] = half
    rows[..., known:] = np.conj(half[..., x.shape[axis] - known : 0 : -1])
    return _fftn(whole, axes=others, inverse=inverse, norm=norm) if others else whole


# of the gradient the real part is taken
FFTN_OF_REAL = host_op(
    "fftn_of_real",
    lambda x, **_: (x,),
    _fftn_of_real,
    fftn_gradient,
    samples=(
        _numbers((3, 8), axes=(1,), inverse=False, norm="backward", pairs=False),
        _numbers((3, 5, 4), axes=(0, 2), inverse=True, norm="ortho", pairs=False),
        _numbers((0, 4), axes=(1,), inverse=False, norm="forward", pairs=False),
    ),
    doc="The discrete Fourier transform of real numbers over axes, or its inverse, whole.",
    takes=REAL,
    gives=COMPLEX,
    cost=_transform_cost(2.5),
)


def rfft_gradient(grads: Any, inputs: Any, values: Any, *, axis: int, norm: str) -> tuple[Any]:
    """irfft of the gradients, those that stand for two numbers of the full transform halved"""
    n = inputs[0].shape[axis]
    halved = multiply(grads[0], _weights(grads[0], axis, n, 0.5))
    return (IRFFT(halved, axis=axis, n=n, norm=ADJOINT[norm]),)


def irfft_gradient(
    grads: Any, inputs: Any, values: Any, *, axis: int, n: int, norm: str
) -> tuple[Any]:
    """rfft of the gradient, what stands for two numbers of the full transform doubled"""
    transformed = RFFT(grads[0], axis=axis, norm=ADJOINT[norm])
    return (multiply(transformed, _weights(transformed, axis, n, 2.0)),)


def _weights(x: Value, axis: int, n: int, twice: float) -> Value:
    """1 for the numbers of a half transform that stand for themselves, `twice` for the others."""
    shape = tuple(size if i == axis else 1 for i, size in enumerate(x.shape))
    index = index_along(x, axis, shape)
    alone = logical_or(equal(index, 0), equal(multiply(index, 2), n))
    return where(alone, number(x, 1.0), number(x, twice))


def _half(x: Shape, *, axis: int, norm: str) -> tuple[Shape]:
    return ((*x[:axis], x[axis] // 2 + 1, *x[axis + 1 :]),)


RFFT = host_op(
    "rfft",
    _half,
    lambda x, *, axis, norm: np.fft.rfft(x, axis=axis, norm=norm),
    rfft_gradient,
    samples=(
        _numbers((3, 8), axis=1, norm="backward", pairs=False),
        _numbers((5, 2), axis=0, norm="ortho", pairs=False),
        _numbers((1,), axis=0, norm="forward", pairs=False),
        _numbers((0, 4), axis=1, norm="backward", pairs=False),
    ),
    doc="The first half of the Fourier transform of real numbers.",
    cost=_transform_cost(2.5),
    takes=REAL,
    gives=COMPLEX,
)


def _whole(x: Shape, *, axis: int, n: int, norm: str) -> tuple[Shape]:
    return ((*x[:axis], n, *x[axis + 1 :]),)


IRFFT = host_op(
    "irfft",
    _whole,
    lambda x, *, axis, n, norm: np.fft.irfft(x, n, axis=axis, norm=norm),
    irfft_gradient,
    samples=(
        _numbers((3, 5, 2), axis=1, n=8, norm="backward", pairs=True),
        _numbers((4, 2, 2), axis=0, n=7, norm="ortho", pairs=True),
        _numbers((1, 2), axis=0, n=1, norm="forward", pairs=True),
        _numbers((0, 3, 2), axis=1, n=4, norm="backward", pairs=True),
    ),
    doc="The real numbers whose Fourier transform has the given first half.",
    cost=_transform_cost(5),
    takes=COMPLEX,
    gives=REAL,
)
