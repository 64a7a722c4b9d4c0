"""The records of convolution and its two gradients.

    convolution(x, w)[n, o, p]           = sum over c, k of x[n, c, i] w[o, c, k]
    convolution_by_input(g, w)[n, c, i]  = sum over o, k of g[n, o, p] w[o, c, k]
    convolution_by_weight(x, g)[o, c, k] = sum over n, p of x[n, c, i] g[n, o, p]

    where i = p stride + k dilation - before

The op is linear in either input, so the three are each other's gradients. What lies outside of x or
g is left out: it adds nothing, not even where zeros would, as to an infinite weight. The kernels:
lower.py says which there are and what is packed for them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.later import deferred
from bedplate.ops.build import Value
from bedplate.ops.convolution.windows import space_names, window_count
from bedplate.ops.elementwise import widened
from bedplate.ops.record import Cost, Op, Sample, apply, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import floats


def out_sizes(space: Shape, window: Shape, attributes: Attributes) -> Shape:
    """How many places a window has along each axis; less than 1 where it does not fit."""
    return tuple(
        window_count(size, k, s, sum(pad), d)
        for size, k, s, pad, d in zip(
            space, window, attributes["stride"], attributes["padding"], attributes["dilation"],
            strict=True,
        )
    )  # fmt: skip


def check_convolution(
    op: str, named: dict[str, Any], x: Any, w: Any, attributes: Attributes
) -> None:
    """Refuse an input and weights that no convolution has; x and w have .shape and .dtype."""
    values = list(named.values())
    if any(v.dtype not in FLOATS or v.dtype is not values[0].dtype for v in values):
        refuse(DTypeError, op, "the dtypes must be one float dtype", named)
    groups, rank = attributes["groups"], len(attributes["stride"])
    if len(x) != rank + 2 or len(w) != rank + 2:
        refuse(
            ShapeError, op, f"{rank} axes of space are needed", named,
            f"expected (N, C, {space_names(rank)}) and weights of {rank + 2} axes",
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
    check_convolution("convolution", {"x": x, "weight": w}, x.shape, w.shape, attributes)
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
    check_convolution("convolution_by_input", named, shape, w.shape, attributes)
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
    check_convolution("convolution_by_weight", named, x.shape, shape, attributes)
    if (x.shape[0], *out_sizes(x.shape[2:], window, attributes)) != (
        grad.shape[0], *grad.shape[2:],
    ):  # fmt: skip
        refuse(ShapeError, "convolution_by_weight", "the sizes do not fit", named,
               f"a window of {window} does not give those of grad_out")  # fmt: skip
    return shape, x.dtype


def _meetings(window: Shape, space: Shape, out: Shape, attributes: Attributes) -> Iterator[Any]:
    """Tap by tap: its place in the weights, the outputs and the inputs that it brings together."""
    axes = tuple(
        zip(space, out, attributes["padding"], attributes["stride"], attributes["dilation"],
            strict=True)
    )  # fmt: skip
    for tap in itertools.product(*(range(k) for k in window)):
        outputs, inputs = [], []
        for k, (size, n, (before, _), step, apart) in zip(tap, axes, strict=True):
            first = k * apart - before
            low = min(max(-(first // step), 0), n)
            high = min(max(-((first - size) // step), low), n)
            outputs.append(slice(low, high))
            start = low * step + first
            inputs.append(
                slice(start, start + (high - low) * step, step) if high > low else slice(0)
            )
        yield (..., *tap), (..., *outputs), (..., *inputs)


def _grouped(values: Any, groups: int) -> Any:
    """(N, C, *space) as (N, groups, C / groups, *space)."""
    return values.reshape(values.shape[0], groups, values.shape[1] // groups, *values.shape[2:])


def _flat(values: Any) -> Any:
    """(N, groups, C, *space) with the axes of space as one."""
    return values.reshape(*values.shape[:3], math.prod(values.shape[3:]))


def _columns(w: Any, tap: Any, groups: int) -> Any:
    """The weights of a tap as (groups, out, in)."""
    return w[tap].reshape(groups, w.shape[0] // groups, w.shape[1])


def _reference(x: Any, w: Any, **attributes: Any) -> Any:
    """Tap by tap: a product of the weights of the tap with what they meet."""
    groups, out = attributes["groups"], out_sizes(x.shape[2:], w.shape[2:], attributes)
    source = _grouped(x, groups)
    total = np.zeros((x.shape[0], groups, w.shape[0] // groups, *out), x.dtype)
    for tap, outputs, inputs in _meetings(w.shape[2:], x.shape[2:], out, attributes):
        part = total[outputs]
        part += (_columns(w, tap, groups) @ _flat(source[inputs])).reshape(part.shape)
    return total.reshape(x.shape[0], w.shape[0], *out)


def _by_input_reference(grad: Any, w: Any, *, space: Shape, **attributes: Any) -> Any:
    """Tap by tap: what it brings from each place of grad to a place of the input."""
    groups = attributes["groups"]
    source = _grouped(grad, groups)
    total = np.zeros((grad.shape[0], groups, w.shape[1], *space), grad.dtype)
    for tap, outputs, inputs in _meetings(w.shape[2:], space, grad.shape[2:], attributes):
        part, columns = total[inputs], _columns(w, tap, groups).swapaxes(1, 2)
        part += (columns @ _flat(source[outputs])).reshape(part.shape)
    return total.reshape(grad.shape[0], groups * w.shape[1], *space)


def _by_weight_reference(x: Any, grad: Any, *, window: Shape, **attributes: Any) -> Any:
    """Tap by tap: the places of grad times what the tap meets of x."""
    groups, channels = attributes["groups"], x.shape[1] // attributes["groups"]
    source, rows = _grouped(x, groups), _grouped(grad, groups)
    total = np.zeros((grad.shape[1], channels, *window), x.dtype)
    for tap, outputs, inputs in _meetings(window, x.shape[2:], grad.shape[2:], attributes):
        met = _flat(source[inputs]).swapaxes(2, 3)
        total[tap] = np.sum(_flat(rows[outputs]) @ met, axis=0).reshape(grad.shape[1], channels)
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
    ((2, 13, 3, 4), (13, 13, 2, 2), (1, 1), ((1, 0), (0, 1)), (1, 1), 1),
    ((1, 26, 5), (26, 13, 3), (2,), ((1, 1),), (1,), 2),
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
        lower=deferred("bedplate.ops.convolution.lower", "lower_forward"),
        epilogue=deferred("bedplate.ops.convolution.lower", "finished_shape"),
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
        lower=deferred("bedplate.ops.convolution.lower", "lower_by_input"),
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
        lower=deferred("bedplate.ops.convolution.lower", "lower_by_weight"),
        dtypes=FLOATS,
        samples=_samples("weight"),
        doc="The gradient of a convolution by its weights.",
    )
)
