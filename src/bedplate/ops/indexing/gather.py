"""Choosing slices by index, and the sum that is its gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import ALL, DType, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import (
    Value,
    as_values,
    is_number,
    normalised_axis,
    number,
    without_gradient,
)
from bedplate.ops.indexing.scatter_kernel import lower_scatter_add
from bedplate.ops.pointwise.arithmetic import add, multiply
from bedplate.ops.pointwise.comparison import equal
from bedplate.ops.pointwise.convert import checked_index, where
from bedplate.ops.record import Cost, Op, apply, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.views import broadcast_to, expand_dims, moveaxis, reshape


def take_gradient(grad_out: Value, inputs: Any, output: Value, *, axis: int) -> tuple[Any, None]:
    """The sum of the gradients of all places that chose the same slice."""
    x, indices = inputs
    count = len(indices.shape)
    moved = moveaxis(grad_out, tuple(range(axis, axis + count)), tuple(range(count)))
    inner = moved.shape[count:]
    chosen = math.prod(indices.shape)
    width = math.prod(inner)
    rows = reshape(moved, (chosen, width))
    total = sum_rows(reshape(indices, (chosen,)), rows, x.shape[axis])
    return moveaxis(reshape(total, (x.shape[axis], *inner)), 0, axis), None


def _take_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    x, indices = inputs
    axis = attributes["axis"]
    return (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype


TAKE = register(
    Op(
        "take",
        "gather",
        _take_infer,
        reference=lambda x, indices, *, axis: np.take(x, indices, axis),
        gradient=take_gradient,
        by_parts=True,
        dtypes=ALL,
        samples=(
            mixed(lambda r: [r.random((5, 3)), r.integers(0, 5, (2, 4))], "rows", axis=0),
            mixed(lambda r: [r.random((2, 5, 3)), r.integers(0, 5, (7,))], "middle axis", axis=1),
            mixed(lambda r: [r.random((2, 5)), np.array(3)], "one", axis=1),
            mixed(lambda r: [r.random((5, 3)), np.zeros((0,), np.int64)], "none", axis=0),
        ),
        doc="The slices of x at the given indices along `axis`; the indices are checked before.",
    )
)


def take(x: Value, indices: Value, axis: int | None = None) -> Value:
    """Choose slices by index along an axis: y[i] = x[indices[i]].

    indices  integers, any shape, in [-size, size); a single one takes the axis away
    axis     may be left out if x has exactly one
    returns  x.shape with the axis replaced by the shape of the indices; the gradient adds up
             what was chosen more than once, in a fixed order
    raises   IndexError when the value is computed, if an index is out of range; ShapeError
             for an axis that does not exist, or is needed
    >>> import bedplate as bp
    >>> bp.take(bp.tensor([10, 20, 30]), bp.tensor([2, 0, -1])).tolist()
    [30, 10, 30]
    """
    x, indices = as_values("take", (x, indices))
    indices = number(x, indices, int64) if is_number(indices) else indices
    if axis is None and len(x.shape) != 1:
        refuse(
            ShapeError, "take", "an axis is needed unless there is exactly one", {"x": x},
            "give axis=, or flatten first",
        )  # fmt: skip
    axis = normalised_axis("take", 0 if axis is None else axis, len(x.shape), x)
    checked = checked_index(indices, x.shape[axis], f"take: axis {axis}")
    return apply(TAKE, (x, checked), {"axis": axis})


def embedding(ids: Value, weight: Value, padding_idx: int | None = None) -> Value:
    """Look up a row of the weight for each id: y[..., :] = weight[ids[...], :].

    ids          (...)      integers in [0, n_rows); negative ones are out of range
    weight       (n_rows, d_model)
    padding_idx  the row of this id gets no gradient
    returns      (..., d_model); the gradient adds up what was looked up more than once, in the
                 order of the ids
    raises       IndexError when the value is computed, if an id is out of range; ShapeError for a
                 weight without two axes
    >>> import bedplate as bp
    >>> bp.nn.functional.embedding(bp.tensor([1]), bp.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0]]
    >>> bp.embedding(bp.tensor([]).astype(bp.int64), bp.ones((2, 3))).shape
    (0, 3)
    """
    if len(weight.shape) != 2:
        refuse(ShapeError, "embedding", "the weight must have two axes", {"weight": weight})
    ids, weight = as_values("embedding", (ids, weight))
    n_rows = weight.shape[0]
    checked = checked_index(ids, n_rows, "embedding: axis 0", wrap=False)
    rows = apply(TAKE, (weight, checked), {"axis": 0})
    if padding_idx is None:
        return rows
    if not -n_rows <= padding_idx < n_rows:
        raise IndexError(f"embedding: padding_idx {padding_idx} is out of range for size {n_rows}")
    padding = expand_dims(equal(checked, padding_idx % n_rows), -1)
    return where(padding, without_gradient(rows), rows)


def take_along_axis(x: Value, indices: Value, axis: int = -1) -> Value:
    """Choose one element for each index along an axis: y[i, j] = x[i, indices[i, j]].

    indices  as many axes as x; sizes broadcast with x but for the axis
    returns  shape of the indices; the gradient adds up what was chosen more than once
    raises   IndexError when the value is computed, if an index is out of range; ShapeError if the
             numbers of axes differ
    >>> import bedplate as bp
    >>> bp.take_along_axis(bp.tensor([[1, 2], [3, 4]]), bp.tensor([[1], [0]])).tolist()
    [[2], [3]]
    """
    axis = normalised_axis("take_along_axis", axis, len(x.shape), x)
    if len(indices.shape) != len(x.shape):
        refuse(
            ShapeError, "take_along_axis", "x and indices differ in their number of axes",
            {"x": x, "indices": indices},
        )  # fmt: skip
    return _along("take_along_axis", x, indices, axis)


def _along(op: str, x: Value, indices: Value, axis: int) -> Value:
    shape = list(broadcast_along(x, indices, axis))
    size, shape[axis] = x.shape[axis], indices.shape[axis]
    place = places_along(op, x, indices, axis, tuple(shape))
    return apply(TAKE, (reshape(x, (-1,) if size else (0,)), place), {"axis": 0})


def places_along(op: str, x: Value, indices: Value, axis: int, shape: Shape) -> Value:
    """Where x[i, indices[i, j]] stands in the flattened x, for every place of `shape`."""
    checked = checked_index(indices, x.shape[axis], f"{op}: axis {axis}")
    place = multiply(checked, math.prod(x.shape[axis + 1 :]))
    for other, size in enumerate(x.shape):
        if other != axis and size > 1:
            sizes = tuple(s if i == other else 1 for i, s in enumerate(shape))
            along = index_along(x, other, sizes)
            place = add(place, multiply(along, math.prod(x.shape[other + 1 :])))
    return broadcast_to(place, shape)


def gather(x: Value, axis: int, index: Value) -> Value:
    """Choose one element for each index along an axis: y[i, j] = x[i, index[i, j]].

    axis     `dim` works too
    index    integers, as many axes as x, none longer than that of x beside the axis
    returns  shape of index; the gradient adds up what was chosen more than once, in a fixed order
    raises   ShapeError if the shapes do not fit; IndexError when the value is computed, if an
             index is out of range
    >>> import bedplate as bp
    >>> bp.gather(bp.tensor([[1, 2], [3, 4]]), 1, bp.tensor([[1, 0, 0]])).tolist()
    [[2, 1, 1]]
    """
    axis = normalised_axis("gather", axis, len(x.shape), x)
    check_index("gather", x, index, axis)
    whole = (slice(None) if i == axis else slice(0, n) for i, n in enumerate(index.shape))
    return _along("gather", x[tuple(whole)], index, axis)


def check_index(op: str, x: Value, index: Value, axis: int) -> None:
    """Refuse an index that has other axes than x, or longer ones beside `axis`."""
    same = len(index.shape) == len(x.shape)
    if not same or any(i > n for i, n in zip(beside(index, axis), beside(x, axis), strict=True)):
        refuse(
            ShapeError, op, "the index does not fit", {"x": x, "index": index},
            f"it has the axes of x, none longer than that of x beside axis {axis}",
        )  # fmt: skip


def beside(x: Value, axis: int) -> Shape:
    """The sizes of all axes but one."""
    return (*x.shape[:axis], *x.shape[axis + 1 :])


def index_select(x: Value, axis: int, index: Value) -> Value:
    """Choose slices along an axis: `take` by a vector of indices.

    axis     `dim` works too
    index    (n,) or ()  integers in [-size, size)
    returns  x.shape with the axis n long
    raises   ShapeError unless the index has at most one axis; IndexError when the value is
             computed, if an index is out of range
    >>> import bedplate as bp
    >>> bp.index_select(bp.tensor([[1, 2], [3, 4]]), 0, bp.tensor([1])).tolist()
    [[3, 4]]
    """
    if len(index.shape) > 1:
        refuse(ShapeError, "index_select", "the index has more than one axis", {"index": index})
    return take(x, reshape(index, (-1,)) if x.shape else index, axis)


def broadcast_along(x: Value, indices: Value, axis: int) -> Shape:
    """The shape to which x and indices broadcast, the axis left out of it."""
    shapes = []
    for value in (x, indices):
        shapes.append(tuple(1 if i == axis else size for i, size in enumerate(value.shape)))
    if any(a != b and 1 not in (a, b) for a, b in zip(*shapes, strict=True)):
        refuse(
            ShapeError, "take_along_axis", "the shapes do not broadcast beside the axis",
            {"x": x, "indices": indices},
        )  # fmt: skip
    return tuple(b if a == 1 else a for a, b in zip(*shapes, strict=True))


def scatter_add_gradient(
    grad_out: Value, inputs: Any, output: Value, *, n_rows: int
) -> tuple[None, Any]:
    """Each row has the gradient of the place that it was added to."""
    return None, apply(TAKE, (grad_out, inputs[0]), {"axis": 0})


def _scatter_add_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    indices, rows = inputs
    named = {"indices": indices, "rows": rows}
    if len(indices.shape) != 1 or len(rows.shape) != 2 or rows.shape[0] != indices.shape[0]:
        refuse(
            ShapeError, "scatter_add", "the shapes do not match", named,
            "expected indices (n,) and rows (n, width)",
        )  # fmt: skip
    if indices.dtype is not int64:
        refuse(DTypeError, "scatter_add", "indices must be int64", named)
    return (attributes["n_rows"], rows.shape[1]), rows.dtype


def _scatter_add_reference(indices: Any, rows: Any, *, n_rows: int) -> Any:
    narrow = rows.dtype.itemsize == 2 and rows.dtype.kind not in "iu"
    total = np.zeros((n_rows, rows.shape[1]), np.float32 if narrow else rows.dtype)
    np.add.at(total, indices, rows.astype(total.dtype))
    return total.astype(rows.dtype)


def _row_elements(inputs: Any, output: Any, attributes: Attributes) -> float:
    return float(math.prod(inputs[1].shape))


SCATTER_ADD = register(
    Op(
        "scatter_add",
        "kernel",
        _scatter_add_infer,
        reference=_scatter_add_reference,
        gradient=scatter_add_gradient,
        cost=Cost("1 flop an element of the rows; rows and output once", _row_elements),
        by_parts=True,
        lower=lower_scatter_add,
        dtypes=(int64,),
        samples=(
            mixed(lambda r: [r.integers(0, 5, (9,)), r.random((9, 3))], "repeated", n_rows=5),
            mixed(lambda r: [r.integers(0, 9, (64,)), r.random((64, 37))], "wide", n_rows=11),
            mixed(lambda r: [np.zeros((0,), np.int64), r.random((0, 3))], "none", n_rows=2),
        ),
        doc="Zeros with rows[i] added to row indices[i], in the order of i.",
    )
)


def sum_rows(indices: Value, rows: Value, n_rows: int) -> Value:
    """Add rows[i] to row indices[i] of zeros, in the order of i: the same bits on any threads.

    indices  (n,)           int64 in [0, n_rows), checked before
    rows     (n, width)     float16 and bfloat16 are added up in float32
    returns  (n_rows, width)
    """
    return apply(SCATTER_ADD, (indices, rows), {"n_rows": n_rows})
