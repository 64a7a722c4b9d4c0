"""grid_sample and affine_grid: images looked up at coordinates, and the coordinates of a warp.

Each sample is a weighted sum of neighbours, chosen by `row_take` from each plane; a neighbour that
is outside has the place -1, which gives 0. So the gradient of the image is `row_add`, and that of
the grid comes from the weights.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from bedplate.dtypes import int32
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value, as_type, number
from bedplate.ops.image.resampling_tables import keys
from bedplate.ops.indexing.row_choice import row_take
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.pointwise.arithmetic import (
    abs_,
    add,
    divide,
    floor_divide,
    multiply,
    remainder,
    subtract,
)
from bedplate.ops.pointwise.comparison import equal, greater_equal, isfinite, less, logical_and
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.extremes import clip
from bedplate.ops.pointwise.rounding import floor, round_
from bedplate.ops.reduction.statistics import wide
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.regions import concat
from bedplate.ops.shape.views import broadcast_to, expand_dims, moveaxis, reshape, squeeze

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


def _pixels(grid: Value, size: int, align: bool) -> Value:
    """Coordinates from -1 to 1 as places among `size` pixels."""
    if align:
        return multiply(add(grid, 1), (size - 1) / 2)
    return divide(subtract(multiply(add(grid, 1), size), 1), 2)


def _reflected(x: Value, size: int, align: bool) -> Value:
    """Places mirrored at the borders, as often as needed."""
    low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
    if span == 0:
        return multiply(x, 0)
    distance = abs_(subtract(x, low))
    turns, rest = floor_divide(distance, span), remainder(distance, span)
    odd = equal(remainder(turns, 2), 1)
    return add(where(odd, subtract(number(rest, span), rest), rest), low)


def _bounded(x: Value, size: int, padding: str, align: bool) -> Value:
    """Places brought inside, as the padding mode asks."""
    if padding == "zeros":
        return x
    if padding == "reflection":
        x = _reflected(x, size, align)
    return clip(x, 0, size - 1)


Corner = tuple[Value, Value]  # (places along one axis, as floats, and their weights)


def _linear_corners(x: Value, size: int, padding: str, align: bool) -> list[Corner]:
    x = _bounded(x, size, padding, align)
    low = floor(x)
    part = subtract(x, low)
    return [(low, subtract(number(part, 1.0), part)), (add(low, 1), part)]


def _nearest_corners(x: Value, size: int, padding: str, align: bool) -> list[Corner]:
    place = round_(_bounded(x, size, padding, align))
    return [(place, number(place, 1.0))]


def _cubic_corners(x: Value, size: int, padding: str, align: bool) -> list[Corner]:
    """Four neighbours, each of which is brought inside on its own."""
    low = floor(x)
    part = subtract(x, low)
    found = []
    for shift in range(-1, 3):
        place = _bounded(add(low, shift), size, padding, align)
        distance = abs_(subtract(part, shift))
        found.append((place, where(less(distance, 1), *keys(distance))))
    return found


CORNERS: dict[str, Callable[[Value, int, str, bool], list[Corner]]] = {
    "bilinear": _linear_corners,
    "nearest": _nearest_corners,
    "bicubic": _cubic_corners,
}


def _place(corner: Sequence[Value], space: Shape) -> Value:
    """Places in a plane as int32; -1 for what is outside of it, or no number."""
    flat: Any = None
    inside: Any = None
    for at, size in zip(corner, space, strict=True):
        known = logical_and(greater_equal(at, 0), less(at, size))
        inside = known if inside is None else logical_and(inside, known)
        whole = as_type(where(logical_and(known, isfinite(at)), at, number(at, 0)), int32)
        flat = whole if flat is None else add(multiply(flat, size), whole)
    return where(inside, flat, number(flat, -1))


def _check(x: Value, grid: Value, mode: str, padding_mode: str) -> None:
    named = {"x": x, "grid": grid}
    if mode not in MODES:
        raise ValueError(f"grid_sample: unknown mode {mode!r}; there are {', '.join(MODES)}")
    if padding_mode not in PADDINGS:
        words = ", ".join(PADDINGS)
        raise ValueError(f"grid_sample: unknown padding_mode {padding_mode!r}; there are {words}")
    if not x.dtype.is_float or x.dtype is not grid.dtype:
        refuse(DTypeError, "grid_sample", "the dtypes must be one float dtype", named)
    rank = len(x.shape) - 2
    if rank not in (2, 3) or len(grid.shape) != rank + 2 or grid.shape[-1] != rank:
        refuse(ShapeError, "grid_sample", "the shapes do not fit", named,
               "expected x (N, C, H, W) and grid (N, H', W', 2), or one more of each")  # fmt: skip
    if x.shape[0] != grid.shape[0] or 0 in x.shape[2:]:
        refuse(ShapeError, "grid_sample", "there is no image for each grid", named)
    if mode == "bicubic" and rank == 3:
        refuse(ShapeError, "grid_sample", "mode 'bicubic' is for images", named)


def grid_sample(
    x: Value, grid: Value, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Value:  # fmt: skip
    """Look images up at coordinates.

    y[n, c, p] = sum over the neighbours k of grid[n, p] of weight[n, p, k] x[n, c, k]

    x              (N, C, H, W) or (N, C, D, H, W)  floats; computed in float32 or better
    grid           (N, H', W', 2) or (N, D', H', W', 3)  dtype of x: (x, y) or (x, y, z), where -1
                   and 1 are the borders of the image; may be anything else
    mode           "bilinear": 2 neighbours an axis, by distance; "nearest", halves to even;
                   "bicubic": 4 an axis, Keys' cubic with a = -0.75, images only
    padding_mode   what is outside: "zeros"; "border": the nearest inside; "reflection": mirrored
    align_corners  -1 and 1 are the centres of the outer pixels, not their outer edges
    returns        (N, C, H', W') or (N, C, D', H', W'), dtype of x; a coordinate that is NaN gives
                   NaN (bilinear, bicubic) or 0
    gradient       of x: added up where it was looked up, in order; of the grid: of the weights
    raises         ShapeError, DTypeError, ValueError for what does not belong together
    cost           one gather of all channels for each neighbour
    source         Jaderberg et al. 2015, arXiv:1506.02025
    >>> import bedplate as bp
    >>> x = bp.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> grid = bp.tensor([[[[-1.0, -1.0], [0.0, 0.0], [1.0, 0.0]]]])
    >>> bp.nn.functional.grid_sample(x, grid, align_corners=True).tolist()
    [[[[1.0, 2.5, 3.0]]]]
    """
    _check(x, grid, mode, padding_mode)
    n, channels, *space = x.shape
    out = grid.shape[1:-1]
    rows, points = n * channels, math.prod(out)
    align = bool(align_corners)
    plane = reshape(wide(x), (rows, math.prod(space)))
    flat = reshape(wide(grid), (n, 1, points, len(space)))
    axes = []
    for axis, size in enumerate(space):
        # the last coordinate belongs to the first axis
        along = squeeze(flat[:, :, :, len(space) - 1 - axis : len(space) - axis], 3)
        axes.append(CORNERS[mode](_pixels(along, size, align), size, padding_mode, align))
    total: Any = None
    for corner in itertools.product(*axes):
        place = _place([at for at, _ in corner], tuple(space))
        weight = functools.reduce(multiply, (share for _, share in corner))
        place = reshape(broadcast_to(place, (n, channels, points)), (rows, points))
        value = multiply(reshape(row_take(plane, place), (n, channels, points)), weight)
        total = value if total is None else add(total, value)
    return as_type(reshape(total, (n, channels, *out)), x.dtype)


def affine_grid(theta: Value, size: Sequence[int], align_corners: bool | None = None) -> Value:
    """Make the grid for `grid_sample` that is an affine map of the pixels of the result.

    grid[n, p] = theta[n] (p, 1), with the coordinates of p from -1 to 1

    theta          (N, 2, 3) or (N, 3, 4)  floats
    size           (N, C, H, W) or (N, C, D, H, W) of the result
    align_corners  -1 and 1 are the centres of the outer pixels, not their outer edges
    returns        (N, H, W, 2) or (N, D, H, W, 3), dtype of theta
    gradient       of theta, a matrix product
    raises         ShapeError if the sizes do not fit; DTypeError for what is no float
    cost           one product of matrices an image
    >>> import bedplate as bp
    >>> theta = bp.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> bp.nn.functional.affine_grid(theta, (1, 1, 1, 2), align_corners=True).tolist()
    [[[[-1.0, 0.0], [1.0, 0.0]]]]
    """
    n, _, *space = size
    rank = len(space)
    if rank not in (2, 3) or tuple(theta.shape) != (n, rank, rank + 1):
        refuse(ShapeError, "affine_grid", f"theta does not fit {tuple(size)}", {"theta": theta},
               "expected (N, 2, 3) for (N, C, H, W), (N, 3, 4) for (N, C, D, H, W)")  # fmt: skip
    if not theta.dtype.is_float:
        refuse(DTypeError, "affine_grid", "only floats have an affine map", {"theta": theta})
    columns = []
    for axis in reversed(range(rank)):
        shape = tuple(space[axis] if i == axis else 1 for i in range(rank))
        count = space[axis]
        at = as_type(index_along(theta, axis, shape), theta.dtype)
        if align_corners:
            at = subtract(multiply(at, 2 / max(count - 1, 1)), 1 if count > 1 else 0)
        else:
            at = subtract(divide(add(multiply(at, 2), 1), count), 1)
        columns.append(expand_dims(broadcast_to(at, tuple(space)), -1))
    columns.append(broadcast_to(number(theta, 1), (*space, 1)))
    points = reshape(concat(columns, -1), (math.prod(space), rank + 1))
    grid = matmul(points, moveaxis(theta, 1, 2))
    return reshape(grid, (n, *space, rank))
