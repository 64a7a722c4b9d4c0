"""Values put together again: rolled, repeated, tiled, laid on a grid, and their differences.

All are composed of views, concatenation and choice, so their gradients come by themselves.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import bool_
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import (
    Value,
    as_values,
    broadcast_shapes,
    is_number,
    normalised_axis,
    number,
    several,
)
from bedplate.ops.indexing.repeated import refuse_negative, repeated_by_counts
from bedplate.ops.pointwise.arithmetic import subtract
from bedplate.ops.pointwise.comparison import not_equal
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.shape.regions import concat, narrow
from bedplate.ops.shape.views import Axes, as_sizes, broadcast_to, reshape


def broadcast_arrays(*arrays: Value) -> tuple[Value, ...]:
    """Each value repeated to the shape to which all broadcast, without copying.

    raises   ShapeError if the shapes do not broadcast
    arrays   at least one
    returns  as many values, all of one shape
    cost     none: whoever reads a result reads its source by other indices
    >>> import bedplate as bp
    >>> [x.shape for x in bp.broadcast_arrays(bp.zeros((3, 1)), bp.zeros(4))]
    [(3, 4), (3, 4)]
    """
    if not arrays:
        return ()
    values = as_values("broadcast_arrays", arrays)
    shape = broadcast_shapes("broadcast_arrays", values)
    return tuple(broadcast_to(value, shape) for value in values)


def meshgrid(*arrays: Value, indexing: str = "xy") -> tuple[Value, ...]:
    """The coordinates of a grid: value i varies along axis i, and is repeated along the others.

    arrays    1-d or 0-d
    indexing  "ij": axes in the order of the arrays; "xy": the first two exchanged, as in plots
    returns   one value an array, all of one shape, without copying
    raises    ShapeError for more than one axis; ValueError for another indexing
    >>> import bedplate as bp
    >>> rows, columns = bp.meshgrid(bp.arange(2), bp.arange(3), indexing="ij")
    >>> columns.tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', got {indexing!r}")
    count = len(arrays)
    order = list(range(count))
    if indexing == "xy" and count > 1:
        order[0], order[1] = 1, 0
    grid = []
    for value, place in zip(arrays, order, strict=True):
        if len(value.shape) > 1:
            refuse_inputs(ShapeError, "meshgrid", "an array has more than one axis", arrays)
        size = math.prod(value.shape)
        grid.append(reshape(value, tuple(size if i == place else 1 for i in range(count))))
    return broadcast_arrays(*grid)


def roll(x: Value, shift: Axes, axis: Axes | None = None) -> Value:
    """Shift elements along axes; what falls off the end comes in at the front.

    shift    places towards the end, negative towards the front; one, or one for each axis
    axis     one or several; an axis named twice is shifted by both; None: x flattened
    raises   ShapeError if shifts and axes do not pair
    >>> import bedplate as bp
    >>> bp.roll(bp.tensor([1, 2, 3, 4]), 1).tolist()
    [4, 1, 2, 3]
    """
    if axis is None:
        by = sum(several(shift))
        return reshape(_rolled(reshape(x, (math.prod(x.shape),)), by, 0), x.shape)
    axes = [normalised_axis("roll", a, len(x.shape), x) for a in several(axis)]
    shifts = several(shift)
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    axes = axes * len(shifts) if len(axes) == 1 else axes
    if len(shifts) != len(axes):
        refuse_inputs(ShapeError, "roll", f"shifts {shift} and axes {axis} do not pair", (x,))
    total = dict.fromkeys(axes, 0)
    for place, by in zip(axes, shifts, strict=True):
        total[place] += by
    for place, by in total.items():
        x = _rolled(x, by, place)
    return x._alias() if not total else x


def _rolled(x: Value, shift: int, axis: int) -> Value:
    size = x.shape[axis]
    cut = -shift % size if size else 0
    if not cut:
        return x._alias()
    return concat([narrow(x, axis, cut, size - cut), narrow(x, axis, 0, cut)], axis)


