"""Activation functions in pieces: a row each, composed of comparisons and choices.

Where two pieces meet the slope is that of one of them, told in each docstring. A choice is
taken before the function that would overflow on the other side, so that no infinity meets the
zero gradient of what was not chosen.
"""

from __future__ import annotations

import math

from bedplate.errors import ShapeError
from bedplate.ops.build import Value, number
from bedplate.ops.elementwise import rounded_once
from bedplate.ops.pointwise.arithmetic import abs_, sign
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import expm1
from bedplate.ops.pointwise.extremes import clip
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.views import reshape

# the fixed point of mean 0 and variance 1: Klambauer et al. 2017, arXiv:1706.02515, section 1
SELU_ALPHA = 1.6732632423543772848
SELU_SCALE = 1.0507009873554804934


def hardtanh(x: Value, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    """Cut off on both sides: y = min(max(x, min_val), max_val); slope 0 at both bounds.

    x        floats, or integers, which stay integers between the bounds
    raises   ValueError for bounds in the wrong order
    >>> import bedplate as bp
    >>> bp.nn.functional.hardtanh(bp.tensor([-3.0, 0.5, 3.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    if not min_val <= max_val:
        raise ValueError(f"hardtanh: min_val = {min_val} is above max_val = {max_val}")
    if x.dtype.is_integer:
        return clip(x, math.ceil(min_val), math.floor(max_val))
    return where(x <= min_val, min_val, where(x >= max_val, max_val, x))


def relu6(x: Value) -> Value:
    """Cut off below 0 and above 6: y = min(max(x, 0), 6); slope 0 at both.

    >>> import bedplate as bp
    >>> bp.nn.functional.relu6(bp.tensor([-3.0, 0.5, 7.0])).tolist()
    [0.0, 0.5, 6.0]
    """
    return hardtanh(x, 0.0, 6.0)


@rounded_once
def hardsigmoid(x: Value) -> Value:
    """A sigmoid of straight lines: y = min(max(x + 3, 0), 6) / 6; slope 0 at -3 and 3.

    >>> import bedplate as bp
    >>> bp.nn.functional.hardsigmoid(bp.tensor([-3.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return hardtanh(x + 3, 0.0, 6.0) / 6


@rounded_once
def hardswish(x: Value) -> Value:
    """A swish of a parabola and lines: y = x min(max(x + 3, 0), 6) / 6; slope 0 at -3, 1 at 3.

    source   Howard et al. 2019, arXiv:1905.02244
    >>> import bedplate as bp
    >>> bp.nn.functional.hardswish(bp.tensor([-4.0, 0.0, 4.0])).tolist()
    [-0.0, 0.0, 4.0]
    """
    return x * hardsigmoid(x)


@rounded_once
def leaky_relu(x: Value, negative_slope: float = 0.01) -> Value:
    """Flatter below 0: y = x if x > 0 else negative_slope x; at 0 the slope is the flatter one.

    >>> import bedplate as bp
    >>> bp.nn.functional.leaky_relu(bp.tensor([-4.0, 2.0]), 0.5).tolist()
    [-2.0, 2.0]
    """
    return where(x > 0, x, x * negative_slope)


def prelu(x: Value, weight: Value) -> Value:
    """Flatter below 0, by trained slopes: y = x if x > 0 else weight x.

    x        (N, C, ...), or any shape if there is one slope
    weight   (1,) or () for one slope, or (C,) for one a channel
    raises   ShapeError for another number of slopes
    source   He et al. 2015, arXiv:1502.01852
    >>> import bedplate as bp
    >>> bp.nn.functional.prelu(bp.tensor([-4.0, 2.0]), bp.tensor([0.5])).tolist()
    [-2.0, 2.0]
    """
    channels = x.shape[1] if len(x.shape) > 1 else 1
    if weight.shape not in ((), (1,), (channels,)):
        refuse(ShapeError, "prelu", "the slopes do not fit", {"x": x, "weight": weight},
               "expected one slope, or one for each channel (axis 1 of x)")  # fmt: skip
    if weight.shape == (channels,) and len(x.shape) > 1:
        weight = reshape(weight, (channels, *(1 for _ in x.shape[2:])))
    elif weight.shape:
        weight = reshape(weight, ())
    return _sloped(x, weight)


@rounded_once
def _sloped(x: Value, weight: Value) -> Value:
    return where(x > 0, x, x * weight)


@rounded_once
def elu(x: Value, alpha: float = 1.0) -> Value:
    """Exponential below 0: y = x if x > 0 else alpha (exp(x) - 1); slope alpha at 0.

    source   Clevert et al. 2015, arXiv:1511.07289
    >>> import bedplate as bp
    >>> bp.nn.functional.elu(bp.tensor([-1000.0, 2.0])).tolist()
    [-1.0, 2.0]
    """
    return where(x > 0, x, expm1(where(x > 0, 0.0, x)) * alpha)


@rounded_once
def selu(x: Value) -> Value:
    """The elu whose scale keeps mean 0 and variance 1 through depth: y = 1.0507 elu(x, 1.6733).

    source   Klambauer et al. 2017, arXiv:1706.02515
    >>> import bedplate as bp
    >>> bp.nn.functional.selu(bp.tensor([0.0, 1.0])).tolist()
    [0.0, 1.0507010221481323]
    """
    return elu(x, SELU_ALPHA) * SELU_SCALE


@rounded_once
def celu(x: Value, alpha: float = 1.0) -> Value:
    """An elu of slope 1 at 0: y = x if x > 0 else alpha (exp(x / alpha) - 1).

    raises   ValueError for an alpha of 0
    source   Barron 2017, arXiv:1704.07483
    >>> import bedplate as bp
    >>> bp.nn.functional.celu(bp.tensor([-1000.0, 2.0]), 2.0).tolist()
    [-2.0, 2.0]
    """
    if alpha == 0:
        raise ValueError("celu: alpha must not be 0")
    return where(x > 0, x, expm1(where(x > 0, 0.0, x) / alpha) * alpha)


@rounded_once
def hardshrink(x: Value, lambd: float = 0.5) -> Value:
    """Drop what is small: y = x if |x| > lambd else 0; slope 0 at +-lambd.

    >>> import bedplate as bp
    >>> bp.nn.functional.hardshrink(bp.tensor([0.25, -2.0])).tolist()
    [0.0, -2.0]
    """
    return where(abs_(x) <= lambd, 0.0, x)


@rounded_once
def softshrink(x: Value, lambd: float = 0.5) -> Value:
    """Move towards 0 by lambd: y = x - lambd sign(x) if |x| > lambd else 0; slope 0 at +-lambd.

    raises   ValueError for a negative lambd
    >>> import bedplate as bp
    >>> bp.nn.functional.softshrink(bp.tensor([0.25, -2.0])).tolist()
    [0.0, -1.5]
    """
    if lambd < 0:
        raise ValueError(f"softshrink: lambd must not be negative, got {lambd}")
    return where(abs_(x) <= lambd, 0.0, x - sign(x) * lambd)


def threshold(x: Value, threshold: float, value: float) -> Value:
    """Replace what is not above a threshold: y = x if x > threshold else value; slope 0 at it.

    >>> import bedplate as bp
    >>> bp.nn.functional.threshold(bp.tensor([1.0, 3.0]), 2.0, -7.0).tolist()
    [-7.0, 3.0]
    """
    return where(x <= threshold, number(x, value), x)
