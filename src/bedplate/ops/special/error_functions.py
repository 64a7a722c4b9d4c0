"""The error function's kin: erfc, erfcx, erfinv, and the normal distribution ndtr, log_ndtr, ndtri.

Computed in float64 (see formula.py). The errors that the docstrings tell are those found by
tests/ops/test_special.py against mpmath, relative, in units of 2^-53.
"""

from __future__ import annotations

import math
from typing import Any

from bedplate.ops.build import Value, promoted
from bedplate.ops.elementwise import in_float32
from bedplate.ops.pointwise.arithmetic import add, divide, multiply, negative, subtract
from bedplate.ops.pointwise.comparison import greater
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import exp
from bedplate.ops.pointwise.extremes import maximum
from bedplate.ops.samples import floats, one, rough
from bedplate.ops.special.formula import World, exp_square, polynomial, ratio, special
from bedplate.ops.special.normal_quantile import (
    CENTRE,
    CENTRE_SQUARE,
    CENTRE_WIDTH,
    FAR,
    FAR_SHIFT,
    NEAR,
    NEAR_SHIFT,
    normal_quantile,
)

SQRT_HALF = math.sqrt(0.5)
SLOPE_AT_0 = 2 / math.sqrt(math.pi)  # of erf
DENSITY_AT_0 = 1 / math.sqrt(2 * math.pi)  # of the normal distribution
# from here on erfcx is its asymptotic series, whose terms at 10 fall below 1e-17
ERFCX_FAR = 10.0
ERFCX_TERMS = [1.0]
for _k in range(1, 14):
    ERFCX_TERMS.append(-ERFCX_TERMS[-1] * (2 * _k - 1))  # of (1 / (2 x^2))^k


@in_float32
def erfc_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = -2 / sqrt(pi) exp(-x^2) dx"""
    (x,) = inputs
    return (multiply(grad_out, multiply(exp(negative(multiply(x, x))), -SLOPE_AT_0)),)


@special(lambda m, x: m.erfc(x), erfc_gradient, one())
def erfc(x: Value) -> Value:
    """The complement of the error function: y = 1 - erf(x), exact also where it is small.

    returns  error 3 units
    >>> import bedplate as bp
    >>> bp.erfc(bp.tensor([0.0, 100.0])).tolist()
    [1.0, 0.0]
    >>> bp.special.erfc(bp.tensor([0.0])).tolist()
    [1.0]
    """


def _erfcx(m: World, x: Any) -> Any:
    near = m.minimum(m.maximum(x, -30.0), ERFCX_FAR)
    far = m.maximum(x, ERFCX_FAR)
    inverse = 1 / far
    series = polynomial(ERFCX_TERMS, inverse * inverse * 0.5) * inverse / math.sqrt(math.pi)
    return m.where(x > ERFCX_FAR, series, exp_square(m, near) * m.erfc(near))


def _erfcx_slope_far(x: Value) -> Value:
    """The derivative of the series: where 2 x y and 2 / sqrt(pi) would cancel."""
    inverse = divide(1.0, maximum(x, ERFCX_FAR))
    square = multiply(inverse, inverse)
    total = multiply(square, 0.0)
    for power in reversed(range(len(ERFCX_TERMS))):
        total = add(multiply(total, multiply(square, 0.5)), ERFCX_TERMS[power] * (2 * power + 1))
    return multiply(multiply(total, square), -1 / math.sqrt(math.pi))


@in_float32
def erfcx_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = (2 x y - 2 / sqrt(pi)) dx, for large x by the derivative of its series"""
    (x,) = inputs
    # from x: of an output that was narrowed too little is left of the difference
    near = subtract(multiply(multiply(x, erfcx(x)), 2), SLOPE_AT_0)
    slope = where(greater(x, ERFCX_FAR), _erfcx_slope_far(x), near)
    return (multiply(grad_out, slope),)


@special(_erfcx, erfcx_gradient, (*one(), floats((7,), low=8, high=30)))
def erfcx(x: Value) -> Value:
    """The complement of the error function, scaled: y = exp(x^2) erfc(x).

    returns  falls like 1 / (sqrt(pi) x); inf from about -26.6 down (float32: -9.4); error 5 units
    >>> import bedplate as bp
    >>> bp.special.erfcx(bp.tensor([0.0, 1e30])).tolist()
    [1.0, 5.641895633240546e-31]
    """


