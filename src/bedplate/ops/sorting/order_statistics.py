"""Medians and quantiles: what stands at a given share of a sorted row."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bedplate.dtypes import FLOATS, float64, int64
from bedplate.errors import ShapeError
from bedplate.ops.build import Value, as_float, as_type, normalised_axis, number, require
from bedplate.ops.indexing.gather import TAKE
from bedplate.ops.pointwise.arithmetic import add, multiply, subtract
from bedplate.ops.pointwise.comparison import equal, isinf, isnan, logical_and
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.rounding import ceil, floor, round_
from bedplate.ops.record import apply
from bedplate.ops.reduction.statistics import wide
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.shape.regions import narrow
from bedplate.ops.shape.views import moveaxis, reshape
from bedplate.ops.sorting.sorting import sort

# position between two elements -> (the place below, the place above, weight of the one above)
INTERPOLATIONS: dict[str, Callable[[Value], tuple[Value, Value, Value | None]]] = {
    "linear": lambda at: (floor(at), ceil(at), subtract(at, floor(at))),
    "lower": lambda at: (floor(at), floor(at), None),
    "higher": lambda at: (ceil(at), ceil(at), None),
    "nearest": lambda at: (round_(at), round_(at), None),
    "midpoint": lambda at: (floor(at), ceil(at), number(at, 0.5)),
}


def quantile(
    x: Value, q: Value, axis: int | None = None, keepdims: bool = False,
    interpolation: str = "linear",
) -> Value:  # fmt: skip
    """The value below which a share q of the elements along an axis lies.

    With the elements sorted, at position q (n - 1); between two elements

    x              floats, or integers as float32; where there is a NaN the result is NaN
    q              a number, or a list or tensor of them, in [0, 1]; a tensor is computed at once
    axis           None for all elements; `dim` and `keepdim` work too
    interpolation  "linear" (x[i] + share (x[i + 1] - x[i])), "lower", "higher", "midpoint", or
                   "nearest" (to the even one in the middle)
    returns        shape of q, then that of x without the axis; dtype of x; the gradient goes to the
                   elements that were used, and to a tensor q where it is linear
    raises         ValueError for q outside [0, 1]; ShapeError for an empty axis; DTypeError for
                   complex x
    cost           a sort
    >>> import bedplate as bp
    >>> bp.quantile(bp.tensor([1.0, 2.0, 3.0, 4.0]), [0.25, 0.5]).tolist()
    [1.75, 2.5]
    """
    x = as_float(x)
    require("quantile", x, FLOATS, "x")
    known = np.asarray(q.numpy() if hasattr(q, "_apply") else q, np.float64)
    if known.ndim > 1 or not ((known >= 0) & (known <= 1)).all():
        raise ValueError(f"quantile: q must be numbers in [0, 1], one or a list of them, not {q}")
    if interpolation not in INTERPOLATIONS:
        raise ValueError(
            f"quantile: unknown interpolation {interpolation!r}; "
            f"there are {', '.join(INTERPOLATIONS)}"
        )
    shares = as_type(q, float64) if hasattr(q, "_apply") else x._lift(known)
    return _quantile("quantile", x, shares, axis, keepdims, interpolation)


def _quantile(
    name: str, x: Value, shares: Value, axis: int | None, keepdims: bool, interpolation: str
) -> Value:
    kept = [1] * len(x.shape)
    if axis is None or not x.shape:
        row = reshape(x, (math.prod(x.shape),))
    else:
        axis = normalised_axis(name, axis, len(x.shape), x)
        row = moveaxis(x, axis, -1)
        kept = [1 if i == axis else size for i, size in enumerate(x.shape)]
    length = row.shape[-1]
    if not length:
        refuse_inputs(ShapeError, name, "an empty axis has no quantiles", (x,))
    ordered = wide(sort(row))
    position = multiply(reshape(shares, (math.prod(shares.shape),)), length - 1)
    result = _at(ordered, *INTERPOLATIONS[interpolation](position))
    last = narrow(ordered, -1 % len(row.shape), length - 1, 1)
    result = where(isnan(last), last, result)  # NaN stands last
    result = moveaxis(as_type(result, x.dtype), -1, 0)
    inner = tuple(kept) if keepdims else row.shape[:-1]
    return reshape(result, (*shares.shape, *inner))


def _at(ordered: Value, below: Value, above: Value, weight: Value | None) -> Value:
    """What lies between the elements of rows at `below` and `above`; equal infinities stay."""
    axis = len(ordered.shape) - 1

    def chosen(places: Value) -> Value:
        return apply(TAKE, (ordered, as_type(places, int64)), {"axis": axis})

    low = chosen(below)
    if weight is None:
        return low
    high = chosen(above)
    same = logical_and(equal(low, high), isinf(low))
    step = where(same, number(low, 0.0), subtract(high, low))
    return add(low, multiply(step, as_type(weight, ordered.dtype)))


def median(x: Value, axis: int | None = None, keepdims: bool = False) -> Value:
    """The element in the middle of the sorted elements; the mean of the two middle ones if even.

    x        floats, or integers as float32; where there is a NaN the result is NaN
    axis     None for all elements; `dim` and `keepdim` work too
    returns  shape of x without the axis; each of two middle elements has half of the gradient
             (PyTorch takes the lower one: `quantile(x, 0.5, interpolation="lower")`)
    raises   ShapeError for an empty axis; DTypeError for complex x
    >>> import bedplate as bp
    >>> bp.median(bp.tensor([3.0, 1.0, 2.0, 10.0])).item()
    2.5
    """
    x = as_float(x)
    require("median", x, FLOATS, "x")
    return _quantile("median", x, x._lift(np.float64(0.5)), axis, keepdims, "linear")
