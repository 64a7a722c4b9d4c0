"""Diagonals of matrices: diagonal, trace, diag, diag_embed, block_diag."""

from __future__ import annotations

import operator
from typing import Any

from bedplate.dtypes import as_dtype
from bedplate.errors import ShapeError
from bedplate.ops.build import Value, normalised_axis, number, promoted
from bedplate.ops.linalg.matrices import require_matrices
from bedplate.ops.pointwise.arithmetic import add
from bedplate.ops.pointwise.comparison import equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.reduction.reduce import sum_, summed_dtype
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.regions import concat, pad, slice_
from bedplate.ops.shape.views import expand_dims, moveaxis, reshape


def diagonal(x: Value, /, *, offset: int = 0) -> Value:
    """The diagonals of matrices, over the last two axes.

    x        (..., M, N)
    offset   which: 0 the main one, positive above it, negative below
    returns  (..., n), n elements; a view where x is contiguous
    raises   ShapeError
    >>> import bedplate as bp
    >>> bp.linalg.diagonal(bp.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    require_matrices("diagonal", x)
    offset = operator.index(offset)
    *batch, rows, columns = x.shape
    first_row, first_column = max(0, -offset), max(0, offset)
    count = max(0, min(rows - first_row, columns - first_column))
    flat = reshape(x, (*batch, rows * columns))
    start = first_row * columns + first_column if count else 0
    stop = start + (count - 1) * (columns + 1) + 1 if count else 0
    zeros, ones = (0,) * len(batch), (1,) * len(batch)
    return slice_(flat, (*zeros, start), (*batch, stop), (*ones, columns + 1))


def diagonal_(x: Value, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """The diagonals over two axes, as NumPy's `diagonal` and PyTorch's.

    x             two axes or more
    offset        which: 0 the main one, positive above it, negative below
    axis1, axis2  rows and columns; the diagonal becomes the last axis
    raises        ShapeError
    >>> import bedplate as bp
    >>> bp.diagonal(bp.tensor([[1, 2], [3, 4]]), 1).tolist()
    [2]
    """
    return diagonal(_with_last(x, axis1, axis2, "diagonal"), offset=offset)


def trace(x: Value, /, *, offset: int = 0, dtype: Any = None) -> Value:
    """The sum of the diagonal of matrices, over the last two axes.

    x        (..., M, N)
    offset   which diagonal: positive above the main one, negative below
    dtype    of the result; None as for `sum`: bools and integers become 64-bit integers
    returns  (...)
    raises   ShapeError
    >>> import bedplate as bp
    >>> bp.linalg.trace(bp.tensor([[1, 2], [3, 4]])).item()
    5
    """
    target = summed_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    return sum_(diagonal(x, offset=offset), axis=-1, dtype=target)


def trace_(x: Value, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Value:
    """The sum of the diagonal over two axes, as NumPy's `trace` and PyTorch's.

    x             two axes or more; the other arguments are those of `linalg.trace`
    axis1, axis2  the rows and the columns of the matrices
    raises        ShapeError
    >>> import bedplate as bp
    >>> bp.trace(bp.tensor([[1, 2], [3, 4]])).item()
    5
    """
    return trace(_with_last(x, axis1, axis2, "trace"), offset=offset, dtype=dtype)


def _with_last(x: Value, axis1: int, axis2: int, name: str) -> Value:
    """x with two axes behind all others."""
    require_matrices(name, x)
    first, second = (normalised_axis(name, a, len(x.shape), x) for a in (axis1, axis2))
    if first == second:
        refuse(ShapeError, name, f"axes {axis1} and {axis2} are one axis", {"x": x})
    return moveaxis(x, (first, second), (-2, -1))


def diag_embed(x: Value, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Value:
    """Matrices with the last axis of x on a diagonal, zeros elsewhere.

    x             (..., n)
    offset        which diagonal: positive above the main one, negative below
    axis1, axis2  where rows and columns stand in the result
    returns       x.shape without its last axis, and rows and columns of n + |offset|
    raises        ShapeError
    >>> import bedplate as bp
    >>> bp.diag_embed(bp.tensor([1, 2]), 1).tolist()
    [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    """
    if not x.shape:
        refuse(ShapeError, "diag_embed", "a 0-d value has no axis for the diagonal", {"x": x})
    offset = operator.index(offset)
    n = x.shape[-1] + abs(offset)
    spaced = [(0, 0)] * (len(x.shape) - 1) + [(max(0, -offset), max(0, offset))]
    column = expand_dims(pad(x, spaced), -1)
    row = index_along(x, 0, (n, 1))
    chosen = equal(add(row, offset), index_along(x, 1, (1, n)))
    result = where(chosen, column, number(x, 0))
    first, second = (normalised_axis("diag_embed", a, len(result.shape), x) for a in (axis1, axis2))
    if first == second:
        refuse(ShapeError, "diag_embed", f"axes {axis1} and {axis2} are one axis", {"x": x})
    return moveaxis(result, (-2, -1), (first, second))


def diag(x: Value, offset: int = 0) -> Value:
    """The matrix with a vector on its diagonal, or the diagonal of a matrix.

    x        (n,) or (M, N)
    offset   which diagonal: positive above the main one, negative below
    raises   ShapeError for other shapes; see `diag_embed` and `diagonal` for stacks
    >>> import bedplate as bp
    >>> bp.diag(bp.tensor([1, 2])).tolist(), bp.diag(bp.tensor([[1, 2], [3, 4]])).tolist()
    ([[1, 0], [0, 2]], [1, 4])
    """
    if len(x.shape) not in (1, 2):
        refuse(ShapeError, "diag", "x must be a vector or a matrix", {"x": x},
               "see diag_embed and diagonal for stacks")  # fmt: skip
    return diag_embed(x, offset) if len(x.shape) == 1 else diagonal(x, offset=offset)


def block_diag(*tensors: Value) -> Value:
    """The matrix with matrices along its diagonal, zeros elsewhere.

    tensors  matrices; a vector counts as one row, a 0-d value as one element; dtypes are promoted
    returns  (sum of their rows, sum of their columns)
    raises   ShapeError for more than two axes
    >>> import bedplate as bp
    >>> bp.block_diag(bp.tensor([[1], [2]]), bp.tensor([3, 4])).tolist()
    [[1, 0, 0], [2, 0, 0], [0, 3, 4]]
    """
    blocks = []
    for x in promoted("block_diag", tensors):
        if len(x.shape) > 2:
            refuse(ShapeError, "block_diag", "a block has more than two axes", {"x": x})
        blocks.append(reshape(x, (1,) * (2 - len(x.shape)) + tuple(x.shape)))
    total, before = sum(block.shape[1] for block in blocks), 0
    rows = []
    for block in blocks:
        rows.append(pad(block, [(0, 0), (before, total - before - block.shape[1])]))
        before += block.shape[1]
    return concat(rows, 0)
