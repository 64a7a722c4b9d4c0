"""Exponentials, logarithms, roots and powers of complex numbers: their forms.

The values at zeros, infinities and NaN are those of C99, Annex G, and of the Array API. Errors are
relative to |y|, in units of its last place, for parts up to 100; the tests measure them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.ops.build import number
from bedplate.ops.complex_numbers.arithmetic import (
    INFINITY,
    add_,
    chosen,
    isinf,
    largest,
    nonzero,
    product,
    quotient,
    reciprocal,
    scaled,
    subtract_,
)
from bedplate.ops.complex_numbers.form import Pair, complex_form
from bedplate.ops.pointwise import activations, comparison, exponential
from bedplate.ops.pointwise.arithmetic import add, divide, multiply, negative, subtract
from bedplate.ops.pointwise.comparison import equal, logical_and, logical_not, logical_or
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import LN2, LN10, exp, exp2, expm1, log, log1p, pow_
from bedplate.ops.pointwise.extremes import minimum
from bedplate.ops.pointwise.floats import copysign, hypot
from bedplate.ops.pointwise.trigonometry import atan2, cos, sin

LN2_REST = 2.3190468138462996e-17  # ln 2 - LN2
# beyond these exp is split, and so is 2**x: their results, times a cosine, may still be finite
SPLIT = {4: 80.0, 8: 700.0}
SHIFT = {4: 24.0, 8: 64.0}


def bits(x: Any) -> int:
    """The bits of the significand of a float dtype."""
    return int(np.finfo(x.dtype.numpy).nmant) + 1


def _spiral(x: Any, phase: Any, wave: Pair, power: Any, grown: Callable[[float], float]) -> Pair:
    """power(x) (cos(phase) + i sin(phase)), also where power(x) alone overflows.

    phase  an angle of 0 gives exactly itself as the imaginary part
    wave   its cosine and sine
    power  exp or exp2, and `grown` the same of Python numbers
    """
    width = x.dtype.itemsize
    shift = SHIFT[width]
    is_far = x > SPLIT[width] / math.log(grown(1.0))
    size = power(where(is_far, subtract(x, shift), x))
    factor = where(is_far, number(x, grown(shift)), number(x, 1.0))
    lost = logical_and(logical_not(comparison.isfinite(phase)), comparison.isinf(x))
    re = multiply(multiply(size, wave.re), factor)
    im = multiply(multiply(size, wave.im), factor)
    vanishes = logical_and(lost, x < 0)
    im = where(equal(phase, 0.0), phase, where(vanishes, number(x, 0.0), im))
    return Pair(where(lost, size, re), im)


@complex_form(exponential.exp)
def exp_(z: Pair) -> Pair:
    """e^x (cos y + i sin y); at most 2 ulp off."""
    return _spiral(z.re, z.im, Pair(cos(z.im), sin(z.im)), exp, math.exp)


@complex_form(exponential.exp2)
def exp2_(z: Pair) -> Pair:
    """2^x (cos(y ln 2) + i sin(y ln 2)), with the angle in twice the digits; at most 2 ulp off."""
    rounded = float(z.im.dtype.numpy.type(LN2))
    angle, rest = _exact_product(z.im, number(z.im, rounded))
    rest = add(rest, multiply(z.im, (LN2 - rounded) + LN2_REST))
    wave = Pair(cos(angle), sin(angle))
    small = logical_and(comparison.isfinite(rest), abs(rest) < 0.5)
    rest = where(small, rest, number(rest, 0.0))
    wave = Pair(subtract(wave.re, multiply(rest, wave.im)), add(wave.im, multiply(rest, wave.re)))
    return _spiral(z.re, angle, wave, exp2, math.exp2)


@complex_form(exponential.expm1)
def expm1_(z: Pair) -> Pair:
    """(e^x - 1) cos y - 2 sin(y/2)^2 + i e^x sin y, without cancellation; at most 3 ulp off."""
    whole = exp_(z)
    half = sin(multiply(z.im, 0.5))
    near = subtract(multiply(expm1(z.re), cos(z.im)), multiply(multiply(half, half), 2.0))
    simple = logical_and(abs(z.re) < 30.0, comparison.isfinite(z.im))
    return Pair(where(simple, near, subtract(whole.re, 1.0)), whole.im)


def log_size(z: Pair) -> Any:
    """log |z|, without over- or underflow; exact to rounding also where |z| is near 1."""
    large, small = largest(z), minimum(abs(z.re), abs(z.im))
    ratio = where(equal(small, large), number(large, 1.0), divide(small, large))
    far = add(log(large), multiply(log1p(multiply(ratio, ratio)), 0.5))
    is_near = logical_and(large > 0.5, large < 1.5)
    kept = Pair(*[where(is_near, part, number(part, 1.0)) for part in (large, small)])
    near = multiply(log1p(_square_less_one(kept)), 0.5)
    result = where(is_near, near, far)
    return where(isinf(z), number(result, INFINITY), result)


def _square_less_one(z: Pair) -> Any:
    """x^2 + y^2 - 1 with the digits of a number twice as wide.

    source  Dekker 1971, "A floating-point technique for extending the available precision"
    """
    (xx, x_rest), (yy, y_rest) = _exact_product(z.re, z.re), _exact_product(z.im, z.im)
    first, first_rest = _exact_sum(xx, number(xx, -1.0))
    total, total_rest = _exact_sum(first, yy)
    return add(total, add(add(first_rest, total_rest), add(x_rest, y_rest)))


def _exact_product(a: Any, b: Any) -> tuple[Any, Any]:
    """a b as a rounded number and what rounding left."""
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    product = multiply(a, b)
    rest = subtract(multiply(a_high, b_high), product)
    rest = add(add(rest, multiply(a_high, b_low)), multiply(a_low, b_high))
    return product, add(rest, multiply(a_low, b_low))


def _halves(x: Any) -> tuple[Any, Any]:
    """x as a sum of two numbers with half of its digits."""
    widened = multiply(x, float(2 ** ((bits(x) + 1) // 2) + 1))
    high = subtract(widened, subtract(widened, x))
    return high, subtract(x, high)


def _exact_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b as a rounded number and what rounding left."""
    total = add(a, b)
    share = subtract(total, a)
    return total, add(subtract(a, subtract(total, share)), subtract(b, share))


