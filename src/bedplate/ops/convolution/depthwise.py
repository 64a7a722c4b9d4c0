"""The kernels of depthwise convolution: one channel to one, bound by memory.

    out[n, c, y, x]  = sum over j, i of in[n, c, y + j - before, x + i - before] w[c, j, i]
    to[c, j, i]      = sum over n, y, x of in[n, c, y + j - before, x + i - before] g[n, c, y, x]

for windows that move by 1. The plain loop nest, and what becomes of it:

    for item in items:                  some rows of a plane, or all planes of a channel
        for x by lanes:                 a column of vectors, from its first row to its last
            for row in rows of in:      loaded once for each i, shifted by i
                for j, i in window:     as many rows of out are under way as the window has rows

So a row is read from the first cache once for each column of the window, not once for each of its
elements. What lies outside of a plane is left out: by mask where outputs are summed; of the sum of
a weight, its zeros add nothing, and where the sum is NaN, as zero times infinity is, it is added up
again without them. An output is one chain over j, then i; a weight one chain over n, x and y in
each lane, and lanes are added in a fixed tree: no bit depends on the number of threads.

The rows and vectors of the kernels' tile are those of the window.

    accumulates in   float32 for bfloat16, float16 and float32; float64
    bytes            in and out once
"""

from __future__ import annotations

import functools
from typing import Any

from bedplate.devices.cpu.caches import cache_bytes
from bedplate.devices.cpu.workers import n_workers
from bedplate.kernel import (
    Kernel,
    Value,
    cast,
    fma,
    from_dtype,
    i64,
    kernel,
    load,
    loop,
    maximum,
    minimum,
    ptr,
    reduce_add,
    select,
    splat,
    store,
    tail_mask,
    var,
    when,
    zeros,
)
from bedplate.ops.convolution.tile import Reader, Tile, Words
from bedplate.ops.matmul.tiles import accumulator

# elements of a window; its weights or their sums stay in registers
MOST_TAPS = 25
ITEMS_PER_WORKER = 4  # so many that all workers end at about the same time

WORDS = Words(
    "source grad weight to channels images size_y size_x out_y out_x before_y before_x source_n "
    "source_c source_y grad_n grad_c grad_y weight_c weight_j weight_i first_weight blocks rows"
)


