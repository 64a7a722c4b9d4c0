"""Convolution in one to three dimensions: conv1d, conv2d, conv3d.

    y[n, o, p] = bias[o] + sum over c, k of x[n, c, p stride + k dilation - padding] weight[o, c, k]

One implementation for all ranks. Records and gradients: records.py; the transposed
functions: transposed.py. Windows of one element run as matrix products, complex values
as four real convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from bedplate.errors import ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value, promoted
from bedplate.ops.complex_numbers.parts import complex_, imag, real
from bedplate.ops.convolution.records import CONVOLUTION, check_convolution
from bedplate.ops.convolution.windows import Pairs, batched, per_axis, space_names, unbatched
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.pointwise.arithmetic import add, subtract
from bedplate.ops.record import apply
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.views import reshape

Sizes = int | Sequence[int]


def _padding(op: str, given: Any, window: Shape, stride: Shape, dilation: Shape) -> Pairs:
    """(before, after) for each axis."""
    if not isinstance(given, str):
        return tuple((size, size) for size in per_axis(op, "padding", given, len(window), 0))
    if given == "valid":
        return ((0, 0),) * len(window)
    if given != "same" or set(stride) != {1}:
        raise ShapeError(
            f"{op}: padding {given!r} with stride {stride}\n"
            '  expected integers, "valid", or "same", which needs a stride of 1'
        )
    totals = [d * (k - 1) for d, k in zip(dilation, window, strict=True)]
    return tuple((total // 2, total - total // 2) for total in totals)


def operands(
    op: str, rank: int, x: Value, weight: Value, bias: Value | None
) -> tuple[Value, Value, Value | None, bool]:
    """The values in their common dtype, x as (N, C, *space), and whether it came without N."""
    given = (x, weight) if bias is None else (x, weight, bias)
    x, weight, *rest = promoted(op, given, to_float=True)
    if len(weight.shape) != rank + 2 or len(x.shape) not in (rank + 1, rank + 2):
        refuse(
            ShapeError, op, f"{rank} axes of space are needed", {"x": x, "weight": weight},
            f"expected x (N, C, {space_names(rank)}) or without N, a weight of {rank + 2} axes",
        )  # fmt: skip
    x, alone = batched(op, rank, x)
    return x, weight, (rest[0] if rest else None), alone


def with_bias(op: str, out: Value, bias: Value | None) -> Value:
    """A number added to each channel."""
    if bias is None:
        return out
    if bias.shape != out.shape[1:2]:
        refuse(ShapeError, op, "the bias does not fit", {"out": out, "bias": bias},
               f"expected shape ({out.shape[1]},)")  # fmt: skip
    return add(out, reshape(bias, (1, *bias.shape, *(1,) * (len(out.shape) - 2))))


def bilinear(function: Callable[[Value, Value], Value], a: Value, b: Value) -> Value:
    """function(a, b), which is linear in both; complex values part by part."""
    if a.dtype.kind != "c":
        return function(a, b)
    re = subtract(function(real(a), real(b)), function(imag(a), imag(b)))
    im = add(function(real(a), imag(b)), function(imag(a), real(b)))
    return complex_(re, im)


def _convolve(
    op: str, rank: int, x: Value, weight: Value, bias: Value | None, stride: Sizes, padding: Any,
    dilation: Sizes, groups: int,
) -> Value:  # fmt: skip
    x, weight, bias, alone = operands(op, rank, x, weight, bias)
    steps = per_axis(op, "stride", stride, rank, 1)
    apart = per_axis(op, "dilation", dilation, rank, 1)
    attributes: dict[str, Any] = {
        "stride": steps,
        "padding": _padding(op, padding, weight.shape[2:], steps, apart),
        "dilation": apart,
        "groups": per_axis(op, "groups", groups, 1, 1)[0],
    }

    def real_convolution(x: Value, weight: Value) -> Value:
        check_convolution(op, {"x": x, "weight": weight}, x.shape, weight.shape, attributes)
        if _is_product(weight, attributes):
            return _as_product(x, weight)
        return apply(CONVOLUTION, (x, weight), attributes)

    out = with_bias(op, bilinear(real_convolution, x, weight), bias)
    return unbatched(out, alone)


def _is_product(weight: Value, attributes: Attributes) -> bool:
    """Whether each output is a product of the channels at one place."""
    plain = set(weight.shape[2:]) == set(attributes["stride"]) == {1}
    padded = any(any(pair) for pair in attributes["padding"])
    return plain and attributes["groups"] == 1 and not padded


def _as_product(x: Value, weight: Value) -> Value:
    """A window of one element: the weights times the channels of each place."""
    flat = reshape(x, (*x.shape[:2], math.prod(x.shape[2:])))
    out = matmul(reshape(weight, weight.shape[:2]), flat)
    return reshape(out, (x.shape[0], weight.shape[0], *x.shape[2:]))


def conv1d(
    x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1,
    padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1,
) -> Value:  # fmt: skip
    """Sum sequences times weights in a window that moves over them: a filter.

    y[n, o, p] = bias[o] + sum over c, k of x[n, c, p stride + k dilation - padding] weight[o, c, k]

    x        (N, C, L) or (C, L)
    weight   (out, C / groups, K); the other arguments are those of `conv2d`
    returns  (N, out, L')
    >>> import bedplate as bp
    >>> bp.conv1d(bp.ones((1, 1, 4)), bp.ones((1, 1, 2))).tolist()
    [[[2.0, 2.0, 2.0]]]
    >>> bp.nn.functional.conv1d(bp.ones((1, 3)), bp.ones((1, 1, 3)), padding="same").tolist()
    [[2.0, 3.0, 2.0]]
    """
    return _convolve("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1,
    padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1,
) -> Value:  # fmt: skip
    """Sum images times weights in a window that moves over them.

    y[n, o, p] = bias[o] + sum over c, k of x[n, c, p stride + k dilation - padding] weight[o, c, k]
    (p and k count along both axes of space)

    x         (N, C, H, W) or (C, H, W)  floats; bfloat16 and float16 are summed in float32;
              complex values part by part
    weight    (out, C / groups, K, K)  of group g, channels from g out / groups on
              see the channels of x from g C / groups on
    bias      (out,), or None
    stride    how far the window moves; like the next two, one number or one an axis
    padding   how far the window reaches over both sides, where it adds nothing; "valid" is 0,
              "same" keeps the sizes (of an odd number the greater half comes last) and needs a
              stride of 1
    dilation  the distance between neighbours in the window
    groups    how many parts of the channels are convolved on their own; C: depthwise
    returns   (N, out, H', W'), size = (size + 2 padding - dilation (K - 1) - 1) // stride + 1;
              an element is one chain of multiply-adds over c, k, whatever the number of threads
    gradient  by x the transposed convolution of it, by the weight its correlation with x; of any
              order, as the three are each other's gradients
    raises    ShapeError, DTypeError if the values do not fit each other
    cost      2 C / groups prod(window) flops an output; 1 read of x to pack it, 1 of the packed
    source    Georganas et al. 2018, arXiv:1808.05567
    >>> import bedplate as bp
    >>> bp.conv2d(bp.ones((1, 1, 2, 3)), bp.ones((1, 1, 2, 2))).tolist()
    [[[[4.0, 4.0]]]]
    >>> bp.nn.functional.conv2d(bp.ones((2, 4, 8, 8)), bp.ones((6, 2, 3, 3)), groups=2,
    ...     stride=2, padding=1).shape
    (2, 6, 4, 4)
    """
    return _convolve("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)


def conv3d(
    x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1,
    padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1,
) -> Value:  # fmt: skip
    """Sum volumes, or images in a row, times weights in a window that moves over them.

    y[n, o, p] = bias[o] + sum over c, k of x[n, c, p stride + k dilation - padding] weight[o, c, k]

    x        (N, C, D, H, W) or (C, D, H, W)
    weight   (out, C / groups, K, K, K); the other arguments are those of `conv2d`
    returns  (N, out, D', H', W')
    >>> import bedplate as bp
    >>> bp.conv3d(bp.ones((1, 1, 2, 2, 3)), bp.ones((1, 1, 2, 2, 2))).tolist()
    [[[[[8.0, 8.0]]]]]
    >>> bp.nn.functional.conv3d(bp.ones((2, 4, 5, 5)), bp.ones((1, 2, 1, 3, 3))).shape
    (1, 4, 3, 3)
    """
    return _convolve("conv3d", 3, x, weight, bias, stride, padding, dilation, groups)
