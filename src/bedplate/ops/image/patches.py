"""Windows as values: patches of images in columns and back (unfold, fold), sliding windows.

A window is one strided slice for each of its elements; the gradient of a slice puts it back. So
unfold and fold are each other's transposes, and each other's gradients.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from bedplate.errors import ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value, normalised_axes, several
from bedplate.ops.convolution.windows import batched, per_axis, unbatched, window_count
from bedplate.ops.pointwise.arithmetic import add
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.regions import concat, narrow, pad, placed, region_stops, slice_
from bedplate.ops.shape.views import expand_dims, reshape

Sizes = int | Sequence[int]


class _Windows:
    """The numbers of windows over two axes of space."""

    def __init__(
        self, op: str, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
    ) -> None:
        self.op = op
        self.window = per_axis(op, "kernel_size", kernel_size, 2, 1)
        self.dilation = per_axis(op, "dilation", dilation, 2, 1)
        self.padding = per_axis(op, "padding", padding, 2, 0)
        self.stride = per_axis(op, "stride", stride, 2, 1)

    def counts(self, space: Shape, x: Value) -> Shape:
        """How many windows there are along each axis."""
        found = tuple(
            window_count(size, k, s, 2 * p, d)
            for size, k, d, p, s in zip(
                space, self.window, self.dilation, self.padding, self.stride, strict=True
            )
        )
        if min(found) < 1:
            refuse(ShapeError, self.op, f"the window does not fit into {space}", {"x": x},
                   f"kernel_size {self.window}, dilation {self.dilation}, padding "
                   f"{self.padding}")  # fmt: skip
        return found

    def starts(self) -> Iterator[Shape]:
        """Where each element of the first window lies, row by row."""
        for place in itertools.product(*(range(k) for k in self.window)):
            yield tuple(k * d for k, d in zip(place, self.dilation, strict=True))


def unfold(
    x: Value, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Value:
    """Lay the patches of images side by side as columns (im2col).

    y[n, (c, k), p] = x[n, c, p stride + k dilation - padding], with two parts of k and p, each
    counted row by row

    x            (N, C, H, W) or (C, H, W)  any dtype
    kernel_size  of a patch; like the others one number or one an axis
    dilation     the distance between neighbours in a patch
    padding      zeros on both sides
    stride       how far patches are apart
    returns      (N, C K, P): K elements a patch, P patches
    gradient     `fold`
    raises       ShapeError if the patch does not fit
    cost         K copies of x
    >>> import bedplate as bp
    >>> x = bp.tensor([[[1, 2, 3], [4, 5, 6]]])
    >>> bp.nn.functional.unfold(x, (2, 2)).tolist()
    [[1, 2], [2, 3], [4, 5], [5, 6]]
    """
    windows = _Windows("unfold", kernel_size, dilation, padding, stride)
    x, alone = batched("unfold", 2, x)
    out = windows.counts(x.shape[2:], x)
    edges = tuple((p, p) for p in windows.padding)
    padded = pad(x, ((0, 0), (0, 0), *edges))
    n, channels = x.shape[:2]
    taps = []
    for start in windows.starts():
        stops = region_stops(out, start, windows.stride)
        tap = slice_(padded, (0, 0, *start), (n, channels, *stops), (1, 1, *windows.stride))
        taps.append(reshape(tap, (n, channels, 1, math.prod(out))))
    columns = reshape(concat(taps, 2), (n, channels * len(taps), math.prod(out)))
    return unbatched(columns, alone)


def fold(
    x: Value, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0,
    stride: Sizes = 1,
) -> Value:  # fmt: skip
    """Add patches in columns up to images (col2im): the transpose of `unfold`.

    y[n, c, i] = sum of x[n, (c, k), p] over k, p with p stride + k dilation - padding = i

    x            (N, C K, P) or (C K, P)  numbers: K elements a patch, P patches
    output_size  (H, W) of the images
    kernel_size, dilation, padding, stride  as for `unfold`
    returns      (N, C, H, W); elements that are in several patches are sums
    gradient     `unfold`
    raises       ShapeError if the sizes do not belong together
    cost         K additions an element of y
    >>> import bedplate as bp
    >>> bp.nn.functional.fold(bp.ones((2, 2)), (1, 3), (1, 2)).tolist()
    [[[1.0, 2.0, 1.0]]]
    """
    windows = _Windows("fold", kernel_size, dilation, padding, stride)
    space = per_axis("fold", "output_size", output_size, 2, 1)
    x, alone = batched("fold", 1, x)
    out, taps = windows.counts(space, x), math.prod(windows.window)
    n, rows, count = x.shape
    if rows % taps or count != math.prod(out):
        refuse(ShapeError, "fold", "the sizes do not fit", {"x": x},
               f"expected a multiple of {taps} rows, and {math.prod(out)} columns")  # fmt: skip
    columns = reshape(x, (n, rows // taps, taps, *out))
    whole = (n, rows // taps, *(s + 2 * p for s, p in zip(space, windows.padding, strict=True)))
    parts = []
    for number, start in enumerate(windows.starts()):
        part = reshape(narrow(columns, 2, number, 1), (n, rows // taps, *out))
        parts.append(placed(part, whole, (0, 0, *start), (1, 1, *windows.stride)))
    total = functools.reduce(add, parts)
    ends = tuple(p + s for p, s in zip(windows.padding, space, strict=True))
    inner = slice_(total, (0, 0, *windows.padding), (n, rows // taps, *ends))
    return unbatched(inner, alone)


def sliding_window_view(x: Value, window_shape: Sizes, axis: Any = None) -> Value:
    """All windows of a value, as further axes at its end.

    y[..., p, ..., k] = x[..., p + k, ...]

    x             any shape and dtype
    window_shape  the size of the window along each of the axes
    axis          which axes it moves along; None: all, as many as it has sizes
    returns       each axis with size - window + 1 places, then the axes of the window
    gradient      the sum over all windows that show the element
    raises        ShapeError if the window does not fit
    cost          one copy of x for each element of a window
    >>> import bedplate as bp
    >>> bp.sliding_window_view(bp.tensor([1, 2, 3, 4]), 2).tolist()
    [[1, 2], [2, 3], [3, 4]]
    """
    sizes = several(window_shape)
    axes = tuple(range(len(x.shape))) if axis is None else several(axis)
    if len(axes) != len(sizes):
        refuse(ShapeError, "sliding_window_view", f"{len(sizes)} sizes for {len(axes)} axes",
               {"x": x})  # fmt: skip
    normalised_axes("sliding_window_view", axes, x)
    ndim = len(x.shape)
    for number, size in zip(axes, sizes, strict=True):
        x = windows_along("sliding_window_view", x, number % ndim, size, 1)
    return x


def windows_along(op: str, x: Value, axis: int, size: int, step: int) -> Value:
    """The windows along one axis: their places there, their elements as a new last axis."""
    if not 1 <= size <= x.shape[axis] or step < 1:
        refuse(ShapeError, op, f"no window of {size} in steps of {step} along axis {axis}",
               {"x": x}, f"the axis has size {x.shape[axis]}")  # fmt: skip
    count = (x.shape[axis] - size) // step + 1
    parts = []
    for first in range(size):
        starts, stops, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
        starts[axis], steps[axis] = first, step
        stops[axis] = first + (count - 1) * step + 1
        parts.append(expand_dims(slice_(x, starts, stops, steps), -1))
    return concat(parts, -1)
