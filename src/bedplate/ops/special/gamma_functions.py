"""The gamma function's kin: gammaln, digamma, polygamma, multigammaln, and Hurwitz's zeta.

Computed in float64 (see formula.py). Small arguments are moved to where a series holds by the
recurrence of each function, negative ones are reflected. The errors that the docstrings tell
are those found by tests/ops/test_special.py against mpmath, relative, in units of 2^-53.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS
from bedplate.errors import GradientError
from bedplate.graph.node import Attributes
from bedplate.ops.build import Value, is_index, promoted, sum_to
from bedplate.ops.elementwise import binary, emit_wide, in_float32, rule, widened
from bedplate.ops.pointwise.arithmetic import multiply, negative
from bedplate.ops.record import Op, apply, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import floats, mixed, rough
from bedplate.ops.special.formula import (
    World,
    emission_of,
    polynomial,
    reference_of,
    sin_cos_pi,
    special,
)

# lgamma(2 + z) / z for |z| <= 1/2: 1 - Euler's constant, then (-1)^k (zeta(k) - 1) / k,
# to a relative 3e-17
NEAR_TWO = (
    0.42278433509846713, 0.3224670334241132, -0.0673523010531981, 0.020580808427784546,
    -0.007385551028673986, 0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425,
    -0.00022315475845357939, 9.945751278180853e-05, -4.492623673813314e-05, 2.050721277567069e-05,
    -9.439488275268397e-06, 4.374866789907488e-06, -2.039215753801366e-06, 9.55141213040742e-07,
    -4.492469198764566e-07, 2.1207184805554665e-07, -1.0043224823968099e-07, 4.7698101693639804e-08,
    -2.2711094608943164e-08, 1.0838659214896955e-08, -5.183475041970047e-09, 2.4836745438024785e-09,
    -1.1921401405860912e-09, 5.731367241678862e-10,
)  # fmt: skip
# Stirling's series, from STIRLING_FROM on: B(2k) / (2k (2k - 1)), of x^(1 - 2k)
STIRLING = (
    0.08333333333333333, -0.002777777777777778, 0.0007936507936507937, -0.0005952380952380953,
    0.0008417508417508417, -0.0019175269175269176, 0.00641025641025641, -0.029550653594771242,
    0.17964437236883057, -1.3924322169059011,
)  # fmt: skip
STIRLING_FROM = 8.5
HALF_LOG_TWO_PI = 0.9189385332046728
# the series of digamma, from SHIFT on: -B(2k) / (2k), of x^(-2k)
DIGAMMA = (
    -0.08333333333333333, 0.008333333333333333, -0.003968253968253968, 0.004166666666666667,
    -0.007575757575757576, 0.021092796092796094, -0.08333333333333333, 0.4432598039215686,
)  # fmt: skip
# Euler's and Maclaurin's sum after SHIFT terms: B(2k) / (2k)!
ZETA = (
    0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07,
    2.08767569878681e-08, -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13,
    8.586062056277845e-15, -2.174868698558062e-16, 5.5090028283602295e-18, -1.3954464685812522e-19,
)  # fmt: skip
SHIFT = 10


def _gammaln(m: World, x: Any) -> Any:
    negative = x < 0
    y = m.where(negative, 1 - x, x)
    # into [1.5, 2.5]: up by one or two from below, down by up to six from above
    moved = m.minimum(y, STIRLING_FROM)
    tiny, small = moved < 0.5, moved < 1.5

    def down(start: Any, product: Any) -> Any:
        above = start > 2.5
        start = m.where(above, start - 1, start)
        return start, m.where(above, product * start, product)

    start, product = m.repeat(6, down, (moved, moved * 0 + 1))
    up = m.where(tiny, moved, moved - 1)
    z = m.where(small, up, start - 2)
    large = m.maximum(y, STIRLING_FROM)
    is_far = y > STIRLING_FROM
    logarithm = m.log(m.where(is_far, large, m.where(tiny, moved, product)))
    near = polynomial(NEAR_TWO, z) * z - m.log1p(m.where(small, up, 0.0))
    near = near + m.where(tiny, -logarithm, logarithm)
    inverse = 1 / large
    series = polynomial(STIRLING, inverse * inverse) * inverse + HALF_LOG_TWO_PI
    # log(x) - 1 before the product: no infinity where the result is finite
    far = (logarithm - 1) * (large - 0.5) + (series - 0.5)
    result = m.where(is_far, m.where(y == math.inf, y, far), near)
    sine, _ = sin_cos_pi(m, m.where(negative, x, 0.25))
    reflected = m.log(math.pi / abs(sine)) - result
    return m.where(negative, m.where(x == -math.inf, math.inf, reflected), result)


@in_float32
def gammaln_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = digamma(x) dx"""
    return (multiply(grad_out, digamma(inputs[0])),)


NEGATIVE = mixed(lambda r: [-r.integers(0, 4, (9,)) - r.uniform(0.2, 0.8, 9)], "negative")