@functools.cache
def depthwise_kernel(tile: Tile) -> Kernel:
    """The sums of windows; an item is some rows of a plane."""

    @kernel
    def convolution_depthwise(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = WORDS.of(args)
        blocks, rows, channels = word.blocks, word.rows, word.channels
        for item in loop(begin, end):
            plane, first = item // blocks, item % blocks * rows
            last = minimum(first + rows, word.out_y)
            image, channel = plane // channels, plane % channels
            source = word.pointer("source", tile.element)
            source = source + (image * word.source_n + channel * word.source_c)
            out = word.pointer("to", tile.element) + plane * word.out_y * word.out_x
            at = channel * word.weight_c + word.first_weight
            weights = [
                [_weight(tile, word, at + (word.weight_j * j + word.weight_i * i))
                 for i in range(tile.vectors)] for j in range(tile.rows)
            ]  # fmt: skip
            for x in loop(0, word.out_x, tile.lanes):
                _emit_column(tile, word, source, out, weights, x, (first, last))

    return convolution_depthwise


def _weight(tile: Tile, word: Reader, at: Value) -> Value:
    value = load(word.pointer("weight", tile.element) + at)
    return splat(cast(value, tile.accumulate), tile.lanes)


def _shifted(tile: Tile, word: Reader, x: Value) -> list[tuple[Value, Value]]:
    """(first column, mask of columns inside) for each column of the window."""
    lanes, size = tile.lanes, word.size_x
    found = []
    for i in range(tile.vectors):
        first = x - word.before_x + i
        found.append((first, tail_mask(size - first, lanes) & ~tail_mask(-first, lanes)))
    return found


def _row(
    tile: Tile, word: Reader, source: Value, y: Value, shifts: Any
) -> list[tuple[Value, Value]]:
    """(a row of the input, which of it is inside) for each column of the window; zeros outside."""
    inside = splat((y >= 0) & (y < word.size_y), tile.lanes)
    row = source + y * word.source_y
    found = []
    for first, mask in shifts:
        there = mask & inside
        value = cast(load(row + first, tile.lanes, mask=there), tile.accumulate)
        found.append((value, there))
    return found


def _emit_column(
    tile: Tile, word: Reader, source: Value, out: Value, weights: Any, x: Value,
    rows: tuple[Value, Value],
) -> None:  # fmt: skip
    """One vector of columns, from the first row to the last."""
    lanes, taps_y = tile.lanes, tile.rows
    shifts = _shifted(tile, word, x)
    keep = tail_mask(word.out_x - x, lanes)
    nothing = zeros(tile.accumulate, lanes)
    # sums[0] is complete with this row, the last one begins with it
    sums = [var(nothing) for _ in range(taps_y)]
    first, last = rows
    for number in loop(first - (taps_y - 1), last):
        y = number + (taps_y - 1) - word.before_y
        values = _row(tile, word, source, y, shifts)
        made = []
        for n, total in enumerate(sums):
            value = total.get()
            for weight, (x_value, there) in zip(weights[taps_y - 1 - n], values, strict=True):
                value = select(there, fma(x_value, weight, value), value)
            made.append(value)
        with when(number >= first):
            at = out + (number * word.out_x + x)
            store(at, cast(made[0], tile.element), mask=keep)
        for total, value in zip(sums, [*made[1:], nothing], strict=True):
            total.set(value)


@functools.cache
def depthwise_by_weight_kernel(tile: Tile) -> Kernel:
    """The gradient by the weights; an item is a channel of all images."""
    taps_y, taps_x = tile.rows, tile.vectors

    @kernel
    def convolution_depthwise_by_weight(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = WORDS.of(args)
        nothing = zeros(tile.accumulate, tile.lanes)
        for channel in loop(begin, end):
            sums = [[var(nothing) for _ in range(taps_x)] for _ in range(taps_y)]
            for image in loop(word.images):
                source, grad = _planes(tile, word, image, channel)
                for x in loop(0, word.out_x, tile.lanes):
                    _sum_column(tile, word, source, grad, sums, x)
            out = word.pointer("to", tile.element) + channel * (taps_y * taps_x)
            for j, row in enumerate(sums):
                for i, total in enumerate(row):
                    store(out + (j * taps_x + i), cast(reduce_add(total.get()), tile.element))
            for tap in loop(taps_y * taps_x):
                with when(load(out + tap) != load(out + tap)):
                    store(out + tap, _sum_inside(tile, word, channel, tap))

    return convolution_depthwise_by_weight


def _planes(tile: Tile, word: Reader, image: Value, channel: Value) -> tuple[Value, Value]:
    """One channel of one image, of the input and of the gradient."""
    source = word.pointer("source", tile.element)
    grad = word.pointer("grad", tile.element)
    return (
        source + (image * word.source_n + channel * word.source_c),
        grad + (image * word.grad_n + channel * word.grad_c),
    )


def _sum_column(tile: Tile, word: Reader, source: Value, grad: Value, sums: Any, x: Value) -> None:
    """One vector of columns of an image: each row of it meets as many rows of the gradient."""
    lanes, taps_y = tile.lanes, tile.rows
    shifts = _shifted(tile, word, x)
    out_y = word.out_y
    keep = tail_mask(word.out_x - x, lanes)
    # met[0] is the newest row of the gradient, which the first row of the window takes there
    met = [var(zeros(tile.accumulate, lanes)) for _ in range(taps_y)]
    for number in loop(out_y + (taps_y - 1)):
        there = keep & splat(number < out_y, lanes)
        row = load(grad + (number * word.grad_y + x), lanes, mask=there)
        rows = [cast(row, tile.accumulate), *(each.get() for each in met[:-1])]
        values = _row(tile, word, source, number - word.before_y, shifts)
        for j, g in enumerate(rows):
            for i, (value, _) in enumerate(values):
                sums[j][i].set(fma(value, g, sums[j][i].get()))
        for each, g in zip(met, rows, strict=True):
            each.set(g)


def _sum_inside(tile: Tile, word: Reader, channel: Value, tap: Value) -> Value:
    """The sum of one weight over the places whose tap is inside of the plane alone."""
    lanes = tile.lanes
    total = var(zeros(tile.accumulate, lanes))
    y_shift, x_shift = tap // tile.vectors - word.before_y, tap % tile.vectors - word.before_x
    for image in loop(word.images):
        source, grad = _planes(tile, word, image, channel)
        for x in loop(0, word.out_x, lanes):
            column = x + x_shift
            mask = tail_mask(word.size_x - column, lanes) & ~tail_mask(-column, lanes)
            mask = mask & tail_mask(word.out_x - x, lanes)
            for y in loop(maximum(-y_shift, 0), minimum(word.size_y - y_shift, word.out_y)):
                at = source + ((y + y_shift) * word.source_y + column)
                value = cast(load(at, lanes, mask=mask), tile.accumulate)
                g = cast(load(grad + (y * word.grad_y + x), lanes, mask=mask), tile.accumulate)
                total.set(fma(value, g, total.get()))
    return cast(reduce_add(total.get()), tile.element)


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
    words = WORDS.values(
        source=x, grad=0, weight=w, to=out, channels=out.shape[1], images=out.shape[0],
        size_y=size[0], size_x=size[1], out_y=sizes_out[0], out_x=sizes_out[1],
        before_y=before[0], before_x=before[1], source_n=x.strides[0], source_c=x.strides[1],
        source_y=_row_step(x), grad_n=0, grad_c=0, grad_y=0, weight_c=w.strides[0],
        weight_j=steps[0], weight_i=steps[1], first_weight=first, blocks=blocks, rows=rows,
    )  # fmt: skip
    builder.launch(
        depthwise_kernel(Tile(accumulate, from_dtype(x.dtype), taps_y, taps_x)), words,
        planes * blocks, reads=[x.buffer, w.buffer], writes=[out.buffer],
        flops=2.0 * out.size * taps_y * taps_x,
        nbytes=float((x.size + out.size) * x.dtype.itemsize), name="convolution_depthwise",
    )  # fmt: skip


def enter_depthwise_by_weight(builder: Any, x: Any, grad: Any, out: Any, shape: Any) -> None:
    """Enter the sums of the gradient by the weights."""
    _, taps_y, taps_x = shape.window
    tile = Tile(accumulator(x.dtype), from_dtype(x.dtype), taps_y, taps_x)
    words = WORDS.values(
        source=x, grad=grad, weight=0, to=out, channels=out.shape[0], images=x.shape[0],
        size_y=shape.space[1], size_x=shape.space[2], out_y=shape.out[1], out_x=shape.out[2],
        before_y=shape.before[1], before_x=shape.before[2], source_n=x.strides[0],
        source_c=x.strides[1], source_y=_row_step(x), grad_n=grad.strides[0],
        grad_c=grad.strides[1], grad_y=_row_step(grad), weight_c=0, weight_j=0, weight_i=0,
        first_weight=0, blocks=0, rows=0,
    )  # fmt: skip
    builder.launch(
        depthwise_by_weight_kernel(tile), words, out.shape[0], reads=[x.buffer, grad.buffer],
        writes=[out.buffer], flops=2.0 * grad.size * taps_y * taps_x,
        nbytes=float((x.size + grad.size) * x.dtype.itemsize), name="convolution_by_weight",
    )  # fmt: skip
