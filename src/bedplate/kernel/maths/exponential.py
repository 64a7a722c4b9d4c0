"""exp, exp2, expm1 and what is made of them: sigmoid, tanh, sinh, cosh.

x = n log(2) + r with n an integer and |r| <= log(2)/2, so that exp(x) = 2^n (1 + p) with
p = exp(r) - 1 = r + r^2 EXP(r). The reduction subtracts n log(2) in two parts by fused
multiply-adds: the first subtraction is exact, because n times the leading part of log(2)
agrees with x in its leading bits. 2^n is applied with one rounding (`scale`), so that results below
the smallest normal number are right and those above the largest become infinite.

cost    exp: 13 instructions on AVX-512, 9.5 cycles a vector of 16 on Zen 4; tanh and sigmoid: one
        division more
source  Muller, Elementary Functions (3rd ed.), chapters 5 and 11
"""

from __future__ import annotations

from typing import Any

from bedplate.kernel.language.conversions import bitcast
from bedplate.kernel.language.numbers import copysign, fma, scale
from bedplate.kernel.language.vectors import select
from bedplate.kernel.maths.double_word import (
    Pair,
    divide,
    fast_two_sum,
    polynomial,
    two_sum,
)
from bedplate.kernel.maths.precision import (
    SINGLE,
    Precision,
    elementary,
    precision_of,
    through_double,
)

# Beyond these arguments exp is infinite or rounds to zero; the reduction holds up to them.
EXP_RANGE = {"32": (-105.0, 89.5), "64": (-746.0, 710.5)}
EXP2_RANGE = {"32": (-151.0, 129.0), "64": (-1076.0, 1025.0)}
# Below these expm1 rounds to -1; above it is infinite, while half of 2^n is still finite.
EXPM1_RANGE = {"32": (-20.0, 88.9), "64": (-40.0, 709.9)}
# From here on tanh is computed from exp, below by its own series.
TANH_SERIES_LIMIT = 0.55
# From here on tanh rounds to 1; from here on sigmoid does in float64.
TANH_LARGEST = {"32": 10.0, "64": 22.0}
SIGMOID_LARGEST = 40.0


def clamp(x: Any, low: float, high: float) -> Any:
    """x held to [low, high]; NaN passes."""
    x = select(x > high, high, x)
    return select(x < low, low, x)


def power_of_two(scaled: Any, precision: Precision) -> tuple[Any, Any]:
    """Two factors whose product is 2^n, from the bits of n + magic."""
    shifted = bitcast(scaled, precision.integer_type) - (precision.magic_bits - 2 * precision.bias)
    first = shifted >> 1
    second = shifted - first
    bits = precision.mantissa_bits
    kind = precision.float_type
    return bitcast(first << bits, kind), bitcast(second << bits, kind)


def reduce_exp(x: Any, precision: Precision) -> tuple[Any, Any, Any]:
    """(n + magic, r, rest): x = n log(2) + r + rest."""
    high, low = precision.coefficients("LN2")
    scaled = fma(x, precision.coefficients("LOG2_E")[0], precision.magic)
    n = scaled - precision.magic
    exact = fma(n, -high, x)
    r = fma(n, -low, exact)
    return scaled, r, fma(n, -low, exact - r)


def exp_minus_one(r: Any, rest: Any, precision: Precision) -> Any:
    """exp(r + rest) - 1 - r for |r| <= log(2)/2: what must be added to r."""
    return fma(r * r, polynomial(r, precision.coefficients("EXP")), rest)


def exp_parts(x: Any, precision: Precision) -> tuple[Any, Any]:
    """(m, n) with exp(x) = m 2^n and m in [0.7, 1.42], for x in EXP_RANGE.

    r is rounded, which costs a fifth of a unit, and the series a sixth; the last sum costs a half.
    """
    high, low = precision.coefficients("LN2")
    n = fma(x, precision.coefficients("LOG2_E")[0], precision.magic) - precision.magic
    r = fma(n, -low, fma(n, -high, x))
    return exp_series(r, precision), n


def exp_series(r: Any, precision: Precision) -> Any:
    """exp(r) for |r| <= log(2)/2."""
    return fma(r, fma(r, polynomial(r, precision.coefficients("EXP")), 1.0), 1.0)


@elementary
def exp(x: Any) -> Any:
    """e to the power x; at most 1 ulp."""
    precision = precision_of(x)
    return scale(*exp_parts(clamp(x, *EXP_RANGE[precision.suffix]), precision))


@elementary
def exp2(x: Any) -> Any:
    """2 to the power x; exact for integers, at most 1 ulp."""
    precision = precision_of(x)
    x = clamp(x, *EXP2_RANGE[precision.suffix])
    n = (x + precision.magic) - precision.magic
    fraction = x - n
    high, low = precision.coefficients("LN2")
    return scale(exp_series(fma(fraction, high, fraction * low), precision), n)


