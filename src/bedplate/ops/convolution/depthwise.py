"""The kernels of depthwise convolution: one channel to one, bound by memory.

    out[n, c, y, x]  = sum over j, i of in[n, c, y + j - before, x + i - before] w[c, j, i]
    to[c, j, i]      = sum over n, y, x of in[n, c, y + j - before, x + i - before] g[n, c, y, x]

for windows that move by 1. The plain loop nest, and what becomes of it:

    for item in items:                  some rows of a plane, or all planes of a channel
        for x by strips:                as many vectors side by side as there are registers for
            for row in rows of in:      loaded once for each i, shifted by i
                for j, i in window:     as many rows of out are under way as the window has rows

So a row is read from the first cache once for each column of the window, not once for each of its
elements, and memory in the order in which it lies. What strips leave of a row are single vectors.
What lies outside of a plane is left out: by mask where outputs are summed; of the sum of a weight,
its zeros add nothing, and where the sum is NaN, as zero times infinity is, it is added up again
without them. An output is one chain over j, then i; a weight one chain over n, strips, y and x in
each lane, and lanes are added in a fixed tree: no bit depends on the number of threads.

The rows and vectors of the kernels' tile are those of the window, its form how wide a strip is.

    accumulates in   float32 for bfloat16, float16 and float32; float64
    bytes            in and out once
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from bedplate.devices.cpu.caches import cache_bytes
from bedplate.devices.cpu.workers import n_workers
from bedplate.kernel import (
    Kernel,
    Value,
    cast,
    fma,
    from_dtype,
    host,
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

# The constants were measured by `python -m benchmarks.convolutions depthwise` on two cores of a
# Zen 4, with and without other work: 64 channels of 8 x 64 x 64.
# elements of a window, whose loops are written out: with gradients 7 x 7 takes 4.4 ms where the
# kernels over positions take 11.5, 9 x 9 7.3 and 16.9, 11 x 11, the largest measured, 11.1 and 24.2
MOST_TAPS = 121
MOST_VECTORS = 4  # of a strip
SPARE = 8  # registers for what is loaded, and for masks and addresses
# so many that all workers end at about the same time: alone 1 to 16 are within 4 %
ITEMS_PER_WORKER = 4

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
            for strip in _strips(tile, word):
                _emit_strip(tile, word, source, out, weights, strip, (first, last))

    return convolution_depthwise


def _weight(tile: Tile, word: Reader, at: Value) -> Value:
    value = load(word.pointer("weight", tile.element) + at)
    return splat(cast(value, tile.accumulate), tile.lanes)


@dataclass(frozen=True, slots=True)
class Strip:
    """Vectors of outputs side by side.

    x      the first column
    keep   which lanes of the only vector are inside; None: all of all vectors
    taps   for each vector and column of the window: the first column of the input, and which lanes
           of it are inside; None: all
    """

    x: Value
    keep: Value | None
    taps: list[list[tuple[Value, Value | None]]]


def _strips(tile: Tile, word: Reader) -> Iterator[Strip]:
    """Strips over a row while they are full, then single vectors."""
    lanes, width = tile.lanes, tile.form
    step = width * lanes
    whole = word.out_x - word.out_x % step
    if width > 1:
        for x in loop(0, whole, step):
            yield Strip(x, None, [_taps(tile, word, x, v, width) for v in range(width)])
    for x in loop(whole if width > 1 else 0, word.out_x, lanes):
        yield Strip(x, tail_mask(word.out_x - x, lanes), [_taps(tile, word, x, 0, 1)])


def _taps(
    tile: Tile, word: Reader, x: Value, v: int, width: int
) -> list[tuple[Value, Value | None]]:
    """What vector v of a strip meets: `strip_of` sees to it that only its ends reach outside."""
    lanes, found = tile.lanes, []
    for i in range(tile.vectors):
        first = x - word.before_x + (v * lanes + i)
        mask = None
        if v == 0:
            mask = ~tail_mask(-first, lanes)
        if v == width - 1:
            right = tail_mask(word.size_x - first, lanes)
            mask = right if mask is None else mask & right
        found.append((first, mask))
    return found


def strip_of(tile: Tile, size_x: int, out_x: int, before_x: int) -> int:
    """The vectors of a strip: what weights and sums leave of the registers, up to MOST_VECTORS.

    before_x   how far the first window reaches out on the left
    """
    after_x = out_x + tile.vectors - 1 - before_x - size_x
    if max(before_x, after_x) > tile.lanes:  # more than the vectors at the ends reach outside
        return 1
    registers = 32 if host().vector_bits != 256 else 16
    free = (registers - SPARE - tile.rows * tile.vectors) // tile.rows
    return max(min(out_x // tile.lanes, free, MOST_VECTORS), 1)


def _values(tile: Tile, row: Value, taps: Any) -> list[Value]:
    """A row of the input for each column of the window; zeros outside."""
    return [cast(load(row + first, tile.lanes, mask=mask), tile.accumulate) for first, mask in taps]


def _emit_strip(
    tile: Tile, word: Reader, source: Value, out: Value, weights: Any, strip: Strip,
    rows: tuple[Value, Value],
) -> None:  # fmt: skip
    """One strip, from the first row to the last."""
    lanes, taps_y = tile.lanes, tile.rows
    nothing = zeros(tile.accumulate, lanes)
    # sums[0] of a vector is complete with this row, the last one begins with it
    sums = [[var(nothing) for _ in range(taps_y)] for _ in strip.taps]
    first, last = rows
    for number in loop(first - (taps_y - 1), last):
        y = number + (taps_y - 1) - word.before_y
        with when((y >= 0) & (y < word.size_y)):
            row = source + y * word.source_y
            for totals, taps in zip(sums, strip.taps, strict=True):
                values = _values(tile, row, taps)
                for n, total in enumerate(totals):
                    made = total.get()
                    for i, (_, mask) in enumerate(taps):
                        more = fma(values[i], weights[taps_y - 1 - n][i], made)
                        made = more if mask is None else select(mask, more, made)
                    total.set(made)
        with when(number >= first):
            at = out + (number * word.out_x + strip.x)
            for v, totals in enumerate(sums):
                store(at + v * lanes, cast(totals[0].get(), tile.element), mask=strip.keep)
        for totals in sums:
            moved = [total.get() for total in totals[1:]]
            for total, value in zip(totals, [*moved, nothing], strict=True):
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
                for strip in _strips(tile, word):
                    _sum_strip(tile, word, source, grad, sums, strip)
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


def _sum_strip(
    tile: Tile, word: Reader, source: Value, grad: Value, sums: Any, strip: Strip
) -> None:  # fmt: skip
    """One strip of an image: each row of it meets as many rows of the gradient."""
    lanes, taps_y = tile.lanes, tile.rows
    nothing = zeros(tile.accumulate, lanes)
    # met[0] is the newest row of the gradient, which the first row of the window takes there
    met = [[var(nothing) for _ in range(taps_y)] for _ in strip.taps]
    for number in loop(word.out_y + (taps_y - 1)):
        for each in met:
            for older, newer in zip(reversed(each), reversed(each[:-1]), strict=False):
                older.set(newer.get())
            each[0].set(nothing)
        with when(number < word.out_y):
            at = grad + (number * word.grad_y + strip.x)
            for v, each in enumerate(met):
                g = load(at + v * lanes, lanes, mask=strip.keep)
                each[0].set(cast(g, tile.accumulate))
        y = number - word.before_y
        with when((y >= 0) & (y < word.size_y)):
            row = source + y * word.source_y
            for each, taps in zip(met, strip.taps, strict=True):
                values = _values(tile, row, taps)
                for j, g in enumerate(each):
                    for i, value in enumerate(values):
                        sums[j][i].set(fma(value, g.get(), sums[j][i].get()))


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
    tile = Tile(accumulate, from_dtype(x.dtype), taps_y, taps_x)
    tile = replace(tile, form=strip_of(tile, size[1], sizes_out[1], before[1]))
    words = WORDS.values(
        source=x, grad=0, weight=w, to=out, channels=out.shape[1], images=out.shape[0],
        size_y=size[0], size_x=size[1], out_y=sizes_out[0], out_x=sizes_out[1],
        before_y=before[0], before_x=before[1], source_n=x.strides[0], source_c=x.strides[1],
        source_y=_row_step(x), grad_n=0, grad_c=0, grad_y=0, weight_c=w.strides[0],
        weight_j=steps[0], weight_i=steps[1], first_weight=first, blocks=blocks, rows=rows,
    )  # fmt: skip
    builder.launch(
        depthwise_kernel(tile), words, planes * blocks,
        reads=[x.buffer, w.buffer], writes=[out.buffer],
        flops=2.0 * out.size * taps_y * taps_x,
        nbytes=float((x.size + out.size) * x.dtype.itemsize), name="convolution_depthwise",
    )  # fmt: skip


def enter_depthwise_by_weight(builder: Any, x: Any, grad: Any, out: Any, shape: Any) -> None:
    """Enter the sums of the gradient by the weights."""
    _, taps_y, taps_x = shape.window
    tile = Tile(accumulator(x.dtype), from_dtype(x.dtype), taps_y, taps_x)
    tile = replace(tile, form=strip_of(tile, shape.space[2], shape.out[2], shape.before[2]))
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
