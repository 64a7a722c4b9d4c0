"""log, log2, log10, log1p and what is made of them: asinh, acosh, atanh.

x = 2^k m with sqrt(1/2) <= m < sqrt(2) and f = m - 1, which is exact. With s = f / (2 + f),
log(1 + f) = log((1 + s) / (1 - s)) = 2 s + s^3 LOG(s^2), arranged as

    f - f^2/2 + s (f^2/2 + s^2 LOG(s^2))

whose first two terms are kept as an exact pair, so that a change of base or the sum with
k log(2) still rounds once.

source  FDLIBM e_log.c (Sun Microsystems, 1993) for the arrangement; the pairs are ours
"""

from __future__ import annotations

from typing import Any

from bedplate.kernel.language.conversions import bitcast
from bedplate.kernel.language.numbers import copysign, fma, sqrt
from bedplate.kernel.language.vectors import select
from bedplate.kernel.maths.double_word import (
    Pair,
    divide,
    fast_two_sum,
    polynomial,
    two_product,
    two_sum,
)
from bedplate.kernel.maths.precision import (
    Precision,
    elementary,
    like,
    precision_of,
    through_double,
)

INFINITY = float("inf")
NAN = float("nan")
# The bits of the float just above sqrt(1/2): mantissas are taken from there to sqrt(2).
SQRT_HALF_BITS = {"32": 0x3F3504F3, "64": 0x3FE6A09E667F3BCD}


def split(x: Any, precision: Precision) -> tuple[Any, Any]:
    """(k, m): x = 2^k m with sqrt(1/2) <= m < sqrt(2), k a float; for positive finite x."""
    bits = precision.mantissa_bits
    tiny = x < precision.smallest_normal
    x = select(tiny, x * 2.0**bits, x)
    raw = bitcast(x, precision.integer_type)
    k = (raw - SQRT_HALF_BITS[precision.suffix]) >> bits
    mantissa = bitcast(raw - (k << bits), precision.float_type)
    k = bitcast(k + precision.magic_bits, precision.float_type) - precision.magic
    return select(tiny, k - float(bits), k), mantissa


def log_pair(mantissa: Any, precision: Precision) -> Pair:
    """log(mantissa) = high + low, for sqrt(1/2) <= mantissa < sqrt(2)."""
    f = mantissa - 1.0
    half = 0.5 * f
    half_square, square_rest = two_product(half, f)
    s = f / (2.0 + f)
    z = s * s
    series = z * polynomial(z, precision.coefficients("LOG"))
    high, low = fast_two_sum(f, -half_square)
    return high, (low - square_rest) + s * (half_square + series)


def plus_multiple(k: Any, constant: tuple[float, float], pair: Pair) -> Pair:
    """k constant + pair, for |k constant| >= |pair| or k = 0."""
    product, rest = two_product(k, constant[0])
    high, low = fast_two_sum(product, pair[0])
    return high, (low + fma(k, constant[1], rest)) + pair[1]


def scaled_pair(pair: Pair, constant: tuple[float, float]) -> Pair:
    """pair constant."""
    product, rest = two_product(pair[0], constant[0])
    return product, fma(pair[0], constant[1], fma(pair[1], constant[0], rest))


def with_special_values(x: Any, result: Any) -> Any:
    """log's values at infinity, zero, negative numbers and NaN."""
    result = select(x < INFINITY, result, x)
    return select(x > 0.0, result, select(x == 0.0, -INFINITY, x * NAN))


@elementary
def log(x: Any) -> Any:
    """The natural logarithm; at most 1 ulp."""
    precision = precision_of(x)
    k, mantissa = split(x, precision)
    high, low = plus_multiple(k, precision.coefficients("LN2"), log_pair(mantissa, precision))
    return with_special_values(x, high + low)


@elementary
def log2(x: Any) -> Any:
    """The logarithm to base 2, exact for powers of two; at most 1 ulp."""
    precision = precision_of(x)
    k, mantissa = split(x, precision)
    pair = scaled_pair(log_pair(mantissa, precision), precision.coefficients("LOG2_E"))
    high, low = fast_two_sum(k, pair[0])
    return with_special_values(x, high + (low + pair[1]))


