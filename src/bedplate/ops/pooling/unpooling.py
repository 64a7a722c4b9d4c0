"""max_unpool: the values of a max pool back where they were found, zeros elsewhere."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value
from bedplate.ops.convolution.windows import batched, per_axis, steps, unbatched
from bedplate.ops.indexing.indexed import scatter
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.creation import full
from bedplate.ops.shape.views import reshape

Sizes = int | Sequence[int]


def _space(
    op: str, x: Value, window: Shape, stride: Shape, padding: Shape,
    output_size: Sequence[int] | None,
) -> Shape:  # fmt: skip
    """The sizes that were pooled: the least ones, or those given, less than a stride larger."""
    least = tuple(
        (n - 1) * s - 2 * p + k
        for n, s, p, k in zip(x.shape[2:], stride, padding, window, strict=True)
    )
    if output_size is None:
        return least
    given = tuple(operator.index(size) for size in output_size)[-len(least) :]
    if len(given) != len(least) or any(
        not size - s < wanted < size + s
        for size, s, wanted in zip(least, stride, given, strict=False)
    ):
        refuse(ShapeError, op, f"output_size {tuple(output_size)} does not fit", {"x": x},
               f"expected {least}, or less than a stride {stride} from it")  # fmt: skip
    return given


def _max_unpool(
    op: str, rank: int, x: Value, indices: Value, kernel_size: Sizes, stride: Sizes | None,
    padding: Sizes, output_size: Sequence[int] | None,
) -> Value:  # fmt: skip
    named = {"x": x, "indices": indices}
    if x.shape != indices.shape:
        refuse(ShapeError, op, "x and indices differ in shape", named)
    if not indices.dtype.is_integer:
        refuse(DTypeError, op, "indices must be integers", named)
    window = per_axis(op, "kernel_size", kernel_size, rank, 1)
    apart = steps(op, stride, window)
    x, alone = batched(op, rank, x)
    edges = per_axis(op, "padding", padding, rank, 0)
    space = _space(op, x, window, apart, edges, output_size)
    rows, width = math.prod(x.shape[:2]), math.prod(space)
    flat = (rows, math.prod(x.shape[2:]))
    empty = full(x, (rows, width), 0, x.dtype)
    y = scatter(empty, 1, reshape(indices, flat), reshape(x, flat))
    return unbatched(reshape(y, (*x.shape[:2], *space)), alone)


def max_unpool1d(
    x: Value, indices: Value, kernel_size: Sizes, stride: Sizes | None = None,
    padding: Sizes = 0, output_size: Sequence[int] | None = None,
) -> Value:  # fmt: skip
    """Put the values of `max_pool1d` back where they were found.

    x        (N, C, L) or (C, L)  numbers; the arguments are those of `max_unpool2d`
    returns  (N, C, L')
    >>> import bedplate as bp
    >>> y, at = bp.nn.functional.max_pool1d(bp.tensor([[1, 3, 5, 4]]), 2, return_indices=True)
    >>> bp.nn.functional.max_unpool1d(y, at, 2).tolist()
    [[0, 3, 5, 0]]
    """
    return _max_unpool("max_unpool1d", 1, x, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    x: Value, indices: Value, kernel_size: Sizes, stride: Sizes | None = None,
    padding: Sizes = 0, output_size: Sequence[int] | None = None,
) -> Value:  # fmt: skip
    """Put the values of `max_pool2d` back where they were found, zeros elsewhere.

    y[n, c, indices[n, c, p]] = x[n, c, p]

    x            (N, C, H, W) or (C, H, W)  numbers
    indices      shape of x: integers, counted row by row through H' x W', as `max_pool2d` gives
                 them with return_indices
    kernel_size, stride, padding  of that pool; stride None: the size of the window
    output_size  what was pooled, where several sizes give that of x (its last axes count)
    returns      (N, C, H', W'), size = (size - 1) stride - 2 padding + kernel_size, or as given;
                 of values for one place the last stays
    gradient     that of the place where a value stayed
    raises       ShapeError for sizes that do not fit; IndexError for an index outside the plane
    cost         one pass over y and x
    source       Zeiler and Fergus 2013, arXiv:1311.2901
    >>> import bedplate as bp
    >>> x, at = bp.tensor([[[7.0]]]), bp.tensor([[[2]]])
    >>> bp.nn.functional.max_unpool2d(x, at, 2).tolist()
    [[[0.0, 0.0], [7.0, 0.0]]]
    """
    return _max_unpool("max_unpool2d", 2, x, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    x: Value, indices: Value, kernel_size: Sizes, stride: Sizes | None = None,
    padding: Sizes = 0, output_size: Sequence[int] | None = None,
) -> Value:  # fmt: skip
    """Put the values of `max_pool3d` back where they were found.

    x        (N, C, D, H, W) or (C, D, H, W)  numbers; the arguments are those of `max_unpool2d`
    returns  (N, C, D', H', W')
    >>> import bedplate as bp
    >>> x, at = bp.ones((1, 1, 1, 1)), bp.zeros((1, 1, 1, 1), dtype=bp.int64)
    >>> bp.nn.functional.max_unpool3d(x, at, 2).sum().item()
    1.0
    """
    return _max_unpool("max_unpool3d", 3, x, indices, kernel_size, stride, padding, output_size)
