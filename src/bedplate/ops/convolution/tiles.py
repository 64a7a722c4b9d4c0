"""The kernels of convolution: operands packed to grids, and register tiles over them.

    out[n, o, p] = sum over c, t of w[o, c, t] * grid[n, c, p + offset[t]]

A grid is a zero-padded copy of the input in the accumulator's type, cut by the strides into
phases, so that a step of the output is a step of 1 in the grid and a tap t of the window is one
fixed distance. The plain loop nest, and what becomes of it:

    for item in items:                    an image, a group, some channels, some positions
        for tile in positions:            tile_vectors vectors of output positions
            for block in channels:        tile_rows output channels
                for c in input channels:
                    for t in taps:        one vector of the grid for each vector of the tile,
                        tile += w * x     one broadcast weight for each of its rows

An output element is one chain of multiply-adds over c, then t: its bits do not depend on the
cut or on the number of threads.

    accumulates in   float32 for bfloat16, float16 and float32; float64
    flops            2 N O C/groups taps positions; bound by multiply-adds for 10 channels and more,
                     by loads for depthwise convolution (one row, tall in vectors)
    bytes            x once to pack, the grid from the second cache, w, out once
    source           Georganas et al. 2018, arXiv:1808.05567
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    cast,
    constant,
    fma,
    gather,
    host,
    i32,
    i64,
    iota,
    kernel,
    load,
    loop,
    minimum,
    otherwise,
    ptr,
    scatter,
    splat,
    store,
    tail_mask,
    var,
    when,
    word_int,
    word_pointer,
    zeros,
)

# words of a tile task; the distance of each tap follows them
(
    GRID, WEIGHT, OUT, N_CHUNKS, N_BLOCKS, BLOCKS, TILES, N_VECTORS, CHANNELS, N_TAPS, GROUPS,
    OUT_CHANNELS, PLANE, GRID_Y, GRID_X, OUT_Z, OUT_Y, OUT_X, STEP_Z, STEP_Y, STEP_X, STEP_CHANNEL,
) = range(22)  # fmt: skip
N_WORDS = 22


@dataclass(frozen=True, slots=True)
class Tile:
    """What specialises a tile kernel.

    rows, vectors   output channels and vectors of positions that are summed in registers
    store           "row": vectors are pieces of a row, stored whole; "spread": the same, stored
                    apart; "flat": vectors run over the grid, with what is no output in between
    """

    accumulate: Type
    out: Type
    rows: int
    vectors: int
    store: str

    @property
    def lanes(self) -> int:
        return host().lanes(self.accumulate)


def tile_shape(channels: int) -> tuple[int, int]:
    """(rows, vectors) for so many output channels of a group.

    The rows divide the channels evenly. 32 registers hold 14 x 2 accumulators, 2 vectors and a
    weight, 16 hold 6 x 2; few rows get more vectors, so that 8 chains or more are under way.
    """
    few = host().vector_bits == 256
    most = 6 if few else 14
    rows = -(-channels // -(-channels // most))
    if few:
        return rows, 2 if rows > 3 else 4 if rows < 3 else 3
    return rows, 2 if rows > 9 else 3 if rows > 6 else 4 if rows > 5 else 5 if rows > 3 else 8


@functools.cache
def tile_kernel(tile: Tile) -> Kernel:
    """The task: an item is some tiles of some channel blocks of one group of one image."""

    @kernel
    def convolution(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        lengths = (N_CHUNKS, N_BLOCKS, BLOCKS, TILES, N_VECTORS)
        n_chunks, n_blocks, blocks, tiles, n_vectors = (word(w) for w in lengths)
        n_tiles = (n_vectors + (tile.vectors - 1)) // tile.vectors
        cuts = (n_blocks + (blocks - 1)) // blocks
        for item in loop(begin, end):
            first_tile = item % n_chunks * tiles
            first_block = item // n_chunks % cuts * blocks
            image = item // (n_chunks * cuts)
            for block in loop(first_block, minimum(first_block + blocks, n_blocks)):
                for number in loop(first_tile, minimum(first_tile + tiles, n_tiles)):
                    _emit_tile(tile, args, image, block, number * tile.vectors)

    return convolution


def _emit_tile(tile: Tile, args: Value, image: Value, block: Value, first: Value) -> None:
    """One tile: its sums, then its rows to where they belong."""
    channels, n_taps = word_int(args, CHANNELS), word_int(args, N_TAPS)
    group = image % word_int(args, GROUPS)
    plane = word_int(args, PLANE)
    places = [_place(tile, args, first + v) for v in range(tile.vectors)]
    grid = word_pointer(args, GRID, tile.accumulate) + image * channels * plane
    depth = channels * n_taps
    at_block = (group * word_int(args, N_BLOCKS) + block) * depth * tile.rows
    weight = word_pointer(args, WEIGHT, tile.accumulate) + at_block
    columns = range(tile.vectors)
    sums = [[var(zeros(tile.accumulate, tile.lanes)) for _ in columns] for _ in range(tile.rows)]
    for c in loop(channels):
        here, of_channel = grid + c * plane, weight + c * n_taps * tile.rows
        for t in loop(n_taps):
            tap = here + load(args + t + N_WORDS)
            vectors = [load(tap + place[0], tile.lanes) for place in places]
            for r, row in enumerate(sums):
                factor = splat(load(of_channel + t * tile.rows + r), tile.lanes)
                for total, x in zip(row, vectors, strict=True):
                    total.set(fma(factor, x, total.get()))
    _store_tile(tile, args, sums, image, block, places)


def _place(tile: Tile, args: Value, vector: Value) -> tuple[Value, Any, Value]:
    """(position in the grid, mask of outputs, distance from the plane's first output)."""
    lanes, grid_x, grid_y = tile.lanes, word_int(args, GRID_X), word_int(args, GRID_Y)
    n_vectors = word_int(args, N_VECTORS)
    there = minimum(vector, n_vectors - 1)
    if tile.store == "flat":
        at = there * lanes
        index = iota(i32, lanes) + splat(cast(at, i32), lanes)
        wide_x, wide_y = (splat(cast(size, i32), lanes) for size in (grid_x, grid_y))
        line = index // wide_x
        x, y, z = index - line * wide_x, line % wide_y, line // wide_y
        sizes, steps = ((OUT_X, OUT_Y, OUT_Z), (STEP_X, STEP_Y, STEP_Z))
        limits = [splat(cast(word_int(args, w), i32), lanes) for w in sizes]
        scales = [splat(cast(word_int(args, w), i32), lanes) for w in steps]
        mask = (x < limits[0]) & (y < limits[1]) & (z < limits[2])
        mask = mask & splat(vector < n_vectors, lanes)
        return at, mask, x * scales[0] + y * scales[1] + z * scales[2]
    per_row = (word_int(args, OUT_X) + (lanes - 1)) // lanes
    line, column = there // per_row, there % per_row * lanes
    y, z = line % word_int(args, OUT_Y), line // word_int(args, OUT_Y)
    mask = tail_mask(word_int(args, OUT_X) - column, lanes) & splat(vector < n_vectors, lanes)
    to = z * word_int(args, STEP_Z) + y * word_int(args, STEP_Y) + column * word_int(args, STEP_X)
    return (z * grid_y + y) * grid_x + column, mask, to


def _store_tile(
    tile: Tile, args: Value, sums: Any, image: Value, block: Value, places: Any
) -> None:
    out_channels, step = word_int(args, OUT_CHANNELS), word_int(args, STEP_CHANNEL)
    first = block * tile.rows
    out = word_pointer(args, OUT, tile.out) + (image * out_channels + first) * step
    spread = iota(i32, tile.lanes) * splat(cast(word_int(args, STEP_X), i32), tile.lanes)
    for r, row in enumerate(sums):
        with when(first + r < out_channels):
            for total, (_, mask, to) in zip(row, places, strict=True):
                value = cast(total.get(), tile.out)
                if tile.store == "row":
                    store(out + step * r + to, value, mask=mask)
                elif tile.store == "spread":
                    scatter(out + step * r + to, spread, value, mask=mask)
                else:
                    scatter(out + step * r, to, value, mask=mask)


# words of a packing task of grids
(
    SOURCE, TO, C, STRIDE_N, STRIDE_C, STRIDE_Z, STRIDE_Y, STRIDE_X, SIZE_Z, SIZE_Y, SIZE_X,
    CELLS_Z, CELLS_Y, CELLS_X, S_Z, S_Y, S_X, BEFORE_Z, BEFORE_Y, BEFORE_X, PHASES_Z, PHASES_Y,
    PHASES_X,
) = range(23)  # fmt: skip


@functools.cache
def grid_kernel(element: Type, accumulate: Type) -> Kernel:
    """Makes grids; an item is one channel of one image: all phases, rows, columns of it."""
    lanes = host().lanes(accumulate)

    @kernel
    def convolution_grid(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        cells_z, cells_y, cells_x = word(CELLS_Z), word(CELLS_Y), word(CELLS_X)
        s_z, s_y = word(S_Z), word(S_Y)
        phases_y, phases_x = word(PHASES_Y), word(PHASES_X)
        lines = word(PHASES_Z) * phases_y * phases_x * cells_z * cells_y
        for item in loop(begin, end):
            image, channel = item // word(C), item % word(C)
            source = word_pointer(args, SOURCE, element)
            source = source + image * word(STRIDE_N) + channel * word(STRIDE_C)
            to = word_pointer(args, TO, accumulate) + item * lines * cells_x
            for line in loop(lines):
                phase = line // (cells_z * cells_y)
                y = line % cells_y * s_y + phase // phases_x % phases_y - word(BEFORE_Y)
                z = (
                    line // cells_y % cells_z * s_z
                    + phase // (phases_x * phases_y)
                    - word(BEFORE_Z)
                )
                x = phase % phases_x - word(BEFORE_X)
                there = (y >= 0) & (y < word(SIZE_Y)) & (z >= 0) & (z < word(SIZE_Z))
                row = source + z * word(STRIDE_Z) + y * word(STRIDE_Y)
                _pack_line(args, row, to + line * cells_x, x, there, lanes, accumulate)

    return convolution_grid


def _pack_line(
    args: Value, row: Value, to: Value, first: Value, there: Value, lanes: int, accumulate: Type
) -> None:
    """Columns first, first + stride, ... of a row; zeros where there is none."""
    cells, size, stride = (word_int(args, w) for w in (CELLS_X, SIZE_X, STRIDE_X))
    step = word_int(args, S_X)
    for column in loop(0, cells, lanes):
        inside = tail_mask(cells - column, lanes)
        x = iota(i64, lanes) * splat(step, lanes) + splat(first + column * step, lanes)
        known = (x >= splat(constant(i64, 0), lanes)) & (x < splat(size, lanes))
        mask = known & inside & splat(there, lanes)
        with when(step * stride == 1):
            value = load(row + (first + column), lanes, mask=mask)
            store(to + column, cast(value, accumulate), mask=inside)
        with otherwise():
            value = gather(row, x * splat(stride, lanes), mask=mask)
            store(to + column, cast(value, accumulate), mask=inside)


# words of a packing task of weights; the distance of each tap follows them
W_SOURCE, W_TO, W_BLOCKS, W_OUT, W_CHANNELS, W_TAPS, W_GROUP, W_ROW, W_CHANNEL = range(9)
N_WEIGHT_WORDS = 9


@functools.cache
def weight_kernel(element: Type, accumulate: Type, rows: int) -> Kernel:
    """Packs weights as (group, block, channel, tap, row); an item is a channel of a block.

    Rows that a last block lacks are zeros.
    """

    @kernel
    def convolution_weight_pack(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        channels, taps = word(W_CHANNELS), word(W_TAPS)
        for item in loop(begin, end):
            channel, block = item % channels, item // channels % word(W_BLOCKS)
            group = item // (channels * word(W_BLOCKS))
            source = word_pointer(args, W_SOURCE, element) + channel * word(W_CHANNEL)
            source = source + group * word(W_GROUP) + block * rows * word(W_ROW)
            to = word_pointer(args, W_TO, accumulate) + item * taps * rows
            for t in loop(taps):
                tap = source + load(args + t + N_WEIGHT_WORDS)
                for r in range(rows):
                    at = to + t * rows + r
                    with when(block * rows + r < word(W_OUT)):
                        store(at, cast(load(tap + word(W_ROW) * r), accumulate))
                    with otherwise():
                        store(at, constant(accumulate, 0))

    return convolution_weight_pack
