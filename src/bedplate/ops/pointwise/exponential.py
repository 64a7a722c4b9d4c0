"""Exponentials, logarithms, powers and roots, element by element.

A little long, because each gradient stands with its op, and powers have many special cases.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.dtypes import COMPLEX, FLOATS
from bedplate.kernel import maths
from bedplate.ops.build import Value, is_number, number, sum_to
from bedplate.ops.complex_numbers.parts import conj, real
from bedplate.ops.elementwise import INEXACT, NUMBERS, binary, in_float32, unary
from bedplate.ops.pointwise.arithmetic import add, divide, multiply, reciprocal, subtract
from bedplate.ops.pointwise.comparison import equal, logical_and
from bedplate.ops.pointwise.convert import where
from bedplate.ops.samples import floats, integers, mixed, one, rough, two

MAX_SQUARED = 100  # the largest power of complex numbers that is a product of them
LN2 = 0.6931471805599453
LN10 = 2.302585092994046


def exp_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d exp(x) = y dx"""
    return (multiply(grad_out, conj(output)),)


@unary(
    reference=np.exp,
    emit=lambda t, x: maths.exp(x),
    gradient=exp_gradient,
    samples=one(),
    dtypes=INEXACT,
)
def exp(x: Value) -> Value:
    """Raise e to each element: y = e**x.

    >>> import bedplate as bp
    >>> bp.exp(bp.tensor([0.0, 1.0])).tolist()
    [1.0, 2.7182817459106445]
    """


@in_float32
def exp2_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d 2**x = y ln(2) dx"""
    return (multiply(multiply(grad_out, conj(output)), LN2),)


@unary(
    reference=np.exp2,
    emit=lambda t, x: maths.exp2(x),
    gradient=exp2_gradient,
    samples=one(),
    dtypes=INEXACT,
)
def exp2(x: Value) -> Value:
    """Raise 2 to each element: y = 2**x.

    also     bp.special.exp2(x)
    >>> import bedplate as bp
    >>> bp.exp2(bp.tensor([0.0, 3.0])).tolist()
    [1.0, 8.0]
    """


def expm1_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d(e**x - 1) = (y + 1) dx"""
    return (multiply(grad_out, conj(exp(inputs[0]))),)


def _expm1_reference(x: Any) -> Any:
    """NumPy's, but for infinite and unknown complex numbers, where it has NaN too often."""
    if x.dtype.kind != "c":
        return np.expm1(x)
    return np.where(np.isfinite(x), np.expm1(x), np.exp(x) - 1)


@unary(
    reference=_expm1_reference,
    emit=lambda t, x: maths.expm1(x),
    gradient=expm1_gradient,
    samples=one(),
    dtypes=INEXACT,
)
def expm1(x: Value) -> Value:
    """The exponential less 1: y = e**x - 1, exact also where x is small.

    also     bp.special.expm1(x)
    >>> import bedplate as bp
    >>> bp.expm1(bp.tensor([0.0])).tolist()
    [0.0]
    """


def log_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d log(x) = dx / x"""
    return (divide(grad_out, conj(inputs[0])),)


@unary(
    reference=np.log,
    emit=lambda t, x: maths.log(x),
    gradient=log_gradient,
    samples=one(0.2, 4.0),
    dtypes=INEXACT,
)
def log(x: Value) -> Value:
    """The natural logarithm: y = log(x); -inf at 0, NaN below.

    >>> import bedplate as bp
    >>> bp.log(bp.tensor([1.0, 0.0])).tolist()
    [0.0, -inf]
    """


@in_float32
def log1p_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d log(1 + x) = dx / (1 + x)"""
    return (divide(grad_out, conj(inputs[0] + 1)),)


@unary(
    reference=np.log1p,
    emit=lambda t, x: maths.log1p(x),
    gradient=log1p_gradient,
    samples=one(-0.8, 2.0),
    dtypes=INEXACT,
)
def log1p(x: Value) -> Value:
    """The logarithm of 1 more: y = log(1 + x), exact also where x is small.

    also     bp.special.log1p(x)
    >>> import bedplate as bp
    >>> bp.log1p(bp.tensor([0.0])).tolist()
    [0.0]
    """


def log2_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d log2(x) = dx / (x ln 2)"""
    return (divide(grad_out, conj(multiply(inputs[0], LN2))),)


@unary(
    reference=np.log2,
    emit=lambda t, x: maths.log2(x),
    gradient=log2_gradient,
    samples=one(0.2, 4.0),
    dtypes=INEXACT,
)
def log2(x: Value) -> Value:
    """The logarithm to base 2: y = log(x) / log(2); -inf at 0, NaN below.

    >>> import bedplate as bp
    >>> bp.log2(bp.tensor([8.0, 1.0])).tolist()
    [3.0, 0.0]
    """


def log10_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d log10(x) = dx / (x ln 10)"""
    return (divide(grad_out, conj(multiply(inputs[0], LN10))),)


