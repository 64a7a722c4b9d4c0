"""Updates by index as new values: scatter and its reductions, index_add and kin, masks.

Nothing here changes its input. Where an element is named several times, sums and products run
in the order of the index, and of assignments the last one counts (and gets the gradient), so
that the result has the same bits on any number of threads.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from bedplate.dtypes import bool_, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.ops.build import (
    Value,
    as_type,
    as_values,
    broadcast_shapes,
    is_number,
    normalised_axis,
    number,
)
from bedplate.ops.indexing.gather import TAKE, beside, check_index, places_along, sum_rows
from bedplate.ops.indexing.scatter import joined_rows, last_writer, replaced_rows
from bedplate.ops.indexing.searching import nonzero
from bedplate.ops.pointwise.arithmetic import add, divide, floor_divide, multiply
from bedplate.ops.pointwise.comparison import equal
from bedplate.ops.pointwise.convert import checked_index, where
from bedplate.ops.pointwise.extremes import maximum
from bedplate.ops.record import apply
from bedplate.ops.reduction.reduce import max_
from bedplate.ops.refusal import refuse
from bedplate.ops.scan.cumulative import cumsum
from bedplate.ops.shape.creation import index_along, ones_like
from bedplate.ops.shape.regions import concat
from bedplate.ops.shape.views import broadcast_to, expand_dims, moveaxis, reshape

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def scatter(x: Value, axis: int, index: Value, src: Value) -> Value:
    """Replace elements by index along an axis: y[i, index[i, j]] = src[i, j], y = x elsewhere.

    axis     `dim` works too
    index    integers, as many axes as x, none longer than that of src, nor (beside the axis) of x
    src      a value of the dtype of x, or a number
    returns  shape and dtype of x; of several values for one element the last counts, and gets
             the gradient
    raises   ShapeError if the shapes do not fit; DTypeError if the dtypes differ; IndexError
             when the value is computed, if an index is out of range
    >>> import bedplate as bp
    >>> x, index, src = bp.zeros(3), bp.tensor([0, 0, 2]), bp.tensor([1.0, 2.0, 5.0])
    >>> bp.scatter(x, 0, index, src).tolist()
    [2.0, 0.0, 5.0]
    """
    axis = normalised_axis("scatter", axis, len(x.shape), x)
    places, values = _scattered("scatter", x, axis, index, src)
    return reshape(replaced_rows(reshape(x, (-1,)), places, values), x.shape)


def scatter_add(x: Value, axis: int, index: Value, src: Value) -> Value:
    """Add elements by index along an axis: y[i, index[i, j]] = x[...] + the sum of src[i, j].

    axis, index, src, raises  as for `scatter`
    returns  shape and dtype of x; sums run in the order of the index
    >>> import bedplate as bp
    >>> x, index, src = bp.ones(3), bp.tensor([0, 0, 2]), bp.tensor([1.0, 2.0, 5.0])
    >>> bp.scatter_add(x, 0, index, src).tolist()
    [4.0, 1.0, 6.0]
    """
    return scatter_reduce(x, axis, index, src, "sum")


def scatter_reduce(
    x: Value, axis: int, index: Value, src: Value, reduce: str, include_self: bool = True
) -> Value:
    """Join elements by index along an axis: y[i, index[i, j]] = x[...] joined with src[i, j].

    axis, index, src, raises  as for `scatter`
    reduce        "sum", "prod", "mean", "amax" or "amin"
    include_self  whether x[...] itself is joined where something is
    returns       shape and dtype of x. Those that are largest (or smallest) share the gradient
                  equally; that of a product is right where factors are 0; means of integers are
                  rounded down
    >>> import bedplate as bp
    >>> x, index, src = bp.ones(3), bp.tensor([0, 0, 2]), bp.tensor([1.0, 2.0, 5.0])
    >>> bp.scatter_reduce(x, 0, index, src, "amax", include_self=False).tolist()
    [2.0, 1.0, 5.0]
    """
    axis = normalised_axis("scatter_reduce", axis, len(x.shape), x)
    _check_reduction("scatter_reduce", reduce)
    places, values = _scattered("scatter_reduce", x, axis, index, src)
    rows, values = reshape(x, (-1, 1)), reshape(values, (-1, 1))
    return reshape(_joined(rows, places, values, reduce, include_self), x.shape)


def _check_reduction(op: str, reduce: str) -> None:
    if reduce not in REDUCTIONS:
        raise ValueError(f"{op}: reduce must be one of {REDUCTIONS}, got {reduce!r}")


def _scattered(op: str, x: Value, axis: int, index: Value, src: Value) -> tuple[Value, Value]:
    """The places in the flattened x, and the value for each, both with one axis."""
    src = _like(op, x, src)
    if not src.shape:
        src = broadcast_to(src, index.shape)
    check_index(op, x, index, axis)
    if len(src.shape) != len(index.shape) or any(
        i > n for i, n in zip(index.shape, src.shape, strict=True)
    ):
        refuse(
            ShapeError, op, "the source does not fit", {"index": index, "src": src},
            "it has the axes of the index, none shorter",
        )  # fmt: skip
    values = src[tuple(slice(0, n) for n in index.shape)]
    count = (math.prod(index.shape),)
    places = places_along(op, x, index, axis, index.shape)
    return reshape(places, count), reshape(values, count)


def _like(op: str, x: Value, value: Value) -> Value:
    """`value` as a value of the dtype of x; numbers are made so."""
    if is_number(value):
        return number(x, value)
    (_, value) = as_values(op, (x, value))
    if value.dtype is not x.dtype:
        refuse(
            DTypeError, op, "the dtypes differ", {"x": x, "value": value},
            f"try value.astype(bp.{x.dtype.name})",
        )  # fmt: skip
    return value


def _joined(rows: Value, places: Value, values: Value, reduce: str, include_self: bool) -> Value:
    """(n_rows, width) rows with values (n, width) joined in at `places`."""
    n_rows = rows.shape[0]
    if 0 in values.shape or 0 in rows.shape:
        return rows._alias()
    mean = reduce == "mean"
    if include_self:
        own = index_along(rows, 0, (n_rows,))
        places, values = concat([own, places]), concat([rows, values])
    result = joined_rows(places, values, n_rows, "sum" if mean else reduce)
    count = sum_rows(places, ones_like(expand_dims(places, -1)), n_rows)  # (n_rows, 1)
    if mean:
        safe = as_type(maximum(count, 1), rows.dtype)
        result = divide(result, safe) if rows.dtype.is_float else floor_divide(result, safe)
    return result if include_self else where(equal(count, 0), rows, result)


def _rows(op: str, x: Value, axis: int, index: Value, source: Value) -> tuple[Value, Value, Value]:
    """x and the source as rows (n_rows, width), (n, width), and the checked index (n,)."""
    if len(index.shape) > 1:
        refuse(ShapeError, op, "the index has more than one axis", {"index": index})
    index = reshape(index, (-1,))
    source = _like(op, x, source)
    wanted = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    if not source.shape and index.shape == (1,):
        source = broadcast_to(source, wanted)
    if source.shape != wanted:
        refuse(
            ShapeError, op, "the source does not fit", {"x": x, "index": index, "source": source},
            f"expected {wanted}: the shape of x with axis {axis} as long as the index",
        )  # fmt: skip
    checked = checked_index(index, x.shape[axis], f"{op}: axis {axis}")
    width = math.prod(beside(x, axis))
    rows = reshape(moveaxis(x, axis, 0), (x.shape[axis], width))
    return rows, checked, reshape(moveaxis(source, axis, 0), (index.shape[0], width))


def _from_rows(x: Value, axis: int, rows: Value) -> Value:
    """Rows back in the layout of x."""
    return moveaxis(reshape(rows, (x.shape[axis], *beside(x, axis))), 0, axis)


def index_add(
    x: Value, axis: int, index: Value, source: Value, alpha: bool | int | float = 1
) -> Value:
    """Add slices by index along an axis: y[index[i]] = x[...] + alpha times the sum of source[i].

    axis     `dim` works too
    index    (n,) or ()  integers in [-size, size)
    source   shape of x with the axis n long, dtype of x
    returns  shape and dtype of x; sums run in the order of the index
    raises   ShapeError if the shapes do not fit; DTypeError if the dtypes differ; IndexError
             when the value is computed, if an index is out of range
    >>> import bedplate as bp
    >>> bp.index_add(bp.ones(3), 0, bp.tensor([0, 0]), bp.tensor([1.0, 2.0])).tolist()
    [4.0, 1.0, 1.0]
    """
    axis = normalised_axis("index_add", axis, len(x.shape), x)
    source = _like("index_add", x, source)
    source = source if alpha == 1 else multiply(source, number(x, alpha))
    rows, index, source = _rows("index_add", x, axis, index, source)
    return _from_rows(x, axis, _joined(rows, index, source, "sum", True))


def index_reduce(
    x: Value, axis: int, index: Value, source: Value, reduce: str, include_self: bool = True
) -> Value:
    """Join slices by index along an axis: y[index[i]] = x[...] joined with source[i].

    axis, index, source, raises  as for `index_add`
    reduce, include_self         as for `scatter_reduce`
    >>> import bedplate as bp
    >>> x, index, source = bp.ones(3), bp.tensor([0, 0]), bp.tensor([2.0, 3.0])
    >>> bp.index_reduce(x, 0, index, source, "prod").tolist()
    [6.0, 1.0, 1.0]
    """
    axis = normalised_axis("index_reduce", axis, len(x.shape), x)
    _check_reduction("index_reduce", reduce)
    rows, index, source = _rows("index_reduce", x, axis, index, source)
    return _from_rows(x, axis, _joined(rows, index, source, reduce, include_self))


def index_copy(x: Value, axis: int, index: Value, source: Value) -> Value:
    """Replace slices by index along an axis: y[index[i]] = source[i], y = x elsewhere.

    axis, index, source, raises  as for `index_add`
    returns  shape and dtype of x; of several slices for one place the last counts, and gets the
             gradient
    >>> import bedplate as bp
    >>> bp.index_copy(bp.zeros(3), 0, bp.tensor([0, 0]), bp.tensor([1.0, 2.0])).tolist()
    [2.0, 0.0, 0.0]
    """
    axis = normalised_axis("index_copy", axis, len(x.shape), x)
    rows, index, source = _rows("index_copy", x, axis, index, source)
    return _from_rows(x, axis, replaced_rows(rows, index, source))


def index_fill(x: Value, axis: int, index: Value, value: Value) -> Value:
    """Replace slices by index along an axis by one value: y[index[i]] = value.

    axis     `dim` works too
    index    (n,) or ()  integers in [-size, size)
    value    a number, or a value of shape (), cast to the dtype of x
    raises   ShapeError if the shapes do not fit; IndexError when the value is computed, if an
             index is out of range
    >>> import bedplate as bp
    >>> bp.index_fill(bp.zeros(3), 0, bp.tensor([0, -1]), 7.0).tolist()
    [7.0, 0.0, 7.0]
    """
    axis = normalised_axis("index_fill", axis, len(x.shape), x)
    if len(index.shape) > 1:
        refuse(ShapeError, "index_fill", "the index has more than one axis", {"index": index})
    if 0 in index.shape:
        return x._alias()
    size = x.shape[axis]
    checked = checked_index(reshape(index, (-1,)), size, f"index_fill: axis {axis}")
    written = last_writer(checked, size) >= 0
    shape = tuple(size if i == axis else 1 for i in range(len(x.shape)))
    return masked_fill(x, reshape(written, shape), value)


def index_put(x: Value, indices: Sequence[Value], values: Value, accumulate: bool = False) -> Value:
    """Replace, or add to, the elements that index values choose together: y[i, j, ...] = values.

    indices     integers, one value for each of the first axes of x; their shapes broadcast. A
                bool mask stands for the places that it shows, and is computed at once for that
    values      broadcast to the chosen shape; a value of the dtype of x, or a number
    accumulate  add to x, in the order of the indices; otherwise of several values for one place
                the last counts, and gets the gradient
    raises      ShapeError, DTypeError if the arguments do not fit; IndexError when the value is
                computed, if an index is out of range. For slices write x[key] = values
    >>> import bedplate as bp
    >>> i, j = bp.tensor([0, 1]), bp.tensor([1, 1])
    >>> bp.index_put(bp.zeros((2, 2)), [i, j], 5.0).tolist()
    [[0.0, 5.0], [0.0, 5.0]]
    """
    values = _like("index_put", x, values)
    given = [index if hasattr(index, "_apply") else x._lift(index) for index in indices]
    chosen = [
        part for index in given for part in (nonzero(index) if index.dtype is bool_ else (index,))
    ]
    count = len(chosen)
    if not 1 <= count <= len(x.shape):
        refuse(ShapeError, "index_put", f"{count} indices for {len(x.shape)} axes", {"x": x})
    place: Value = 0
    for axis, index in enumerate(chosen):
        checked = checked_index(index, x.shape[axis], f"index_put: axis {axis}")
        place = add(multiply(place, x.shape[axis]), checked) if axis else checked
    inner = x.shape[count:]
    n_chosen, width = math.prod(place.shape), math.prod(inner)
    rows = reshape(x, (math.prod(x.shape[:count]), width))
    source = reshape(broadcast_to(values, (*place.shape, *inner)), (n_chosen, width))
    place = reshape(place, (n_chosen,))
    if accumulate:
        return reshape(_joined(rows, place, source, "sum", True), x.shape)
    return reshape(replaced_rows(rows, place, source), x.shape)


def put_along_axis(x: Value, indices: Value, values: Value, axis: int = -1) -> Value:
    """Replace one element for each index along an axis: y[i, indices[i, j]] = values[i, j].

    indices  integers, as many axes as x; sizes broadcast with x but for the axis
    values   broadcast to the shape of the indices; a value of the dtype of x, or a number
    returns  shape and dtype of x: a new value, unlike NumPy's
    raises   ShapeError if the numbers of axes differ; else as for `scatter`
    >>> import bedplate as bp
    >>> x, indices = bp.tensor([[1, 2], [3, 4]]), bp.tensor([[1], [0]])
    >>> bp.put_along_axis(x, indices, 9).tolist()
    [[1, 9], [9, 4]]
    """
    axis = normalised_axis("put_along_axis", axis, len(x.shape), x)
    if len(indices.shape) != len(x.shape):
        refuse(
            ShapeError, "put_along_axis", "x and indices differ in their number of axes",
            {"x": x, "indices": indices},
        )  # fmt: skip
    shape = (*x.shape[:axis], indices.shape[axis], *x.shape[axis + 1 :])
    indices = broadcast_to(indices, shape)
    return scatter(x, axis, indices, broadcast_to(_like("put_along_axis", x, values), shape))


def masked_fill(x: Value, mask: Value, value: Value) -> Value:
    """Replace what a mask shows by one value: y = value where mask else x.

    mask     bool, broadcasts with x
    value    a number, or a value of shape (), cast to the dtype of x
    raises   ShapeError if the value has axes; DTypeError for a mask that is not bool
    >>> import bedplate as bp
    >>> bp.masked_fill(bp.tensor([1.0, 2.0]), bp.tensor([True, False]), 0.0).tolist()
    [0.0, 2.0]
    """
    if is_number(value):
        return where(mask, number(x, value), x)
    if value.shape:
        refuse(ShapeError, "masked_fill", "the value has axes", {"x": x, "value": value},
               "try bp.where(mask, value, x)")  # fmt: skip
    return where(mask, as_type(value, x.dtype), x)


def masked_scatter(x: Value, mask: Value, source: Value) -> Value:
    """Replace what a mask shows by the elements of a source, in their order.

    mask     bool, broadcasts with x
    source   dtype of x; at least as many elements as the mask shows
    raises   DTypeError; IndexError when the value is computed, if the source is too short
    >>> import bedplate as bp
    >>> x, mask = bp.zeros(3), bp.tensor([True, False, True])
    >>> bp.masked_scatter(x, mask, bp.tensor([1.0, 2.0, 3.0])).tolist()
    [1.0, 0.0, 2.0]
    """
    source = _like("masked_scatter", x, source)
    if mask.dtype is not bool_:
        refuse(DTypeError, "masked_scatter", "the mask is not bool", {"mask": mask})
    shape = broadcast_shapes("masked_scatter", (mask, x))
    mask, x = broadcast_to(mask, shape), broadcast_to(x, shape)
    if 0 in x.shape:
        return x._alias()
    flat = reshape(mask, (-1,))
    rank = where(flat, cumsum(as_type(flat, int64), axis=0) - 1, 0)
    size = math.prod(source.shape)
    # without a source, the first place that the mask shows is out of range
    source = reshape(source, (-1,)) if size else reshape(x, (-1,))[:1]
    rank = rank if size else where(flat, 1, rank)
    checked = checked_index(rank, max(size, 1), "masked_scatter: source", wrap=False)
    taken = apply(TAKE, (source, checked), {"axis": 0})
    return where(mask, reshape(taken, x.shape), x)


def one_hot(x: Value, num_classes: int = -1) -> Value:
    """1 at the class, 0 elsewhere, along a new last axis, as in PyTorch.

    x            integers in [0, num_classes)
    num_classes  -1: one more than the largest, for which x is computed at once
    returns      (..., num_classes) int64; bp.one_hot has other dtypes, and zeros out of range
    raises       IndexError when the value is computed, if a class is out of range; ValueError
                 for no classes at all
    >>> import bedplate as bp
    >>> bp.nn.functional.one_hot(bp.tensor([1, 0]), 3).tolist()
    [[0, 1, 0], [1, 0, 0]]
    """
    num_classes = operator.index(num_classes)
    if num_classes == -1:
        if 0 in x.shape:
            raise ValueError("one_hot: no values to tell the number of classes from; give it")
        num_classes = int(max_(x).item()) + 1
    if num_classes < 1:
        raise ValueError(f"one_hot: {num_classes} classes; there must be one at least")
    checked = checked_index(x, num_classes, "one_hot: class", wrap=False)
    shape = (1,) * len(x.shape) + (num_classes,)
    return as_type(equal(expand_dims(checked, -1), index_along(x, len(x.shape), shape)), int64)
