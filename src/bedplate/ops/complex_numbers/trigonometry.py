"""Trigonometric and hyperbolic functions of complex numbers, and their inverses: their forms.

The hyperbolic ones are written out; the others are theirs turned by a quarter: sin z = -i sinh iz.
Since sinh, tanh, asinh and atanh are odd and turn with the conjugate, that is to exchange the
parts before and after. Branch cuts and the values at zeros, infinities and NaN are those of C99,
Annex G, and of the Array API. Errors are relative to |y|, in units of its last place, for parts up
to 100; the tests measure them.
"""

from __future__ import annotations

import math
from typing import Any

from bedplate.ops.build import number
from bedplate.ops.complex_numbers.arithmetic import chosen, isinf, largest
from bedplate.ops.complex_numbers.exponential import (
    LN2,
    SHIFT,
    SPLIT,
    bits,
    log_size,
    sqrt_,
)
from bedplate.ops.complex_numbers.form import Pair, complex_form
from bedplate.ops.pointwise import comparison, trigonometry
from bedplate.ops.pointwise.arithmetic import add, divide, multiply, negative, subtract
from bedplate.ops.pointwise.comparison import equal, logical_and, logical_not, logical_or
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import exp, log, log1p, sqrt
from bedplate.ops.pointwise.floats import copysign, hypot
from bedplate.ops.pointwise.trigonometry import asinh, atan2, cos, cosh, sin, sinh, tan


def turned(z: Pair) -> Pair:
    """y + ix: times i, and the conjugate."""
    return Pair(z.im, z.re)


def _large(z: Pair) -> Any:
    """Whether 1 + z^2 is z^2 to all digits."""
    return logical_or(largest(z) > 2.0 ** bits(z.re), isinf(z))


def _wave(x: Any, growth: Any, angle: Any, is_far: Any) -> Any:
    """growth(x) times `angle`, also where growth(x) = +-e^|x| / 2 overflows and this does not."""
    width = x.dtype.itemsize
    shift = SHIFT[width]
    near = multiply(growth(where(is_far, number(x, 0.0), x)), angle)
    size = multiply(exp(subtract(where(is_far, abs(x), number(x, shift)), shift)), angle)
    far = multiply(size, math.exp(shift) / 2)
    far = where(x < 0, negative(far), far) if growth is sinh else far
    return where(is_far, far, near)


def _unbounded(z: Pair) -> Any:
    """Where the angle is lost and the size is 0 or infinite: one part is known all the same."""
    lost = logical_not(comparison.isfinite(z.im))
    return logical_and(lost, logical_or(equal(z.re, 0.0), comparison.isinf(z.re)))


@complex_form(trigonometry.sinh)
def sinh_(z: Pair) -> Pair:
    """sinh x cos y + i cosh x sin y; at most 2 ulp off."""
    x, y = z[:2]
    is_far = abs(x) > SPLIT[x.dtype.itemsize]
    re = where(_unbounded(z), x, _wave(x, sinh, cos(y), is_far))
    return Pair(re, where(equal(y, 0.0), y, _wave(x, cosh, sin(y), is_far)))


@complex_form(trigonometry.cosh)
def cosh_(z: Pair) -> Pair:
    """cosh x cos y + i sinh x sin y; at most 2 ulp off."""
    x, y = z[:2]
    is_far = abs(x) > SPLIT[x.dtype.itemsize]
    lost = logical_not(comparison.isfinite(y))
    re = where(logical_and(lost, comparison.isinf(x)), abs(x), _wave(x, cosh, cos(y), is_far))
    im = where(logical_and(lost, equal(x, 0.0)), x, _wave(x, sinh, sin(y), is_far))
    return Pair(re, where(equal(y, 0.0), multiply(copysign(number(x, 1.0), x), y), im))


@complex_form(trigonometry.tanh)
def tanh_(z: Pair) -> Pair:
    """With t = tan y, b = 1 + t^2, s = sinh x: (b s sqrt(1 + s^2) + i t) / (1 + b s^2).

    Beyond |x| = 22 (11 in float32) the real part is +-1. At most 3 ulp off.
    source  Kahan 1987, "Branch cuts for complex elementary functions"
    """
    x, y = z[:2]
    one, zero = number(x, 1.0), number(x, 0.0)
    lost = logical_not(comparison.isfinite(y))
    infinite = comparison.isinf(x)
    is_far = logical_and(
        abs(x) > {4: 11.0, 8: 22.0}[x.dtype.itemsize], logical_or(infinite, logical_not(lost))
    )
    s = sinh(where(is_far, zero, x))
    t = tan(y)
    growth = add(multiply(t, t), 1.0)
    below = add(multiply(growth, multiply(s, s)), 1.0)
    re = divide(multiply(multiply(growth, sqrt(add(multiply(s, s), 1.0))), s), below)
    im = divide(t, below)
    decay = exp(multiply(where(is_far, abs(x), zero), -2.0))
    far = multiply(multiply(multiply(sin(y), cos(y)), 4.0), decay)
    far = where(logical_and(lost, infinite), zero, far)
    re = where(is_far, copysign(one, x), where(equal(x, 0.0), x, re))
    return Pair(re, where(equal(y, 0.0), y, where(is_far, far, im)))


