"""The kernel of the gradient of convolution by its weights.

    dw[o, c, t] = sum over n, p of grad[n, o, p] * grid[n, c, p + offset[t]]

An item holds a tile of 4 channels o by 6 pairs (c, t): 24 vectors of partial sums along the
columns of rows, over all images and rows in order, added up across lanes at the end in a fixed
tree. The order of every sum is that of n, z, y, x whatever the number of threads. What lies outside
of the input is left out of it: its zeros add nothing, and where a sum is NaN, as zero times an
infinite gradient is, it is added up again without them.

    for n, z, y:
        for x by lanes:      4 vectors of grad, 6 of the grid, 24 multiply-adds
    accumulates in   float32 for bfloat16, float16 and float32; float64
    bytes            grad and the grid, read again for each tile: bound by the second cache
"""

from __future__ import annotations

import functools
from typing import Any

from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    cast,
    fma,
    host,
    i64,
    iota,
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
    zeros,
)
from bedplate.ops.convolution.tile import Reader, Tile, Words

# behind them: the distance of each tap in the grid, and the element along z, y, x that it meets
# from output 0
WORDS = Words(
    "grid grad to images groups out_channels channels n_taps plane grid_y grid_x out* padded "
    "stride* size*"
)


def tile_of(accumulate: Type, out: Type) -> Tile:
    """Rows are output channels, vectors are pairs of a channel and a tap.

    4 x 6 sums, 4 + 1 vectors in 32 registers; 3 x 3 and 3 + 1 in 16.
    """
    rows, pairs = (3, 3) if host().vector_bits == 256 else (4, 6)
    return Tile(accumulate, out, rows, pairs)


@functools.cache
def by_weight_kernel(tile: Tile) -> Kernel:
    """The task; an item is one tile of one group; grad is a grid without padding."""
    rows, pairs = tile.rows, tile.vectors

    @kernel
    def convolution_by_weight(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = WORDS.of(args)
        n_pairs, out_channels = word.channels * word.n_taps, word.out_channels
        across, down = (n_pairs + (pairs - 1)) // pairs, (out_channels + (rows - 1)) // rows
        for item in loop(begin, end):
            first_pair, first_row = item % across * pairs, item // across % down * rows
            group = item // (across * down)
            taps = [_pair(word, minimum(first_pair + j, n_pairs - 1)) for j in range(pairs)]
            lines = [_row(word, minimum(first_row + r, out_channels - 1)) for r in range(rows)]
            sums = _sum_tile(tile, word, group, taps, lines)
            to = word.pointer("to", tile.element)
            to = to + ((group * out_channels + first_row) * n_pairs + first_pair)
            for r, row in enumerate(sums):
                for j, total in enumerate(row):
                    with when((first_row + r < out_channels) & (first_pair + j < n_pairs)):
                        value = cast(reduce_add(total.get()), tile.element)
                        store(to + (n_pairs * r + j), value)
            with when(word.padded != 0):
                for r in loop(minimum(out_channels - first_row, rows)):
                    for j in loop(minimum(n_pairs - first_pair, pairs)):
                        at, places = to + (n_pairs * r + j), (first_row + r, first_pair + j)
                        with when(load(at) != load(at)):
                            store(at, _sum_inside(tile, word, group, *places))

    return convolution_by_weight


def _pair(word: Reader, pair: Value) -> Value:
    """Where a channel is in the grid, as its tap sees it."""
    return pair // word.n_taps * word.plane + word.more(pair % word.n_taps)


def _row(word: Reader, channel: Value) -> Value:
    """Where an output channel of a group is in the gradient."""
    return channel * (word.out_z * word.out_y * word.out_x)


def _image(tile: Tile, word: Reader, image: Value, group: Value) -> tuple[Value, Value]:
    """(grid, gradient) of one group of one image."""
    part = image * word.groups + group
    grid = word.pointer("grid", tile.accumulate) + part * word.channels * word.plane
    grad = word.pointer("grad", tile.accumulate) + _row(word, part * word.out_channels)
    return grid, grad


def _sum_tile(
    tile: Tile, word: Reader, group: Value, taps: list[Value], lines: list[Value]
) -> list[list[Any]]:
    """The sums of a tile, lane by lane."""
    lanes = tile.lanes
    sums = [[var(zeros(tile.accumulate, lanes)) for _ in taps] for _ in lines]
    out_y, out_x = word.out_y, word.out_x
    for image in loop(word.images):
        grid, grad = _image(tile, word, image, group)
        for z in loop(word.out_z):
            for y in loop(out_y):
                here = grid + (z * word.grid_y + y) * word.grid_x
                there = grad + (z * out_y + y) * out_x
                for x in loop(0, out_x, lanes):
                    mask = tail_mask(out_x - x, lanes)
                    left = [load(there + (x + step), lanes, mask=mask) for step in lines]
                    for j, tap in enumerate(taps):
                        right = load(here + (tap + x), lanes, mask=mask)
                        for g, row in zip(left, sums, strict=True):
                            row[j].set(fma(g, right, row[j].get()))
    return sums


def _sum_inside(tile: Tile, word: Reader, group: Value, channel: Value, pair: Value) -> Value:
    """One weight's sum over the places whose tap is inside of the input alone."""
    lanes, out_y, out_x = tile.lanes, word.out_y, word.out_x
    at_tap = word.n_taps + pair % word.n_taps * 3
    first_z, first_y, first_x = (word.more(at_tap + axis) for axis in range(3))
    size_z, size_y, size_x = word.triple("size")
    total = var(zeros(tile.accumulate, lanes))
    for image in loop(word.images):
        grid, grad = _image(tile, word, image, group)
        for line in loop(word.out_z * out_y):
            place_z, place_y = line // out_y, line % out_y
            z, y = place_z * word.stride_z + first_z, place_y * word.stride_y + first_y
            here = grid + ((place_z * word.grid_y + place_y) * word.grid_x + _pair(word, pair))
            with when((z >= 0) & (z < size_z) & (y >= 0) & (y < size_y)):
                for column in loop(0, out_x, lanes):
                    x = (iota(i64, lanes) + splat(column, lanes)) * splat(word.stride_x, lanes)
                    x = x + splat(first_x, lanes)
                    mask = (x >= zeros(i64, lanes)) & (x < splat(size_x, lanes))
                    mask = mask & tail_mask(out_x - column, lanes)
                    g = load(grad + (_row(word, channel) + line * out_x + column), lanes, mask)
                    total.set(fma(g, load(here + column, lanes, mask), total.get()))
    return cast(reduce_add(total.get()), tile.element)
