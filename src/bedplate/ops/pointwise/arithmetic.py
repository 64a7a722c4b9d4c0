"""Arithmetic, element by element: + - * / // % and their relatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.dtypes import COMPLEX, real_dtype
from bedplate.ops.build import Value, number, sum_to
from bedplate.ops.complex_numbers.parts import conj, real
from bedplate.ops.elementwise import (
    ANY,
    INEXACT,
    NUMBERS,
    binary,
    flat_gradient,
    in_float32,
    unary,
)
from bedplate.ops.pointwise.comparison import equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.samples import floats, integers, one, two

COUNTS = (integers((3, 5), (3, 5)), integers((4, 1), (6,)))


def add_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """d(a + b) = da + db"""
    a, b = inputs
    return sum_to(grad_out, a.shape), sum_to(grad_out, b.shape)


@binary(
    reference=np.add,
    emit=lambda t, a, b: a | b if t.name == "i1" else a + b,
    gradient=add_gradient,
    samples=two() + COUNTS,
    dtypes=ANY + COMPLEX,
)
def add(a: Value, b: Value) -> Value:
    """Add: y = a + b.

    a, b     shapes broadcast; for bools this is a or b; integers wrap around
    returns  their common shape and dtype
    >>> import bedplate as bp
    >>> bp.add(bp.tensor([1.0, 2.0]), 1).tolist()
    [2.0, 3.0]
    """


def subtract_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """d(a - b) = da - db"""
    a, b = inputs
    return sum_to(grad_out, a.shape), sum_to(negative(grad_out), b.shape)


@binary(
    reference=np.subtract,
    emit=lambda t, a, b: a - b,
    gradient=subtract_gradient,
    samples=two() + COUNTS,
    dtypes=NUMBERS + COMPLEX,
)
def subtract(a: Value, b: Value) -> Value:
    """Subtract: y = a - b.

    a, b     shapes broadcast; numbers; integers wrap around
    returns  their common shape and dtype
    >>> import bedplate as bp
    >>> bp.subtract(bp.tensor([1.0, 2.0]), 1).tolist()
    [0.0, 1.0]
    """


def multiply_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """d(a b) = b da + a db"""
    a, b = inputs
    return sum_to(multiply(grad_out, conj(b)), a.shape), sum_to(
        multiply(grad_out, conj(a)), b.shape
    )


@binary(
    reference=np.multiply,
    emit=lambda t, a, b: a & b if t.name == "i1" else a * b,
    gradient=multiply_gradient,
    samples=two() + COUNTS,
    dtypes=ANY + COMPLEX,
)
def multiply(a: Value, b: Value) -> Value:
    """Multiply: y = a b.

    a, b     shapes broadcast; for bools this is a and b; integers wrap around
    returns  their common shape and dtype
    >>> import bedplate as bp
    >>> bp.multiply(bp.tensor([1.0, 2.0]), 3).tolist()
    [3.0, 6.0]
    """


@in_float32
def divide_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """d(a / b) = (da - y db) / b"""
    a, b = inputs
    quotient = divide(grad_out, conj(b))
    return sum_to(quotient, a.shape), sum_to(negative(multiply(quotient, conj(output))), b.shape)


@binary(
    reference=np.divide,
    emit=lambda t, a, b: a / b,
    gradient=divide_gradient,
    samples=two(0.5, 3.0),
    dtypes=INEXACT,
    promote="float",
)
def divide(a: Value, b: Value) -> Value:
    """Divide: y = a / b, by the rules of IEEE 754 (1/0 is inf, 0/0 is NaN).

    a, b     shapes broadcast; integers become float32
    returns  their common shape, floating point
    >>> import bedplate as bp
    >>> bp.divide(bp.tensor([1, 2]), 2).tolist()
    [0.5, 1.0]
    """


def _floor_division(a: Any, b: Any) -> tuple[Any, Any]:
    """Quotient and remainder of floats as Python has them, exact for large quotients."""
    rest = language.remainder(a, b)
    other_sign = (rest != 0) & ((rest < 0) != (b < 0))
    rest = language.select(
        other_sign, rest + b, language.select(rest == 0, language.copysign(rest, b), rest)
    )
    # an infinite divisor takes a finite number whole: 0, or -1 where the signs differ
    whole = language.select(other_sign & (abs(a) < math.inf), -1.0, a / b)
    exact = language.select(abs(b) == math.inf, whole, (a - rest) / b)
    floor = language.floor(exact)
    floor = language.select(exact - floor > 0.5, floor + 1, floor)
    quotient = language.select(exact == 0, language.copysign(exact, a / b), floor)
    return language.select(b == 0, a / b, quotient), rest


@binary(
    reference=np.floor_divide,
    emit=lambda t, a, b: _floor_division(a, b)[0] if t.is_float else a // b,
    gradient=flat_gradient,
    samples=(floats((3, 5), (3, 5)), *COUNTS, integers((19,), (19,), low=-2, high=3)),
)
def floor_divide(a: Value, b: Value) -> Value:
    """Divide and round down: y = floor(a / b).

    a, b     shapes broadcast; numbers; for integers x // 0 is 0 and the least integer // -1
             wraps to itself, on every device
    returns  their common shape and dtype
    >>> import bedplate as bp
    >>> bp.floor_divide(bp.tensor([7, -7]), 2).tolist()
    [3, -4]
    """


def remainder_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """y = a - floor(a / b) b"""
    a, b = inputs
    return sum_to(grad_out, a.shape), sum_to(
        negative(multiply(grad_out, floor_divide(a, b))), b.shape
    )


@binary(
    reference=np.remainder,
    emit=lambda t, a, b: _floor_division(a, b)[1] if t.is_float else a % b,
    gradient=remainder_gradient,
    samples=(
        floats((3, 5), (3, 5), low=0.7, high=0.9),
        *COUNTS,
        integers((19,), (19,), low=-2, high=3),
    ),
)
def remainder(a: Value, b: Value) -> Value:
    """The rest of floor division, with the sign of the divisor: y = a - floor(a / b) b.

    a, b     shapes broadcast; numbers; for integers x % 0 is 0. For floats the result may
             round up to the divisor itself: remainder(-1e-17, 1) is 1.0
    returns  their common shape and dtype
    >>> import bedplate as bp
    >>> bp.remainder(bp.tensor([7, -7]), 2).tolist()
    [1, 1]
    """


def fmod_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """y = a - trunc(a / b) b"""
    a, b = inputs
    whole = divide(subtract(a, output), b)
    return sum_to(grad_out, a.shape), sum_to(negative(multiply(grad_out, whole)), b.shape)


@binary(
    reference=np.fmod,
    emit=lambda t, a, b: language.remainder(a, b),
    gradient=fmod_gradient,
    samples=(
        floats((3, 5), (3, 5), low=0.7, high=0.9),
        *COUNTS,
        integers((19,), (19,), low=-2, high=3),
    ),
)
def fmod(a: Value, b: Value) -> Value:
    """The rest of division rounded towards zero, with the sign of the dividend:
    y = a - trunc(a / b) b.

    a, b     shapes broadcast; numbers; for integers fmod(x, 0) is 0
    returns  their common shape and dtype
    >>> import bedplate as bp
    >>> bp.fmod(bp.tensor([7, -7]), 2).tolist()
    [1, -1]
    """


def negative_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d(-x) = -dx"""
    return (negative(grad_out),)


