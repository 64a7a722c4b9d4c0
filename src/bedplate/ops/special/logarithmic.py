"""Functions around the logarithm where 0 log(0) is 0: xlogy, xlog1py, entr, logit."""

from __future__ import annotations

import math

from bedplate.ops.build import Value, promoted
from bedplate.ops.elementwise import rounded_once
from bedplate.ops.pointwise.arithmetic import abs_
from bedplate.ops.pointwise.comparison import equal, greater, less_equal, logical_and, logical_or
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import log, log1p
from bedplate.ops.pointwise.extremes import clip


def xlogy(x: Value, y: Value) -> Value:
    """x log(y), which is 0 where x is 0, whatever y is (but NaN).

    x, y     shapes broadcast; numbers; integers become float32
    returns  the gradient of x is log(y), 0 where x is 0 and log(y) is no number
    >>> import bedplate as bp
    >>> bp.special.xlogy(bp.tensor([0.0, 2.0]), bp.tensor([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    x, y = promoted("xlogy", (x, y), to_float=True)
    return _xlogy(x, y)


@rounded_once
def _xlogy(x: Value, y: Value) -> Value:
    lost = logical_and(equal(x, 0), logical_or(less_equal(y, 0), equal(y, math.inf)))
    return x * log(where(lost, 1.0, y))


def xlog1py(x: Value, y: Value) -> Value:
    """x log(1 + y), which is 0 where x is 0, whatever y is (but NaN); exact for small y.

    x, y     shapes broadcast; numbers; integers become float32
    >>> import bedplate as bp
    >>> bp.special.xlog1py(bp.tensor([0.0, 2.0]), bp.tensor([-1.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    x, y = promoted("xlog1py", (x, y), to_float=True)
    return _xlog1py(x, y)


@rounded_once
def _xlog1py(x: Value, y: Value) -> Value:
    lost = logical_and(equal(x, 0), logical_or(less_equal(y, -1), equal(y, math.inf)))
    return x * log1p(where(lost, 0.0, y))


@rounded_once
def entr(x: Value) -> Value:
    """The term of an entropy: y = -x log(x); 0 at 0, -inf below.

    x        floats or integers; the gradient at 0 counts as 0 (its limit is inf), so that shares
             of exactly 0 do no harm
    >>> import bedplate as bp
    >>> bp.special.entr(bp.tensor([0.0, 0.5, -1.0])).tolist()
    [0.0, 0.3465735912322998, -inf]
    """
    inside = where(greater(x, 0), x, 1.0)
    outside = where(equal(x, 0), 0.0, where(x < 0, -math.inf, x))
    return where(greater(x, 0), -inside * log(inside), outside)


@rounded_once
def logit(x: Value, eps: float | None = None) -> Value:
    """The inverse of the sigmoid: y = log(x / (1 - x)); -inf at 0, inf at 1, NaN outside [0, 1].

    eps      bound x to [eps, 1 - eps] first
    >>> import bedplate as bp
    >>> bp.special.logit(bp.tensor([0.5, 1.0])).tolist()
    [0.0, inf]
    """
    x = x if eps is None else clip(x, eps, 1 - eps)
    near = abs_(x - 0.5) < 0.25
    middle = where(near, x, 0.5)
    return where(near, log1p((middle * 2 - 1) / (1 - middle)), log(x) - log1p(-x))
