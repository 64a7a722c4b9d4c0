"""What convolution, pooling and unfolding share: the numbers of a window that moves over space."""

from __future__ import annotations

import operator
from typing import Any

from bedplate.errors import ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.views import expand_dims, squeeze

Pairs = tuple[tuple[int, int], ...]


def per_axis(op: str, what: str, given: Any, rank: int, least: int) -> Shape:
    """One number for each axis of space, from one for all or one for each.

    raises ShapeError for another count, or for a number below `least`
    """
    several = (given,) * rank if hasattr(given, "__index__") else tuple(given)
    several = several * rank if len(several) == 1 else several
    sizes = tuple(operator.index(size) for size in several)
    if len(sizes) != rank or min(sizes) < least:
        raise ShapeError(
            f"{op}: {what} {given!r} does not fit\n"
            f"  expected one integer, or {rank}, each at least {least}"
        )
    return sizes


def steps(op: str, stride: Any, window: Shape) -> Shape:
    """The stride along each axis; None, or nothing in brackets, is the size of the window."""
    if stride is None or (not hasattr(stride, "__index__") and not len(stride)):
        return window
    return per_axis(op, "stride", stride, len(window), 1)


def window_count(size: int, window: int, stride: int, padding: int, dilation: int) -> int:
    """How many places a window has along an axis; less than 1 where it does not fit.

    padding   on both sides together
    """
    return (size + padding - dilation * (window - 1) - 1) // stride + 1


def lifted(sizes: Any, fill: int) -> tuple[int, int, int]:
    """Three sizes, of which the first are `fill`: two dimensions and one are computed as three."""
    first, second, third = (fill,) * (3 - len(sizes)) + tuple(sizes)
    return first, second, third


def space_names(rank: int) -> str:
    """The letters of the axes of space, as documentation has them: "H, W"."""
    return "L" if rank == 1 else ", ".join("DHW"[3 - rank :])


def batched(op: str, rank: int, x: Value) -> tuple[Value, bool]:
    """x as (N, C, *space), and whether it came without N.

    raises ShapeError for another number of axes
    """
    ndim = len(x.shape)
    if ndim == rank + 1:
        return expand_dims(x, 0), True
    if ndim != rank + 2:
        names = space_names(rank)
        refuse(ShapeError, op, f"{rank} axes of space are needed", {"x": x},
               f"expected (N, C, {names}) or (C, {names})")  # fmt: skip
    return x, False


def unbatched(y: Value, alone: bool) -> Value:
    """y without its first axis, if x came without."""
    return squeeze(y, 0) if alone else y
