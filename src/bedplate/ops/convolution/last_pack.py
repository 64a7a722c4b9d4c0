"""How operands of a convolution come to lie with their channels side by side.

    grid[n, z, y, x, c]     = x[n, c, z - before, y - before, x - before], or 0 outside
    weights[g, block, t, c, o]                   vectors of output channels o, zeros behind the last

Both transpose squares of lanes x lanes in registers. Bound by memory: each element is read once and
written once.
"""

from __future__ import annotations

import functools

from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    cast,
    element,
    gather,
    host,
    i64,
    iota,
    kernel,
    load,
    loop,
    maximum,
    minimum,
    otherwise,
    prefetch,
    ptr,
    select,
    splat,
    store,
    tail_mask,
    when,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.matmul.pack import transpose

# words of a packing task of grids; CHANNELS stand CHANNEL_ROOM apart
(
    SOURCE, TO, CHANNELS, CHANNEL_ROOM, STRIDE_N, STRIDE_C, STRIDE_Z, STRIDE_Y, STRIDE_X, SIZE_Z,
    SIZE_Y, SIZE_X, CELLS_Z, CELLS_Y, CELLS_X, BEFORE_Z, BEFORE_Y, BEFORE_X,
) = range(18)  # fmt: skip


@functools.cache
def last_grid_kernel(element: Type, accumulate: Type) -> Kernel:
    """Makes grids; an item is one line of one image: all its columns and channels."""
    lanes = host().lanes(accumulate)

    @kernel
    def convolution_last_grid(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        cells_y, cells_z, cells_x = word(CELLS_Y), word(CELLS_Z), word(CELLS_X)
        room, size_x, before = word(CHANNEL_ROOM), word(SIZE_X), word(BEFORE_X)
        for item in loop(begin, end):
            y, z = item % cells_y - word(BEFORE_Y), item // cells_y % cells_z - word(BEFORE_Z)
            image = item // (cells_y * cells_z)
            there = (y >= 0) & (y < word(SIZE_Y)) & (z >= 0) & (z < word(SIZE_Z))
            source = word_pointer(args, SOURCE, element) + image * word(STRIDE_N)
            source = source + (z * word(STRIDE_Z) + y * word(STRIDE_Y))
            to = word_pointer(args, TO, accumulate) + item * cells_x * room
            with when(there):
                first = minimum(maximum(before, 0), cells_x)
                last = maximum(minimum(before + size_x, cells_x), first)
                _fill(to, first * room, accumulate, lanes)
                _pack_line(args, source, to, first, last, lanes)
                _fill(to + last * room, (cells_x - last) * room, accumulate, lanes)
            with otherwise():
                _fill(to, cells_x * room, accumulate, lanes)

    return convolution_last_grid


def _fill(to: Value, count: Value, accumulate: Type, lanes: int) -> None:
    for i in loop(0, count, lanes):
        store(to + i, zeros(accumulate, lanes), mask=tail_mask(count - i, lanes))


def _pack_line(
    args: Value, source: Value, to: Value, first: Value, last: Value, lanes: int
) -> None:
    """Cells first to last of a line."""
    stride_c, stride_x = word_int(args, STRIDE_C), word_int(args, STRIDE_X)
    room, channels = word_int(args, CHANNEL_ROOM), word_int(args, CHANNELS)
    start = source - word_int(args, BEFORE_X) * stride_x
    accumulate = element(to.type)
    with when(stride_x == 1):
        for c in loop(0, channels, lanes):
            rows = [start + minimum(channels - 1, c + n) * stride_c for n in range(lanes)]
            keep = tail_mask(room - c, lanes)
            for x in loop(first, last, lanes):
                mask = tail_mask(last - x, lanes)
                block = [cast(load(row + x, lanes, mask=mask), accumulate) for row in rows]
                for n, cell in enumerate(transpose(block)):
                    with when(x + n < last):
                        store(to + (x + n) * room + c, cell, mask=keep)
    with otherwise():
        beside = iota(i64, lanes) * splat(stride_c, lanes)
        for x in loop(first, last):
            for c in loop(0, channels, lanes):
                mask = tail_mask(channels - c, lanes)
                at = start + (x * stride_x + c * stride_c)
                with when(stride_c == 1):
                    value = cast(load(at, lanes, mask=mask), accumulate)
                    store(to + x * room + c, value, mask=mask)
                with when(stride_c != 1):
                    value = cast(gather(at, beside, mask=mask), accumulate)
                    store(to + x * room + c, value, mask=mask)


# words of a packing task of weights; the distance of each tap follows them
W_SOURCE, W_TO, W_BLOCKS, W_OUT, W_CHANNELS, W_TAPS, W_GROUP, W_ROW, W_CHANNEL = range(9)
N_WEIGHT_WORDS = 9
W_PART = 9
N_WEIGHT_ROW_WORDS = 10


@functools.cache
def last_weight_kernel(element: Type, accumulate: Type, columns: int) -> Kernel:
    """Packs weights as (group, block, tap, channel, output channel); an item is a block's channel.

    Output channels that a last block lacks are zeros.
    """
    lanes = host().lanes(accumulate)

    @kernel
    def convolution_last_weights(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        channels, taps, row = word(W_CHANNELS), word(W_TAPS), word(W_ROW)
        places = iota(i64, lanes) * splat(row, lanes)
        for item in loop(begin, end):
            channel, block = item % channels, item // channels % word(W_BLOCKS)
            group = item // (channels * word(W_BLOCKS))
            source = word_pointer(args, W_SOURCE, element) + channel * word(W_CHANNEL)
            source = source + (group * word(W_GROUP) + block * columns * row)
            left = word(W_OUT) - block * columns
            to = word_pointer(args, W_TO, accumulate)
            to = to + ((item // channels) * taps * channels + channel) * columns
            for t in loop(taps):
                tap = source + load(args + t + N_WEIGHT_WORDS)
                for first in range(0, columns, lanes):
                    mask = tail_mask(left - first, lanes)
                    value = gather(tap + row * first, places, mask=mask)
                    store(to + t * channels * columns + first, cast(value, accumulate))

    return convolution_last_weights


# a tile's rows of taps are transposed where there are so many that it beats gathering them
LEAST_TAPS = 4
# so much is done in the 100 ns that memory takes to answer: a channel takes about 12
PREFETCH_CHANNELS = 8


@functools.cache
def last_weight_rows_kernel(element: Type, accumulate: Type, columns: int) -> Kernel:
    """The same for weights whose taps lie side by side: a word for each is its place in the order.

    An item is `W_PART` channels of a block: squares of output channels by taps are transposed.
    """
    lanes = host().lanes(accumulate)

    @kernel
    def convolution_last_weight_rows(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        channels, taps, row, part = word(W_CHANNELS), word(W_TAPS), word(W_ROW), word(W_PART)
        parts = (channels + (part - 1)) // part
        for item in loop(begin, end):
            first_channel, block = item % parts * part, item // parts % word(W_BLOCKS)
            group = item // (parts * word(W_BLOCKS))
            source = word_pointer(args, W_SOURCE, element)
            source = source + (group * word(W_GROUP) + block * columns * row)
            left = word(W_OUT) - block * columns
            to = word_pointer(args, W_TO, accumulate) + (item // parts) * taps * channels * columns
            for first in range(0, columns, lanes):
                lines = [source + minimum(left - 1, first + n) * row for n in range(lanes)]
                keep = tail_mask(left - first, lanes)
                for channel in loop(first_channel, minimum(first_channel + part, channels)):
                    at = channel * word(W_CHANNEL)
                    # 16 rows far apart, which no hardware prefetcher follows: 0.43 ms instead of
                    # 0.63 for 512 x 512 of 3 x 3
                    for line in lines:
                        prefetch(line + (at + word(W_CHANNEL) * PREFETCH_CHANNELS))
                    for t in loop(0, taps, lanes):
                        mask = tail_mask(taps - t, lanes)
                        square = [cast(load(line + (at + t), lanes, mask=mask), accumulate)
                                  for line in lines]  # fmt: skip
                        for n, tap in enumerate(transpose(square)):
                            with when(t + n < taps):
                                rank = load(args + (t + n) + N_WEIGHT_ROW_WORDS)
                                value = select(keep, tap, zeros(accumulate, lanes))
                                store(to + (rank * channels + channel) * columns + first, value)

    return convolution_last_weight_rows