@elementary
def exp2_flushed(x: Any) -> Any:
    """2 to the power x for x <= 0, with results below the smallest normal number set to zero.

    What weights of a softmax need, in half the instructions of exp2; at most 1.5 ulp; -infinity
    gives zero, NaN gives NaN.
    """
    precision = precision_of(x)
    # At the clamp the exponent's bits are all zero, and so is the factor.
    x = select(x < -float(precision.bias), -float(precision.bias), x)
    scaled = x + precision.magic
    fraction = x - (scaled - precision.magic)
    n = bitcast(scaled, precision.integer_type) - (precision.magic_bits - precision.bias)
    factor = bitcast(n << precision.mantissa_bits, precision.float_type)
    series = polynomial(fraction, precision.coefficients("EXP2"))
    return fma(fraction, series, 1.0) * factor


@elementary
def expm1(x: Any) -> Any:
    """exp(x) - 1 without cancellation; at most 2 ulp."""
    precision = precision_of(x)
    original = x
    x = clamp(x, *EXPM1_RANGE[precision.suffix])
    scaled, r, rest = reduce_exp(x, precision)
    p, p_low = fast_two_sum(r, exp_minus_one(r, rest, precision))
    shifted = bitcast(scaled, precision.integer_type) - (precision.magic_bits - precision.bias + 1)
    # Half of 2^n, which is finite as long as the result is.
    half = bitcast(shifted << precision.mantissa_bits, precision.float_type)
    result = 2.0 * fma(half, p, (half - 0.5) + half * p_low)
    # So near to 0 the result is x itself, and halving it would lose a bit of the smallest.
    near = abs(original) < 2.0 ** -(precision.mantissa_bits + 3)
    return select(near, original, result)


def exp_pair(x: Any, precision: Precision, rest_of_x: Any | None = None) -> tuple[Pair, Any, Any]:
    """((high, low), first, second): exp(x + rest_of_x) = (high + low) first second."""
    scaled, r, rest = reduce_exp(x, precision)
    if rest_of_x is not None:
        r, rest = two_sum(r, rest + rest_of_x)
    p, p_low = fast_two_sum(r, exp_minus_one(r, rest, precision))
    high, low = fast_two_sum(1.0, p)
    first, second = power_of_two(scaled, precision)
    return (high, low + p_low), first, second


@elementary
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)); at most 2 ulp, down to the smallest numbers."""
    precision = precision_of(x)
    if precision is SINGLE:
        return _short_sigmoid(x)
    x = clamp(x, EXP_RANGE[precision.suffix][0], SIGMOID_LARGEST)
    # e = exp(-|x|) <= 1 and the result is 1 / (1 + e), or e / (1 + e) for negative x.
    (high, low), first, second = exp_pair(-abs(x), precision)
    negative = x < 0.0
    scale = first * second
    e, e_low = high * scale, low * scale
    total, total_low = fast_two_sum(1.0, e)
    numerator = select(negative, high, 1.0)
    numerator_low = select(negative, low, 0.0)
    quotient, rest = divide((numerator, numerator_low), (total, total_low + e_low))
    result = quotient + rest
    return select(negative, (result * first) * second, result)


def _short_sigmoid(x: Any) -> Any:
    """The same in two thirds of the time, at 1.97 ulp over all float32 arguments."""
    e = exp(-abs(x))
    total, rest = fast_two_sum(1.0, e)
    quotient = select(x < 0.0, e, 1.0) / total
    # By rights rest / total, but half of a unit in the last place need not be known well.
    return fma(-quotient, rest, quotient)


@elementary
def tanh(x: Any) -> Any:
    """The hyperbolic tangent; at most 2 ulp."""
    precision = precision_of(x)
    square = x * x
    near = fma(x * square, polynomial(square, precision.coefficients("TANH")), x)
    size = abs(x)
    largest = TANH_LARGEST[precision.suffix]
    size = select(size > largest, largest, size)
    e = scale(*exp_parts(size + size, precision))
    far = copysign(1.0 - 2.0 / (e + 1.0), x)
    near = select(x == 0.0, x, near)
    return select(abs(x) < TANH_SERIES_LIMIT, near, far)


def half_exp(size: Any, precision: Precision) -> tuple[Pair, Any, Any]:
    """(high, low), first, second with exp(size) / 2 = (high + low) first second, size >= 0."""
    size = clamp(size, 0.0, EXP_RANGE[precision.suffix][1] + 1.0)
    pair, first, second = exp_pair(size, precision)
    return pair, first * 0.5, second


@through_double
def sinh(x: Any) -> Any:
    """The hyperbolic sine; at most 2 ulp."""
    precision = precision_of(x)
    square = x * x
    near = fma(x * square, polynomial(square, precision.coefficients("SINH")), x)
    near = select(x == 0.0, x, near)
    size = abs(x)
    (high, low), first, second = half_exp(size, precision)
    # exp(-x) / 2 = 1/4 / (exp(x) / 2), in the scale of high.
    inverse = (0.25 / (first * second)) / ((first * second) * high)
    total, rest = fast_two_sum(high, -inverse)
    far = copysign(((total + (rest + low)) * first) * second, x)
    return select(size < 1.0, near, far)


@through_double
def cosh(x: Any) -> Any:
    """The hyperbolic cosine; at most 2 ulp."""
    precision = precision_of(x)
    (high, low), first, second = half_exp(abs(x), precision)
    inverse = (0.25 / (first * second)) / ((first * second) * high)
    total, rest = fast_two_sum(high, inverse)
    return ((total + (rest + low)) * first) * second