@complex_form(trigonometry.sin)
def sin_(z: Pair) -> Pair:
    """sin x cosh y + i cos x sinh y; at most 2 ulp off."""
    return turned(sinh_(turned(z)))


@complex_form(trigonometry.cos)
def cos_(z: Pair) -> Pair:
    """cos x cosh y - i sin x sinh y; at most 2 ulp off."""
    result = cosh_(turned(z))
    return Pair(result.re, negative(result.im))


@complex_form(trigonometry.tan)
def tan_(z: Pair) -> Pair:
    """-i tanh(iz); at most 3 ulp off."""
    return turned(tanh_(turned(z)))


def _roots(z: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 - z) and sqrt(1 + z)."""
    below = sqrt_(Pair(subtract(1.0, z.re), negative(z.im)))
    return below, sqrt_(Pair(add(z.re, 1.0), z.im))


@complex_form(trigonometry.asin)
def asin_(z: Pair) -> Pair:
    """With p = sqrt(1 - z), q = sqrt(1 + z): atan2(x, re(p q)) + i asinh(im(p* q)).

    No sum in it cancels. At most 3 ulp off; cuts beyond -1 and 1 on the real axis.
    source  Kahan 1987, "Branch cuts for complex elementary functions"
    """
    x, y = z[:2]
    is_large = _large(z)
    p, q = _roots(chosen(is_large, Pair(number(x, 0.0), number(x, 0.0)), z))
    across = subtract(multiply(p.re, q.re), multiply(p.im, q.im))
    re = atan2(x, where(is_large, abs(y), across))
    im = asinh(subtract(multiply(p.re, q.im), multiply(p.im, q.re)))
    far = copysign(add(log_size(z), LN2), y)
    return Pair(where(equal(x, 0.0), x, re), where(is_large, far, im))


@complex_form(trigonometry.acos)
def acos_(z: Pair) -> Pair:
    """With p = sqrt(1 - z), q = sqrt(1 + z): 2 atan2(re p, re q) + i asinh(im(q* p)).

    At most 3 ulp off; cuts beyond -1 and 1 on the real axis.
    source  as of asin
    """
    x, y = z[:2]
    is_large = _large(z)
    p, q = _roots(chosen(is_large, Pair(number(x, 0.0), number(x, 0.0)), z))
    re = where(is_large, atan2(abs(y), x), multiply(atan2(p.re, q.re), 2.0))
    re = where(logical_and(equal(x, 0.0), comparison.isnan(y)), number(x, math.pi / 2), re)
    im = asinh(subtract(multiply(q.re, p.im), multiply(q.im, p.re)))
    return Pair(re, where(is_large, copysign(add(log_size(z), LN2), negative(y)), im))


@complex_form(trigonometry.asinh)
def asinh_(z: Pair) -> Pair:
    """asin turned: -i asin(iz); at most 3 ulp off; cuts beyond -i and i."""
    return turned(asin_(turned(z)))


@complex_form(trigonometry.acosh)
def acosh_(z: Pair) -> Pair:
    """acos times i or -i, so that the real part is not negative; at most 3 ulp off."""
    result = acos_(z)
    return Pair(abs(result.im), copysign(result.re, z.im))


@complex_form(trigonometry.atanh)
def atanh_(z: Pair) -> Pair:
    """log1p(4 |x| / ((1 - |x|)^2 + y^2)) / 4 + i atan2(2y, (1 - |x|)(1 + |x|) - y^2) / 2

    with the sign of x; near +-1 by the logarithms of |1 + z| and |1 - z|. At most 3 ulp off; cuts
    beyond -1 and 1 on the real axis.
    """
    x, y = z[:2]
    size, zero = abs(x), number(x, 0.0)
    infinite, is_large = isinf(z), _large(z)
    gap = hypot(subtract(size, 1.0), y)
    is_close = gap < 0.5
    ratio = divide(divide(size, gap), gap)
    plain = multiply(log1p(multiply(where(is_close, zero, ratio), 4.0)), 0.25)
    close = multiply(subtract(log(hypot(add(size, 1.0), y)), log(gap)), 0.5)
    re = where(infinite, zero, where(is_close, close, plain))
    re = where(equal(x, 0.0), x, copysign(re, x))
    inner = where(is_large, zero, size), where(is_large, zero, y)
    below = multiply(subtract(1.0, inner[0]), add(inner[0], 1.0))
    angle = atan2(multiply(inner[1], 2.0), subtract(below, multiply(inner[1], inner[1])))
    upright = logical_and(is_large, logical_not(comparison.isnan(y)))
    quarter = copysign(number(x, math.pi / 2), y)
    unknown = where(comparison.isnan(y), y, multiply(angle, 0.5))
    return Pair(re, where(upright, quarter, unknown))


@complex_form(trigonometry.atan)
def atan_(z: Pair) -> Pair:
    """atanh turned: -i atanh(iz); at most 3 ulp off; cuts beyond -i and i."""
    return turned(atanh_(turned(z)))
