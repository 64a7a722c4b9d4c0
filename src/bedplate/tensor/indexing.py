"""Indexing: `x[key]`, and `x[key] = v` as an updated value.

Integers, slices, None and `...` are the business of `ops/indexing/slices.py`. Here come the keys
that hold arrays: integer arrays and tensors, lists, boolean masks, several at once. The indexed
axes are merged into one and taken along it. As in NumPy, the axes of the index arrays stand
where the indexed axes stood if those were adjacent, else first.

A mask is read when it is used, since the shape of the result depends on its values; integer
tensors stay lazy, and what is out of range raises when the value is computed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import as_dtype, bool_, int64, uint64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import is_number, number
from bedplate.ops.indexing.gather import TAKE
from bedplate.ops.indexing.scatter import replaced_rows
from bedplate.ops.indexing.slices import get_item, region, set_item
from bedplate.ops.pointwise.convert import checked_index, where
from bedplate.tensor.data import to_array

FULL = slice(None)
KINDS = "biufc"
LARGEST = np.iinfo(np.int64).max
PLAIN = frozenset((int, slice, type(None), type(Ellipsis)))


def get(x: Any, key: Any) -> Any:
    """`x[key]` as a new value.

    raises  IndexError for an index out of range (index, axis, size) and for too many indices
    """
    if type(key) is int:
        return get_item(x, key)
    items = _items(key)
    if any(map(_is_array, items)):
        if _is_one_condition(items):
            whole = get_item(x, None)
            return whole if _truth(items[0]) else get_item(whole, slice(0))
        return _get_arrays(x, items)
    result = get_item(x, key)
    return x._alias() if result is x else result


def _items(key: Any) -> list[Any]:
    """The entries of a key; a Python bool is an array without axes."""
    items = key if isinstance(key, tuple) else (key,)
    return [np.bool_(item) if isinstance(item, bool) else item for item in items]


def _is_array(item: Any) -> bool:
    if type(item) in PLAIN or isinstance(item, np.integer):
        return False
    return (
        hasattr(item, "_node")
        or isinstance(item, list | tuple | range)
        or hasattr(item, "__array__")
    )


def _is_one_condition(items: list[Any]) -> bool:
    """Whether the key is one mask without axes: it chooses all of x or nothing, as a new axis."""
    dtype = getattr(items[0], "dtype", None)
    return len(items) == 1 and (dtype is bool_ or dtype == np.bool_) and not len(items[0].shape)


def _truth(condition: Any) -> bool:
    return bool(condition)


class _Array:
    """An index array of a key: for one axis, or one of the axes of a mask.

    index  a NumPy array or a tensor, int64
    size   that a mask expects of the axis, or None
    """

    __slots__ = ("index", "size")

    def __init__(self, index: Any, size: int | None = None) -> None:
        self.index = index
        self.size = size


def _resolved(items: list[Any]) -> list[Any]:
    """The key with each array as one `_Array` per axis that it indexes."""
    result: list[Any] = []
    for item in items:
        result.extend(_arrays_of(item) if _is_array(item) else [item])
    return result


def _arrays_of(item: Any) -> list[_Array]:
    if hasattr(item, "_node"):
        if item.dtype.is_integer:
            return [_Array(item if item.dtype is uint64 else item.astype(int64))]
        item = item.numpy() if item.dtype is bool_ else item
    item = list(item) if isinstance(item, tuple | range) else item
    dtype = getattr(item, "dtype", None)
    array = np.empty(0) if hasattr(item, "_node") else np.asarray(to_array(item))
    if isinstance(item, list) and not array.size:
        array, dtype = array.astype(np.int64), None
    if array.dtype == np.bool_:
        return _mask_arrays(array)
    if array.dtype.kind not in "iu":
        raise IndexError(f"indexing: an index is an integer or a bool, not {dtype or array.dtype}")
    if array.dtype == np.uint64:  # what is too large for int64 must not become a negative index
        array = np.minimum(array, np.uint64(LARGEST))
    return [_Array(array.astype(np.int64))]


def _mask_arrays(mask: np.ndarray[Any, Any]) -> list[_Array]:
    if not mask.ndim:
        raise IndexError("indexing: a single bool is no index; choose by a condition with where()")
    return [_Array(index, size) for index, size in zip(mask.nonzero(), mask.shape, strict=True)]


def _get_arrays(x: Any, items: list[Any]) -> Any:
    items = _resolved(items)
    key = tuple(FULL if isinstance(item, _Array) else item for item in items)
    chosen = region(x, key)
    places = _axes_of_arrays(items, len(x.shape))
    arrays = [
        (chosen.axes[axis], _checked(item, axis, x.shape[axis])) for axis, item in places.items()
    ]
    return _take(get_item(x, key), arrays, _is_first(items))


def _axes_of_arrays(items: list[Any], ndim: int) -> dict[int, _Array]:
    """The axis of x that each index array indexes."""
    used = sum(item is not None and item is not Ellipsis for item in items)
    places: dict[int, _Array] = {}
    axis = 0
    for item in items:
        if isinstance(item, _Array):
            places[axis] = item
        axis += ndim - used if item is Ellipsis else item is not None
    return places


def _is_first(items: list[Any]) -> bool:
    """Whether slices stand between the indices, so that their axes go to the front."""
    advanced = [
        place
        for place, item in enumerate(items)
        if not (item is None or item is Ellipsis or isinstance(item, slice))
    ]
    return advanced[-1] - advanced[0] + 1 != len(advanced)


def _checked(item: _Array, axis: int, size: int) -> Any:
    """An index array in [0, size): checked now if it is known, when it is computed if lazy."""
    index = item.index
    if hasattr(index, "_node"):
        return checked_index(index, size, f"indexing: axis {axis}")
    if item.size is not None:
        if item.size != size:
            raise IndexError(
                f"indexing: a mask of length {item.size} does not fit axis {axis} of size {size}"
            )
        return index
    wrong = (index < -size) | (index >= size)
    if wrong.any():
        first = index[wrong].reshape(-1)[0]
        raise IndexError(f"indexing: index {first} is out of range for axis {axis} of size {size}")
    return np.where(index < 0, index + size, index)


def _take(x: Any, arrays: list[tuple[Any, Any]], first: bool) -> Any:
    """The index arrays applied to the rest of the key: (axis of x, index) for each."""
    order, place, sizes = _index_axes_together(x, arrays, first)
    x = x.permute(order)
    x = x.reshape((*x.shape[:place], math.prod(sizes), *x.shape[place + len(sizes) :]))
    index = x._lift(_merged([index for _, index in arrays], sizes))
    return x._apply(TAKE, (x, index), {"axis": place})


def _index_axes_together(
    x: Any, arrays: list[tuple[Any, Any]], first: bool
) -> tuple[list[int], int, list[int]]:
    """The axes of x with those of the index arrays side by side; where they stand; their sizes."""
    axes = [axis for axis, _ in arrays]
    others = [axis for axis in range(len(x.shape)) if axis not in axes]
    place = 0 if first else axes[0]
    return others[:place] + axes + others[place:], place, [x.shape[axis] for axis in axes]


def _merged(indices: list[Any], sizes: list[int]) -> Any:
    """One index into the merged axes; NumPy computes what it can."""
    linear = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        try:
            linear = linear * size + index
        except ValueError:
            shapes = ", ".join(str(tuple(index.shape)) for index in indices)
            raise IndexError(f"indexing: arrays of shapes {shapes} do not broadcast") from None
    return linear


def put(x: Any, key: Any, value: Any) -> Any:
    """The value of `x` with `x[key]` replaced by `value`, which is broadcast.

    value   a number, array or tensor; its gradient flows, except where x[key] names an element
            twice: the last one counts, and gets the gradient
    raises  IndexError; ShapeError if value does not broadcast; DTypeError if its kind does not fit
    """
    value = _fitting(x, value)
    items = _items(key)
    if not any(map(_is_array, items)):
        return set_item(x, key, value)
    if _is_one_condition(items) and len(value.shape) == len(x.shape) + 1:
        if not value.shape[0] and not _truth(items[0]):  # nothing goes to nothing
            return x._alias()
        value = get_item(value, 0)
    whole = _whole_mask(x, items, value)
    return _put_arrays(x, items, value) if whole is None else where(whole, value, x)


def _fitting(x: Any, value: Any) -> Any:
    """`value` as a tensor of the dtype of `x`."""
    lifted = None if is_number(value) else x._lift(value)
    kind = as_dtype(type(value)).kind if lifted is None else lifted.dtype.kind
    if KINDS.index(kind) > KINDS.index(x.dtype.kind) and (kind, x.dtype.kind) != ("i", "u"):
        what = type(value).__name__ if lifted is None else lifted.dtype
        raise DTypeError(
            f"x[...] = v: v is {what}, x is {x.dtype}\n"
            "  an assignment keeps the dtype; convert one side with .astype(...)"
        )
    return number(x, value) if lifted is None else lifted.astype(x.dtype)


def _whole_mask(x: Any, items: list[Any], value: Any) -> Any:
    """The condition under which one mask puts one value everywhere; None for other keys."""
    mask = items[0]
    dtype = getattr(mask, "dtype", None)
    if len(items) != 1 or (dtype is not bool_ and dtype != np.bool_):
        return None
    ndim = len(mask.shape)
    if tuple(mask.shape) != x.shape[:ndim] or len(value.shape) > len(x.shape) - ndim:
        return None
    return x._lift(mask).reshape((*mask.shape, *(1,) * (len(x.shape) - ndim)))


def _put_arrays(x: Any, items: list[Any], value: Any) -> Any:
    """Assignment through index arrays: the last value that an element is given stays."""
    items = _resolved(items)
    key = tuple(FULL if isinstance(item, _Array) else item for item in items)
    chosen = region(x, key)
    places = _axes_of_arrays(items, len(x.shape))
    arrays = [
        (chosen.axes[axis], _checked(item, axis, x.shape[axis])) for axis, item in places.items()
    ]
    changed = _put(get_item(x, key), arrays, _is_first(items), value)
    if math.prod(chosen.shape) == math.prod(x.shape) and set(chosen.steps) == {1}:
        return changed.reshape(x.shape)
    return set_item(x, key, changed)


def _put(x: Any, arrays: list[tuple[Any, Any]], first: bool, value: Any) -> Any:
    """x with `value` where the index arrays point: (axis of x, index) for each."""
    order, place, sizes = _index_axes_together(x, arrays, first)
    moved = x.permute(order)
    before, after = moved.shape[:place], moved.shape[place + len(sizes) :]
    index = x._lift(_merged([index for _, index in arrays], sizes))
    value = _expanded(value, (*before, *index.shape, *after))
    rows = moved.reshape((*before, math.prod(sizes), *after)).moveaxis(place, 0)
    values = value.reshape((*before, math.prod(index.shape), *after)).moveaxis(place, 0)
    changed = replaced_rows(rows, index.reshape((-1,)), values).moveaxis(0, place)
    back = tuple(order.index(axis) for axis in range(len(order)))
    return changed.reshape(moved.shape).permute(back)


def _expanded(value: Any, shape: Shape) -> Any:
    """`value` broadcast to `shape`."""
    try:
        return value.broadcast_to(shape)
    except ShapeError:
        raise ShapeError(
            f"x[...] = v: v has shape {value.shape}, which does not broadcast to {shape}"
        ) from None
