"""The largest and the smallest element so far along an axis, and where they stand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.dtypes import FLOATS, DType, as_dtype
from bedplate.ops.build import Value, normalised_axis, number, without_gradient
from bedplate.ops.elementwise import NUMBERS
from bedplate.ops.indexing.gather import sum_rows
from bedplate.ops.pointwise.arithmetic import add, multiply
from bedplate.ops.pointwise.comparison import equal, logical_or, not_equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.record import Op, Sample, apply, each_element, register
from bedplate.ops.reduction.reduce import greatest, least
from bedplate.ops.samples import integers, mixed, rough
from bedplate.ops.scan.kernel import Scan
from bedplate.ops.scan.records import in_float64, lowering, scan_rule
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.views import moveaxis, reshape
from bedplate.ops.sorting.sorting import Chosen


def _places(x: Value, output: Value) -> Value:
    """Where the extreme so far was last seen; from the first NaN on, the last NaN."""
    seen = logical_or(equal(x, output), not_equal(x, x))
    column = index_along(x, 1, x.shape)
    return apply(CUMMAX, (where(seen, column, number(column, 0)),))


def _extreme_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """To the place where the value was last seen, as in PyTorch."""
    (x,) = inputs
    rows, length = x.shape
    if rows * length == 0:
        return (multiply(x, 0),)
    place = add(_places(x, output), multiply(index_along(x, 0, (rows, 1)), length))
    flat = reshape(grad_out, (rows * length, 1))
    return (reshape(sum_rows(reshape(place, (-1,)), flat, rows * length), x.shape),)


def cummax_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """All to the last of the elements that are the largest so far."""
    return _extreme_gradient(grad_out, inputs, output)


def cummin_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """All to the last of the elements that are the smallest so far."""
    return _extreme_gradient(grad_out, inputs, output)


def _distinct(*shape: int) -> Sample:
    """Elements that differ in every dtype, so that the op has a derivative."""
    count = math.prod(shape)
    return mixed(lambda r: [(r.permutation(count) / 32 - 1).reshape(shape)], f"{shape}")


_DISTINCT = (
    _distinct(3, 7),
    _distinct(2, 37),
    _distinct(1, 1),
    _distinct(0, 3),
    _distinct(3, 0),
    integers((3, 21)),
    rough(lambda r: [np.array([[1.0, 3, np.nan, 5, 4], [2, 2, 1, 3, 3]])], "nan and ties"),
)


def _extreme(name: str, scan: Scan, reference: Any, gradient: Any, doc: str) -> Op:
    return register(
        Op(
            name,
            "kernel",
            scan_rule(name, NUMBERS),
            reference=in_float64(reference),
            gradient=gradient,
            cost=each_element(1, "1 comparison an element; input twice, output once"),
            lower=lowering(scan),
            dtypes=NUMBERS,
            samples=_DISTINCT,
            doc=doc,
        )
    )


def _bound(type_: Any, function: Callable[[DType], Any]) -> Any:
    """The least or greatest value of a type of the kernel language."""
    if type_.is_float:
        return function(FLOATS[0])
    return function(as_dtype(f"{'' if type_.is_signed else 'u'}int{type_.bits}"))


CUMMAX = _extreme(
    "cummax",
    Scan(
        "cummax",
        lambda t: (_bound(t, least),),
        lambda a, b: (language.maximum(a[0], b[0]),),
        widen=False,
    ),
    lambda x: np.maximum.accumulate(x, axis=1),
    cummax_gradient,
    "The largest element so far along each row; NaN from the first NaN on.",
)
CUMMIN = _extreme(
    "cummin",
    Scan(
        "cummin",
        lambda t: (_bound(t, greatest),),
        lambda a, b: (language.minimum(a[0], b[0]),),
        widen=False,
    ),
    lambda x: np.minimum.accumulate(x, axis=1),
    cummin_gradient,
    "The smallest element so far along each row; NaN from the first NaN on.",
)


def _along(op: Op, x: Value, axis: int | None) -> Chosen:
    """The extremes so far along an axis (None: of x flattened), and their places."""
    if axis is None:
        x, axis = reshape(x, (math.prod(x.shape),)), 0
    axis = normalised_axis(op.name, axis, len(x.shape), x)
    moved = moveaxis(x, axis, -1)
    rows = reshape(moved, (math.prod(moved.shape[:-1]), moved.shape[-1]))
    values = apply(op, (rows,))
    parts = (values, _places(without_gradient(rows), without_gradient(values)))
    return Chosen(*(moveaxis(reshape(part, moved.shape), -1, axis) for part in parts))


def cummax(x: Value, axis: int | None = None) -> Chosen:
    """The largest element up to each along an axis, and its place; NaN from the first NaN on.

    axis     `dim` works too; None: x is flattened first
    returns  (values, indices): shape of x, the indices int64; of equal elements the last one counts
             and has the gradient, as in PyTorch
    >>> import bedplate as bp
    >>> values, indices = bp.cummax(bp.tensor([1, 3, 2, 5]), axis=0)
    >>> values.tolist(), indices.tolist()
    ([1, 3, 3, 5], [0, 1, 1, 3])
    """
    return _along(CUMMAX, x, axis)


def cummin(x: Value, axis: int | None = None) -> Chosen:
    """The smallest element up to each along an axis, and its place; NaN from the first NaN on.

    axis     `dim` works too; None: x is flattened first
    returns  (values, indices): shape of x, the indices int64; of equal elements the last one counts
             and has the gradient, as in PyTorch
    >>> import bedplate as bp
    >>> bp.cummin(bp.tensor([3, 4, 1, 2]), axis=0).values.tolist()
    [3, 3, 1, 1]
    """
    return _along(CUMMIN, x, axis)
