"""erf and erfc.

Up to |x| = 1, erf(x) = x + x ERF(x^2). Beyond, erf is 1 - erfc:
float64  erfc(x) = exp(-x^2) ERFCX(t) / (1 + 2 x) with t = (x - 4) / (x + 4), where x^2 and all
         that multiplies are pairs, so that erfc keeps its digits down to the smallest numbers.
float32  erf takes erfc(x) = 2^(x ERFC_LOG(x)), whose error shrinks beside 1; erfc itself is
         computed in float64. gelu needs 1 - Phi beside 1 only, so that one such formula is
         enough for all arguments: 24 instructions where erf takes 37.

source  Shepherd and Laframboise 1981 for the mapping of the half line to t
"""

from __future__ import annotations

from typing import Any

from bedplate.kernel.language.numbers import copysign, fma, raw_max
from bedplate.kernel.language.vectors import select
from bedplate.kernel.maths.coefficients import ERF_64, ERFCX_64
from bedplate.kernel.maths.double_word import (
    divide,
    fast_two_sum,
    multiply,
    polynomial,
    two_product,
    two_sum,
)
from bedplate.kernel.maths.exponential import exp2_flushed, exp_pair
from bedplate.kernel.maths.precision import (
    DOUBLE,
    SINGLE,
    elementary,
    like,
    precision_of,
    through_double,
)

# From here on erf rounds to 1, and erfc to 0.
ERF_LARGEST = {"32": 4.0, "64": 6.0}
ERFC_LARGEST = 27.5
# From here on 1 - Phi(x) times x is less than a half unit of x in the last place.
NORMAL_LARGEST = 5.5
SQRT_HALF = 0.5**0.5
# Below minus this, gelu is 0 in float64 too, also where x is infinite.
GELU_FLAT = 40.0


@elementary
def erf(x: Any) -> Any:
    """The error function; at most 2 ulp."""
    precision = precision_of(x)
    square = x * x
    near = fma(x, polynomial(square, precision.coefficients("ERF")), x)
    near = select(x == 0.0, x, near)
    size = abs(x)
    largest = ERF_LARGEST[precision.suffix]
    held = select(size > largest, largest, size)
    if precision is SINGLE:
        complement = exp2_flushed(held * polynomial(held, precision.coefficients("ERFC_LOG")))
    else:
        complement = _complement(held)
    return select(size < 1.0, near, copysign(1.0 - complement, x))


@through_double
def erfc(x: Any) -> Any:
    """1 - erf(x) without cancellation; at most 2 ulp, down to the smallest numbers."""
    size = abs(x)
    held = select(size > ERFC_LARGEST, ERFC_LARGEST, size)
    complement = _complement(held)
    far = select(x < 0.0, 2.0 - complement, complement)
    # Near 0 the error of t would show.
    near = 1.0 - fma(x, polynomial(x * x, ERF_64), x)
    return select(size < 0.5, near, far)


@elementary
def gelu(x: Any) -> Any:
    """x Phi(x) = max(x, 0) - |x| (1 - Phi(|x|)), Phi the normal distribution.

    At most 2 ulp for x >= 0; below, where it is a small difference, |x| 2^-24 is left.
    """
    precision = precision_of(x)
    if precision is not SINGLE:
        x = select(x < -GELU_FLAT, -GELU_FLAT, x)
        return x * 0.5 * (1.0 + erf(x * SQRT_HALF))
    size = abs(x)
    held = select(size > NORMAL_LARGEST, NORMAL_LARGEST, size)
    series = polynomial(held, precision.coefficients("NORMAL_TAIL_LOG"))
    tail = exp2_flushed(fma(held, series, -1.0))
    tail = select(size > NORMAL_LARGEST, 0.0, tail)
    return fma(-held, tail, raw_max(0.0, x))


def _complement(x: Any) -> Any:
    """erfc(x) for 0 <= x <= ERFC_LARGEST, NaN for NaN."""
    square, square_rest = two_product(x, x)
    power, first, second = exp_pair(-square, DOUBLE, -square_rest)
    t = (x - 4.0) / (x + 4.0)
    series = fast_two_sum(like(x, ERFCX_64[0]), t * polynomial(t, ERFCX_64[1:]))
    scaled = divide(series, two_sum(x + x, 1.0))
    high, low = multiply(power, scaled)
    return ((high + low) * first) * second