@complex_form(exponential.log)
def log_(z: Pair) -> Pair:
    """log |z| + i arg z; at most 2 ulp off."""
    return Pair(log_size(z), atan2(z.im, z.re))


@complex_form(exponential.log2)
def log2_(z: Pair) -> Pair:
    """log z / ln 2; at most 3 ulp off."""
    return scaled(log_(z), 1 / LN2)


@complex_form(exponential.log10)
def log10_(z: Pair) -> Pair:
    """log z / ln 10; at most 3 ulp off."""
    return scaled(log_(z), 1 / LN10)


@complex_form(exponential.log1p)
def log1p_(z: Pair) -> Pair:
    """log(1 + z), by log1p(2x + x^2 + y^2) / 2 where z is small; at most 3 ulp off."""
    moved = Pair(add(z.re, 1.0), z.im)
    is_small = largest(z) < 0.5
    x, y = (where(is_small, part, number(part, 0.0)) for part in z[:2])
    growth = add(multiply(x, add(x, 2.0)), multiply(y, y))
    small = multiply(log1p(growth), 0.5)
    return Pair(where(is_small, small, log_size(moved)), atan2(z.im, moved.re))


@complex_form(exponential.sqrt)
def sqrt_(z: Pair) -> Pair:
    """The root with a real part that is not negative, its sign of y on the cut; at most 2 ulp off.

    With t = sqrt((|x| + |z|) / 2) it is t + i y / 2t for x >= 0, and |y| / 2t +- i t below; huge
    and tiny numbers are scaled by a power of four.
    source  Kahan 1987, "Branch cuts for complex elementary functions"
    """
    limits = np.finfo(z.re.dtype.numpy)
    size = largest(z)
    steps = bits(z.re) + bits(z.re) % 2
    up, down = 2.0**steps, 2.0 ** (-steps // 2)
    is_small, is_large = size < float(limits.tiny) * up, size > float(limits.max) / 8
    factor = where(is_small, number(size, up), where(is_large, number(size, 0.0625), 1.0))
    back = where(is_small, number(size, down), where(is_large, number(size, 4.0), 1.0))
    x, y = multiply(z.re, factor), multiply(z.im, factor)
    root = exponential.sqrt(multiply(add(abs(x), hypot(x, y)), 0.5))
    other = where(equal(root, 0.0), y, divide(multiply(y, 0.5), root))
    right = x >= 0
    re = multiply(where(right, root, abs(other)), back)
    im = multiply(where(right, other, copysign(root, y)), back)
    upright = comparison.isinf(z.im)
    return Pair(where(upright, number(re, INFINITY), re), where(upright, z.im, im))


@complex_form(activations.sigmoid)
def sigmoid(z: Pair) -> Pair:
    """1 / (1 + e^-z), for x < 0 as e^z / (1 + e^z): no overflow on either side."""
    left = z.re < 0
    size = exp_(Pair(negative(abs(z.re)), where(left, z.im, negative(z.im))))
    one = Pair(number(size.re, 1.0), number(size.re, 0.0))
    return quotient(chosen(left, size, one), Pair(add(size.re, 1.0), size.im))


@complex_form(exponential.logaddexp)
def logaddexp(a: Pair, b: Pair) -> Pair:
    """log1p(e^(smaller - larger)) + larger, by the real parts; an infinity is the larger itself."""
    first = a.re >= b.re
    larger, smaller = chosen(first, a, b), chosen(first, b, a)
    rest = log1p_(exp_(subtract_(smaller, larger)))
    settled = logical_or(comparison.isinf(larger.re), equal(smaller.re, -INFINITY))
    return chosen(settled, larger, add_(larger, rest))


@complex_form(exponential.rsqrt)
def rsqrt(z: Pair) -> Pair:
    """1 / sqrt z"""
    return reciprocal(sqrt_(z))


@complex_form(exponential._pow)
def power(a: Pair, b: Pair) -> Pair:
    """|a|^x e^(-y arg a), turned by x arg a + y log |a|, for b = x + iy.

    a^0 is 1, a^1 is a, a^2 is a a, a^-1 is 1 / a; 0^b is 0 for x > 0 and NaN otherwise, as in
    NumPy; the error is an ulp for each unit of the angle, and |b| ulp beside.
    """
    size, angle = hypot(a.re, a.im), atan2(a.im, a.re)
    zero = number(size, 0.0)
    is_real = equal(b.im, 0.0)
    turned = where(is_real, zero, multiply(b.im, log_size(a)))
    phase = add(multiply(b.re, angle), turned)
    shrunk = where(is_real, number(size, 1.0), exp(multiply(multiply(b.im, angle), -1.0)))
    length = multiply(pow_(size, b.re), shrunk)
    lost = logical_not(comparison.isfinite(phase))
    vanishes = logical_and(lost, equal(length, 0.0))
    grows = logical_and(lost, equal(length, INFINITY))
    re, im = multiply(length, cos(phase)), multiply(length, sin(phase))
    re = where(logical_or(vanishes, grows), length, re)
    plain = Pair(re, where(equal(phase, 0.0), phase, where(vanishes, zero, im)))
    unknown = number(size, math.nan)
    of_zero = chosen(b.re > 0, Pair(zero, zero), Pair(unknown, unknown))
    result = chosen(nonzero(a), plain, of_zero)
    one = Pair(number(size, 1.0), zero)
    for exponent, simple in ((-1.0, reciprocal(a)), (0.0, one), (1.0, a), (2.0, product(a, a))):
        result = chosen(logical_and(is_real, equal(b.re, exponent)), simple, result)
    return result
