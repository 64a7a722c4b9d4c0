"""sin, cos and tan, right for every argument however large.

x = n pi/2 + r with |r| <= pi/4. While n is below 2^20 (float32: 2^16) the reduction subtracts
n pi/2 in three parts by fused multiply-adds: the first subtraction is exact, and r comes out
as a pair. For larger x the bits of 2/pi that matter are cut from a table of 1280 bits, as by
Payne and Hanek: multiples of four quadrants drop out, and 192 bits times the mantissa leave
the quadrant and 137 bits of its fraction. That way costs some hundred instructions and is
entered only when a lane needs it; which way a lane takes depends on its own value alone.

source  Payne and Hanek 1983; Muller, Elementary Functions (3rd ed.), chapter 11;
        FDLIBM k_sin.c and k_cos.c for the arrangement of the polynomials
"""

from __future__ import annotations

import itertools
from typing import Any

from bedplate.kernel.language.conversions import bitcast, cast, constant
from bedplate.kernel.language.numbers import fma, mul_high
from bedplate.kernel.language.statements import var, when
from bedplate.kernel.language.vectors import any_of, select
from bedplate.kernel.maths.coefficients import HALF_PI_64, TWO_OVER_PI_BITS
from bedplate.kernel.maths.double_word import (
    Pair,
    divide,
    fast_two_sum,
    polynomial,
    two_product,
    two_sum,
)
from bedplate.kernel.maths.precision import (
    DOUBLE,
    Precision,
    elementary,
    like,
    precision_of,
    through_double,
)
from bedplate.kernel.types import f64, i64, u64

# Above, the reduction by subtraction would lose digits (measured against mpmath).
LARGEST_EASY = {"32": 2.0**16, "64": 2.0**20}
INFINITY = float("inf")


def reduce_quadrant(x: Any, precision: Precision) -> tuple[Any, Pair]:
    """(n mod 4 in the low bits, (r, rest)): x = n pi/2 + r + rest."""
    quadrant, (r, rest) = _subtract(x, precision)
    hard = abs(x) > LARGEST_EASY[precision.suffix]
    hard = hard | (x != x)
    quadrant_var, r_var, rest_var = var(quadrant), var(r), var(rest)
    with when(any_of(hard)):
        far_quadrant, (far, far_rest) = _multiply_bits(x, precision)
        quadrant_var.set(select(hard, far_quadrant, quadrant))
        r_var.set(select(hard, far, r))
        rest_var.set(select(hard, far_rest, rest))
    return quadrant_var.get(), (r_var.get(), rest_var.get())


def _subtract(x: Any, precision: Precision) -> tuple[Any, Pair]:
    first, second, third = precision.coefficients("HALF_PI")
    scaled = fma(x, precision.coefficients("TWO_OVER_PI")[0], precision.magic)
    n = scaled - precision.magic
    exact = fma(n, -first, x)
    # Near a multiple of pi/2 the two parts cancel: only the whole error of the sum will do.
    product, product_rest = two_product(n, -second)
    r, rest = two_sum(exact, product)
    rest = fma(n, -third, rest + product_rest)
    return bitcast(scaled, precision.integer_type), (r, rest)


def _multiply_bits(x: Any, precision: Precision) -> tuple[Any, Pair]:
    """The same from the bits of 2/pi; computed in float64, where float32 is exact."""
    wide = cast(x, f64) if precision is not DOUBLE else x
    quadrant, (r, rest) = _payne_hanek(wide)
    if precision is DOUBLE:
        return quadrant, (r, rest)
    kind = precision.float_type
    short = cast(r, kind)
    short_rest = cast((r - cast(short, f64)) + rest, kind)
    return cast(quadrant, precision.integer_type), (short, short_rest)