@special(_gammaln, gammaln_gradient, (floats((37,), low=0.1, high=9), NEGATIVE, floats((0, 3))))
def gammaln(x: Value) -> Value:
    """The logarithm of the absolute value of the gamma function: y = log(|gamma(x)|).

    returns  inf at 0 and the negative integers; error 6 units, below 0 of 1 where |y| is smaller
    >>> import bedplate as bp
    >>> bp.special.gammaln(bp.tensor([1.0, 4.0, 0.0])).tolist()
    [0.0, 1.7917594909667969, inf]
    """


def lgamma(x: Value) -> Value:
    """`bp.special.gammaln` by PyTorch's other name.

    >>> import bedplate as bp
    >>> bp.lgamma(bp.tensor([4.0])).tolist()
    [1.7917594909667969]
    """
    return gammaln(x)


def _digamma(m: World, x: Any) -> Any:
    reflect = x < 0
    start = m.where(reflect, 1 - x, x)

    def up(start: Any, less: Any) -> Any:
        below = start < SHIFT
        return m.where(below, start + 1, start), m.where(below, less + 1 / start, less)

    start, less = m.repeat(SHIFT, up, (start, start * 0))
    square = 1 / (start * start)
    result = m.log(start) - 0.5 / start + polynomial(DIGAMMA, square) * square - less
    sine, cosine = sin_cos_pi(m, m.where(reflect, x, 0.25))
    reflected = m.where(sine == 0, math.nan, result - cosine * math.pi / sine)
    result = m.where(start == math.inf, math.inf, result)
    return m.where(reflect, reflected, m.where(x == 0, -1 / x, result))


@in_float32
def digamma_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = polygamma(1, x) dx"""
    return (multiply(grad_out, polygamma(1, inputs[0])),)


@special(_digamma, digamma_gradient, (floats((37,), low=0.1, high=9), NEGATIVE, floats((0, 3))))
def digamma(x: Value) -> Value:
    """The slope of the logarithm of the gamma function: y = gamma'(x) / gamma(x).

    returns  -inf at 0, inf at -0, NaN at the negative integers; error 12 units of y, or of 1
             where |y| is smaller
    >>> import bedplate as bp
    >>> bp.special.digamma(bp.tensor([1.0, 0.0])).tolist()
    [-0.5772156715393066, -inf]
    """


def psi(x: Value) -> Value:
    """`digamma` by SciPy's name.

    >>> import bedplate as bp
    >>> bp.special.psi(bp.tensor([1.0])).tolist()
    [-0.5772156715393066]
    """
    return digamma(x)


def _zeta(m: World, s: Any, q: Any) -> Any:
    """For q > 0: the first terms one by one, the rest as an integral with its corrections."""
    positive = m.where(q > 0, q, 1.0)
    exponent = positive * 0 - s

    def add(start: Any, total: Any) -> Any:
        return start + 1, total + m.pow(start, exponent)

    end, total = m.repeat(SHIFT, add, (positive, positive * 0))
    power = m.pow(end, exponent)
    square = 1 / (end * end)
    factor, terms = s, []
    for k, coefficient in enumerate(ZETA):
        terms.append(factor * coefficient)
        factor = factor * ((s + 2 * k + 1) * (s + 2 * k + 2))
    rest = end / (s - 1) + 0.5 + polynomial(terms, square) / end
    rest = m.where(power == 0, 0.0, power * rest)  # the corrections overflow for a large s
    total = m.where(q == math.inf, 0.0, total + rest)
    return m.where(q > 0, total, m.where(q == m.round(q), math.inf, q * math.nan))


def _zeta_of_values(m: World, s: Any, q: Any) -> Any:
    return m.where(s < 1, math.nan, m.where(s == 1, math.inf, _zeta(m, s, q)))


def zeta_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """dy = -s zeta(s + 1, q) dq"""
    s, q = inputs
    slope = multiply(_zeta_op(s + 1, q), negative(s))
    return None, sum_to(multiply(grad_out, slope), q.shape)


@binary(
    reference=reference_of(_zeta_of_values),
    emit=emission_of(_zeta_of_values),
    gradient=in_float32(zeta_gradient),
    samples=(
        # rough: that of s is not known
        rough(lambda r: [np.full((), 1.5), r.uniform(0.3, 9, 37)], "one s"),
        rough(lambda r: [np.full((3, 1), 4.0), r.uniform(0.3, 90, 7)], "rows"),
        rough(lambda r: [np.full((), 2.0), r.random((0, 3))], "none"),
    ),
    dtypes=FLOATS,
    promote="float",
)
def _zeta_op(s: Value, q: Value) -> Value:
    """Hurwitz's zeta function of two values."""


