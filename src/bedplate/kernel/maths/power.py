"""pow, sqrt, rsqrt and cbrt.

pow(x, y) = exp(y log|x|). The exponent magnifies the error of the logarithm up to 745 times, so
in float64 the logarithm is a pair that is right to 65 bits; in float32 a plain float64 will do.

source  C11 annex F.10.4 for the special values; Muller, Elementary Functions, chapter 11
"""

from __future__ import annotations

from typing import Any

from bedplate.kernel.language.conversions import bitcast, cast
from bedplate.kernel.language.numbers import copysign, floor, fma
from bedplate.kernel.language.numbers import sqrt as hardware_sqrt
from bedplate.kernel.language.vectors import select
from bedplate.kernel.maths.coefficients import CBRT_2_64, CBRT_64, LN2_64, LOG_64, TWO_THIRDS_64
from bedplate.kernel.maths.double_word import (
    Pair,
    add,
    divide,
    fast_two_sum,
    multiply,
    polynomial,
    two_product,
)
from bedplate.kernel.maths.exponential import EXP_RANGE, clamp, exp, exp_pair
from bedplate.kernel.maths.logarithm import log_pair, plus_multiple, split
from bedplate.kernel.maths.precision import (
    DOUBLE,
    elementary,
    like,
    precision_of,
    through_double,
)
from bedplate.kernel.types import element, f32, f64

INFINITY = float("inf")
NAN = float("nan")


@elementary
def sqrt(x: Any) -> Any:
    """The square root, correctly rounded."""
    return hardware_sqrt(x)


@elementary
def rsqrt(x: Any) -> Any:
    """1 / sqrt(x); at most 1.5 ulp."""
    return 1.0 / hardware_sqrt(x)


def _precise_log(x: Any) -> Pair:
    """log(x) to 65 bits, for positive finite float64 x."""
    k, mantissa = split(x, DOUBLE)
    f = mantissa - 1.0
    s = fast_two_sum(*divide((f, like(f, 0.0)), fast_two_sum(like(f, 2.0), f)))
    z = multiply(s, s)
    rest = z[0] * polynomial(z[0], LOG_64[1:])
    two_thirds = (like(f, TWO_THIRDS_64[0]), TWO_THIRDS_64[1])
    series = add(two_thirds, (rest, 0.0))
    log_mantissa = add((s[0] + s[0], s[1] + s[1]), multiply(multiply(z, s), series))
    product, product_rest = two_product(k, LN2_64[0])
    return add((product, fma(k, LN2_64[1], product_rest)), log_mantissa)


def _magnitude_double(size: Any, y: Any) -> Any:
    """size^y in float64 for positive finite size."""
    high, low = _precise_log(size)
    product, rest = two_product(high, y)
    rest = fma(low, y, rest)
    inside = abs(product) < 800.0
    (high, low), first, second = exp_pair(
        clamp(product, *EXP_RANGE["64"]), DOUBLE, select(inside, rest, 0.0)
    )
    return ((high + low) * first) * second


def _magnitude_single(size: Any, y: Any) -> Any:
    """size^y in float32 for positive finite size, computed in float64."""
    k, mantissa = split(cast(size, f64), DOUBLE)
    high, low = plus_multiple(k, LN2_64, log_pair(mantissa, DOUBLE))
    return cast(exp((high + low) * cast(y, f64)), f32)


@elementary
def pow(x: Any, y: Any) -> Any:
    """x to the power y, with C's special values; at most 1 ulp."""
    size = abs(x)
    ordinary = (size > 0.0) & (size < INFINITY)
    held = select(ordinary, size, 1.0)
    magnitude = _magnitude_single if element(x.type) is f32 else _magnitude_double
    result = magnitude(held, y)
    # 0 and infinity to a power that is not 0: 0 or infinity.
    vanishes = (size == 0.0) == (y > 0.0)
    result = select(ordinary, result, select(vanishes, like(x, 0.0), INFINITY))
    half = y * 0.5
    whole = (floor(y) == y) | (abs(y) == INFINITY)
    odd = whole & (floor(half) != half) & (abs(y) < 2.0 / _epsilon(x))
    result = select((x < 0.0) & ~whole & ordinary, NAN, result)
    result = select(odd, copysign(result, x), result)
    infinite_power = abs(y) == INFINITY
    grows = (size > 1.0) == (y > 0.0)
    at_infinity = select(size == 1.0, 1.0, select(grows, like(x, INFINITY), 0.0))
    result = select(infinite_power, at_infinity, result)
    result = select((x != x) | (y != y), x + y, result)
    return select((x == 1.0) | (y == 0.0), 1.0, result)


def _epsilon(x: Any) -> float:
    return 2.0 ** -precision_of(x).mantissa_bits


@through_double
def cbrt(x: Any) -> Any:
    """The cube root; at most 1 ulp."""
    size = abs(x)
    ordinary = (size > 0.0) & (size < INFINITY)
    k, mantissa = split(select(ordinary, size, 1.0), DOUBLE)
    scaled = fma(k, 1.0 / 3.0, DOUBLE.magic)
    third = scaled - DOUBLE.magic
    left = fma(third, -3.0, k)  # -1, 0 or 1
    mantissa = mantissa * select(left > 0.0, 2.0, select(left < 0.0, like(x, 0.5), 1.0))
    # Quartic steps towards mantissa^(-1/3), without a division.
    guess_scale = select(left < 0.0, like(x, CBRT_2_64[0]), 1.0)
    guess_scale = select(left > 0.0, 1.0 / CBRT_2_64[0], guess_scale)
    inverse = polynomial(mantissa_of(mantissa, left), CBRT_64) * guess_scale
    for _ in range(2):
        miss = fma(-mantissa * inverse, inverse * inverse, 1.0)
        step = polynomial(miss, (1.0 / 3.0, 2.0 / 9.0, 14.0 / 81.0)) * miss
        inverse = fma(inverse, step, inverse)
    square = inverse * inverse
    root = mantissa * square
    root_square, square_rest = two_product(root, root)
    miss = fma(root_square, root, -mantissa) + square_rest * root
    root = fma(miss * square, -1.0 / 3.0, root)
    power = bitcast(scaled, DOUBLE.integer_type) - (DOUBLE.magic_bits - DOUBLE.bias)
    root = root * bitcast(power << DOUBLE.mantissa_bits, f64)
    return copysign(select(ordinary, root, size), x)


def mantissa_of(scaled: Any, left: Any) -> Any:
    """Undo the scaling by 2^left."""
    return scaled * select(left > 0.0, 0.5, select(left < 0.0, like(scaled, 2.0), 1.0))
