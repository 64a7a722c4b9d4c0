"""Trigonometric and hyperbolic functions, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS
from bedplate.kernel import maths
from bedplate.ops.build import Value, number, sum_to, without_gradient
from bedplate.ops.complex_numbers.parts import conj
from bedplate.ops.elementwise import INEXACT, binary, in_float32, unary
from bedplate.ops.pointwise.arithmetic import abs_, divide, multiply, negative
from bedplate.ops.pointwise.comparison import equal, isinf, logical_or
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import rsqrt, sqrt
from bedplate.ops.pointwise.extremes import maximum
from bedplate.ops.pointwise.floats import hypot
from bedplate.ops.samples import one, two


def sin_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d sin(x) = cos(x) dx"""
    return (multiply(grad_out, conj(cos(inputs[0]))),)


@unary(
    reference=np.sin,
    emit=lambda t, x: maths.sin(x),
    gradient=sin_gradient,
    samples=one(),
    dtypes=INEXACT,
)
def sin(x: Value) -> Value:
    """The sine of an angle in radians: y = sin(x).

    >>> import bedplate as bp
    >>> bp.sin(bp.tensor([0.0])).tolist()
    [0.0]
    """


def cos_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d cos(x) = -sin(x) dx"""
    return (negative(multiply(grad_out, conj(sin(inputs[0])))),)


@unary(
    reference=np.cos,
    emit=lambda t, x: maths.cos(x),
    gradient=cos_gradient,
    samples=one(),
    dtypes=INEXACT,
)
def cos(x: Value) -> Value:
    """The cosine of an angle in radians: y = cos(x).

    >>> import bedplate as bp
    >>> bp.cos(bp.tensor([0.0])).tolist()
    [1.0]
    """


@in_float32
def tan_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d tan(x) = (1 + y^2) dx"""
    return (multiply(grad_out, conj(multiply(output, output) + 1)),)


@unary(
    reference=np.tan,
    emit=lambda t, x: maths.tan(x),
    gradient=tan_gradient,
    samples=one(-1.3, 1.3),
    dtypes=INEXACT,
)
def tan(x: Value) -> Value:
    """The tangent of an angle in radians: y = sin(x) / cos(x).

    >>> import bedplate as bp
    >>> bp.tan(bp.tensor([0.0])).tolist()
    [0.0]
    """


@in_float32
def asin_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d asin(x) = dx / sqrt(1 - x^2)"""
    (x,) = inputs
    if x.dtype.kind == "c":
        return (divide(grad_out, conj(multiply(sqrt(1 - x), sqrt(1 + x)))),)
    return (multiply(grad_out, rsqrt(multiply(1 - x, 1 + x))),)


@unary(
    reference=np.arcsin,
    emit=lambda t, x: maths.asin(x),
    gradient=asin_gradient,
    samples=one(-0.9, 0.9),
    dtypes=INEXACT,
)
def asin(x: Value) -> Value:
    """The angle in [-pi/2, pi/2] whose sine is x: y = asin(x); NaN outside [-1, 1].

    >>> import bedplate as bp
    >>> bp.asin(bp.tensor([0.0])).tolist()
    [0.0]
    """


@in_float32
def acos_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d acos(x) = -dx / sqrt(1 - x^2)"""
    return (negative(asin_gradient(grad_out, inputs, output)[0]),)


@unary(
    reference=np.arccos,
    emit=lambda t, x: maths.acos(x),
    gradient=acos_gradient,
    samples=one(-0.9, 0.9),
    dtypes=INEXACT,
)
def acos(x: Value) -> Value:
    """The angle in [0, pi] whose cosine is x: y = acos(x); NaN outside [-1, 1].

    >>> import bedplate as bp
    >>> bp.acos(bp.tensor([1.0])).tolist()
    [0.0]
    """


@in_float32
def atan_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d atan(x) = dx / (1 + x^2)"""
    return (divide(grad_out, conj(multiply(inputs[0], inputs[0]) + 1)),)


@unary(
    reference=np.arctan,
    emit=lambda t, x: maths.atan(x),
    gradient=atan_gradient,
    samples=one(),
    dtypes=INEXACT,
)
def atan(x: Value) -> Value:
    """The angle in [-pi/2, pi/2] whose tangent is x: y = atan(x).

    >>> import bedplate as bp
    >>> bp.atan(bp.tensor([0.0])).tolist()
    [0.0]
    """


@in_float32
def atan2_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """d atan2(y, x) = (x dy - y dx) / (x^2 + y^2); 0 at the origin and beside infinities

    The larger of both is divided out first, so that no square over- or underflows.
    """
    larger = maximum(abs_(inputs[0]), abs_(inputs[1]))
    fixed = logical_or(isinf(larger), equal(larger, 0.0))
    unit = number(larger, 1.0)
    grad = where(fixed, number(grad_out, 0.0), grad_out)
    size = without_gradient(where(fixed, unit, larger))
    y, x = (divide(where(fixed, unit, side), size) for side in inputs)
    scaled = divide(divide(grad, multiply(x, x) + multiply(y, y)), size)
    to_y, to_x = multiply(scaled, x), negative(multiply(scaled, y))
    return sum_to(to_y, inputs[0].shape), sum_to(to_x, inputs[1].shape)


@binary(
    reference=np.arctan2,
    emit=lambda t, y, x: maths.atan2(y, x),
    gradient=atan2_gradient,
    samples=two(0.3, 2.0),
    dtypes=FLOATS,
    promote="float",
)
def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), in [-pi, pi]: atan(y / x) in its quadrant.

    y, x     shapes broadcast
    returns  their common shape; gradient 0 at the origin and beside infinities
    >>> import bedplate as bp
    >>> bp.atan2(bp.tensor([0.0]), bp.tensor([1.0])).tolist()
    [0.0]
    """


