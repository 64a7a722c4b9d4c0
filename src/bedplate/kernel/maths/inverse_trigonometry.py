"""asin, acos, atan and atan2.

atan2(y, x) reduces to one quotient t with |t| <= 1/2: with a = min(|x|, |y|) and b = max of
them, t = a / b, or t = (a - b) / (a + b) beyond a = b/2, where atan(a/b) = pi/4 + atan(t).
The quotient is kept as a pair. asin and acos take x itself up to 1/2; beyond, they use
asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)), the root again as a pair.

source  FDLIBM e_asin.c, e_acos.c and s_atan.c for the reductions
"""

from __future__ import annotations

from typing import Any

from bedplate.kernel.language.numbers import copysign, fma, sqrt
from bedplate.kernel.language.vectors import select
from bedplate.kernel.maths.coefficients import ASIN_64, ATAN_64, HALF_PI_64
from bedplate.kernel.maths.double_word import Pair, divide, fast_two_sum, polynomial, two_sum
from bedplate.kernel.maths.precision import like, through_double

INFINITY = float("inf")
NAN = float("nan")


def _arc_sine(t: Any, rest: Any) -> Pair:
    """asin(t + rest) for |t| <= 1/2 (and acos's half angle)."""
    square = t * t
    return t, fma(t * square, polynomial(square, ASIN_64), rest)


def _half_angle(size: Any) -> Pair:
    """asin(sqrt((1 - size) / 2)) as a pair, for 1/2 <= size <= 1."""
    z = fma(size, -0.5, 0.5)
    root = sqrt(z)
    rest = select(root > 0.0, fma(-root, root, z) / (root + root), 0.0)
    return _arc_sine(root, rest)


@through_double
def asin(x: Any) -> Any:
    """The arc sine, in [-pi/2, pi/2]; NaN beyond 1; at most 2 ulp."""
    size = abs(x)
    held = select(size <= 1.0, size, 1.0)
    near, near_rest = _arc_sine(held, 0.0)
    root, root_rest = _half_angle(held)
    high, low = fast_two_sum(HALF_PI_64[0], -2.0 * root)
    far = high + (low + fma(root_rest, -2.0, HALF_PI_64[1]))
    result = copysign(select(size < 0.5, near + near_rest, far), x)
    return select(size <= 1.0, result, x * NAN)


@through_double
def acos(x: Any) -> Any:
    """The arc cosine, in [0, pi]; NaN beyond 1; at most 2 ulp."""
    size = abs(x)
    held = select(size <= 1.0, size, 1.0)
    inner, inner_rest = _arc_sine(select(held < 0.5, x, 0.0), 0.0)
    high, low = fast_two_sum(HALF_PI_64[0], -inner)
    near = high + ((low + HALF_PI_64[1]) - inner_rest)
    root, root_rest = _half_angle(held)
    positive = 2.0 * (root + root_rest)
    high, low = fast_two_sum(2.0 * HALF_PI_64[0], -2.0 * root)
    negative = high + (low + fma(root_rest, -2.0, 2.0 * HALF_PI_64[1]))
    result = select(size < 0.5, near, select(x > 0.0, positive, negative))
    return select(size <= 1.0, result, x * NAN)


def _arc_tangent(small: Any, large: Any) -> Pair:
    """atan(small / large) as a pair, for 0 <= small <= large, large > 0."""
    beyond = small > 0.5 * large
    total, total_rest = two_sum(large, small)
    numerator = select(beyond, small - large, small)
    denominator = select(beyond, total, large)
    rest = select(beyond, total_rest, 0.0)
    t, t_rest = divide((numerator, like(numerator, 0.0)), (denominator, rest))
    square = t * t
    series = fma(t * square, polynomial(square, ATAN_64), t_rest)
    offset = select(beyond, like(t, 0.5 * HALF_PI_64[0]), 0.0)
    offset_rest = select(beyond, like(t, 0.5 * HALF_PI_64[1]), 0.0)
    high, low = fast_two_sum(offset, t)
    return high, low + (series + offset_rest)


@through_double
def atan(x: Any) -> Any:
    """The arc tangent, in [-pi/2, pi/2]; at most 2 ulp."""
    size = abs(x)
    swap = size > 1.0
    held = select(size > 2.0**100, 2.0**100, size)
    high, low = _arc_tangent(select(swap, 1.0, held), select(swap, held, 1.0))
    from_right, rest = fast_two_sum(HALF_PI_64[0], -high)
    high = select(swap, from_right, high)
    low = select(swap, rest + (HALF_PI_64[1] - low), low)
    result = select(size < 2.0**-30, fma(size * size, size * (-1.0 / 3.0), size), high + low)
    return copysign(result, x)


def _same_scale(y: Any, x: Any) -> tuple[Any, Any]:
    """|y| and |x| scaled alike, so that sums neither overflow nor lose bits; infinities as 1."""
    y, x = abs(y), abs(x)
    infinite = (y == INFINITY) | (x == INFINITY)
    y_at_infinity = select(y == INFINITY, like(x, 1.0), 0.0)
    largest = select(y > x, y, x)
    scale = select(largest > 2.0**500, 2.0**-500, like(x, 1.0))
    scale = select(largest < 2.0**-400, 2.0**500, scale)
    y_scaled, x_scaled = y * scale, x * scale
    x_at_infinity = select(x == INFINITY, like(y, 1.0), 0.0)
    return select(infinite, y_at_infinity, y_scaled), select(infinite, x_at_infinity, x_scaled)


@through_double
def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), in [-pi, pi], by the quadrants of C's atan2; at most 2 ulp."""
    tall, wide = _same_scale(y, x)
    swap = tall > wide
    small, large = select(swap, wide, tall), select(swap, tall, wide)
    zero = large == 0.0
    high, low = _arc_tangent(small, select(zero, 1.0, large))
    from_up, rest = fast_two_sum(HALF_PI_64[0], -high)
    high, low = (
        select(swap, from_up, high),
        select(swap, rest + (HALF_PI_64[1] - low), low),
    )
    behind = copysign(like(high, 1.0), x) < 0.0
    from_left, rest = fast_two_sum(2.0 * HALF_PI_64[0], -high)
    high = select(behind, from_left, high)
    low = select(behind, rest + (2.0 * HALF_PI_64[1] - low), low)
    result = copysign(high + low, y)
    return select((x != x) | (y != y), x + y, result)
