"""The kernels of convolution: operands packed to grids, and register tiles over them.

    out[n, o, p] = sum over c, t of w[o, c, t] * grid[n, c, p + offset[t]]

A grid is a zero-padded copy of the input in the accumulator's type, cut by the strides into
phases, so that a step of the output is a step of 1 in the grid and a tap t of the window is one
fixed distance. What lies outside of the input is left out of a sum: its zeros add nothing, and
where a sum is NaN, as zero times an infinite weight is, it is added up again without them. The
plain loop nest, and what becomes of it:

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
from typing import Any

from bedplate.kernel import (
    Kernel,
    Value,
    any_of,
    cast,
    fma,
    host,
    i32,
    i64,
    iota,
    kernel,
    load,
    local,
    loop,
    minimum,
    ptr,
    scatter,
    select,
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
    "grid weight to n_chunks n_blocks blocks tiles n_vectors channels n_taps groups out_channels "
    "plane grid_y grid_x out* step* step_channel padded stride* size*"
)

# The rows of a tile are output channels, its vectors run over positions. Its form: "row": vectors
# are pieces of a row, stored whole; "spread": the same, stored apart; "flat": vectors run over the
# grid, with what is no output in between.


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
        word = WORDS.of(args)
        n_chunks, n_blocks, blocks, tiles, n_vectors = (
            word.n_chunks, word.n_blocks, word.blocks, word.tiles, word.n_vectors
        )  # fmt: skip
        n_tiles = (n_vectors + (tile.vectors - 1)) // tile.vectors
        cuts = (n_blocks + (blocks - 1)) // blocks
        for item in loop(begin, end):
            first_tile = item % n_chunks * tiles
            first_block = item // n_chunks % cuts * blocks
            image = item // (n_chunks * cuts)
            for block in loop(first_block, minimum(first_block + blocks, n_blocks)):
                for number in loop(first_tile, minimum(first_tile + tiles, n_tiles)):
                    _emit_tile(tile, word, image, block, number * tile.vectors)

    return convolution


def _emit_tile(tile: Tile, word: Reader, image: Value, block: Value, first: Value) -> None:
    """One tile: its sums, then its rows to where they belong."""
    channels, n_taps, plane = word.channels, word.n_taps, word.plane
    group = image % word.groups
    places = [_place(tile, word, first + v) for v in range(tile.vectors)]
    grid = word.pointer("grid", tile.accumulate) + image * channels * plane
    at_block = (group * word.n_blocks + block) * (channels * n_taps) * tile.rows
    weight = word.pointer("weight", tile.accumulate) + at_block
    columns = range(tile.vectors)
    sums = [[var(zeros(tile.accumulate, tile.lanes)) for _ in columns] for _ in range(tile.rows)]
    for c in loop(channels):
        here, of_channel = grid + c * plane, weight + c * n_taps * tile.rows
        for t in loop(n_taps):
            tap = here + word.more(t)
            vectors = [load(tap + place[0], tile.lanes) for place in places]
            for r, row in enumerate(sums):
                factor = splat(load(of_channel + t * tile.rows + r), tile.lanes)
                for total, x in zip(row, vectors, strict=True):
                    total.set(fma(factor, x, total.get()))
    _mend(tile, word, sums, grid, weight, first)
    _store_tile(tile, word, sums, image, block, places)


def _mend(tile: Tile, word: Reader, sums: Any, grid: Value, weight: Value, first: Value) -> None:
    """Sum again what is NaN, without the zeros around: an infinite weight may have met one."""
    flat = [total for row in sums for total in row]
    wrong = flat[0].get() != flat[0].get()
    for total in flat[1:]:
        wrong = wrong | (total.get() != total.get())
    with when((word.padded != 0) & any_of(wrong)):
        lanes = tile.lanes
        kept = local(tile.accumulate, len(flat) * lanes)
        for n, total in enumerate(flat):
            store(kept + n * lanes, total.get())
        for n in loop(len(flat)):
            at, vector = kept + n * lanes, first + n % tile.vectors
            before = load(at, lanes)
            again = _sum_inside(tile, word, grid, weight + n // tile.vectors, vector)
            store(at, select(before != before, again, before))
        for n, total in enumerate(flat):
            total.set(load(kept + n * lanes, lanes))


def _sum_inside(tile: Tile, word: Reader, grid: Value, weight: Value, vector: Value) -> Value:
    """One vector of one output channel, of the taps that are inside of the input alone."""
    lanes, n_taps = tile.lanes, word.n_taps
    at = _place(tile, word, vector)[0]
    places = [
        place * splat(cast(stride, i32), lanes)
        for place, stride in zip(_outputs(tile, word, vector), word.triple("stride"), strict=True)
    ]
    sizes = [splat(cast(size, i32), lanes) for size in word.triple("size")]
    total = var(zeros(tile.accumulate, lanes))
    for c in loop(word.channels):
        for t in loop(n_taps):
            inside = splat(c >= 0, lanes)
            for axis, (place, size) in enumerate(zip(places, sizes, strict=True)):
                found = place + splat(cast(word.more(n_taps + t * 3 + axis), i32), lanes)
                inside = inside & (found >= zeros(i32, lanes)) & (found < size)
            x = load(grid + (c * word.plane + word.more(t) + at), lanes)
            factor = splat(load(weight + (c * n_taps + t) * tile.rows), lanes)
            total.set(select(inside, fma(factor, x, total.get()), total.get()))
    return total.get()


def _outputs(tile: Tile, word: Reader, vector: Value) -> tuple[Value, Value, Value]:
    """The outputs of a vector along z, y, x, in 32 bits."""
    lanes = tile.lanes
    there = minimum(vector, word.n_vectors - 1)
    if tile.form == "flat":
        index = iota(i32, lanes) + splat(cast(there * lanes, i32), lanes)
        wide_x, wide_y = (splat(cast(size, i32), lanes) for size in (word.grid_x, word.grid_y))
        line = index // wide_x
        return line // wide_y, line % wide_y, index - line * wide_x
    per_row = (word.out_x + (lanes - 1)) // lanes
    line, column = there // per_row, there % per_row * lanes
    z, y, x = (splat(cast(each, i32), lanes)
               for each in (line // word.out_y, line % word.out_y, column))  # fmt: skip
    return z, y, x + iota(i32, lanes)


def _place(tile: Tile, word: Reader, vector: Value) -> tuple[Value, Any, Value]:
    """(position in the grid, mask of outputs, distance from the plane's first output)."""
    lanes = tile.lanes
    there = minimum(vector, word.n_vectors - 1)
    if tile.form == "flat":
        places = _outputs(tile, word, vector)
        limits = [splat(cast(size, i32), lanes) for size in word.triple("out")]
        steps = [splat(cast(step, i32), lanes) for step in word.triple("step")]
        z, y, x = (place < limit for place, limit in zip(places, limits, strict=True))
        mask = x & y & z & splat(vector < word.n_vectors, lanes)
        z, y, x = (place * step for place, step in zip(places, steps, strict=True))
        return there * lanes, mask, x + y + z
    per_row = (word.out_x + (lanes - 1)) // lanes
    line, column = there // per_row, there % per_row * lanes
    y, z = line % word.out_y, line // word.out_y
    mask = tail_mask(word.out_x - column, lanes) & splat(vector < word.n_vectors, lanes)
    to = z * word.step_z + y * word.step_y + column * word.step_x
    return (z * word.grid_y + y) * word.grid_x + column, mask, to


def _store_tile(
    tile: Tile, word: Reader, sums: Any, image: Value, block: Value, places: Any
) -> None:
    out_channels, step = word.out_channels, word.step_channel
    first = block * tile.rows
    out = word.pointer("to", tile.element) + (image * out_channels + first) * step
    spread = iota(i32, tile.lanes) * splat(cast(word.step_x, i32), tile.lanes)
    for r, row in enumerate(sums):
        with when(first + r < out_channels):
            for total, (_, mask, to) in zip(row, places, strict=True):
                value = cast(total.get(), tile.element)
                if tile.form == "row":
                    store(out + step * r + to, value, mask=mask)
                elif tile.form == "spread":
                    scatter(out + step * r + to, spread, value, mask=mask)
                else:
                    scatter(out + step * r, to, value, mask=mask)
