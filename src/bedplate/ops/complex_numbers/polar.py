"""Complex numbers by length and angle: angle, polar."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.dtypes import COMPLEX, real_dtype
from bedplate.ops.build import Value, number, promoted
from bedplate.ops.complex_numbers.form import Pair, complex_form
from bedplate.ops.complex_numbers.parts import ONE, complex_, conj
from bedplate.ops.elementwise import unary
from bedplate.ops.pointwise.arithmetic import divide, multiply
from bedplate.ops.pointwise.comparison import equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.trigonometry import atan2, cos, sin


def angle_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """i g / conj(z), and 0 at 0"""
    (z,) = inputs
    origin = equal(z, 0)
    turned = divide(multiply(grad_out, 1j), conj(where(origin, 1, z)))
    return (where(origin, 0, turned),)


@unary(
    reference=np.angle,
    emit=None,
    gradient=angle_gradient,
    samples=ONE,
    dtypes=COMPLEX,
    promote="common",
    result=real_dtype,
)
def _angle(x: Value) -> Value:
    """The angle of a complex value."""


@complex_form(_angle)
def form_of_angle(z: Pair) -> Any:
    """atan2(y, x)"""
    return atan2(z.im, z.re)


def angle(x: Value) -> Value:
    """The angle of complex numbers in (-pi, pi]: y = atan2(im, re); 0 or pi for real ones.

    x        -pi for a negative number with the imaginary part -0; NaN for NaN
    returns  real; its gradient at 0 is 0
    >>> import bedplate as bp
    >>> bp.angle(bp.tensor([1.0, 1j, -1.0])).tolist()
    [0.0, 1.5707963705062866, 3.1415927410125732]
    """
    if x.dtype.kind == "c":
        return _angle(x)
    (x,) = promoted("angle", (x,), to_float=True)
    return atan2(number(x, 0.0), x)


def polar(length: Value, angle: Value) -> Value:
    """Complex numbers by length and angle: z = length (cos(angle) + i sin(angle)).

    length, angle  real; shapes broadcast; the angle in radians
    returns        their common shape; complex128 if one is float64, else complex64
    >>> import bedplate as bp
    >>> bp.polar(bp.tensor([2.0]), bp.tensor([0.0])).tolist()
    [(2+0j)]
    """
    length, angle = promoted("polar", (length, angle), to_float=True)
    return complex_(multiply(length, cos(angle)), multiply(length, sin(angle)))
