"""Values made from nothing but a shape: full, zeros, ones, arange, linspace, eye, one_hot, tril.

Each takes `like`, a value whose class (node or tensor) and device the result has; the tensor
floor wraps those that users call without one.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from bedplate.dtypes import DType, as_dtype, float32, float64, int64
from bedplate.graph.node import Shape
from bedplate.ops.arithmetic import add, multiply
from bedplate.ops.build import Value, as_type, number
from bedplate.ops.comparison import equal, greater_equal
from bedplate.ops.convert import where
from bedplate.ops.leaves import iota
from bedplate.ops.views import broadcast_to, expand_dims

Number = bool | int | float


def full(like: Value, shape: Shape, value: Number, dtype: DType) -> Value:
    """`value` in every element."""
    return broadcast_to(number(like, value, dtype), shape)


def full_like(x: Value, value: Number, dtype: Any = None) -> Value:
    """`value` in every element, with the shape and (by default) the dtype of x.

    >>> import bedplate as bp
    >>> bp.full_like(bp.tensor([1, 2]), 7).tolist()
    [7, 7]
    """
    return full(x, x.shape, value, x.dtype if dtype is None else as_dtype(dtype))


def zeros_like(x: Value, dtype: Any = None) -> Value:
    """0 in every element, with the shape and (by default) the dtype of x.

    >>> import bedplate as bp
    >>> bp.zeros_like(bp.tensor([1, 2])).tolist()
    [0, 0]
    """
    return full_like(x, 0, dtype)


def ones_like(x: Value, dtype: Any = None) -> Value:
    """1 in every element, with the shape and (by default) the dtype of x.

    >>> import bedplate as bp
    >>> bp.ones_like(bp.tensor([1, 2])).tolist()
    [1, 1]
    """
    return full_like(x, 1, dtype)


def index_along(like: Value, axis: int, shape: Shape, dtype: DType = int64) -> Value:
    """The index of each element along `axis`."""
    return like._from_node(iota(axis, shape, dtype, like.device))


def arange(like: Value, start: Number, stop: Number, step: Number, dtype: DType) -> Value:
    """start, start + step, ... before stop."""
    if step == 0:
        raise ValueError("arange: the step must not be 0")
    count = max(0, math.ceil((stop - start) / step))
    index = index_along(like, 0, (count,), int64 if dtype.is_integer else float64)
    return as_type(add(multiply(index, step), start), dtype)


def linspace(
    like: Value, start: float, stop: float, count: int, dtype: DType, endpoint: bool = True
) -> Value:
    """`count` numbers from start to stop at equal distances."""
    if count < 0:
        raise ValueError(f"linspace: the number of points must not be negative, got {count}")
    gaps = count - 1 if endpoint else count
    step = (stop - start) / gaps if gaps > 0 else 0.0
    index = index_along(like, 0, (count,), float64)
    points = add(multiply(index, step), start)
    if endpoint and count > 1:
        points = where(equal(index, count - 1), number(points, stop), points)
    return as_type(points, dtype)


def eye(like: Value, rows: int, columns: int, offset: int, dtype: DType) -> Value:
    """1 where column = row + offset, else 0."""
    row = index_along(like, 0, (rows, 1))
    column = index_along(like, 1, (1, columns))
    return as_type(equal(add(row, offset), column), dtype)


def one_hot(index: Value, count: int, dtype: Any = float32) -> Value:
    """1 at the index, 0 elsewhere, along a new last axis.

    index    integers; one outside [0, count) gives a row of zeros
    returns  (..., count)
    >>> import bedplate as bp
    >>> bp.one_hot(bp.tensor([1, 0]), 3).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    count = operator.index(count)
    index = expand_dims(as_type(index, int64), -1)
    shape = (1,) * (len(index.shape) - 1) + (count,)
    return as_type(equal(index, index_along(index, len(shape) - 1, shape)), as_dtype(dtype))


def _below(x: Value, offset: int) -> Value:
    """True where row + offset >= column, over the last two axes."""
    rows, columns = x.shape[-2:]
    row = index_along(x, 0, (rows, 1))
    return greater_equal(add(row, offset), index_along(x, 1, (1, columns)))


def tril(x: Value, offset: int = 0) -> Value:
    """The lower triangle of the last two axes, zeros elsewhere.

    offset   diagonals above the main one that are kept (negative: below, not kept)
    >>> import bedplate as bp
    >>> bp.tril(bp.tensor([[1, 2], [3, 4]])).tolist()
    [[1, 0], [3, 4]]
    """
    return where(_below(x, offset), x, number(x, 0))


def triu(x: Value, offset: int = 0) -> Value:
    """The upper triangle of the last two axes, zeros elsewhere.

    offset   diagonals above the main one that are not kept (negative: below, kept)
    >>> import bedplate as bp
    >>> bp.triu(bp.tensor([[1, 2], [3, 4]])).tolist()
    [[1, 2], [0, 4]]
    """
    return where(_below(x, offset - 1), number(x, 0), x)
