"""The kernel of the gradient by the weights over channels that lie side by side.

    to[block, s, k, o] = sum over n, p of grid[place(n, p) + distance[s] + k] * grad[n, p, o]

The plain loop nest, and what becomes of it:

    for item in items:                  a block of output channels, some tiles of weights
        for chunk in positions:         as many lines as stay in the second cache
            for tile in tiles:          `rows` of k x `vectors` of o are summed in registers,
                for n, z, y in chunk:   from 0 for each chunk; the sums of chunks are added up
                    for x:              a vector of grad for each of the tile's, one broadcast
                        tile += x * g   element of the grid for each of its rows

A weight's sum is a chain for each chunk, and one chain over the chunks: where a chunk ends depends
on the sizes and the cache alone, so the bits do not depend on the number of threads.

    accumulates in   float32 for bfloat16, float16 and float32; float64
    flops            2 N positions O C/groups taps, bound by multiply-adds
    bytes            128 of grad for 26 multiply-adds, from the second cache for all but the first
                     of an item's tiles
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from bedplate.devices.cpu.caches import cache_bytes
from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    cast,
    constant,
    fma,
    host,
    i64,
    kernel,
    load,
    loop,
    minimum,
    ptr,
    select,
    splat,
    store,
    tail_mask,
    var,
    when,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.matmul.pack import transpose

# words of the task; the distance of each segment follows them
(
    GRID, GRAD, TO, PARTS, N_BLOCKS, CHUNK, IMAGES, CHANNELS, OUT_CHANNELS, N_SEGMENTS, LENGTH,
    OUT_Z, OUT_Y, OUT_X, PLACE_N, PLACE_Z, PLACE_Y, PLACE_X, STEP_N, STEP_Z, STEP_Y, STEP_X,
    FIRST_GRAD,
) = range(23)  # fmt: skip
N_WORDS = 23


@dataclass(frozen=True, slots=True)
class WeightTile:
    """Rows of k and vectors of output channels that are summed in registers."""

    accumulate: Type
    rows: int
    vectors: int

    @property
    def lanes(self) -> int:
        return host().lanes(self.accumulate)

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors


def weight_tile_rows(length: int, vectors: int) -> int:
    """How many elements of a segment a tile has.

    13 of the 14 that the registers hold: channels are mostly powers of two, from 64 on, and of
    those 13 leaves 1.6 % of a last tile empty, 14 up to 9. Segments of less than three tiles, as
    the first layer of a network has, are divided evenly.
    """
    few = host().vector_bits == 256
    most = {1: 8, 2: 6, 3: 4}[vectors] if few else {1: 16, 2: 13, 3: 8}[vectors]
    return most if length >= 3 * most else -(-length // -(-length // most))


def chunk_lines(out: tuple[int, ...], accumulate: Type) -> int:
    """Lines of a chunk: its gradients and a line or two of each cell are a quarter of the cache."""
    return max(cache_bytes(2) // 4 // (256 * max(out[2], 1)), 1)


@functools.cache
def last_by_weight_kernel(tile: WeightTile) -> Kernel:
    """The task: an item is some tiles, elements before segments, of one block of a group."""

    @kernel
    def convolution_last_by_weight(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        parts, n_segments, length, chunk = (word(w) for w in (PARTS, N_SEGMENTS, LENGTH, CHUNK))
        n_tiles = (length + (tile.rows - 1)) // tile.rows * n_segments
        n_lines = word(IMAGES) * word(OUT_Z) * word(OUT_Y)
        for item in loop(begin, end):
            part, block = item % parts, item // parts
            for line in loop(0, n_lines, chunk):
                lines = minimum(n_lines - line, chunk)
                for number in loop(part * n_tiles // parts, (part + 1) * n_tiles // parts):
                    first, segment = number // n_segments * tile.rows, number % n_segments
                    _emit_tile(tile, args, block, first, segment, (line, lines))

    return convolution_last_by_weight


def _emit_tile(
    tile: WeightTile, args: Value, block: Value, first: Value, segment: Value,
    chunk: tuple[Value, Value],
) -> None:  # fmt: skip
    """One tile over one chunk; its sums are added to those of the chunks before."""
    word = functools.partial(word_int, args)
    n_blocks, length = word(N_BLOCKS), word(LENGTH)
    group, part = block // n_blocks, block % n_blocks
    grid = word_pointer(args, GRID, tile.accumulate) + group * word(CHANNELS)
    grid = grid + (load(args + segment + N_WORDS) + first)
    channel = part * tile.columns
    grad = word_pointer(args, GRAD, tile.accumulate) + word(FIRST_GRAD)
    grad = grad + (group * word(OUT_CHANNELS) + channel)
    count = range(tile.vectors)
    masks = [tail_mask(word(OUT_CHANNELS) - channel - v * tile.lanes, tile.lanes) for v in count]
    sums = [[var(zeros(tile.accumulate, tile.lanes)) for _ in count] for _ in range(tile.rows)]
    for here, there in _lines(args, grid, grad, *chunk):
        for x in loop(word(OUT_X)):
            at, to = here + x * word(PLACE_X), there + x * word(STEP_X)
            factors = [load(to + v * tile.lanes, tile.lanes, mask=masks[v]) for v in count]
            for r, row in enumerate(sums):
                value = splat(load(at + r), tile.lanes)
                for total, factor in zip(row, factors, strict=True):
                    total.set(fma(value, factor, total.get()))
    at = ((block * word(N_SEGMENTS) + segment) * length + first) * tile.columns
    to = word_pointer(args, TO, tile.accumulate) + at
    for r, row in enumerate(sums):
        with when(first + r < length):
            for v, total in enumerate(row):
                place = to + (r * tile.columns + v * tile.lanes)
                mask = splat(chunk[0] > 0, tile.lanes)
                store(place, load(place, tile.lanes, mask=mask) + total.get())


def _lines(args: Value, grid: Value, grad: Value, first: Value, count: Value) -> Any:
    """(the grid, the gradient) at the start of each of some lines, as a loop of the kernel."""
    sizes = [word_int(args, w) for w in (OUT_Y, OUT_Z)]
    ways = [[word_int(args, w + n) for n in range(3)] for w in (PLACE_N, STEP_N)]
    y, z, n = first % sizes[0], first // sizes[0] % sizes[1], first // (sizes[0] * sizes[1])
    index = [var(y), var(z)]
    at = [var(base + (n * way[0] + z * way[1] + y * way[2]))
          for base, way in zip((grid, grad), ways, strict=True)]  # fmt: skip
    zero = constant(i64, 0)
    for _ in loop(count):
        yield at[0].get(), at[1].get()
        next_y = index[0].get() + 1
        over_y = next_y == sizes[0]
        next_z = index[1].get() + select(over_y, constant(i64, 1), zero)
        over_z = next_z == sizes[1]
        index[0].set(select(over_y, zero, next_y))
        index[1].set(select(over_z, zero, next_z))
        for pointer, way in zip(at, ways, strict=True):
            move = way[2] + select(over_y, way[1] - sizes[0] * way[2], zero)
            move = move + select(over_z, way[0] - sizes[1] * way[1], zero)
            pointer.set(pointer.get() + move)


# words of the unpacking task; the place of each tap in the order of the sums follows them
U_FROM, U_TO, U_BLOCKS, U_OUT, U_CHANNELS, U_TAPS, U_PART = range(7)
N_UNPACK_WORDS = 7


@functools.cache
def unpack_kernel(accumulate: Type, out: Type, columns: int) -> Kernel:
    """Brings sums (group, block, tap, channel, output channel) to (output channel, channel, tap).

    An item is some channels of a block: squares of taps by output channels are transposed.
    """
    lanes = host().lanes(accumulate)

    @kernel
    def convolution_last_unpack(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        channels, taps, part = word(U_CHANNELS), word(U_TAPS), word(U_PART)
        parts = (channels + (part - 1)) // part
        for item in loop(begin, end):
            first_channel, block = item % parts * part, item // parts
            group, first_out = block // word(U_BLOCKS), block % word(U_BLOCKS) * columns
            source = word_pointer(args, U_FROM, accumulate) + block * taps * channels * columns
            to = word_pointer(args, U_TO, out)
            to = to + (group * word(U_OUT) + first_out) * channels * taps
            for channel in loop(first_channel, minimum(first_channel + part, channels)):
                for first in range(0, columns, lanes):
                    for t in loop(0, taps, lanes):
                        ranks = [load(args + minimum(t + n, taps - 1) + N_UNPACK_WORDS)
                                 for n in range(lanes)]  # fmt: skip
                        square = [load(source + (r * channels + channel) * columns + first, lanes)
                                  for r in ranks]  # fmt: skip
                        mask = tail_mask(taps - t, lanes)
                        for n, line in enumerate(transpose(square)):
                            with when(first_out + first + n < word(U_OUT)):
                                at = to + ((first + n) * channels + channel) * taps + t
                                store(at, cast(line, out), mask=mask)

    return convolution_last_unpack