def zeta(s: Value, q: Value) -> Value:
    """Hurwitz's zeta function: y = the sum over k >= 0 of (q + k)^-s.

    s        a number or floats; at 1 the sum is inf, below NaN
    q        floats, broadcasts with s; positive; at 0 and the negative integers the sum is inf,
             elsewhere below 0 it is NaN
    returns  error 8 units; q has a gradient, s has none
    raises   GradientError for an s that requires a gradient
    source   Euler's and Maclaurin's formula
    >>> import bedplate as bp
    >>> bp.special.zeta(2, bp.tensor([1.0])).tolist()
    [1.644934058189392]
    """
    if getattr(s, "requires_grad", False):
        refuse(GradientError, "zeta", "the slope along s is not known", {"s": s},
               "give s.detach() for a value without history")  # fmt: skip
    return _zeta_op(s, q)


def cotangent_slope(n: int) -> list[float]:
    """The n-th derivative of cot(t) as a polynomial of cot(t), lowest power first."""
    powers = [0.0, 1.0]
    for _ in range(n):
        slopes = [k * powers[k] for k in range(1, len(powers))]
        powers = [0.0] * (len(slopes) + 2)
        for k, slope in enumerate(slopes):  # times -(1 + cot^2)
            powers[k] -= slope
            powers[k + 2] -= slope
    return powers


def _polygamma(m: World, x: Any, *, n: int) -> Any:
    reflect = x < 0
    sign = -1.0 if n % 2 == 0 else 1.0
    y = m.where(reflect, 1 - x, x)
    result = _zeta(m, n + 1.0, y) * (sign * math.gamma(n + 1.0))
    sine, cosine = sin_cos_pi(m, m.where(reflect, x, 0.25))
    slope = polynomial(cotangent_slope(n), cosine / sine) * math.pi ** (n + 1)
    reflected = m.where(sine == 0, math.inf if n % 2 else math.nan, -result * sign - slope)
    return m.where(reflect, reflected, m.where(x == 0, math.inf * sign, result))


def polygamma_gradient(grad_out: Value, inputs: Any, output: Value, *, n: int) -> tuple[Any]:
    """dy = polygamma(n + 1, x) dx"""
    return (multiply(grad_out, apply(POLYGAMMA, inputs, {"n": n + 1})),)


def _polygamma_emit(dtype: Any, values: Any, attributes: Attributes) -> Any:
    emit = functools.partial(emission_of(_polygamma), **attributes)
    return emit_wide(emit, dtype, values, attributes)


POLYGAMMA = register(
    Op(
        "polygamma",
        "elementwise",
        rule("polygamma", FLOATS, None),
        reference=widened(reference_of(_polygamma)),
        gradient=in_float32(polygamma_gradient),
        emit=_polygamma_emit,
        promote="float",
        dtypes=FLOATS,
        samples=(
            floats((37,), low=0.3, high=9, n=1),
            floats((7,), low=0.3, high=9, n=3),
            mixed(lambda r: [-r.integers(0, 4, (9,)) - r.uniform(0.2, 0.8, 9)], "negative", n=2),
            floats((0, 3), n=1),
        ),
        doc="The n-th derivative of digamma.",
    )
)


MOST_DERIVATIVES = 168  # and one or two more for gradients: 170! is the last factorial in float64


def polygamma(n: int, x: Value) -> Value:
    """The n-th derivative of `digamma`: y = (-1)^(n + 1) n! zeta(n + 1, x).

    n        not negative; 0 gives digamma
    x        floats; at 0 and the negative integers inf if n is odd, and for even n -inf at 0 and
             NaN below
    returns  error 8 units, below 0 it is 30, and of 1 where |y| is smaller
    raises   ValueError for an n that is no integer from 0 to 168: above, n! is no number
    >>> import bedplate as bp
    >>> bp.special.polygamma(1, bp.tensor([1.0])).tolist()
    [1.644934058189392]
    """
    if not is_index(n) or not 0 <= n <= MOST_DERIVATIVES:
        raise ValueError(f"polygamma: n must be an integer from 0 to {MOST_DERIVATIVES}, got {n!r}")
    if n == 0:
        return digamma(x)
    (x,) = promoted("polygamma", (x,), to_float=True)
    return apply(POLYGAMMA, (x,), {"n": int(n)})


# of multigammaln, each of which is an op of the graph
MOST_DIMENSIONS = 10_000


def multigammaln(x: Value, p: int) -> Value:
    """The logarithm of the gamma function of p dimensions.

    y = p (p - 1) / 4 log(pi) + the sum over j < p of gammaln(x - j / 2)

    x        floats above (p - 1) / 2
    p        from 1 to 10000: it takes p gammaln
    raises   ValueError for another p
    >>> import bedplate as bp
    >>> bp.special.multigammaln(bp.tensor([4.0]), 1).tolist()
    [1.7917594909667969]
    """
    if not 1 <= p <= MOST_DIMENSIONS:
        raise ValueError(f"multigammaln: p must be from 1 to {MOST_DIMENSIONS}, got {p}")
    (x,) = promoted("multigammaln", (x,), to_float=True)
    total = gammaln(x)
    for j in range(1, p):
        total = total + gammaln(x - j / 2)
    return total + p * (p - 1) / 4 * math.log(math.pi)
