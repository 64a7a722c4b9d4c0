"""Convolution in one to three dimensions, its gradients, and transposed convolution.

    out[n, o, p] = sum over c, k of x[n, c, p * stride + k * dilation - padding] * w[o, c, k]

The op is linear in either input, so the three records below are each other's gradients: by the
input it is the transposed convolution, by the weights a correlation of x with grad_out. The
kernels: convolution_lower.py says what is packed; convolution_tiles.py and convolution_weight.py
are they. Windows of one element run as matrix products.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.arithmetic import add
from bedplate.ops.build import Value, promoted
from bedplate.ops.convolution_lower import lower_by_input, lower_by_weight, lower_forward
from bedplate.ops.elementwise import widened
from bedplate.ops.matmul import matmul
from bedplate.ops.record import Cost, Op, Sample, apply, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import floats
from bedplate.ops.views import reshape

Pairs = tuple[tuple[int, int], ...]


def out_sizes(space: Shape, window: Shape, attributes: Attributes) -> Shape:
    """How many places a window has along each axis; less than 1 where it does not fit."""
    return tuple(
        (size + sum(pad) - d * (k - 1) - 1) // s + 1
        for size, k, s, pad, d in zip(
            space, window, attributes["stride"], attributes["padding"], attributes["dilation"],
            strict=True,
        )
    )  # fmt: skip


def _check(op: str, named: dict[str, Any], x: Any, w: Any, attributes: Attributes) -> None:
    """Refuse an input and weights that no convolution has; x and w have .shape and .dtype."""
    values = list(named.values())
    if any(v.dtype not in FLOATS or v.dtype is not values[0].dtype for v in values):
        refuse(DTypeError, op, "the dtypes must be one float dtype", named)
    groups, rank = attributes["groups"], len(attributes["stride"])
    if len(x) != rank + 2 or len(w) != rank + 2:
        space = ", ".join("DHW"[3 - rank :])
        refuse(
            ShapeError, op, f"{rank} axes of space are needed", named,
            f"expected (N, C, {space}) and weights of {rank + 2} axes",
        )  # fmt: skip
    if w[0] % groups or x[1] != w[1] * groups:
        refuse(
            ShapeError, op, "the channels do not fit", named,
            f"with groups={groups} and {x[1]} input channels the weights need {x[1] / groups:g} "
            f"at axis 1 (they have {w[1]}), and a multiple of {groups} at axis 0",
        )  # fmt: skip
    if min(w[2:]) < 1 or min(out_sizes(x[2:], w[2:], attributes)) < 1:
        refuse(
            ShapeError, op, "the window does not fit into the input", named,
            f"padding {attributes['padding']}, dilation {attributes['dilation']}",
        )  # fmt: skip


def _infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    x, w = inputs
    _check("convolution", {"x": x, "weight": w}, x.shape, w.shape, attributes)
    out = out_sizes(x.shape[2:], w.shape[2:], attributes)
    return (x.shape[0], w.shape[0], *out), x.dtype


def _by_input_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    grad, w = inputs
    named = {"x": grad, "weight": w}
    rank = len(attributes["space"])
    if len(grad.shape) != rank + 2 or len(w.shape) != rank + 2 or grad.shape[1] != w.shape[0]:
        refuse(
            ShapeError, "convolution_by_input", "the channels do not fit", named,
            "axis 1 of x and axis 0 of the weights must be equal, and both have "
            f"{rank + 2} axes",
        )  # fmt: skip
    shape = (grad.shape[0], w.shape[1] * attributes["groups"], *attributes["space"])
    _check("convolution_by_input", named, shape, w.shape, attributes)
    out = out_sizes(attributes["space"], w.shape[2:], attributes)
    if out != tuple(grad.shape[2:]):
        refuse(
            ShapeError, "convolution_by_input", "the sizes do not fit", named,
            f"a convolution of {attributes['space']} gives {out}",
        )  # fmt: skip
    return shape, grad.dtype


def _by_weight_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    x, grad = inputs
    named = {"x": x, "grad_out": grad}
    window, groups = attributes["window"], attributes["groups"]
    shape = (grad.shape[1], x.shape[1] // groups, *window)
    _check("convolution_by_weight", named, x.shape, shape, attributes)
    if (x.shape[0], *out_sizes(x.shape[2:], window, attributes)) != (
        grad.shape[0], *grad.shape[2:],
    ):  # fmt: skip
        refuse(ShapeError, "convolution_by_weight", "the sizes do not fit", named,
               f"a window of {window} does not give those of grad_out")  # fmt: skip
    return shape, x.dtype


def _windows(window: Shape, out: Shape, attributes: Attributes) -> Iterator[tuple[Any, Any]]:
    """(tap, the part of the padded input that it meets), tap by tap."""
    for tap in itertools.product(*(range(k) for k in window)):
        starts = [k * d for k, d in zip(tap, attributes["dilation"], strict=True)]
        part = tuple(
            slice(start, start + (n - 1) * s + 1, s)
            for start, n, s in zip(starts, out, attributes["stride"], strict=True)
        )
        yield (..., *tap), (slice(None), slice(None), *part)


def _padded(x: Any, padding: Pairs) -> Any:
    return np.pad(x, ((0, 0), (0, 0), *padding))


def _reference(x: Any, w: Any, **attributes: Any) -> Any:
    """Tap by tap: a product of the weights of the tap with what they meet."""
    groups, out = attributes["groups"], out_sizes(x.shape[2:], w.shape[2:], attributes)
    padded = _padded(x, attributes["padding"])
    total = np.zeros((x.shape[0], groups, w.shape[0] // groups, math.prod(out)), x.dtype)
    for tap, part in _windows(w.shape[2:], out, attributes):
        rows = w[tap].reshape(groups, w.shape[0] // groups, w.shape[1])
        met = padded[part].reshape(x.shape[0], groups, w.shape[1], math.prod(out))
        total += rows @ met
    return total.reshape(x.shape[0], w.shape[0], *out)


def _by_input_reference(grad: Any, w: Any, *, space: Shape, **attributes: Any) -> Any:
    groups, out = attributes["groups"], grad.shape[2:]
    n, channels = grad.shape[0], w.shape[1] * attributes["groups"]
    padding = attributes["padding"]
    total = np.zeros((n, channels, *(s + sum(p) for s, p in zip(space, padding, strict=True))))
    rows = grad.reshape(n, groups, w.shape[0] // groups, math.prod(out))
    for tap, part in _windows(w.shape[2:], out, attributes):
        columns = w[tap].reshape(groups, w.shape[0] // groups, w.shape[1]).swapaxes(1, 2)
        total[part] += (columns @ rows).reshape(n, channels, *out)
    kept = tuple(slice(low, low + s) for s, (low, _) in zip(space, padding, strict=True))
    return total[(slice(None), slice(None), *kept)]


def _by_weight_reference(x: Any, grad: Any, *, window: Shape, **attributes: Any) -> Any:
    groups, out, n = attributes["groups"], grad.shape[2:], x.shape[0]
    channels = x.shape[1] // groups
    padded = _padded(x, attributes["padding"])
    total = np.zeros((grad.shape[1], channels, *window), x.dtype)
    rows = grad.reshape(n, groups, grad.shape[1] // groups, math.prod(out))
    for tap, part in _windows(window, out, attributes):
        met = padded[part].reshape(n, groups, channels, math.prod(out)).swapaxes(2, 3)
        total[tap] = np.sum(rows @ met, axis=0).reshape(grad.shape[1], channels)
    return total


def convolution_gradient(
    grad_out: Value, inputs: Any, output: Value, **attributes: Any
) -> tuple[Value, Value]:
    """x: the transposed convolution of grad_out; w: x correlated with grad_out."""
    x, w = inputs
    by_input = apply(CONVOLUTION_BY_INPUT, (grad_out, w), {**attributes, "space": x.shape[2:]})
    by_weight = apply(CONVOLUTION_BY_WEIGHT, (x, grad_out), {**attributes, "window": w.shape[2:]})
    return by_input, by_weight


def by_input_gradient(
    grad_out: Value, inputs: Any, output: Value, *, space: Shape, **attributes: Any
) -> tuple[Value, Value]:
    """x: the convolution of grad_out; w: grad_out correlated with x."""
    x, w = inputs
    by_weight = apply(CONVOLUTION_BY_WEIGHT, (grad_out, x), {**attributes, "window": w.shape[2:]})
    return apply(CONVOLUTION, (grad_out, w), attributes), by_weight


def by_weight_gradient(
    grad_out: Value, inputs: Any, output: Value, *, window: Shape, **attributes: Any
) -> tuple[Value, Value]:
    """With the gradient as weights, x: the transposed convolution; grad: the convolution of x."""
    x, grad = inputs
    by_input = apply(CONVOLUTION_BY_INPUT, (grad, grad_out), {**attributes, "space": x.shape[2:]})
    return by_input, apply(CONVOLUTION, (x, grad_out), attributes)


# (N, C, *space), (out, in / groups, *window), stride, padding, dilation, groups
_CASES = (
    ((2, 3, 5, 6), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 4, 7, 6), (6, 2, 3, 2), (2, 3), ((1, 0), (2, 1)), (1, 2), 2),
    ((2, 3, 19), (2, 3, 4), (1,), ((2, 1),), (1,), 1),
    ((1, 2, 17), (2, 1, 2), (3,), ((0, 0),), (2,), 2),
    ((1, 2, 3, 4, 5), (3, 2, 2, 3, 2), (1, 2, 1), ((0, 1), (1, 1), (1, 0)), (2, 1, 1), 1),
    ((1, 3, 4, 20), (3, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 3),
    ((1, 1, 2, 33), (17, 1, 1, 2), (1, 1), ((0, 0), (0, 1)), (1, 1), 1),
    ((0, 2, 5), (3, 2, 3), (1,), ((1, 1),), (1,), 1),
)


def _samples(kind: str) -> tuple[Sample, ...]:
    """The cases above as inputs of the convolution, or of its gradient by "x" or "weight"."""
    found = []
    for x, w, stride, padding, dilation, groups in _CASES:
        attributes: dict[str, Any] = dict(
            stride=stride, padding=padding, dilation=dilation, groups=groups
        )
        out = (x[0], w[0], *out_sizes(x[2:], w[2:], attributes))
        if kind == "":
            found.append(floats(x, w, **attributes))
        elif kind == "x":
            found.append(floats(out, w, **attributes, space=x[2:]))
        else:
            found.append(floats(x, out, **attributes, window=w[2:]))
    return tuple(found)


def _flops(inputs: Any, output: Any, attributes: Attributes) -> float:
    """Each result of a window, or each gradient of one, meets all weights of its channel."""
    x, w = inputs
    windows = output if attributes.get("space") is None else x
    return 2.0 * math.prod(windows.shape) * math.prod(w.shape[1:])


def _weight_flops(inputs: Any, output: Any, attributes: Attributes) -> float:
    return 2.0 * math.prod(inputs[1].shape) * math.prod(output.shape[1:])


CONVOLUTION = register(
    Op(
        "convolution",
        "kernel",
        _infer,
        reference=widened(_reference),
        gradient=convolution_gradient,
        cost=Cost("2 C / groups taps flops an output; inputs and output once", _flops),
        lower=lower_forward,
        dtypes=FLOATS,
        samples=_samples(""),
        doc="Sums of an input times weights in a window that moves over it.",
    )
)
CONVOLUTION_BY_INPUT = register(
    Op(
        "convolution_by_input",
        "kernel",
        _by_input_infer,
        reference=widened(_by_input_reference),
        gradient=by_input_gradient,
        cost=Cost("2 O / groups taps flops an element of x", _flops),
        lower=lower_by_input,
        dtypes=FLOATS,
        samples=_samples("x"),
        doc="The gradient of a convolution by its input: the transposed convolution.",
    )
)
CONVOLUTION_BY_WEIGHT = register(
    Op(
        "convolution_by_weight",
        "kernel",
        _by_weight_infer,
        reference=widened(_by_weight_reference),
        gradient=by_weight_gradient,
        cost=Cost("2 positions flops an element of the weight", _weight_flops),
        lower=lower_by_weight,
        dtypes=FLOATS,
        samples=_samples("weight"),
        doc="The gradient of a convolution by its weights.",
    )
)


def per_axis(op: str, what: str, given: Any, rank: int, least: int) -> Shape:
    """One number for each axis of space, from one for all or one for each.

    raises ShapeError for another count, or for a number below `least`
    """
    several = (given,) * rank if hasattr(given, "__index__") else tuple(given)
    sizes = tuple(size.__index__() for size in several)
    if len(sizes) != rank or min(sizes) < least:
        raise ShapeError(
            f"{op}: {what} {given!r} does not fit\n"
            f"  expected one integer, or {rank}, each at least {least}"
        )
    return sizes


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


def _operands(op: str, rank: int, x: Value, weight: Value, bias: Value | None) -> tuple[Any, ...]:
    """The values in their common dtype; x and weight have rank + 2 axes."""
    given = (x, weight) if bias is None else (x, weight, bias)
    x, weight, *rest = promoted(op, given, to_float=True)
    if len(x.shape) != rank + 2 or len(weight.shape) != rank + 2:
        space = ", ".join("DHW"[3 - rank :])
        refuse(
            ShapeError, op, f"{rank} axes of space are needed", {"x": x, "weight": weight},
            f"expected x (N, C, {space}) and a weight of {rank + 2} axes",
        )  # fmt: skip
    return x, weight, (rest[0] if rest else None)


def _with_bias(op: str, out: Value, bias: Value | None) -> Value:
    if bias is None:
        return out
    if bias.shape != out.shape[1:2]:
        refuse(ShapeError, op, "the bias does not fit", {"out": out, "bias": bias},
               f"expected shape ({out.shape[1]},)")  # fmt: skip
    return add(out, reshape(bias, (1, *bias.shape, *(1,) * (len(out.shape) - 2))))


def _groups(op: str, groups: int) -> int:
    return per_axis(op, "groups", groups, 1, 1)[0]


def convolve(
    op: str, rank: int, x: Value, weight: Value, bias: Value | None, stride: int | Sequence[int],
    padding: Any, dilation: int | Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """The convolution of conv1d, conv2d, conv3d."""
    x, weight, bias = _operands(op, rank, x, weight, bias)
    steps = per_axis(op, "stride", stride, rank, 1)
    apart = per_axis(op, "dilation", dilation, rank, 1)
    attributes: dict[str, Any] = {
        "stride": steps,
        "padding": _padding(op, padding, weight.shape[2:], steps, apart),
        "dilation": apart,
        "groups": _groups(op, groups),
    }
    _check(op, {"x": x, "weight": weight}, x.shape, weight.shape, attributes)
    if set(weight.shape[2:]) == set(steps) == {1} and groups == 1 and not _is_padded(attributes):
        return _with_bias(op, _as_product(x, weight), bias)
    return _with_bias(op, apply(CONVOLUTION, (x, weight), attributes), bias)


def _is_padded(attributes: Attributes) -> bool:
    return any(any(pair) for pair in attributes["padding"])


def _as_product(x: Value, weight: Value) -> Value:
    """A window of one element: the weights times the channels of each place."""
    flat = reshape(x, (*x.shape[:2], math.prod(x.shape[2:])))
    out = matmul(reshape(weight, weight.shape[:2]), flat)
    return reshape(out, (x.shape[0], weight.shape[0], *x.shape[2:]))


def convolve_transposed(
    op: str, rank: int, x: Value, weight: Value, bias: Value | None, stride: int | Sequence[int],
    padding: int | Sequence[int], output_padding: int | Sequence[int], groups: int,
    dilation: int | Sequence[int],
) -> Value:  # fmt: skip
    """The transposed convolution of conv_transpose1d, conv_transpose2d, conv_transpose3d."""
    x, weight, bias = _operands(op, rank, x, weight, bias)
    steps = per_axis(op, "stride", stride, rank, 1)
    apart = per_axis(op, "dilation", dilation, rank, 1)
    more = per_axis(op, "output_padding", output_padding, rank, 0)
    pairs = tuple((size, size) for size in per_axis(op, "padding", padding, rank, 0))
    if any(m >= s for m, s in zip(more, steps, strict=True)):
        raise ShapeError(f"{op}: output_padding {more} must be below the stride {steps}")
    space = tuple(
        (n - 1) * s - sum(pair) + d * (k - 1) + 1 + m
        for n, s, pair, d, k, m in zip(
            x.shape[2:], steps, pairs, apart, weight.shape[2:], more, strict=True
        )
    )
    attributes: dict[str, Any] = {
        "stride": steps, "padding": pairs, "dilation": apart, "groups": _groups(op, groups),
        "space": space,
    }  # fmt: skip
    if min(space) < 1:
        refuse(ShapeError, op, f"nothing is left: sizes {space}", {"x": x, "weight": weight},
               "try less padding")  # fmt: skip
    return _with_bias(op, apply(CONVOLUTION_BY_INPUT, (x, weight), attributes), bias)


def conv1d(
    x: Value, weight: Value, bias: Value | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1,
) -> Value:  # fmt: skip
    """Sum sequences times weights in a window that moves over them.

    out[n, o, p] = bias[o] + sum over c, k of x[n, c, p stride + k dilation - padding] w[o, c, k],
    where p and k count along the axis of space

    x         (N, C, L)  floats; bfloat16 and float16 are summed in float32
    weight    (out, C / groups, K)  of group g, channels from g out / groups on
              see the channels of x from g C / groups on
    bias      (out,), or None
    stride    how far the window moves
    padding   zeros on both sides (0 inf is NaN); "valid" is 0, "same" keeps the sizes (of an odd
              number the greater half comes last) and needs a stride of 1
    dilation  the distance between neighbours in the window
    returns   (N, out, *sizes), size = (size + 2 padding - dilation (K - 1) - 1) // stride + 1;
              an element is one chain of multiply-adds over c, k, whatever the number of threads
    raises    ShapeError, DTypeError if the values do not fit each other
    cost      2 C / groups prod(window) flops an output; 1 read of x to pack it, 1 of the packed
    source    Georganas et al. 2018, arXiv:1808.05567
    >>> import bedplate as bp
    >>> bp.conv1d(bp.ones((1, 1, 4)), bp.ones((1, 1, 2))).tolist()
    [[[2.0, 2.0, 2.0]]]
    """
    return convolve("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Value, weight: Value, bias: Value | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1,
) -> Value:  # fmt: skip
    """Sum images times weights in a window that moves over them.

    out[n, o, p] = bias[o] + sum over c, k of x[n, c, p stride + k dilation - padding] w[o, c, k],
    where p and k count along all axes of space

    x         (N, C, H, W)  floats; bfloat16 and float16 are summed in float32
    weight    (out, C / groups, K, K)  of group g, channels from g out / groups on
              see the channels of x from g C / groups on
    bias      (out,), or None
    stride    how far the window moves; like the next two, one number or one an axis
    padding   zeros on both sides (0 inf is NaN); "valid" is 0, "same" keeps the sizes (of an odd
              number the greater half comes last) and needs a stride of 1
    dilation  the distance between neighbours in the window
    returns   (N, out, *sizes), size = (size + 2 padding - dilation (K - 1) - 1) // stride + 1;
              an element is one chain of multiply-adds over c, k, whatever the number of threads
    raises    ShapeError, DTypeError if the values do not fit each other
    cost      2 C / groups prod(window) flops an output; 1 read of x to pack it, 1 of the packed
    source    Georganas et al. 2018, arXiv:1808.05567
    >>> import bedplate as bp
    >>> bp.conv2d(bp.ones((1, 1, 2, 3)), bp.ones((1, 1, 2, 2))).tolist()
    [[[[4.0, 4.0]]]]
    """
    return convolve("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)


def conv3d(
    x: Value, weight: Value, bias: Value | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1,
) -> Value:  # fmt: skip
    """Sum volumes times weights in a window that moves over them.

    out[n, o, p] = bias[o] + sum over c, k of x[n, c, p stride + k dilation - padding] w[o, c, k],
    where p and k count along all axes of space

    x         (N, C, D, H, W)  floats; bfloat16 and float16 are summed in float32
    weight    (out, C / groups, K, K, K)  of group g, channels from g out / groups on
              see the channels of x from g C / groups on
    bias      (out,), or None
    stride    how far the window moves; like the next two, one number or one an axis
    padding   zeros on both sides (0 inf is NaN); "valid" is 0, "same" keeps the sizes (of an odd
              number the greater half comes last) and needs a stride of 1
    dilation  the distance between neighbours in the window
    returns   (N, out, *sizes), size = (size + 2 padding - dilation (K - 1) - 1) // stride + 1;
              an element is one chain of multiply-adds over c, k, whatever the number of threads
    raises    ShapeError, DTypeError if the values do not fit each other
    cost      2 C / groups prod(window) flops an output; 1 read of x to pack it, 1 of the packed
    source    Georganas et al. 2018, arXiv:1808.05567
    >>> import bedplate as bp
    >>> bp.conv3d(bp.ones((1, 1, 2, 2, 3)), bp.ones((1, 1, 2, 2, 2))).tolist()
    [[[[[8.0, 8.0]]]]]
    """
    return convolve("conv3d", 3, x, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    x: Value, weight: Value, bias: Value | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1,
) -> Value:  # fmt: skip
    """Spread sequences by weights over a window: the gradient of `conv1d` by its input.

    out[n, c, p stride + k dilation - padding] += x[n, o, p] w[o, c, k]

    x               (N, C, L)  floats; bfloat16 and float16 are summed in float32
    weight          (C, out / groups, K)
    bias            (out,), or None
    stride          distance of the windows of neighbours of x
    padding         how much is cut off at both sides
    output_padding  how much less is cut off at the end; below the stride
    returns         (N, out, *sizes), size = (size - 1) stride - 2 padding + dilation (K - 1)
                    + output_padding + 1
    raises          ShapeError, DTypeError if the values do not fit each other
    cost            2 out / groups prod(window) flops an element of x
    source          Zeiler et al. 2010, Deconvolutional Networks
    >>> import bedplate as bp
    >>> bp.conv_transpose1d(bp.ones((1, 1, 3)), bp.ones((1, 1, 2))).tolist()
    [[[1.0, 2.0, 2.0, 1.0]]]
    """
    return convolve_transposed(
        "conv_transpose1d", 1, x, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    x: Value, weight: Value, bias: Value | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1,
) -> Value:  # fmt: skip
    """Spread images by weights over a window: the gradient of `conv2d` by its input.

    out[n, c, p stride + k dilation - padding] += x[n, o, p] w[o, c, k]

    x               (N, C, H, W)  floats; bfloat16 and float16 are summed in float32
    weight          (C, out / groups, K, K)
    bias            (out,), or None
    stride          distance of the windows of neighbours of x
    padding         how much is cut off at both sides
    output_padding  how much less is cut off at the end; below the stride
    returns         (N, out, *sizes), size = (size - 1) stride - 2 padding + dilation (K - 1)
                    + output_padding + 1
    raises          ShapeError, DTypeError if the values do not fit each other
    cost            2 out / groups prod(window) flops an element of x
    source          Zeiler et al. 2010, Deconvolutional Networks
    >>> import bedplate as bp
    >>> bp.conv_transpose2d(bp.ones((1, 1, 1, 2)), bp.ones((1, 1, 1, 2))).tolist()
    [[[[1.0, 2.0, 1.0]]]]
    """
    return convolve_transposed(
        "conv_transpose2d", 2, x, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    x: Value, weight: Value, bias: Value | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1,
) -> Value:  # fmt: skip
    """Spread volumes by weights over a window: the gradient of `conv3d` by its input.

    out[n, c, p stride + k dilation - padding] += x[n, o, p] w[o, c, k]

    x               (N, C, D, H, W)  floats; bfloat16 and float16 are summed in float32
    weight          (C, out / groups, K, K, K)
    bias            (out,), or None
    stride          distance of the windows of neighbours of x
    padding         how much is cut off at both sides
    output_padding  how much less is cut off at the end; below the stride
    returns         (N, out, *sizes), size = (size - 1) stride - 2 padding + dilation (K - 1)
                    + output_padding + 1
    raises          ShapeError, DTypeError if the values do not fit each other
    cost            2 out / groups prod(window) flops an element of x
    source          Zeiler et al. 2010, Deconvolutional Networks
    >>> import bedplate as bp
    >>> bp.conv_transpose3d(bp.ones((1, 1, 1, 1, 2)), bp.ones((1, 1, 1, 1, 2))).tolist()
    [[[[[1.0, 2.0, 1.0]]]]]
    """
    return convolve_transposed(
        "conv_transpose3d", 3, x, weight, bias, stride, padding, output_padding, groups, dilation
    )