def _erfinv(m: World, x: Any) -> Any:
    """The normal quantile of (1 + x) / 2 over sqrt(2), without the rounding of 1 + x."""
    half = x * 0.5
    centre = half * ratio(CENTRE, CENTRE_SQUARE - half * half)
    r = m.sqrt(-m.log((1 - abs(x)) * 0.5))
    tail = m.where(r <= FAR_SHIFT, ratio(NEAR, r - NEAR_SHIFT), ratio(FAR, r - FAR_SHIFT))
    tail = m.where(r == math.inf, math.inf, tail)
    tail = m.where(x < 0, -tail, tail)
    return m.where(abs(half) <= CENTRE_WIDTH, centre, tail) * SQRT_HALF


@in_float32
def erfinv_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = sqrt(pi) / 2 exp(y^2) dx"""
    slope = multiply(exp(multiply(output, output)), 1 / SLOPE_AT_0)
    return (multiply(grad_out, slope),)


@special(
    _erfinv,
    erfinv_gradient,
    (*one(-0.95, 0.95), rough(lambda r: [1 - 10.0 ** r.uniform(-15, -2, 19)], "near 1")),
)
def erfinv(x: Value) -> Value:
    """The inverse of the error function: erf(y) = x; -inf at -1, inf at 1, NaN beyond.

    returns  error 5 units
    source   Wichura 1988, Applied Statistics 37, algorithm AS 241
    >>> import bedplate as bp
    >>> bp.special.erfinv(bp.tensor([0.0, 1.0])).tolist()
    [0.0, inf]
    """


@in_float32
def ndtr_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = exp(-x^2 / 2) / sqrt(2 pi) dx"""
    (x,) = inputs
    return (multiply(grad_out, _density(x)),)


def _density(x: Value) -> Value:
    return multiply(exp(multiply(multiply(x, x), -0.5)), DENSITY_AT_0)


def _half_tail(m: World, x: Any) -> Any:
    """1 - ndtr(x) for x from -1 on: by erfcx, which is not so steep that a rounding would show."""
    bounded = m.minimum(x, 40.0)
    return _erfcx(m, x * SQRT_HALF) * 0.5 * exp_square(m, bounded, -0.5)


def _ndtr(m: World, x: Any) -> Any:
    tail = _half_tail(m, abs(x))
    return m.where(x < 0, tail, 1 - tail)


@special(_ndtr, ndtr_gradient, (floats((37,)), floats((9,), low=-9, high=-1), floats((0, 3))))
def ndtr(x: Value) -> Value:
    """How likely a standard normal number lies below: y = (1 + erf(x / sqrt(2))) / 2.

    returns  error 7 units
    >>> import bedplate as bp
    >>> bp.special.ndtr(bp.tensor([0.0, 100.0])).tolist()
    [0.5, 1.0]
    """


def _log_ndtr(m: World, x: Any) -> Any:
    far = x < -1
    scaled = _erfcx(m, m.where(far, -x, x) * SQRT_HALF) * 0.5
    bounded = m.minimum(m.maximum(x, -1.0), 40.0)
    near = m.log1p(-scaled * exp_square(m, bounded, -0.5))
    return m.where(far, m.log(scaled) - x * x * 0.5, near)


@in_float32
def log_ndtr_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = density / ndtr(x) dx, below 0 as sqrt(2 / pi) / erfcx(-x / sqrt(2))"""
    (x,) = inputs
    positive = greater(x, 0)
    above, below = where(positive, x, 0.0), where(positive, 0.0, x)
    tail = divide(2 * DENSITY_AT_0, erfcx(multiply(below, -SQRT_HALF)))
    return (multiply(grad_out, where(positive, divide(_density(above), ndtr(above)), tail)),)


@special(
    _log_ndtr, log_ndtr_gradient, (floats((37,)), floats((7,), low=-40, high=-2), floats((0, 3)))
)
def log_ndtr(x: Value) -> Value:
    """The logarithm of `ndtr`, also where that is 0: about -x^2 / 2 far below.

    returns  error 7 units
    >>> import bedplate as bp
    >>> bp.special.log_ndtr(bp.tensor([100.0, -1e5])).tolist()
    [-0.0, -5000000000.0]
    """


def ndtri(x: Value) -> Value:
    """The inverse of `ndtr`: the value below which a normal number lies with probability x.

    x        floats in [0, 1]; 0 gives -inf, 1 gives inf, others NaN
    source   Wichura 1988, Applied Statistics 37, algorithm AS 241
    >>> import bedplate as bp
    >>> bp.special.ndtri(bp.tensor([0.5, 0.0])).tolist()
    [0.0, -inf]
    """
    (x,) = promoted("ndtri", (x,), to_float=True)
    return normal_quantile(x)
