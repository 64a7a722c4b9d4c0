"""Pooling with windows of one size: max_pool, avg_pool, lp_pool in one to three dimensions.

One implementation for all ranks; records and kernels are in records.py and
kernel.py. Windows whose size follows from the number of outputs: adaptive.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bedplate.dtypes import DType, float64, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value, as_type, number, without_gradient
from bedplate.ops.convolution.windows import batched, per_axis, steps, unbatched, window_count
from bedplate.ops.elementwise import NUMBERS
from bedplate.ops.pointwise.arithmetic import abs_, add, divide, multiply, subtract
from bedplate.ops.pointwise.comparison import equal, isfinite, logical_and, not_equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import pow_
from bedplate.ops.pointwise.extremes import maximum, minimum
from bedplate.ops.pooling.records import MAX_POOL, WINDOW_SUM
from bedplate.ops.record import apply
from bedplate.ops.reduction.reduce import max_
from bedplate.ops.reduction.statistics import wide
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.views import outputs

Sizes = int | Sequence[int]
WIDE_POWER = 6  # to which every float32 can be raised in float64


def _counts(op: str, x: Value, named: dict[str, Shape], ceil_mode: bool) -> Shape:
    """How many windows there are along each axis.

    With `ceil_mode` one more where a part of a window is left, if that starts inside of x or of
    the padding before it.
    """
    out = []
    for size, window, stride, padding, dilation in zip(x.shape[2:], *named.values(), strict=True):
        reach = dilation * (window - 1) + 1
        if 2 * padding > reach:
            refuse(ShapeError, op, f"padding {padding} is more than half of the window", {"x": x},
                   f"the window reaches over {reach}; at most {reach // 2} fits")  # fmt: skip
        left = size + 2 * padding - reach
        count = window_count(size, window, stride, 2 * padding, dilation)
        if ceil_mode and left % stride and count * stride < size + padding:
            count += 1
        if count < 1 or not size:
            refuse(ShapeError, op, "the window does not fit into the input", {"x": x},
                   f"it reaches over {reach} of {size + 2 * padding} with padding")  # fmt: skip
        out.append(count)
    return tuple(out)


def _windows(
    op: str, rank: int, x: Value, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
    dilation: Sizes, ceil_mode: bool,
) -> dict[str, Any]:  # fmt: skip
    """The attributes of the records; stride None: the size of the window."""
    window = per_axis(op, "kernel_size", kernel_size, rank, 1)
    named = {
        "window": window,
        "stride": steps(op, stride, window),
        "before": per_axis(op, "padding", padding, rank, 0),
        "dilation": per_axis(op, "dilation", dilation, rank, 1),
    }
    return {**named, "out": _counts(op, x, named, ceil_mode)}


def require_numbers(op: str, x: Value, accepted: tuple[DType, ...], advice: str) -> None:
    """Refuse a dtype that cannot be pooled."""
    if x.dtype not in accepted:
        refuse(DTypeError, op, "this dtype cannot be pooled", {"x": x}, advice)


def _max_pool(
    op: str, rank: int, x: Value, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
    dilation: Sizes, ceil_mode: bool, return_indices: bool,
) -> Any:  # fmt: skip
    require_numbers(op, x, NUMBERS, "cast first: x.astype(bp.float32)")
    x, alone = batched(op, rank, x)
    attributes = _windows(op, rank, x, kernel_size, stride, padding, dilation, ceil_mode)
    values, places = outputs(apply(MAX_POOL, (x,), attributes))
    values = unbatched(values, alone)
    return (values, unbatched(as_type(places, int64), alone)) if return_indices else values


def window_sum(x: Value, attributes: dict[str, Any]) -> Value:
    """The sums of windows of (N, C, *space), in the dtype of the accumulator."""
    return apply(WINDOW_SUM, (wide(x),), attributes)


def _covered(x: Value, axis: int, attributes: dict[str, Any], with_padding: bool) -> Any:
    """How many elements the windows along one axis cover: a number if it is one for all."""
    size, window = x.shape[2 + axis], attributes["window"][axis]
    stride, before = attributes["stride"][axis], attributes["before"][axis]
    out = attributes["out"][axis]
    low, high = (-before, size + before) if with_padding else (0, size)
    if low <= -before and (out - 1) * stride - before + window <= high:
        return window
    shape = tuple(out if i == axis else 1 for i in range(len(attributes["out"])))
    start = subtract(multiply(index_along(x, axis, shape), stride), before)
    return subtract(minimum(add(start, window), high), maximum(start, low))


def _divisor(x: Value, attributes: dict[str, Any], with_padding: bool) -> Any:
    """How many elements each window covers: a number if it is one for all."""
    total: Any = 1
    for axis in range(len(attributes["out"])):
        covered = _covered(x, axis, attributes, with_padding)
        both = isinstance(total, int) and isinstance(covered, int)
        total = total * covered if both else multiply(total, covered)
    return total


def _avg_pool(
    op: str, rank: int, x: Value, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    require_floats(op, x)
    x, alone = batched(op, rank, x)
    attributes = _windows(op, rank, x, kernel_size, stride, padding, 1, ceil_mode)
    total = window_sum(x, attributes)
    if divisor_override == 0:
        raise ValueError(f"{op}: divisor_override must not be 0")
    divisor = divisor_override or _divisor(x, attributes, count_include_pad)
    if not isinstance(divisor, int):
        divisor = as_type(divisor, total.dtype)
    return unbatched(as_type(divide(total, divisor), x.dtype), alone)


def require_floats(op: str, x: Value) -> None:
    """Refuse what has no mean."""
    if not x.dtype.is_float:
        refuse(DTypeError, op, "only floats have a mean", {"x": x},
               "cast first: x.astype(bp.float32)")  # fmt: skip


def _lp_pool(
    op: str, rank: int, x: Value, norm_type: float, kernel_size: Sizes, stride: Sizes | None,
    ceil_mode: bool,
) -> Value:  # fmt: skip
    require_floats(op, x)
    if not norm_type > 0:
        raise ValueError(f"{op}: norm_type must be positive, got {norm_type}")
    if math.isinf(norm_type):
        return _max_pool(op, rank, abs_(x), kernel_size, stride, 0, 1, ceil_mode, False)
    x, alone = batched(op, rank, x)
    attributes = _windows(op, rank, x, kernel_size, stride, 0, 1, ceil_mode)
    total, scale = _power_sums(x, norm_type, attributes)
    nothing = equal(total, 0)  # a root has no slope there; that of a norm is taken to be 0
    root = multiply(pow_(where(nothing, number(total, 1), total), 1 / norm_type), scale)
    return unbatched(as_type(where(nothing, number(total, 0), root), x.dtype), alone)


def _power_sums(x: Value, p: float, attributes: dict[str, Any]) -> tuple[Value, Value]:
    """Sums of |x / scale|^p over windows, and the scale.

    In float64 the squares of float32 are far from its ends; what is wider or rises higher is
    divided by the largest of all first. 0 has no slope, as in `vector_norm`.
    """
    rows = as_type(x, float64)
    scale = number(rows, 1.0)
    if (x.dtype is float64 or p > WIDE_POWER) and 0 not in x.shape:
        largest = max_(abs_(without_gradient(rows)))
        usable = logical_and(isfinite(largest), not_equal(largest, 0.0))
        scale = where(usable, largest, scale)
        rows = divide(rows, scale)
    if p == 2:
        return window_sum(multiply(rows, rows), attributes), scale
    zero = equal(rows, 0.0)
    powers = pow_(abs_(where(zero, number(rows, 1.0), rows)), p)
    return window_sum(where(zero, number(rows, 0.0), powers), attributes), scale


def max_pool1d(
    x: Value, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Value:  # fmt: skip
    """Find the greatest element of each window of a sequence.

    y[n, c, p] = max over k of x[n, c, p stride + k dilation - padding]

    x        (N, C, L) or (C, L)  numbers; the arguments are those of `max_pool2d`
    returns  (N, C, L'), or also the index of each along L
    >>> import bedplate as bp
    >>> bp.nn.functional.max_pool1d(bp.tensor([[1, 3, 2, 5, 4]]), 3, stride=1).tolist()
    [[3, 5, 5]]
    """
    return _max_pool(
        "max_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def max_pool2d(
    x: Value, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Value:  # fmt: skip
    """Find the greatest element of each window of an image.

    y[n, c, p] = max over k of x[n, c, p stride + k dilation - padding], where p and k have two
    parts; NaN if there is one in the window

    x               (N, C, H, W) or (C, H, W)  floats or integers
    kernel_size     of the window; like the next three, one number or one an axis
    stride          how far the window moves; None: its own size
    padding         places on both sides that are left out; at most half of the window
    dilation        the distance between neighbours in the window
    ceil_mode       a window that reaches over the end counts, if it starts before it
    return_indices  also where they are: int64, counted row by row through H x W
    returns         (N, C, H', W'), size = (size + 2 padding - dilation (kernel_size - 1) - 1)
                    // stride + 1, or rounded up; dtype of x
    gradient        goes to the element that was chosen: the first of equals, the first NaN
    raises          ShapeError if the window does not fit; DTypeError for bools
    cost            one pass over x with a comparison for each element of a window; the gradient
                    one pass over y and x
    >>> import bedplate as bp
    >>> x = bp.tensor([[[1.0, 2.0, 5.0], [4.0, 3.0, 0.0]]])
    >>> bp.nn.functional.max_pool2d(x, 2, stride=1, return_indices=True)[1].tolist()
    [[[3, 2]]]
    """
    return _max_pool(
        "max_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def max_pool3d(
    x: Value, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Value:  # fmt: skip
    """Find the greatest element of each window of a volume.

    y[n, c, p] = max over k of x[n, c, p stride + k dilation - padding], with three parts each

    x        (N, C, D, H, W) or (C, D, H, W)  numbers; the arguments are those of `max_pool2d`
    returns  (N, C, D', H', W'), or also the indices through D x H x W
    >>> import bedplate as bp
    >>> bp.nn.functional.max_pool3d(bp.ones((1, 1, 4, 6, 6)), (2, 3, 3)).shape
    (1, 1, 2, 2, 2)
    """
    return _max_pool(
        "max_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


def avg_pool1d(
    x: Value, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Value:  # fmt: skip
    """Take the mean of each window of a sequence: a moving average.

    y[n, c, p] = sum over k of x[n, c, p stride + k - padding] / kernel_size

    x        (N, C, L) or (C, L)  floats; the arguments are those of `avg_pool2d`
    returns  (N, C, L')
    >>> import bedplate as bp
    >>> bp.nn.functional.avg_pool1d(bp.tensor([[1.0, 3.0, 2.0, 4.0]]), 2, stride=1).tolist()
    [[2.0, 2.5, 3.0]]
    """
    return _avg_pool(
        "avg_pool1d", 1, x, kernel_size, stride, padding, ceil_mode, count_include_pad, None
    )


def avg_pool2d(
    x: Value, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    """Take the mean of each window of an image.

    y[n, c, p] = sum over k of x[n, c, p stride + k - padding] / divisor

    x                  (N, C, H, W) or (C, H, W)  floats; bfloat16 and float16 are added and
                       divided in float32
    kernel_size        of the window; like the next two, one number or one an axis
    stride             how far the window moves; None: its own size
    padding            zeros on both sides; at most half of the window
    ceil_mode          a window that reaches over the end counts, if it starts before it
    count_include_pad  the divisor counts padding, but not what reaches over it
    divisor_override   the divisor for all windows
    returns            (N, C, H', W'), size as for `max_pool2d`; dtype of x. A sum is one chain
                       of additions, row by row of the window
    gradient           each element gets the shares of the windows that it is in
    raises             ShapeError if the window does not fit; DTypeError for integers
    cost               one pass over x, one addition for each element of a window
    >>> import bedplate as bp
    >>> x = bp.tensor([[[1.0, 2.0], [3.0, 6.0]]])
    >>> bp.nn.functional.avg_pool2d(x, 2).tolist()
    [[[3.0]]]
    """
    return _avg_pool(
        "avg_pool2d", 2, x, kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override,
    )  # fmt: skip


def avg_pool3d(
    x: Value, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    """Take the mean of each window of a volume.

    y[n, c, p] = sum over k of x[n, c, p stride + k - padding] / divisor, with three parts each

    x        (N, C, D, H, W) or (C, D, H, W)  floats; the arguments are those of `avg_pool2d`
    returns  (N, C, D', H', W')
    >>> import bedplate as bp
    >>> bp.nn.functional.avg_pool3d(bp.ones((1, 1, 2, 4, 4)), 2, divisor_override=4).tolist()
    [[[[[2.0, 2.0], [2.0, 2.0]]]]]
    """
    return _avg_pool(
        "avg_pool3d", 3, x, kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override,
    )  # fmt: skip


def lp_pool1d(
    x: Value, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Value:  # fmt: skip
    """Take the p-norm of each window of a sequence; the arguments are those of `lp_pool2d`.

    x        (N, C, L) or (C, L)  floats
    returns  (N, C, L')
    >>> import bedplate as bp
    >>> bp.nn.functional.lp_pool1d(bp.tensor([[3.0, -4.0, 1.0]]), 2, 2).tolist()
    [[5.0]]
    """
    return _lp_pool("lp_pool1d", 1, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    x: Value, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Value:  # fmt: skip
    """Take the p-norm of each window of an image.

    y = (sum of abs(x)^p over the window)^(1/p)

    x            (N, C, H, W) or (C, H, W)  floats
    norm_type    p, positive; inf is the greatest magnitude
    kernel_size  of the window; one number or one an axis
    stride       how far it moves; None: its own size
    ceil_mode    a window that reaches over the end counts, if it starts before it
    returns      (N, C, H', W')
    gradient     abs(x)^(p-1) sign(x) / y^(p-1); 0 where the norm is 0
    raises       ValueError for p that is not positive; ShapeError if the window does not fit
    cost         powers of x in float64, so that they do not overflow, then one pass over them
    >>> import bedplate as bp
    >>> bp.nn.functional.lp_pool2d(bp.tensor([[[3.0, 4.0]]]), 1, (1, 2)).tolist()
    [[[7.0]]]
    """
    return _lp_pool("lp_pool2d", 2, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    x: Value, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Value:  # fmt: skip
    """Take the p-norm of each window of a volume; the arguments are those of `lp_pool2d`.

    x        (N, C, D, H, W) or (C, D, H, W)  floats
    returns  (N, C, D', H', W')
    >>> import bedplate as bp
    >>> bp.nn.functional.lp_pool3d(bp.ones((1, 1, 2, 2, 4)), 3, 2).shape
    (1, 1, 1, 1, 2)
    """
    return _lp_pool("lp_pool3d", 3, x, norm_type, kernel_size, stride, ceil_mode)
