"""Pooling to a given number of outputs: adaptive_max_pool and adaptive_avg_pool.

    output i of m covers the elements from floor(i size / m) to ceil((i + 1) size / m)

Where m divides the size these are windows of one size, and the kernels of pooling.py serve; else
the elements are gathered, as many for each output as the widest has.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from bedplate.dtypes import int32, int64
from bedplate.errors import ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value, as_type, number
from bedplate.ops.convolution.windows import batched, unbatched
from bedplate.ops.elementwise import NUMBERS
from bedplate.ops.indexing.gather import TAKE
from bedplate.ops.indexing.row_choice import row_take
from bedplate.ops.pointwise.arithmetic import add, divide, floor_divide, multiply, subtract
from bedplate.ops.pointwise.comparison import less
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.extremes import minimum
from bedplate.ops.pooling.pooling import require_floats, require_numbers, window_sum
from bedplate.ops.pooling.records import MAX_POOL
from bedplate.ops.record import apply
from bedplate.ops.reduction.positions import argmax
from bedplate.ops.reduction.reduce import sum_
from bedplate.ops.reduction.statistics import mean, wide
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.views import broadcast_to, outputs, reshape

Target = int | Sequence[int | None] | None


def _targets(op: str, rank: int, output_size: Target, x: Value) -> Shape:
    """The number of outputs along each axis; None keeps the size."""
    several = output_size if isinstance(output_size, Sequence) else (output_size,) * rank
    if len(several) != rank or any(n is not None and n < 1 for n in several):
        raise ShapeError(
            f"{op}: output_size {output_size!r} does not fit\n"
            f"  expected one positive integer, or {rank}; None keeps a size"
        )
    if 0 in x.shape[2:]:
        raise ShapeError(f"{op}: there is nothing to pool in an input of shape {x.shape}")
    return tuple(
        size if n is None else operator.index(n)
        for n, size in zip(several, x.shape[2:], strict=True)
    )


def _even(space: Shape, out: Shape) -> dict[str, Any] | None:
    """The windows as attributes of a record, if all have one size."""
    if any(size % n for size, n in zip(space, out, strict=True)):
        return None
    window = tuple(size // n for size, n in zip(space, out, strict=True))
    ones, zeros = (1,) * len(out), (0,) * len(out)
    return {"window": window, "stride": window, "before": zeros, "dilation": ones, "out": out}


def _widest(size: int, out: int) -> int:
    return max(-(-(i + 1) * size // out) - i * size // out for i in range(min(out, size)))


def _bounds(x: Value, size: int, out: int, rank: int, axis: int) -> tuple[Value, Value]:
    """Where each output begins and ends along an axis, as values of `rank` axes."""
    number_ = index_along(x, axis, tuple(out if i == axis else 1 for i in range(rank)))
    start = floor_divide(multiply(number_, size), out)
    end = floor_divide(add(multiply(number_, size), size + out - 1), out)
    return start, end


def _mean_along(x: Value, axis: int, out: int) -> Value:
    """The means of the parts of one axis."""
    size = x.shape[axis]
    if size == out:
        return x
    start, end = _bounds(x, size, out, 2, 0)
    reach = _widest(size, out)
    place = add(start, index_along(x, 1, (1, reach)))
    taken = apply(TAKE, (x, minimum(place, size - 1)), {"axis": axis})
    inside = reshape(less(place, end), (out, reach) + (1,) * (len(x.shape) - axis - 1))
    total = sum_(where(inside, taken, number(taken, 0)), axis=axis + 1)
    count = reshape(subtract(end, start), (out,) + (1,) * (len(x.shape) - axis - 1))
    return divide(total, as_type(count, total.dtype))


def _avg_pool(op: str, rank: int, x: Value, output_size: Target) -> Value:
    require_floats(op, x)
    x, alone = batched(op, rank, x)
    out = _targets(op, rank, output_size, x)
    windows = _even(x.shape[2:], out)
    if set(out) == {1}:
        y = mean(x, axis=tuple(range(2, 2 + rank)), keepdims=True)
    elif windows is not None:
        total = window_sum(x, windows)
        y = divide(total, number(total, math.prod(windows["window"])))
    else:
        y = wide(x)
        for axis, count in enumerate(out, 2):
            y = _mean_along(y, axis, count)
    return unbatched(as_type(y, x.dtype), alone)


def _table(x: Value, space: Shape, out: Shape) -> Value:
    """The places in a plane that each output covers: (outputs, most of one output).

    An output that covers less has its last place several times.
    """
    rank = len(space)
    reaches = tuple(_widest(size, n) for size, n in zip(space, out, strict=True))
    total: Any = None
    for axis, (size, n) in enumerate(zip(space, out, strict=True)):
        start, end = _bounds(x, size, n, 2 * rank, axis)
        shape = tuple(reaches[axis] if i == rank + axis else 1 for i in range(2 * rank))
        place = minimum(add(start, index_along(x, rank + axis, shape)), subtract(end, 1))
        total = place if total is None else add(multiply(total, size), place)
    return reshape(broadcast_to(total, (*out, *reaches)), (math.prod(out), math.prod(reaches)))


def _places(x: Value, out: Shape) -> tuple[Value, Value]:
    """(the greatest elements, their places in the planes) of parts of unequal sizes."""
    rows, width = math.prod(x.shape[:2]), math.prod(x.shape[2:])
    flat, table = reshape(x, (rows, width)), _table(x, x.shape[2:], out)
    chosen = argmax(apply(TAKE, (flat, table), {"axis": 1}), axis=2)
    count, reach = table.shape
    at = add(multiply(index_along(x, 1, (1, count)), reach), chosen)
    places = apply(TAKE, (reshape(table, (count * reach,)), at), {"axis": 0})
    shape = (*x.shape[:2], *out)
    places = as_type(places, int32)
    return reshape(row_take(flat, places), shape), reshape(places, shape)


def _max_pool(op: str, rank: int, x: Value, output_size: Target, return_indices: bool) -> Any:
    require_numbers(op, x, NUMBERS, "cast first: x.astype(bp.float32)")
    x, alone = batched(op, rank, x)
    out = _targets(op, rank, output_size, x)
    windows = _even(x.shape[2:], out)
    if windows is None:
        values, places = _places(x, out)
    else:
        values, places = outputs(apply(MAX_POOL, (x,), windows))
    values = unbatched(values, alone)
    return (values, unbatched(as_type(places, int64), alone)) if return_indices else values


def adaptive_avg_pool1d(x: Value, output_size: Target) -> Value:
    """Take the means of a given number of parts of a sequence.

    x            (N, C, L) or (C, L)  floats
    output_size  how many parts; see `adaptive_avg_pool2d` for where they lie
    returns      (N, C, output_size)
    >>> import bedplate as bp
    >>> bp.nn.functional.adaptive_avg_pool1d(bp.tensor([[1.0, 2.0, 4.0]]), 2).tolist()
    [[1.5, 3.0]]
    """
    return _avg_pool("adaptive_avg_pool1d", 1, x, output_size)


def adaptive_avg_pool2d(x: Value, output_size: Target) -> Value:
    """Take the means of a given number of parts of an image, whatever its size.

    y[n, c, i] = mean of x[n, c, floor(i size / m) : ceil((i + 1) size / m)], along both axes

    x            (N, C, H, W) or (C, H, W)  floats; bfloat16 and float16 are added in float32
    output_size  m, one number or one an axis; None keeps a size
    returns      (N, C, m, m); 1 is the mean over the image
    gradient     each element gets the shares of the parts that it is in
    raises       ShapeError for sizes below 1; DTypeError for integers
    cost         one pass over x where m divides the sizes, else one gathered copy for each axis
    >>> import bedplate as bp
    >>> bp.nn.functional.adaptive_avg_pool2d(bp.tensor([[[1.0, 3.0], [5.0, 7.0]]]), 1).tolist()
    [[[4.0]]]
    """
    return _avg_pool("adaptive_avg_pool2d", 2, x, output_size)


def adaptive_avg_pool3d(x: Value, output_size: Target) -> Value:
    """Take the means of a given number of parts of a volume.

    x            (N, C, D, H, W) or (C, D, H, W)  floats
    output_size  as for `adaptive_avg_pool2d`
    returns      (N, C, m, m, m)
    >>> import bedplate as bp
    >>> bp.nn.functional.adaptive_avg_pool3d(bp.ones((1, 4, 5, 6, 7)), (2, None, 3)).shape
    (1, 4, 2, 6, 3)
    """
    return _avg_pool("adaptive_avg_pool3d", 3, x, output_size)


def adaptive_max_pool1d(x: Value, output_size: Target, return_indices: bool = False) -> Value:
    """Find the greatest elements of a given number of parts of a sequence.

    x        (N, C, L) or (C, L)  numbers; the arguments are those of `adaptive_max_pool2d`
    returns  (N, C, output_size), or also the index of each along L
    >>> import bedplate as bp
    >>> bp.nn.functional.adaptive_max_pool1d(bp.tensor([[1, 3, 2]]), 2).tolist()
    [[3, 3]]
    """
    return _max_pool("adaptive_max_pool1d", 1, x, output_size, return_indices)


def adaptive_max_pool2d(x: Value, output_size: Target, return_indices: bool = False) -> Value:
    """Find the greatest elements of a given number of parts of an image.

    y[n, c, i] = max of x[n, c, floor(i size / m) : ceil((i + 1) size / m)], along both axes

    x               (N, C, H, W) or (C, H, W)  floats or integers
    output_size     m, one number or one an axis; None keeps a size
    return_indices  also where they are: int64, counted row by row through H x W
    returns         (N, C, m, m); NaN if there is one in the part
    gradient        goes to the element that was chosen: the first of equals, the first NaN
    raises          ShapeError for sizes below 1; DTypeError for bools
    cost            one pass over x where m divides the sizes, else one gathered copy
    >>> import bedplate as bp
    >>> x = bp.tensor([[[1.0, 3.0], [5.0, 7.0]]])
    >>> bp.nn.functional.adaptive_max_pool2d(x, (2, 1), return_indices=True)[1].tolist()
    [[[1], [3]]]
    """
    return _max_pool("adaptive_max_pool2d", 2, x, output_size, return_indices)


def adaptive_max_pool3d(x: Value, output_size: Target, return_indices: bool = False) -> Value:
    """Find the greatest elements of a given number of parts of a volume.

    x        (N, C, D, H, W) or (C, D, H, W)  numbers; as for `adaptive_max_pool2d`
    returns  (N, C, m, m, m), or also the indices through D x H x W
    >>> import bedplate as bp
    >>> bp.nn.functional.adaptive_max_pool3d(bp.ones((2, 3, 4, 4)), 3).shape
    (2, 3, 3, 3)
    """
    return _max_pool("adaptive_max_pool3d", 3, x, output_size, return_indices)