@unary(
    reference=np.negative,
    emit=lambda t, x: -x,
    gradient=negative_gradient,
    samples=(*one(), integers((7,))),
    dtypes=NUMBERS + COMPLEX,
    promote="common",
)
def negative(x: Value) -> Value:
    """Change the sign: y = -x; -0.0 for 0.0, and unsigned integers wrap around.

    >>> import bedplate as bp
    >>> bp.negative(bp.tensor([1.0, -2.0])).tolist()
    [-1.0, 2.0]
    """


def positive(x: Value) -> Value:
    """The value itself: y = x.

    >>> import bedplate as bp
    >>> bp.positive(bp.tensor([1.0, -2.0])).tolist()
    [1.0, -2.0]
    """
    return x._alias()


def absolute_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d|x| = sign(x) dx, 0 at 0; for complex numbers the direction x / |x|"""
    return (multiply(grad_out, sign(inputs[0])),)


@unary(
    reference=np.abs,
    emit=lambda t, x: abs(x),
    gradient=absolute_gradient,
    samples=(*one(), floats((9,), low=0.5), integers((7,))),
    dtypes=NUMBERS + COMPLEX,
    promote="common",
    result=real_dtype,
)
def abs_(x: Value) -> Value:
    """The absolute value: y = |x|; its gradient at 0 is 0.

    x        numbers; the least integer stays itself; for complex numbers sqrt(re^2 + im^2)
             without overflow on the way
    returns  shape of x; real
    >>> import bedplate as bp
    >>> bp.abs(bp.tensor([1.0, -2.0])).tolist()
    [1.0, 2.0]
    """


def _emit_sign(t: Any, x: Any) -> Any:
    result = language.cast(x > 0, t) - language.cast(x < 0, t)
    return language.select(x != x, x, result) if t.is_float else result


def sign_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """(g - y re(y* g)) / |x| for complex numbers: what is across y; 0 for real ones"""
    (x,) = inputs
    if x.dtype.kind != "c":
        return (None,)
    along = multiply(output, real(multiply(conj(output), grad_out)))
    size = abs_(x)
    size = where(equal(size, 0), number(size, float("inf")), size)
    return (divide(subtract(grad_out, along), size),)


def _sign_reference(x: Any) -> Any:
    """NumPy's, but NaN for every complex number that has one."""
    result = np.sign(x)
    if x.dtype.kind != "c":
        return result
    return np.where(np.isnan(x), complex(math.nan, math.nan), result).astype(x.dtype)


