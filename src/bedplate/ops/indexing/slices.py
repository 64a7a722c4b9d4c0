"""x[key] and its counterpart x[key] = v, by slices, integers, None and `...`.

Index tensors and masks are added by the tensor floor, which may read values.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from bedplate.dtypes import bool_
from bedplate.errors import ShapeError
from bedplate.ops.build import Value, as_type, is_number, number
from bedplate.ops.pointwise.convert import where
from bedplate.ops.record import apply
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.regions import SLICE, UPDATE, flip, slice_, slice_count
from bedplate.ops.shape.views import RESHAPE, broadcast_to, reshape

Key = Any
ALL = slice(None)


class Region(NamedTuple):
    """What a key of integers, slices, None and ... chooses.

    starts, stops, steps   one an axis of x
    shape                  of the result: without integer axes, with the new axes
    axes                   for each axis of x its axis in the result, None where an integer stood
    """

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    steps: tuple[int, ...]
    shape: tuple[int, ...]
    axes: tuple[int | None, ...]


def _items(x: Value, key: Key) -> list[Any]:
    """The key as a list with one entry an axis of x, beside None; `...` written out."""
    items = list(key) if isinstance(key, tuple) else [key]
    used, dots = 0, []
    for place, item in enumerate(items):
        if item is Ellipsis:
            dots.append(place)
        elif item is not None:
            used += 1
    if len(dots) > 1:
        raise IndexError("indexing: only one '...' may stand in a key")
    if used > len(x.shape):
        raise IndexError(f"indexing: {used} indices for {len(x.shape)} axes")
    fill = [ALL] * (len(x.shape) - used)
    place = dots[0] if dots else len(items)
    return items[:place] + fill + items[place + len(dots) :]


def _integer(item: int, axis: int, size: int) -> int:
    if not -size <= item < size:
        raise IndexError(f"indexing: index {item} is out of range for axis {axis} of size {size}")
    return item % size


def region(x: Value, key: Key) -> Region:
    """What `key` chooses of x.

    raises   IndexError for an integer that is out of range or a key with too many entries;
             TypeError for an entry that is no index
    """
    bounds: list[tuple[int, int, int]] = []
    shape: list[int] = []
    axes: list[int | None] = []
    sizes = x.shape
    for item in _items(x, key):
        axis = len(bounds)
        if item is None:
            shape.append(1)
            continue
        size = sizes[axis]
        if isinstance(item, slice):
            start, stop, step = item.indices(size)
            bound = _tidy(start, stop, step, size)
            axes.append(len(shape))
            shape.append(slice_count(*bound))
            bounds.append(bound)
        else:
            place = _integer(_as_integer(item), axis, size)
            axes.append(None)
            bounds.append((place, place + 1, 1))
    starts, stops, steps = zip(*bounds, strict=True) if bounds else ((), (), ())
    return Region(starts, stops, steps, tuple(shape), tuple(axes))


def _as_integer(item: Any) -> int:
    if isinstance(item, bool) or not hasattr(item, "__index__"):
        raise TypeError(f"indexing: {item!r} is no index; use integers, slices, None or ...")
    return operator.index(item)


def _tidy(start: int, stop: int, step: int, size: int) -> tuple[int, int, int]:
    """Bounds that lie inside the axis also where nothing is chosen."""
    if slice_count(start, stop, step) == 0:
        return (0, 0, 1)
    return start, stop, step


def get_item(x: Value, key: Key) -> Value:
    """x[key].

    key      integers, slices (negative steps too), None for a new axis, and ...
    raises   IndexError for an integer that is out of range
    >>> import bedplate as bp
    >>> bp.tensor([[1, 2], [3, 4]])[:, 0].tolist()
    [1, 3]
    """
    if type(key) is int and x.shape:
        return _one(x, key)
    chosen = region(x, key)
    picked = slice_(x, chosen.starts, chosen.stops, chosen.steps)
    if picked.shape == chosen.shape:
        return picked
    return apply(RESHAPE, (picked,), {"shape": chosen.shape})


def _one(x: Value, place: int) -> Value:
    """The element, row or block at one place of the first axis: what a loop over x asks for."""
    size, *rest = x.shape
    start = _integer(place, 0, size)
    if size > 1:
        starts, steps = (start,) + (0,) * len(rest), (1,) * len(x.shape)
        x = apply(SLICE, (x,), {"starts": starts, "stops": (start + 1, *rest), "steps": steps})
    return apply(RESHAPE, (x,), {"shape": tuple(rest)})


def set_item(x: Value, key: Key, v: Value) -> Value:
    """x with x[key] replaced by v; x itself stays as it is.

    key      integers, slices, None, ..., or a bool mask that broadcasts to x
    v        a number or a value; broadcasts to the region, is cast to the dtype of x
    raises   ShapeError if v does not broadcast to the region
    """
    if hasattr(key, "dtype") and key.dtype is bool_:
        return where(key, as_type(_value(x, v), x.dtype), x)
    chosen = region(x, key)
    v = _value(x, v)
    try:
        v = broadcast_to(_without_leading_ones(v, len(chosen.shape)), chosen.shape)
    except ShapeError:
        refuse(
            ShapeError, "assignment", f"the value does not broadcast to the region {chosen.shape}",
            {"x": x, "value": v},
        )  # fmt: skip
    v = as_type(v, x.dtype)
    bounds = zip(chosen.starts, chosen.stops, chosen.steps, strict=True)
    sizes = tuple(slice_count(*bound) for bound in bounds)
    v = reshape(v, sizes)
    backward = tuple(axis for axis, step in enumerate(chosen.steps) if step < 0)
    v = flip(v, backward) if backward else v
    if 0 in sizes:
        return x._alias()
    starts = tuple(
        start if step > 0 else start + (size - 1) * step
        for start, step, size in zip(chosen.starts, chosen.steps, sizes, strict=True)
    )
    steps = tuple(abs(step) for step in chosen.steps)
    return apply(UPDATE, (x, v), {"starts": starts, "steps": steps})


def _value(x: Value, v: Any) -> Value:
    if is_number(v):
        return number(x, v)
    return v if hasattr(v, "_apply") else x._lift(v)


def _without_leading_ones(v: Value, ndim: int) -> Value:
    extra = len(v.shape) - ndim
    if extra > 0 and all(size == 1 for size in v.shape[:extra]):
        return reshape(v, v.shape[extra:])
    return v
