"""The kernels of depthwise convolution: one channel to one, bound by memory.

    out[n, c, y, x]  = sum over j, i of in[n, c, y + j - before, x + i - before] w[c, j, i]
    to[c, j, i]      = sum over n, y, x of in[n, c, y + j - before, x + i - before] g[n, c, y, x]

for windows that move by 1. The plain loop nest, and what becomes of it:

    for item in items:                  some rows of a plane, or all planes of a channel
        for x by lanes:                 a column of vectors, from its first row to its last
            for row in rows of in:      loaded once for each i, shifted by i
                for j, i in window:     as many rows of out are under way as the window has rows

So a row is read from the first cache once for each column of the window, not once for each of its
elements. What lies outside of a plane is zero by mask; it is multiplied as all else is. An output
is one chain over j, then i; a weight one chain over n, x and y in each lane, and lanes are added in
a fixed tree: no bit depends on the number of threads.

    accumulates in   float32 for bfloat16, float16 and float32; float64
    bytes            in and out once
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from bedplate.devices.cpu.caches import cache_bytes
from bedplate.devices.cpu.workers import n_workers
from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    cast,
    fma,
    from_dtype,
    host,
    i64,
    kernel,
    load,
    loop,
    minimum,
    ptr,
    reduce_add,
    splat,
    store,
    tail_mask,
    var,
    when,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.matmul.tiles import accumulator

# elements of a window; its weights or their sums stay in registers
MOST_TAPS = 25
ITEMS_PER_WORKER = 4

(
    IN, GRAD, WEIGHT, OUT, CHANNELS, IMAGES, SIZE_Y, SIZE_X, OUT_Y, OUT_X, BEFORE_Y, BEFORE_X,
    IN_N, IN_C, IN_Y, GRAD_N, GRAD_C, GRAD_Y, WEIGHT_C, WEIGHT_J, WEIGHT_I, FIRST_WEIGHT, BLOCKS,
    ROWS,
) = range(24)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Depthwise:
    """What specialises the kernels: element types and the size of the window."""

    accumulate: Type
    element: Type
    window: tuple[int, int]

    @property
    def lanes(self) -> int:
        return host().lanes(self.accumulate)


@functools.cache
def depthwise_kernel(what: Depthwise) -> Kernel:
    """The sums of windows; an item is some rows of a plane."""
    taps_y, taps_x = what.window

    @kernel
    def convolution_depthwise(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        blocks, rows, channels = word(BLOCKS), word(ROWS), word(CHANNELS)
        for item in loop(begin, end):
            plane, first = item // blocks, item % blocks * rows
            last = minimum(first + rows, word(OUT_Y))
            image, channel = plane // channels, plane % channels
            source = word_pointer(args, IN, what.element)
            source = source + (image * word(IN_N) + channel * word(IN_C))
            out = word_pointer(args, OUT, what.element) + plane * word(OUT_Y) * word(OUT_X)
            at = channel * word(WEIGHT_C) + word(FIRST_WEIGHT)
            weights = [
                [_weight(what, args, at + (word(WEIGHT_J) * j + word(WEIGHT_I) * i))
                 for i in range(taps_x)] for j in range(taps_y)
            ]  # fmt: skip
            for x in loop(0, word(OUT_X), what.lanes):
                _emit_column(what, args, source, out, weights, x, (first, last))

    return convolution_depthwise


def _weight(what: Depthwise, args: Value, at: Value) -> Value:
    value = load(word_pointer(args, WEIGHT, what.element) + at)
    return splat(cast(value, what.accumulate), what.lanes)


def _shifted(what: Depthwise, args: Value, x: Value) -> list[tuple[Value, Value]]:
    """(first column, mask of columns inside) for each column of the window."""
    lanes, size = what.lanes, word_int(args, SIZE_X)
    found = []
    for i in range(what.window[1]):
        first = x - word_int(args, BEFORE_X) + i
        found.append((first, tail_mask(size - first, lanes) & ~tail_mask(-first, lanes)))
    return found


def _row(what: Depthwise, args: Value, source: Value, y: Value, shifts: Any) -> list[Value]:
    """A row of the input, once for each column of the window; zeros outside."""
    inside = splat((y >= 0) & (y < word_int(args, SIZE_Y)), what.lanes)
    row = source + y * word_int(args, IN_Y)
    return [
        cast(load(row + first, what.lanes, mask=mask & inside), what.accumulate)
        for first, mask in shifts
    ]


def _emit_column(
    what: Depthwise, args: Value, source: Value, out: Value, weights: Any, x: Value,
    rows: tuple[Value, Value],
) -> None:  # fmt: skip
    """One vector of columns, from the first row to the last."""
    lanes, taps_y = what.lanes, what.window[0]
    shifts = _shifted(what, args, x)
    keep = tail_mask(word_int(args, OUT_X) - x, lanes)
    nothing = zeros(what.accumulate, lanes)
    # sums[0] is complete with this row, the last one begins with it
    sums = [var(nothing) for _ in range(taps_y)]
    first, last = rows
    for number in loop(first - (taps_y - 1), last):
        y = number + (taps_y - 1) - word_int(args, BEFORE_Y)
        values = _row(what, args, source, y, shifts)
        made = []
        for n, total in enumerate(sums):
            value = total.get()
            for weight, x_value in zip(weights[taps_y - 1 - n], values, strict=True):
                value = fma(x_value, weight, value)
            made.append(value)
        with when(number >= first):
            at = out + (number * word_int(args, OUT_X) + x)
            store(at, cast(made[0], what.element), mask=keep)
        for total, value in zip(sums, [*made[1:], nothing], strict=True):
            total.set(value)


@functools.cache
def depthwise_by_weight_kernel(what: Depthwise) -> Kernel:
    """The gradient by the weights; an item is a channel of all images."""
    taps_y, taps_x = what.window

    @kernel
    def convolution_depthwise_by_weight(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        nothing = zeros(what.accumulate, what.lanes)
        for channel in loop(begin, end):
            sums = [[var(nothing) for _ in range(taps_x)] for _ in range(taps_y)]
            for image in loop(word(IMAGES)):
                source = word_pointer(args, IN, what.element)
                source = source + (image * word(IN_N) + channel * word(IN_C))
                grad = word_pointer(args, GRAD, what.element)
                grad = grad + (image * word(GRAD_N) + channel * word(GRAD_C))
                for x in loop(0, word(OUT_X), what.lanes):
                    _sum_column(what, args, source, grad, sums, x)
            out = word_pointer(args, OUT, what.element) + channel * (taps_y * taps_x)
            for j, row in enumerate(sums):
                for i, total in enumerate(row):
                    store(out + (j * taps_x + i), cast(reduce_add(total.get()), what.element))

    return convolution_depthwise_by_weight


def _sum_column(
    what: Depthwise, args: Value, source: Value, grad: Value, sums: Any, x: Value
) -> None:
    """One vector of columns of an image: each row of it meets as many rows of the gradient."""
    lanes, taps_y = what.lanes, what.window[0]
    shifts = _shifted(what, args, x)
    out_y = word_int(args, OUT_Y)
    keep = tail_mask(word_int(args, OUT_X) - x, lanes)
    # met[0] is the newest row of the gradient, which the first row of the window takes there
    met = [var(zeros(what.accumulate, lanes)) for _ in range(taps_y)]
    for number in loop(out_y + (taps_y - 1)):
        there = keep & splat(number < out_y, lanes)
        row = load(grad + (number * word_int(args, GRAD_Y) + x), lanes, mask=there)
        rows = [cast(row, what.accumulate), *(each.get() for each in met[:-1])]
        values = _row(what, args, source, number - word_int(args, BEFORE_Y), shifts)
        for j, g in enumerate(rows):
            for i, value in enumerate(values):
                sums[j][i].set(fma(value, g, sums[j][i].get()))
        for each, g in zip(met, rows, strict=True):
            each.set(g)


def fits(shape: Any, multiplier: int, *views: Any) -> bool:
    """Whether the kernels are for such a convolution, whose rows lie in one piece.

    multiplier   output channels of a group that has one input channel; else 0
    """
    plain = set(shape.stride) == set(shape.dilation) == {1}
    flat = shape.space[0] == shape.out[0] == shape.window[0] == 1 and shape.before[0] == 0
    rows = all(view.strides[-1] == 1 or view.shape[-1] == 1 for view in views)
    few = shape.window[1] * shape.window[2] <= MOST_TAPS
    return multiplier == 1 and plain and flat and few and rows


def _row_step(view: Any) -> int:
    return view.strides[2] if len(view.shape) == 4 else 0


def enter_depthwise(
    builder: Any, x: Any, w: Any, out: Any, shape: Any, flipped: bool
) -> None:  # fmt: skip
    """Enter the sums of windows of x.

    flipped   x is a gradient, and out that of the input of a convolution of this shape
    """
    _, taps_y, taps_x = shape.window
    steps = (w.strides[2] if len(w.shape) == 4 else 0, w.strides[-1])
    before, first = shape.before[1:], 0
    size, sizes_out = shape.space[1:], shape.out[1:]
    if flipped:
        before = (taps_y - 1 - before[0], taps_x - 1 - before[1])
        first = (taps_y - 1) * steps[0] + (taps_x - 1) * steps[1]
        steps = (-steps[0], -steps[1])
        size, sizes_out = sizes_out, size
    accumulate = accumulator(x.dtype)
    planes = out.shape[0] * out.shape[1]
    # rows of an item stay in the second cache while columns walk over them
    most = max(cache_bytes(2) // 4 // (sizes_out[1] * accumulate.itemsize), 4 * taps_y)
    wanted = -(-planes * sizes_out[0] // (ITEMS_PER_WORKER * n_workers()))
    rows = max(min(most, wanted, sizes_out[0]), min(4 * taps_y, sizes_out[0]))
    blocks = -(-sizes_out[0] // rows)
    words = [
        x, 0, w, out, out.shape[1], out.shape[0], *size, *sizes_out, *before, *x.strides[:2],
        _row_step(x), 0, 0, 0, w.strides[0], *steps, first, blocks, rows,
    ]  # fmt: skip
    builder.launch(
        depthwise_kernel(Depthwise(accumulate, from_dtype(x.dtype), (taps_y, taps_x))), words,
        planes * blocks, reads=[x.buffer, w.buffer], writes=[out.buffer],
        flops=2.0 * out.size * taps_y * taps_x,
        nbytes=float((x.size + out.size) * x.dtype.itemsize), name="convolution_depthwise",
    )  # fmt: skip


def enter_depthwise_by_weight(builder: Any, x: Any, grad: Any, out: Any, shape: Any) -> None:
    """Enter the sums of the gradient by the weights."""
    _, taps_y, taps_x = shape.window
    what = Depthwise(accumulator(x.dtype), from_dtype(x.dtype), (taps_y, taps_x))
    words = [
        x, grad, 0, out, out.shape[0], x.shape[0], *shape.space[1:], *shape.out[1:],
        *shape.before[1:], *x.strides[:2], _row_step(x), *grad.strides[:2], _row_step(grad),
        0, 0, 0, 0, 0, 0,
    ]  # fmt: skip
    builder.launch(
        depthwise_by_weight_kernel(what), words, out.shape[0], reads=[x.buffer, grad.buffer],
        writes=[out.buffer], flops=2.0 * grad.size * taps_y * taps_x,
        nbytes=float((x.size + grad.size) * x.dtype.itemsize), name="convolution_by_weight",
    )  # fmt: skip