def _payne_hanek(x: Any) -> tuple[Any, Pair]:
    bits = bitcast(x, u64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000
    # |x| = mantissa 2^e, e = exponent - 1075; bits of 2/pi up to number e - 2 give whole turns.
    # The table has 40 zero bits in front, so bit number e - 1 stands at place e + 38.
    place = exponent - (1075 - 38)
    place = select(place > 1023, 0, place)
    high, middle, low = _window(place)
    low_product = mantissa * low
    carry = mul_high(mantissa, low)
    middle_product = mantissa * middle + carry
    carry = mul_high(mantissa, middle) + select(middle_product < carry, _one(carry), 0)
    high_product = mantissa * high + carry
    # Two bits of quadrant, then the fraction, read as a signed number around the nearest one.
    quadrant = bitcast((high_product + 2**61) >> 62, i64)
    fraction = (high_product << 2) | (middle_product >> 62)
    below = (middle_product << 2) | (low_product >> 62)
    r = _times_half_pi(_to_pair(bitcast(fraction, i64), below))
    negative = x < 0.0
    finite = abs(x) < INFINITY
    sign = select(negative, like(x, -1.0), 1.0)
    not_a_number = x - x  # NaN for infinities and NaN
    return select(negative, -quadrant, quadrant), (
        select(finite, r[0] * sign, not_a_number),
        select(finite, r[1] * sign, not_a_number),
    )


def _one(model: Any) -> Any:
    return constant(model.type, 1)


def _window(place: Any) -> tuple[Any, Any, Any]:
    """192 bits of the table from bit `place` on, as three words."""
    word, shift = place >> 6, place & 63
    words = [_pick(word, TWO_OVER_PI_BITS[i : i + 16]) for i in range(4)]
    parts = [(a << shift) | (b >> (64 - shift)) for a, b in itertools.pairwise(words)]
    return parts[0], parts[1], parts[2]


def _pick(index: Any, table: tuple[int, ...]) -> Any:
    """table[index] for 16 entries by a tree of selections."""
    level: list[Any] = [constant(index.type, entry) for entry in table]
    for bit in (1, 2, 4, 8):
        odd = (index & bit) != 0
        level = [select(odd, level[i + 1], level[i]) for i in range(0, len(level), 2)]
    return level[0]


def _to_pair(fraction: Any, below: Any) -> Pair:
    """fraction 2^-64 + below 2^-128 as a pair of floats, whatever cancelled."""
    first = cast(fraction >> 32, f64) * 2.0**-32
    second = cast(fraction & 0xFFFFFFFF, f64) * 2.0**-64
    third = cast(bitcast(below >> 32, i64), f64) * 2.0**-96
    fourth = cast(bitcast(below & 0xFFFFFFFF, i64), f64) * 2.0**-128
    high, low = fast_two_sum(first, second)
    return fast_two_sum(high, low + (third + fourth))


def _times_half_pi(pair: Pair) -> Pair:
    high, low = two_product(pair[0], HALF_PI_64[0])
    return high, low + fma(pair[0], HALF_PI_64[1], pair[1] * HALF_PI_64[0])


def sine_of_reduced(r: Any, rest: Any, precision: Precision) -> Any:
    square = r * r
    return r + fma(r * square, polynomial(square, precision.coefficients("SIN")), rest)


def cosine_of_reduced(r: Any, rest: Any, precision: Precision) -> Any:
    high, low = cosine_pair(r, rest, precision)
    return high + low


def cosine_pair(r: Any, rest: Any, precision: Precision) -> Pair:
    square = r * r
    half = 0.5 * square
    high, low = fast_two_sum(1.0, -half)
    series = square * polynomial(square, precision.coefficients("COS"))
    return high, low + fma(square, series, -(r * rest))


def by_quadrant(x: Any, turn: int) -> Any:
    """sin(x + turn pi/2)."""
    precision = precision_of(x)
    quadrant, (r, rest) = reduce_quadrant(x, precision)
    quadrant = quadrant + turn
    sine = sine_of_reduced(r, rest, precision)
    cosine = cosine_of_reduced(r, rest, precision)
    result = select((quadrant & 1) != 0, cosine, sine)
    sign_bit = (quadrant & 2) << (precision.mantissa_bits + SIGN_SHIFT[precision.suffix])
    kind = precision.integer_type
    return bitcast(bitcast(result, kind) ^ sign_bit, precision.float_type)


# Moves bit 1 to the sign, beyond the mantissa's width.
SIGN_SHIFT = {"32": 7, "64": 10}


@elementary
def sin(x: Any) -> Any:
    """The sine of x radians, however large; NaN at infinity; at most 2 ulp."""
    return select(x == 0.0, x, by_quadrant(x, 0))


@elementary
def cos(x: Any) -> Any:
    """The cosine of x radians, however large; NaN at infinity; at most 2 ulp."""
    return by_quadrant(x, 1)


@through_double
def tan(x: Any) -> Any:
    """The tangent of x radians, however large; NaN at infinity; at most 2 ulp."""
    precision = precision_of(x)
    quadrant, (r, rest) = reduce_quadrant(x, precision)
    square = r * r
    series = polynomial(square, precision.coefficients("SIN"))
    sine = fast_two_sum(r, fma(r * square, series, rest))
    cosine = fast_two_sum(*cosine_pair(r, rest, precision))
    odd = (quadrant & 1) != 0
    # tan(r + pi/2) = -cos(r) / sin(r)
    numerator = select(odd, -cosine[0], sine[0]), select(odd, -cosine[1], sine[1])
    denominator = select(odd, sine[0], cosine[0]), select(odd, sine[1], cosine[1])
    high, low = divide(numerator, denominator)
    return select(x == 0.0, x, high + low)
