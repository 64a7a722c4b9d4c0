"""Transposed convolution in one to three dimensions: conv_transpose1d, 2d, 3d.

    y[n, o, p stride + k dilation - padding] += x[n, c, p] weight[c, o, k]

The gradient of a convolution by its input, as an operation of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bedplate.errors import ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value
from bedplate.ops.convolution.convolution import bilinear, operands, with_bias
from bedplate.ops.convolution.records import CONVOLUTION_BY_INPUT
from bedplate.ops.convolution.windows import per_axis, unbatched
from bedplate.ops.record import apply
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.regions import pad

Sizes = int | Sequence[int]


def _sizes(
    x: Value, weight: Value, attributes: dict[str, Any], padding: Shape, more: Shape
) -> tuple[Shape, Shape, Shape]:
    """(sizes that the op makes, padding behind the end, sizes behind them that stay zeros).

    More than a stride behind the end would be room for another place of x. It is made room that
    the padding does not cut off, and what is left of it is beyond the reach of any x.
    """
    made, after, empty = [], [], []
    for n, s, d, k, p, m in zip(
        x.shape[2:], attributes["stride"], attributes["dilation"], weight.shape[2:], padding, more,
        strict=True,
    ):  # fmt: skip
        whole = (n - 1) * s - 2 * p + d * (k - 1) + 1 + m
        beyond = max(m - p, 0) if m >= s else 0
        made.append(whole - beyond)
        after.append(max(p - m, 0) if m >= s else p)
        empty.append(beyond)
    return tuple(made), tuple(after), tuple(empty)


def _convolve_transposed(
    op: str, rank: int, x: Value, weight: Value, bias: Value | None, stride: Sizes,
    padding: Sizes, output_padding: Sizes, groups: int, dilation: Sizes,
) -> Value:  # fmt: skip
    x, weight, bias, alone = operands(op, rank, x, weight, bias)
    attributes: dict[str, Any] = {
        "stride": per_axis(op, "stride", stride, rank, 1),
        "dilation": per_axis(op, "dilation", dilation, rank, 1),
        "groups": per_axis(op, "groups", groups, 1, 1)[0],
    }
    more = per_axis(op, "output_padding", output_padding, rank, 0)
    widths = per_axis(op, "padding", padding, rank, 0)
    for m, s, d in zip(more, attributes["stride"], attributes["dilation"], strict=True):
        if m >= max(s, d):
            raise ShapeError(
                f"{op}: output_padding {more} must be below the stride or the dilation"
            )
    space, after, empty = _sizes(x, weight, attributes, widths, more)
    if min(size + rest for size, rest in zip(space, empty, strict=True)) < 1 or min(space) < 1:
        refuse(ShapeError, op, f"nothing is left: sizes {space}", {"x": x, "weight": weight},
               "try less padding")  # fmt: skip
    attributes["padding"] = tuple(zip(widths, after, strict=True))
    attributes["space"] = space

    def real_convolution(x: Value, weight: Value) -> Value:
        return apply(CONVOLUTION_BY_INPUT, (x, weight), attributes)

    out = bilinear(real_convolution, x, weight)
    if any(empty):
        out = pad(out, ((0, 0), (0, 0), *((0, rest) for rest in empty)))
    return unbatched(with_bias(op, out, bias), alone)


def conv_transpose1d(
    x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Value:  # fmt: skip
    """Spread sequences by weights over a window: the gradient of `conv1d` by its input.

    y[n, o, p stride + k dilation - padding] += x[n, c, p] weight[c, o, k]

    x        (N, C, L) or (C, L)
    weight   (C, out / groups, K); the other arguments are those of `conv_transpose2d`
    returns  (N, out, L')
    >>> import bedplate as bp
    >>> bp.conv_transpose1d(bp.ones((1, 1, 3)), bp.ones((1, 1, 2))).tolist()
    [[[1.0, 2.0, 2.0, 1.0]]]
    >>> bp.nn.functional.conv_transpose1d(bp.ones((1, 3)), bp.ones((1, 1, 2)), stride=2).tolist()
    [[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]
    """
    return _convolve_transposed(
        "conv_transpose1d", 1, x, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Value:  # fmt: skip
    """Spread images by weights over a window: the gradient of `conv2d` by its input.

    y[n, o, p stride + k dilation - padding] += x[n, c, p] weight[c, o, k]

    x               (N, C, H, W) or (C, H, W)  floats; bfloat16 and float16 are summed in float32;
                    complex values part by part
    weight          (C, out / groups, K, K)
    bias            (out,), or None
    stride          distance of the windows of neighbours of x; like the other three, one number or
                    one an axis
    padding         how much is cut off at both sides
    output_padding  how much less is cut off at the end; below the stride or the dilation
    groups          how many parts of the channels are spread on their own
    dilation        the distance between neighbours in the window
    returns         (N, out, H', W'), size = (size - 1) stride - 2 padding + dilation (K - 1)
                    + output_padding + 1
    gradient        by x `conv2d` of it, by the weight its correlation with x; of any order
    raises          ShapeError, DTypeError if the values do not fit each other
    cost            2 out / groups prod(window) flops an element of x
    source          Zeiler et al. 2010, Deconvolutional Networks
    >>> import bedplate as bp
    >>> bp.conv_transpose2d(bp.ones((1, 1, 1, 2)), bp.ones((1, 1, 1, 2))).tolist()
    [[[[1.0, 2.0, 1.0]]]]
    >>> bp.nn.functional.conv_transpose2d(bp.ones((1, 3, 4, 4)), bp.ones((3, 2, 3, 3)), stride=2,
    ...     padding=1, output_padding=1).shape
    (1, 2, 8, 8)
    """
    return _convolve_transposed(
        "conv_transpose2d", 2, x, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Value:  # fmt: skip
    """Spread volumes by weights over a window: the gradient of `conv3d` by its input.

    y[n, o, p stride + k dilation - padding] += x[n, c, p] weight[c, o, k]

    x        (N, C, D, H, W) or (C, D, H, W)
    weight   (C, out / groups, K, K, K); the other arguments are those of `conv_transpose2d`
    returns  (N, out, D', H', W')
    >>> import bedplate as bp
    >>> bp.conv_transpose3d(bp.ones((1, 1, 1, 1, 2)), bp.ones((1, 1, 1, 1, 2))).tolist()
    [[[[[1.0, 2.0, 1.0]]]]]
    >>> bp.nn.functional.conv_transpose3d(bp.ones((2, 3, 3, 3)), bp.ones((2, 1, 2, 2, 2)),
    ...     stride=2).shape
    (1, 6, 6, 6)
    """
    return _convolve_transposed(
        "conv_transpose3d", 3, x, weight, bias, stride, padding, output_padding, groups, dilation
    )