@unary(
    reference=_sign_reference,
    emit=_emit_sign,
    gradient=sign_gradient,
    samples=(*one(), integers((17,), low=-2, high=3)),
    dtypes=NUMBERS + COMPLEX,
    promote="common",
)
def sign(x: Value) -> Value:
    """The sign: -1, 0 or 1; NaN for NaN. For complex numbers the direction x / |x|, 0 for 0.

    >>> import bedplate as bp
    >>> bp.sign(bp.tensor([3.0, -2.0, 0.0])).tolist()
    [1.0, -1.0, 0.0]
    """


def square_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d(x^2) = 2 x dx"""
    return (multiply(multiply(grad_out, conj(inputs[0])), 2),)


@unary(
    reference=np.square,
    emit=lambda t, x: x * x,
    gradient=square_gradient,
    samples=(*one(), integers((7,))),
    dtypes=NUMBERS + COMPLEX,
    promote="common",
)
def square(x: Value) -> Value:
    """The square: y = x x.

    >>> import bedplate as bp
    >>> bp.square(bp.tensor([3.0, -2.0])).tolist()
    [9.0, 4.0]
    """


@in_float32
def reciprocal_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d(1 / x) = -y^2 dx"""
    return (negative(multiply(grad_out, conj(multiply(output, output)))),)


def _reciprocal_reference(x: Any) -> Any:
    """NumPy's, but for a complex 0, of which NumPy makes two NaN and a division inf + i NaN."""
    result = np.reciprocal(x)
    return np.where(x == 0, complex(np.inf, np.nan), result) if x.dtype.kind == "c" else result


@unary(
    reference=_reciprocal_reference,
    emit=lambda t, x: 1 / x,
    gradient=reciprocal_gradient,
    samples=one(0.5, 3.0),
    dtypes=INEXACT,
)
def reciprocal(x: Value) -> Value:
    """The reciprocal: y = 1 / x; inf with the sign of x at 0, inf + i NaN at a complex 0.

    >>> import bedplate as bp
    >>> bp.reciprocal(bp.tensor([4.0, 2.0])).tolist()
    [0.25, 0.5]
    """