@unary(
    reference=np.log10,
    emit=lambda t, x: maths.log10(x),
    gradient=log10_gradient,
    samples=one(0.2, 4.0),
    dtypes=INEXACT,
)
def log10(x: Value) -> Value:
    """The logarithm to base 10: y = log(x) / log(10); -inf at 0, NaN below.

    >>> import bedplate as bp
    >>> bp.log10(bp.tensor([100.0, 1.0])).tolist()
    [2.0, 0.0]
    """


@in_float32
def logaddexp_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """e**(a - y) da + e**(b - y) db; half each for equal infinities above, 0 for those below

    The shares are divided by their sum, since that of 1e10 and 1e10 rounds to 1e10.
    """
    a, b = inputs
    nothing = equal(output, -math.inf)
    tie = logical_and(equal(a, b), equal(output, math.inf))
    shares = [_share(side, output, nothing, tie) for side in (a, b)]
    total = where(nothing, number(output, 1.0), add(*shares))
    return tuple(
        sum_to(multiply(grad_out, conj(divide(share, total))), side.shape)
        for share, side in zip(shares, (a, b), strict=True)
    )


def _share(side: Value, output: Value, nothing: Value, tie: Value) -> Value:
    """What a term of logaddexp has of the sum; the infinite differences are left out first."""
    equals = equal(side, output)
    distance = where(equals, number(output, 0.0), subtract(side, output))
    share = where(tie, number(output, 0.5), exp(distance))
    return where(nothing, number(output, 0.0), share)


def _emit_logaddexp(t: Any, a: Any, b: Any) -> Any:
    """max + log(1 + exp(-|a - b|)); an infinity is the maximum itself."""
    most = language.maximum(a, b)
    total = most + maths.log1p(maths.exp(-abs(a - b)))
    return language.select(abs(most) == math.inf, most, total)


def _logaddexp_reference(a: Any, b: Any) -> Any:
    """NumPy's, which is for real numbers; of complex ones the sum of the larger and a logarithm."""
    if a.dtype.kind != "c":
        return np.logaddexp(a, b)
    larger, smaller = np.where(a.real >= b.real, (a, b), (b, a))
    return larger + np.log1p(np.exp(smaller - larger))


@binary(
    reference=_logaddexp_reference,
    emit=_emit_logaddexp,
    gradient=logaddexp_gradient,
    samples=(
        *two(),
        rough(
            lambda r: [
                np.array([-np.inf, np.inf, -np.inf, 900.0]),
                np.array([-np.inf, np.inf, 1.0, -900.0]),
            ],
            "infinities",
        ),
    ),
    dtypes=INEXACT,
    promote="float",
)
def logaddexp(a: Value, b: Value) -> Value:
    """The logarithm of a sum of exponentials: y = log(e**a + e**b), without overflow.

    a, b     shapes broadcast; integers become float32; of complex numbers the principal value
    returns  their common shape, floating point; the gradient shares itself by e**a and e**b:
             half each where both are +inf, 0 where both are -inf
    >>> import bedplate as bp
    >>> bp.logaddexp(bp.tensor([0.0, 1000.0]), 0.0).tolist()
    [0.6931471824645996, 1000.0]
    """


