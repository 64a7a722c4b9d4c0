"""How a convolution is computed: which kernels it goes to, by its shape alone.

    last.py         channels side by side: vectors over output channels
    positions.py    positions side by side, in a padded copy of the input
    depthwise.py    one channel to one where the window moves by 1: both are read where they are

The gradient by the input is the same sum over the gradient of the output, once for each phase of
the strides. One and two dimensions run as three, with leading sizes of 1.
"""

from __future__ import annotations

import math
from typing import Any

from bedplate.ops.convolution.depthwise import enter_depthwise, enter_depthwise_by_weight, fits
from bedplate.ops.convolution.geometry import (
    Shape3,
    Target,
    Weights,
    phase_sums,
    shape_of,
    sum_of,
)
from bedplate.ops.convolution.last import (
    LEAST_DEPTH,
    by_weight_last,
    enter_last,
    pack_last,
    pays,
    shared_pack,
)
from bedplate.ops.convolution.positions import (
    by_weight_positions,
    enter_positions,
    grid_of_gradient,
    grid_of_input,
)
from bedplate.ops.convolution.windows import lifted
from bedplate.ops.matmul.tiles import accumulator


def _multiplier(weight: Any, shape: Shape3) -> int:
    """Output channels of a group, if it has one input channel; else 0."""
    return weight.shape[0] // shape.groups if weight.shape[1] == 1 else 0


def finished_shape(node: Any) -> tuple[int, int, int] | None:
    """(N, out, positions), if the kernel applies an epilogue: that over channels side by side."""
    x, w = node.inputs
    depth = math.prod(w.shape[1:])
    if 0 in node.shape or not pays(
        w.shape[0] // node.attributes["groups"], depth, accumulator(x.dtype)
    ):
        return None
    return (*node.shape[:2], math.prod(node.shape[2:]))


def lower_forward(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter the launches of a convolution."""
    (x, w), (out,) = inputs, outputs
    if not out.size:
        return
    shape = shape_of(x.shape[2:], w.shape[2:], out.shape[2:], node.attributes)
    if fits(shape, _multiplier(w, shape), x):
        enter_depthwise(builder, x, w, out, shape, flipped=False)
        return
    rows, of = w.shape[0] // shape.groups, sum_of(shape)
    weights = Weights(w, rows, w.shape[1], rows * w.strides[0], w.strides[0], w.strides[1])
    target = Target(out, 0, shape.out, lifted(out.strides[2:], 0))
    if pays(rows, weights.channels * of.n_taps, accumulator(x.dtype)):
        enter_last(builder, pack_last(builder, x), weights, of, target, shape.groups, epilogue)
    else:
        grid = grid_of_input(builder, x, shape)
        enter_positions(builder, grid, weights, of, target, shape.groups)


def lower_by_input(
    builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None
) -> None:
    """Enter the launches of the gradient by the input: one set for each phase of the strides."""
    (grad, w), (out,) = inputs, outputs
    if not out.size:
        return
    shape = shape_of(out.shape[2:], w.shape[2:], grad.shape[2:], node.attributes)
    if fits(shape, _multiplier(w, shape), grad):
        enter_depthwise(builder, grad, w, out, shape, flipped=True)
        return
    inner, sums = w.shape[0] // shape.groups, phase_sums(shape)
    weights = Weights(w, w.shape[1], inner, inner * w.strides[0], w.strides[1], w.strides[0])
    fewest = inner * min(of.n_taps for _, of in sums)
    last = grid = None
    if pays(weights.rows, fewest, accumulator(grad.dtype)):
        last = shared_pack(builder, grad)
    else:
        grid = grid_of_gradient(builder, grad, [of for _, of in sums])
    steps = lifted(out.strides[2:], 0)
    for phase, of in sums:
        start = sum(p * step for p, step in zip(phase, steps, strict=True))
        apart = tuple(s * step for s, step in zip(shape.stride, steps, strict=True))
        target = Target(out, start, of.out, apart)
        if last is not None:
            enter_last(builder, last, weights, of, target, shape.groups)
        elif grid is not None:
            enter_positions(builder, grid, weights, of, target, shape.groups)


def lower_by_weight(
    builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None
) -> None:
    """Enter the launches of the gradient by the weights."""
    (x, grad), (out,) = inputs, outputs
    if not out.size:
        return
    shape = shape_of(x.shape[2:], out.shape[2:], grad.shape[2:], node.attributes)
    if fits(shape, _multiplier(out, shape), x, grad):
        enter_depthwise_by_weight(builder, x, grad, out, shape)
        return
    # without images there is no chunk, and the sums would not be set
    if x.shape[0] and pays(out.shape[0] // shape.groups, LEAST_DEPTH, accumulator(x.dtype)):
        cells, grads = pack_last(builder, x), shared_pack(builder, grad)
        by_weight_last(builder, cells, grads, out, sum_of(shape), x.shape[0], shape.groups)
    else:
        by_weight_positions(builder, x, grad, out, shape, sum_of(shape))
