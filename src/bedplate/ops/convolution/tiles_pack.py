"""How operands of a convolution are packed for the kernels over positions: tiles.py.

    grid[n, c, phase, z, y, x]              the input with zeros around it, cut by the strides
    weights[g, block, c, t, row]            rows are output channels, zeros behind the last

Bound by memory: each element is read once and written once.
"""

from __future__ import annotations

import functools

from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    cast,
    constant,
    element,
    gather,
    host,
    i64,
    iota,
    kernel,
    load,
    loop,
    otherwise,
    ptr,
    select,
    splat,
    store,
    tail_mask,
    when,
)
from bedplate.ops.convolution.tile import Reader, Words

# `apart`: how far apart neighbours of a phase are in the input
GRID_WORDS = Words(
    "source to channels stride_n stride_c stride* size* cells* apart* before* phases*"
)


@functools.cache
def grid_kernel(source_type: Type, accumulate: Type) -> Kernel:
    """Makes grids; an item is one channel of one image: all phases, rows, columns of it."""
    lanes = host().lanes(accumulate)

    @kernel
    def convolution_grid(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = GRID_WORDS.of(args)
        cells_z, cells_y, cells_x = word.triple("cells")
        n_phases = word.phases_z * word.phases_y * word.phases_x
        for item in loop(begin, end):
            image, channel = item // word.channels, item % word.channels
            source = word.pointer("source", source_type)
            source = source + (image * word.stride_n + channel * word.stride_c)
            for phase in loop(n_phases):
                shift = phase // word.phases_x
                first_z = shift // word.phases_y - word.before_z
                first_y = shift % word.phases_y - word.before_y
                x = phase % word.phases_x - word.before_x
                for cell_z in loop(cells_z):
                    z = cell_z * word.apart_z + first_z
                    lines = ((item * n_phases + phase) * cells_z + cell_z) * cells_y
                    to = word.pointer("to", accumulate) + lines * cells_x
                    for cell_y in loop(cells_y):
                        y = cell_y * word.apart_y + first_y
                        there = (y >= 0) & (y < word.size_y) & (z >= 0) & (z < word.size_z)
                        row = source + (z * word.stride_z + y * word.stride_y)
                        _pack_line(word, row, to + cell_y * cells_x, x, there, lanes)

    return convolution_grid


def _pack_line(word: Reader, row: Value, to: Value, first: Value, there: Value, lanes: int) -> None:
    """Columns first, first + apart, ... of a row; zeros where there is none."""
    accumulate = element(to.type)
    cells, stride, step = word.cells_x, word.stride_x, word.apart_x
    size = select(there, word.size_x, constant(i64, 0))
    with when(step * stride == 1):
        for column in loop(0, cells, lanes):
            x = first + column
            mask = tail_mask(size - x, lanes) & ~tail_mask(-x, lanes)
            value = load(row + x, lanes, mask=mask)
            store(to + column, cast(value, accumulate), mask=tail_mask(cells - column, lanes))
    with otherwise():
        for column in loop(0, cells, lanes):
            inside = tail_mask(cells - column, lanes)
            x = iota(i64, lanes) * splat(step, lanes) + splat(first + column * step, lanes)
            known = (x >= splat(constant(i64, 0), lanes)) & (x < splat(size, lanes))
            value = gather(row, x * splat(stride, lanes), mask=known & inside)
            store(to + column, cast(value, accumulate), mask=inside)


# behind them: the distance of each tap
WEIGHT_WORDS = Words(
    "source to n_blocks out_channels channels taps stride_group stride_row stride_c"
)


@functools.cache
def weight_kernel(source_type: Type, accumulate: Type, rows: int) -> Kernel:
    """Packs weights as (group, block, channel, tap, row); an item is a channel of a block.

    Rows that a last block lacks are zeros.
    """

    @kernel
    def convolution_weight_pack(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = WEIGHT_WORDS.of(args)
        channels, taps, n_blocks = word.channels, word.taps, word.n_blocks
        for item in loop(begin, end):
            channel, block = item % channels, item // channels % n_blocks
            group = item // (channels * n_blocks)
            source = word.pointer("source", source_type) + channel * word.stride_c
            source = source + (group * word.stride_group + block * rows * word.stride_row)
            to = word.pointer("to", accumulate) + item * taps * rows
            for t in loop(taps):
                tap = source + word.more(t)
                for r in range(rows):
                    at = to + t * rows + r
                    with when(block * rows + r < word.out_channels):
                        store(at, cast(load(tap + word.stride_row * r), accumulate))
                    with otherwise():
                        store(at, constant(accumulate, 0))

    return convolution_weight_pack