@in_float32
def sqrt_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d sqrt(x) = dx / (2 y); inf at 0, the limit"""
    return (divide(multiply(grad_out, 0.5), conj(output)),)


@unary(
    reference=np.sqrt,
    emit=lambda t, x: language.sqrt(x),
    gradient=sqrt_gradient,
    samples=one(0.2, 4.0),
    dtypes=INEXACT,
)
def sqrt(x: Value) -> Value:
    """The square root: y = x**0.5, correctly rounded; NaN below 0; its gradient at 0 is inf.

    >>> import bedplate as bp
    >>> bp.sqrt(bp.tensor([4.0, 9.0])).tolist()
    [2.0, 3.0]
    """


@in_float32
def rsqrt_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """d x**(-1/2) = -y**3 / 2 dx"""
    cube = multiply(output, multiply(output, output))
    return (multiply(multiply(grad_out, conj(cube)), -0.5),)


@unary(
    reference=lambda x: 1 / np.sqrt(x),
    emit=lambda t, x: 1 / language.sqrt(x),
    gradient=rsqrt_gradient,
    samples=one(0.2, 4.0),
    dtypes=INEXACT,
)
def rsqrt(x: Value) -> Value:
    """The reciprocal of the square root: y = 1 / sqrt(x); inf at 0, NaN below.

    >>> import bedplate as bp
    >>> bp.rsqrt(bp.tensor([4.0, 16.0])).tolist()
    [0.5, 0.25]
    """


@in_float32
def pow_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """d a**b = b a**(b-1) da + y log(a) db; 0 where b = 0, and for db where a = 0 and b >= 0"""
    a, b = inputs
    zero = number(grad_out, 0.0)
    power = multiply(b, pow_(a, subtract(b, 1)))
    to_a = where(equal(b, zero), zero, multiply(grad_out, conj(power)))
    settled = logical_and(equal(a, zero), real(b) >= 0)
    logarithm = log(where(settled, number(a, 1.0), a))
    to_b = where(settled, zero, multiply(grad_out, conj(multiply(output, logarithm))))
    return sum_to(to_a, a.shape), sum_to(to_b, b.shape)


def _integer_power(a: Any, b: Any) -> Any:
    """a**b by squaring, wrapping around; a negative power gives 0, or +-1 for a of +-1."""
    with np.errstate(all="ignore"):
        result = np.power(a, np.maximum(b, 0))
    odd = np.where(b % 2 == 0, 1, a)
    return np.where(b < 0, np.where(np.abs(a) == 1, odd, 0), result).astype(a.dtype)


def _power_reference(a: Any, b: Any) -> Any:
    if a.dtype.kind not in "fc":
        return _integer_power(a, b)
    shape = np.broadcast_shapes(a.shape, b.shape)
    # each its own exponent: NumPy makes one of 0.5 for all a square root, which differs at -0.0
    a, b = np.broadcast_arrays(np.atleast_1d(a), np.atleast_1d(b))
    return np.power(a, b.copy()).reshape(shape)


def _power_emit(t: Any, a: Any, b: Any) -> Any:
    return maths.pow(a, b) if t.is_float else _emit_integer_power(t, a, b)


def _emit_integer_power(t: Any, a: Any, b: Any) -> Any:
    """Squaring, a bit of the exponent at a time; it wraps around."""
    result, base, exponent = language.var(a * 0 + 1), language.var(a), language.var(b)
    for _ in language.loop(t.bits):
        odd = (exponent.get() & 1) != 0
        result.set(language.select(odd, result.get() * base.get(), result.get()))
        base.set(base.get() * base.get())
        exponent.set(exponent.get() >> 1)
    if not t.is_signed:
        return result.get()
    unit = language.select((b & 1) != 0, a, a * 0 + 1)
    negative_power = language.select((a == 1) | (a == -1), unit, a * 0)
    return language.select(b < 0, negative_power, result.get())


@binary(
    reference=_power_reference,
    emit=_power_emit,
    gradient=pow_gradient,
    samples=(
        floats((3, 5), (3, 5), low=0.3, high=2.5),
        floats((4, 1), (6,), low=0.3, high=2.5),
        mixed(lambda r: [r.uniform(-2, 2, (9,)), r.integers(0, 4, (9,)) * 1.0], "negative base"),
        mixed(lambda r: [r.integers(-4, 5, (19,)), r.integers(0, 4, (19,))], "integers"),
        integers((0,), (0,)),
    ),
    dtypes=NUMBERS + COMPLEX,
)
def _pow(a: Value, b: Value) -> Value:
    """Raise to a power, both of one dtype."""


def _squared_up(a: Value, power: int) -> Value:
    """a**power of complex numbers by squaring, so that a whole number gives whole parts."""
    if power < 0:
        return reciprocal(_squared_up(a, -power))
    result = None
    while power:
        if power % 2:
            result = a if result is None else multiply(result, a)
        power //= 2
        a = multiply(a, a) if power else a
    return result


def pow_(a: Value, b: Value) -> Value:
    """Raise to a power: y = a**b; 0**0 is 1.

    a, b     shapes broadcast; numbers; integers wrap around, and a negative power of an
             integer is 0 (or 1 or -1 for those). A complex a with a Python integer b is multiplied
             by itself (up to 100 times); else it is exp(b log a)
    returns  their common shape and dtype; the gradient of 0**0 is 0 for both, and that of
             0**b for b is 0
    >>> import bedplate as bp
    >>> bp.pow(bp.tensor([2.0, 3.0]), 2).tolist()
    [4.0, 9.0]
    """
    if is_number(b) and hasattr(a, "_apply") and a.dtype in FLOATS:
        if b == 2:
            return multiply(a, a)
        if b == 1:
            return multiply(a, 1.0)
    if (
        type(b) is int
        and hasattr(a, "_apply")
        and a.dtype.kind == "c"
        and 0 < abs(b) <= MAX_SQUARED
    ):
        return _squared_up(a, b)
    return _pow(a, b)
