"""Modified Bessel functions of the first kind, i0 and i1, plain and scaled, and sinc.

Up to 20 the power series, whose terms are all positive; beyond, the asymptotic series. Computed
in float64 (see formula.py). The errors that the docstrings tell are those found by
tests/ops/test_special.py against mpmath, relative, in units of 2^-53.
"""

from __future__ import annotations

import math
from typing import Any

from bedplate.ops.build import Value
from bedplate.ops.elementwise import in_float32
from bedplate.ops.pointwise.arithmetic import abs_, divide, multiply, sign, subtract
from bedplate.ops.pointwise.comparison import equal, less
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.rounding import round_
from bedplate.ops.pointwise.trigonometry import cos
from bedplate.ops.samples import floats, one
from bedplate.ops.special.formula import World, polynomial, sin_cos_pi, special

FAR = 20.0
# of (x^2 / 4)^k: 1 / (k! (k + order)!), until the terms at 20 fall below 1e-17 of the sum
POWERS = [
    [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(44)] for order in (0, 1)
]
# of (1 / x)^k: the product over j <= k of ((2 j - 1)^2 - 4 order^2) / (8 j)
ASYMPTOTIC = []
for _order in (0, 1):
    _terms = [1.0]
    for _j in range(1, 27):
        _terms.append(_terms[-1] * ((2 * _j - 1) ** 2 - 4 * _order**2) / (8 * _j))
    ASYMPTOTIC.append(_terms)
# from here on the slope of sinc is a difference of like numbers; below it is a series in x^2
SINC_NEAR = 0.5
SINC_SLOPE = [
    (-1.0) ** k * math.pi ** (2 * k) * 2 * k / math.factorial(2 * k + 1) for k in range(1, 13)
]


def _scaled(m: World, x: Any, order: int) -> Any:
    """exp(-|x|) i(x), for |x|."""
    size = abs(x)
    near = m.minimum(size, FAR)
    series = polynomial(POWERS[order], near * near * 0.25) * m.exp(-near)
    if order:
        series = series * near * 0.5
    far = m.maximum(size, FAR)
    tail = polynomial(ASYMPTOTIC[order], 1 / far) / (m.sqrt(far) * math.sqrt(2 * math.pi))
    return m.where(size > FAR, m.where(size == math.inf, 0.0, tail), series)


def _plain(m: World, x: Any, order: int) -> Any:
    # in two halves, so that exp(x) does not overflow before the result does
    half = m.exp(abs(x) * 0.5)
    result = _scaled(m, x, order) * half * half
    return m.where(abs(x) == math.inf, math.inf, result)


def _odd(m: World, x: Any, y: Any) -> Any:
    return m.where(x < 0, -y, m.where(x == 0, x, y))


USUAL = (*one(), floats((7,), low=15, high=30), floats((5,), low=-30, high=-15))


@in_float32
def i0_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = i1(x) dx"""
    return (multiply(grad_out, i1(inputs[0])),)


@special(lambda m, x: _plain(m, x, 0), i0_gradient, one())
def i0(x: Value) -> Value:
    """The modified Bessel function of order 0: y'' + y' / x = y with y(0) = 1.

    returns  inf from about 714 on; error 12 units
    >>> import bedplate as bp
    >>> bp.special.i0(bp.tensor([0.0, 1.0])).tolist()
    [1.0, 1.2660658359527588]
    """


@in_float32
def i1_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = (i0(x) - y / x) dx, 1 / 2 at 0"""
    (x,) = inputs
    at_0 = equal(x, 0)
    slope = subtract(i0(x), divide(i1(x), where(at_0, 1.0, x)))
    return (multiply(grad_out, where(at_0, 0.5, slope)),)


@special(lambda m, x: _odd(m, x, _plain(m, x, 1)), i1_gradient, one())
def i1(x: Value) -> Value:
    """The modified Bessel function of order 1: the slope of `i0`.

    returns  inf from about 714 on, -inf below -714; error 12 units
    >>> import bedplate as bp
    >>> bp.special.i1(bp.tensor([0.0, 1.0])).tolist()
    [0.0, 0.5651590824127197]
    """


@in_float32
def i0e_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = (i1e(x) - sign(x) y) dx"""
    (x,) = inputs
    # from x: of an output that was narrowed too little is left of the difference
    return (multiply(grad_out, subtract(i1e(x), multiply(sign(x), i0e(x)))),)


@special(lambda m, x: _scaled(m, x, 0), i0e_gradient, USUAL)
def i0e(x: Value) -> Value:
    """The modified Bessel function of order 0, scaled: y = exp(-|x|) i0(x).

    returns  error 12 units; falls like 1 / sqrt(2 pi x)
    >>> import bedplate as bp
    >>> bp.special.i0e(bp.tensor([0.0, 1e4])).tolist()
    [1.0, 0.003989472519606352]
    """


@in_float32
def i1e_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = (i0e(x) - (sign(x) + 1 / x) y) dx, 1 / 2 at 0"""
    (x,) = inputs
    at_0 = equal(x, 0)
    rate = sign(x) + divide(1.0, where(at_0, 1.0, x))
    slope = subtract(i0e(x), multiply(rate, i1e(x)))
    return (multiply(grad_out, where(at_0, 0.5, slope)),)


@special(lambda m, x: _odd(m, x, _scaled(m, x, 1)), i1e_gradient, USUAL)
def i1e(x: Value) -> Value:
    """The modified Bessel function of order 1, scaled: y = exp(-|x|) i1(x).

    returns  error 12 units
    >>> import bedplate as bp
    >>> bp.special.i1e(bp.tensor([0.0, 1e4])).tolist()
    [0.0, 0.003989273216575384]
    """


def _sinc(m: World, x: Any) -> Any:
    sine, _ = sin_cos_pi(m, x)
    nearest = m.round(x)
    odd = nearest - 2 * m.round(nearest * 0.5)  # 0, or +-1 for an odd integer
    signed = m.where(odd == 0, sine, -sine)
    safe = m.where(x == 0, 1.0, x)
    whole = (sine == 0) | (abs(x) == math.inf)
    return m.where(x == 0, 1.0, m.where(whole, 0.0, signed / (safe * math.pi)))


@in_float32
def sinc_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = (cos(pi x) - y) / x dx; near 0 by its series"""
    (x,) = inputs
    near = less(abs_(x), SINC_NEAR)
    small, large = where(near, x, 0.0), where(near, 1.0, x)
    turn = subtract(large, multiply(round_(multiply(large, 0.5)), 2))  # in [-1, 1]
    far = divide(subtract(cos(multiply(turn, math.pi)), where(near, 1.0, sinc(x))), large)
    series = multiply(polynomial(SINC_SLOPE, multiply(small, small)), small)
    return (multiply(grad_out, where(near, series, far)),)


@special(
    _sinc,
    sinc_gradient,
    (*one(), floats((9,), low=-9, high=9), floats((5,), low=-1e-3, high=1e-3)),
)
def sinc(x: Value) -> Value:
    """The transform of a window: y = sin(pi x) / (pi x), 1 at 0, and exactly 0 at integers.

    returns  error 3 units
    also     bp.sinc(x)
    >>> import bedplate as bp
    >>> bp.special.sinc(bp.tensor([0.0, 0.5, 3.0])).tolist()
    [1.0, 0.6366197466850281, 0.0]
    """