def sinh_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d sinh(x) = cosh(x) dx"""
    return (multiply(grad_out, conj(cosh(inputs[0]))),)


@unary(
    reference=np.sinh,
    emit=lambda t, x: maths.sinh(x),
    gradient=sinh_gradient,
    samples=one(),
    dtypes=INEXACT,
)
def sinh(x: Value) -> Value:
    """The hyperbolic sine: y = (e^x - e^-x) / 2.

    >>> import bedplate as bp
    >>> bp.sinh(bp.tensor([0.0])).tolist()
    [0.0]
    """


def cosh_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d cosh(x) = sinh(x) dx"""
    return (multiply(grad_out, conj(sinh(inputs[0]))),)


@unary(
    reference=np.cosh,
    emit=lambda t, x: maths.cosh(x),
    gradient=cosh_gradient,
    samples=one(),
    dtypes=INEXACT,
)
def cosh(x: Value) -> Value:
    """The hyperbolic cosine: y = (e^x + e^-x) / 2.

    >>> import bedplate as bp
    >>> bp.cosh(bp.tensor([0.0])).tolist()
    [1.0]
    """


@in_float32
def tanh_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d tanh(x) = (1 - y^2) dx"""
    return (multiply(grad_out, conj(1 - multiply(output, output))),)


@unary(
    reference=np.tanh,
    emit=lambda t, x: maths.tanh(x),
    gradient=tanh_gradient,
    samples=one(),
    dtypes=INEXACT,
)
def tanh(x: Value) -> Value:
    """The hyperbolic tangent: y = (e^x - e^-x) / (e^x + e^-x).

    also     bp.nn.functional.tanh(x)
    >>> import bedplate as bp
    >>> bp.tanh(bp.tensor([0.0])).tolist()
    [0.0]
    """


@in_float32
def asinh_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d asinh(x) = dx / sqrt(x^2 + 1), the length of (x, 1)"""
    (x,) = inputs
    if x.dtype.kind == "c":
        return (divide(grad_out, conj(multiply(sqrt(1 + 1j * x), sqrt(1 - 1j * x)))),)
    return (divide(grad_out, hypot(x, 1.0)),)


@unary(
    reference=np.arcsinh,
    emit=lambda t, x: maths.asinh(x),
    gradient=asinh_gradient,
    samples=one(),
    dtypes=INEXACT,
)
def asinh(x: Value) -> Value:
    """The inverse of the hyperbolic sine: y = log(x + sqrt(x^2 + 1)).

    >>> import bedplate as bp
    >>> bp.asinh(bp.tensor([0.0])).tolist()
    [0.0]
    """


@in_float32
def acosh_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d acosh(x) = dx / sqrt(x^2 - 1)"""
    (x,) = inputs
    if x.dtype.kind == "c":
        return (divide(grad_out, conj(multiply(sqrt(x - 1), sqrt(x + 1)))),)
    return (multiply(grad_out, multiply(rsqrt(x - 1), rsqrt(x + 1))),)  # no square overflows


@unary(
    reference=np.arccosh,
    emit=lambda t, x: maths.acosh(x),
    gradient=acosh_gradient,
    samples=one(1.2, 4.0),
    dtypes=INEXACT,
)
def acosh(x: Value) -> Value:
    """The inverse of the hyperbolic cosine: y = log(x + sqrt(x^2 - 1)); NaN below 1.

    >>> import bedplate as bp
    >>> bp.acosh(bp.tensor([1.0])).tolist()
    [0.0]
    """


@in_float32
def atanh_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d atanh(x) = dx / (1 - x^2)"""
    return (divide(grad_out, conj(1 - multiply(inputs[0], inputs[0]))),)


@unary(
    reference=np.arctanh,
    emit=lambda t, x: maths.atanh(x),
    gradient=atanh_gradient,
    samples=one(-0.8, 0.8),
    dtypes=INEXACT,
)
def atanh(x: Value) -> Value:
    """The inverse of the hyperbolic tangent: y = log((1 + x) / (1 - x)) / 2.

    returns  infinite at 1 and -1, NaN beyond

    >>> import bedplate as bp
    >>> bp.atanh(bp.tensor([0.0])).tolist()
    [0.0]
    """
