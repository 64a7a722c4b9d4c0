"""The smaller, the larger, and what lies between bounds: minimum, maximum, clip."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.ops.build import Value, number, promoted, sum_to
from bedplate.ops.elementwise import NUMBERS, binary, refuse_dtype, row
from bedplate.ops.pointwise.arithmetic import COUNTS, multiply
from bedplate.ops.pointwise.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
)
from bedplate.ops.pointwise.convert import where
from bedplate.ops.record import apply
from bedplate.ops.samples import mixed, two


def _extreme_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """All to the side that is the result; half to each where both are (NaN counts as equal)."""
    a, b = inputs
    zero = number(grad_out, 0.0)
    half = multiply(grad_out, 0.5)
    tie = equal(a, b)
    to_a = where(tie, half, where(equal(a, output), grad_out, zero))
    to_b = where(tie, half, where(equal(b, output), grad_out, zero))
    return sum_to(to_a, a.shape), sum_to(to_b, b.shape)


def minimum_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """The gradient goes to the smaller; where both are equal each gets half."""
    return _extreme_gradient(grad_out, inputs, output)


@binary(
    reference=np.minimum,
    emit=lambda t, a, b: language.minimum(a, b),
    gradient=minimum_gradient,
    samples=two() + COUNTS,
)
def minimum(a: Value, b: Value) -> Value:
    """The smaller of two: y = min(a, b); NaN if either is NaN.

    a, b     shapes broadcast; numbers
    returns  their common shape and dtype; at a tie each gets half of the gradient
    >>> import bedplate as bp
    >>> bp.minimum(bp.tensor([1.0, 4.0]), 2).tolist()
    [1.0, 2.0]
    """


def maximum_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """The gradient goes to the larger; where both are equal each gets half."""
    return _extreme_gradient(grad_out, inputs, output)


@binary(
    reference=np.maximum,
    emit=lambda t, a, b: language.maximum(a, b),
    gradient=maximum_gradient,
    samples=two() + COUNTS,
)
def maximum(a: Value, b: Value) -> Value:
    """The larger of two: y = max(a, b); NaN if either is NaN.

    a, b     shapes broadcast; numbers
    returns  their common shape and dtype; at a tie each gets half of the gradient
    >>> import bedplate as bp
    >>> bp.maximum(bp.tensor([1.0, 4.0]), 2).tolist()
    [2.0, 4.0]
    """


def clip_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any, Any]:
    """1 for x inside the closed bounds; a bound has the gradient of what it cuts off."""
    x, low, high = inputs
    zero = number(grad_out, 0.0)
    inside = logical_and(greater_equal(x, low), less_equal(x, high))
    under = less(x, low)
    below = logical_and(under, less_equal(low, high))
    above = greater(where(under, low, x), high)  # all of it where low is above high
    return (
        sum_to(where(inside, grad_out, zero), x.shape),
        sum_to(where(below, grad_out, zero), low.shape),
        sum_to(where(above, grad_out, zero), high.shape),
    )


def _clip_reference(x: Any, low: Any, high: Any) -> Any:
    raised = np.where((x < low) | (low != low), low, x)
    return np.where((raised > high) | (high != high), high, raised)


CLIP = row(
    name="clip",
    doc="Bound each element: y = min(max(x, low), high).",
    reference=_clip_reference,
    # of equal ones the second is the result: a zero within the bounds keeps its sign
    emit=lambda t, x, low, high: language.minimum(high, language.maximum(low, x)),
    gradient=clip_gradient,
    promote="common",
    dtypes=NUMBERS,
    samples=(
        mixed(lambda r: [np.linspace(-2.05, 1.95, 21), np.float64(-1), np.float64(1)], "scalars"),
        mixed(
            lambda r: [r.uniform(-2, 2, (3, 7)), r.uniform(-1, 0, 7), r.uniform(0, 1, (3, 1))],
            "arrays",
        ),
        mixed(lambda r: [np.linspace(-2.05, 1.95, 21), np.float64(1), np.float64(-1)], "crossed"),
    ),
)


def clip(x: Value, min: Value | None = None, max: Value | None = None) -> Value:
    """Bound each element from below and above: the smaller of max and the larger of x and min.

    min, max   numbers or values that broadcast with x, one dtype with it after promotion; None for
               no bound. Python integers that the dtype of x does not hold bound nothing, or all
    returns    the shape of all, NaN where x or a bound is; max where min is above max; gradient
               1 inside the closed bounds, else 0, and for a bound what it cuts off
    >>> import bedplate as bp
    >>> bp.clip(bp.tensor([-3.0, 0.5, 3.0]), -1, 1).tolist()
    [-1.0, 0.5, 1.0]
    """
    least, most = _bounds(x)
    low = least if min is None else _within(min, least, most)
    high = most if max is None else _within(max, least, most)
    return apply(CLIP, promoted("clip", (x, low, high)))


def _within(bound: Value, least: int | float, most: int | float) -> Value:
    """A Python integer as the nearest number that the dtype holds."""
    if type(bound) is not int or type(most) is not int:
        return bound
    return sorted((least, bound, most))[1]


def _bounds(x: Value) -> tuple[bool | int | float, bool | int | float]:
    """The least and the greatest number of the dtype of x."""
    if x.dtype.is_float:
        return float("-inf"), float("inf")
    if x.dtype.kind == "c":
        refuse_dtype("clip", (x,), NUMBERS)
    info = np.iinfo(x.dtype.numpy)
    return int(info.min), int(info.max)