@elementary
def log10(x: Any) -> Any:
    """The logarithm to base 10; at most 1 ulp."""
    precision = precision_of(x)
    k, mantissa = split(x, precision)
    pair = scaled_pair(log_pair(mantissa, precision), precision.coefficients("LOG10_E"))
    high, low = plus_multiple(k, precision.coefficients("LOG10_2"), pair)
    return with_special_values(x, high + low)


def log_of_pair(x: Pair, precision: Precision) -> Any:
    """log(x[0] + x[1]) rounded, for positive finite x[0]; right also where x is near 1."""
    k, mantissa = split(x[0], precision)
    high, low = plus_multiple(k, precision.coefficients("LN2"), log_pair(mantissa, precision))
    correction = x[1] / x[0]
    correction = fma(-0.5 * correction, correction, correction)
    total, rest = two_sum(high, correction)
    return total + (rest + low)


@elementary
def log1p(x: Any) -> Any:
    """log(1 + x) without cancellation; at most 2 ulp."""
    precision = precision_of(x)
    total, rest = two_sum(x, 1.0)
    rest = select(abs(x) < INFINITY, rest, 0.0)
    result = with_special_values(total, log_of_pair((total, rest), precision))
    return select(x == 0.0, x, result)


@through_double
def asinh(x: Any) -> Any:
    """The inverse hyperbolic sine, log(|x| + sqrt(x^2 + 1)) with x's sign; at most 2 ulp."""
    precision = precision_of(x)
    size = abs(x)
    huge = size > 2.0**60
    held = select(huge, 1.0, size)
    root = square_root(*add_one(two_product(held, held), 1.0))
    total, rest = two_sum(root[0], held)
    result = log_of_pair((total, rest + root[1]), precision)
    result = select(huge, _log_of_double(size, precision), result)
    # Below 2^-30 the square is lost beside 1, and x - x^3/6 is the value.
    result = select(size < 2.0**-30, fma(size * size, size * (-1.0 / 6.0), size), result)
    return copysign(result, x)


@through_double
def acosh(x: Any) -> Any:
    """The inverse hyperbolic cosine, log(x + sqrt(x^2 - 1)); NaN below 1; at most 2 ulp."""
    precision = precision_of(x)
    huge = x > 2.0**60
    held = select(huge, 1.0, x)
    product, rest = two_product(held, held)
    square, square_rest = two_sum(product, -1.0)
    root = square_root(square, square_rest + rest)
    total, total_rest = two_sum(held, root[0])
    result = log_of_pair((total, total_rest + root[1]), precision)
    result = select(huge, _log_of_double(x, precision), result)
    result = select(x == 1.0, 0.0, result)
    return select(x >= 1.0, result, x * NAN)


def add_one(pair: Pair, one: float) -> Pair:
    total, rest = two_sum(pair[0], one)
    return total, rest + pair[1]


def square_root(high: Any, low: Any) -> Pair:
    """sqrt(high + low) as a pair; (0, 0) at zero."""
    root = sqrt(high)
    rest = fma(-root, root, high) + low
    return root, select(root > 0.0, rest / (root + root), 0.0)


def _log_of_double(x: Any, precision: Precision) -> Any:
    """log(2 x), which does not overflow."""
    k, mantissa = split(x, precision)
    pair = log_pair(mantissa, precision)
    high, low = plus_multiple(k + 1.0, precision.coefficients("LN2"), pair)
    return select(x < INFINITY, high + low, x)


@through_double
def atanh(x: Any) -> Any:
    """The inverse hyperbolic tangent, log((1 + x) / (1 - x)) / 2; at most 2 ulp."""
    precision = precision_of(x)
    size = abs(x)
    held = select(size < 1.0, size, 0.5)
    # (1 + x) / (1 - x) = 1 + 2 x / (1 - x)
    below, below_rest = fast_two_sum(1.0, -held)
    quotient, rest = divide((held + held, like(held, 0.0)), (below, below_rest))
    total, total_rest = two_sum(quotient, 1.0)
    result = 0.5 * log_of_pair((total, total_rest + rest), precision)
    result = select(size < 2.0**-30, fma(size * size, size * (1.0 / 3.0), size), result)
    result = select(size == 1.0, INFINITY, result)
    return select(size <= 1.0, copysign(result, x), x * NAN)