def tile(x: Value, *repetitions: Any) -> Value:
    """x side by side with itself, along each axis.

    repetitions  how often an axis, as one tuple or one after the other; the shorter of it and the
                 shape is filled up with ones at the front
    returns      each size times its repetitions; the gradient is the sum over them
    raises       ValueError for a negative count
    cost         one write an element; nothing is copied before
    >>> import bedplate as bp
    >>> bp.tile(bp.tensor([1, 2]), (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    counts = as_sizes("tile", repetitions)
    if min(counts, default=0) < 0:
        raise ValueError(f"tile: a count must not be negative, got {counts}")
    ndim = max(len(counts), len(x.shape))
    shape = (1,) * (ndim - len(x.shape)) + tuple(x.shape)
    counts = (1,) * (ndim - len(counts)) + counts
    return _repeated(x, shape, counts, outside=True)


def _repeated(x: Value, shape: Shape, counts: Shape, outside: bool) -> Value:
    """Each axis `counts` times: all of it after itself, or (not outside) each element."""
    apart: list[int] = []
    wide: list[int] = []
    for size, count in zip(shape, counts, strict=True):
        apart += [1, size] if outside else [size, 1]
        wide += [count, size] if outside else [size, count]
    whole = tuple(size * count for size, count in zip(shape, counts, strict=True))
    return reshape(broadcast_to(reshape(x, tuple(apart)), tuple(wide)), whole)


def repeat(x: Value, repeats: Any, axis: int | None = None) -> Value:
    """Each element several times in a row along an axis.

    repeats  how often: an integer, or a 1-d tensor (or list) with one count an element of the
             axis; a tensor is computed at once, since the shape depends on its values, and of
             these the least and the sum are read
    axis     None: x flattened
    returns  the gradient of an element is the sum over its repetitions
    raises   ValueError for a negative count; ShapeError if the counts do not match the axis;
             DTypeError if they are no integers
    >>> import bedplate as bp
    >>> bp.repeat(bp.tensor([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    >>> bp.repeat(bp.tensor([1, 2]), bp.tensor([0, 3])).tolist()
    [2, 2, 2]
    """
    if axis is None:
        x, axis = reshape(x, (math.prod(x.shape),)), 0
    axis = normalised_axis("repeat", axis, len(x.shape), x)
    counts = _repeats(repeats)
    size = x.shape[axis]
    if math.prod(counts.shape) == 1:
        count = int(counts.item())
        refuse_negative(count)
        times = tuple(count if i == axis else 1 for i in range(len(x.shape)))
        return _repeated(x, x.shape, times, outside=False)
    if counts.shape != (size,):
        refuse_inputs(
            ShapeError, "repeat", f"{counts.shape} counts do not match axis {axis}", (x,),
            f"one count, or one for each of its {size} elements",
        )  # fmt: skip
    return repeated_by_counts(x, counts, axis)


def _repeats(repeats: Any) -> Any:
    """The counts: integers of a tensor as they are, all else as a NumPy array of integers."""
    if hasattr(repeats, "_apply") and math.prod(repeats.shape) and repeats.dtype.is_integer:
        return repeats
    counts = np.asarray(repeats.numpy() if hasattr(repeats, "numpy") else repeats)
    if counts.dtype.kind not in "iu" and counts.size:
        raise DTypeError(f"repeat: counts are integers, got {counts.dtype}")
    return counts.astype(np.int64)


def diff(
    x: Value,
    n: int = 1,
    axis: int = -1,
    prepend: Value | None = None,
    append: Value | None = None,
) -> Value:
    """The differences of neighbours along an axis: y[i] = x[i + 1] - x[i], n times.

    x                numbers; bools give whether neighbours differ
    n                how often; each time the axis is one shorter, down to 0
    axis             which; by default the last
    prepend, append  put before and behind x first; a number stands for one slice of it
    raises           ValueError for a negative n; ShapeError for a value without axes
    >>> import bedplate as bp
    >>> bp.diff(bp.tensor([1, 4, 9, 16])).tolist(), bp.diff(bp.tensor([1, 4, 9, 16]), n=2).tolist()
    ([3, 5, 7], [2, 2])
    """
    if n < 0:
        raise ValueError(f"diff: n must not be negative, got {n}")
    axis = normalised_axis("diff", axis, len(x.shape), x)
    if n == 0:
        return x._alias()
    pieces = [_slice_of(x, end, axis) for end in (prepend, x, append) if end is not None]
    x = concat(pieces, axis) if len(pieces) > 1 else x
    function = not_equal if x.dtype is bool_ else subtract
    for _ in range(n):
        size = x.shape[axis]
        if not size:
            break
        x = function(narrow(x, axis, 1, size - 1), narrow(x, axis, 0, size - 1))
    return x


def _slice_of(x: Value, end: Value, axis: int) -> Value:
    """What is put beside x: a number becomes one slice."""
    value = number(x, end) if is_number(end) else as_values("diff", (x, end))[1]
    if value.shape:
        return value
    return broadcast_to(value, tuple(1 if i == axis else s for i, s in enumerate(x.shape)))
