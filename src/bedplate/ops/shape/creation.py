"""Values made from nothing but a shape: full, zeros, ones, arange, linspace, eye, one_hot, tril.

Each takes `like`, a value whose class (node or tensor) and device the result has; the tensor
floor wraps those that users call without one.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from bedplate.devices.device import Device
from bedplate.dtypes import DType, as_dtype, bool_, float32, float64, int64, uint64
from bedplate.errors import ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value, as_type, number
from bedplate.ops.leaves import constant, iota
from bedplate.ops.pointwise.arithmetic import add, multiply
from bedplate.ops.pointwise.comparison import equal, greater_equal
from bedplate.ops.pointwise.convert import astype, where
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.shape.views import broadcast_to, expand_dims

Number = bool | int | float


def full(like: Value, shape: Shape, value: Number, dtype: DType) -> Value:
    """`value` in every element."""
    return broadcast_to(number(like, value, dtype), shape)


def full_like(
    x: Value,
    fill_value: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Value:
    """`fill_value` in every element, with the shape of x.

    fill_value     a number, or a value of no axes, whose gradient is the sum over all elements
    dtype, device  by default those of x
    requires_grad  of a tensor: gradients are computed for it
    >>> import bedplate as bp
    >>> bp.full_like(bp.tensor([1, 2]), 7).tolist()
    [7, 7]
    """
    wanted = x.dtype if dtype is None else as_dtype(dtype)
    like = x if device is None else x._from_node(constant(0, bool_, Device(device)))
    if hasattr(fill_value, "_apply"):
        result = broadcast_to(astype(fill_value, wanted, device=device), x.shape)
    else:
        result = full(like, x.shape, fill_value, wanted)
    if requires_grad:
        result.requires_grad = True
    return result


def empty_like(
    x: Value, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Value:
    """A value of the shape of x whose elements do not matter; they are zeros.

    dtype, device  by default those of x
    >>> import bedplate as bp
    >>> bp.empty_like(bp.tensor([1, 2])).shape
    (2,)
    """
    return full_like(x, 0, dtype, device, requires_grad)


def zeros_like(
    x: Value, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Value:
    """0 in every element, with the shape of x.

    dtype, device  by default those of x
    >>> import bedplate as bp
    >>> bp.zeros_like(bp.tensor([1, 2])).tolist()
    [0, 0]
    """
    return full_like(x, 0, dtype, device, requires_grad)


def ones_like(
    x: Value, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Value:
    """1 in every element, with the shape of x.

    dtype, device  by default those of x
    >>> import bedplate as bp
    >>> bp.ones_like(bp.tensor([1, 2])).tolist()
    [1, 1]
    """
    return full_like(x, 1, dtype, device, requires_grad)


def index_along(like: Value, axis: int, shape: Shape, dtype: DType = int64) -> Value:
    """The index of each element along `axis`."""
    return like._from_node(iota(axis, shape, dtype, like.device))


def arange(like: Value, start: Number, stop: Number, step: Number, dtype: DType) -> Value:
    """start, start + step, ... before stop; whole numbers are counted exactly."""
    if step == 0:
        raise ValueError("arange: the step must not be 0")
    if isinstance(start, float) or isinstance(stop, float) or isinstance(step, float):
        index = index_along(like, 0, (max(0, math.ceil((stop - start) / step)),), float64)
        return as_type(add(multiply(index, step), start), dtype)
    count = max(0, -((start - stop) // step))
    index = index_along(like, 0, (count,), int64)
    if min(start, start + step * count) >= -(2**63) and max(start, step, -step) < 2**63:
        return as_type(add(multiply(index, step), start), dtype)
    word = 2**64  # uint64 wraps around to the numbers that int64 has not
    index = as_type(index, uint64)
    return as_type(add(multiply(index, step % word), start % word), dtype)


def linspace(
    like: Value, start: complex, stop: complex, count: int, dtype: DType, endpoint: bool = True
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


def eye(like: Value, rows: int, columns: int, k: int, dtype: DType) -> Value:
    """1 where column = row + k, else 0."""
    row = index_along(like, 0, (rows, 1))
    column = index_along(like, 1, (1, columns))
    return as_type(equal(add(row, k), column), dtype)


def one_hot(index: Value, count: int, dtype: Any = float32) -> Value:
    """1 at the index, 0 elsewhere, along a new last axis.

    index    integers; one outside [0, count) gives a row of zeros
    count    how many there may be
    returns  (..., count)
    raises   ValueError for a negative count
    >>> import bedplate as bp
    >>> bp.one_hot(bp.tensor([1, 0]), 3).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    count = operator.index(count)
    if count < 0:
        raise ValueError(f"one_hot: count must not be negative, got {count}")
    index = expand_dims(as_type(index, int64), -1)
    shape = (1,) * (len(index.shape) - 1) + (count,)
    return as_type(equal(index, index_along(index, len(shape) - 1, shape)), as_dtype(dtype))


def _below(op: str, x: Value, k: int) -> Value:
    """True where row + k >= column, over the last two axes."""
    if len(x.shape) < 2:
        refuse_inputs(ShapeError, op, "at least two axes are needed", (x,))
    rows, columns = x.shape[-2:]
    row = index_along(x, 0, (rows, 1))
    return greater_equal(add(row, operator.index(k)), index_along(x, 1, (1, columns)))


def tril(x: Value, k: int = 0) -> Value:
    """The lower triangle of the last two axes, zeros elsewhere.

    k        diagonals above the main one that are kept (negative: below, not kept)
    returns  shape of x; y[i, j] = x[i, j] if j <= i + k else 0
    >>> import bedplate as bp
    >>> bp.tril(bp.tensor([[1, 2], [3, 4]])).tolist()
    [[1, 0], [3, 4]]
    """
    return where(_below("tril", x, k), x, number(x, 0))


def triu(x: Value, k: int = 0) -> Value:
    """The upper triangle of the last two axes, zeros elsewhere.

    k        diagonals above the main one that are not kept (negative: below, kept)
    returns  shape of x; y[i, j] = x[i, j] if j >= i + k else 0
    >>> import bedplate as bp
    >>> bp.triu(bp.tensor([[1, 2], [3, 4]])).tolist()
    [[1, 2], [0, 4]]
    """
    return where(_below("triu", x, k - 1), number(x, 0), x)
