"""The kernel of the gradient by the weights over channels that lie side by side.

    to[block, s, k, o] = sum over n, p of grid[place(n, p) + distance[s] + k] * grad[n, p, o]

over the places p where the tap is inside of the input: reach.py. The plain loop nest, and what
becomes of it:

    for item in items:                  a block of output channels, some tiles of weights
        for chunk in positions:         as many lines as stay in the second cache
            for tile in tiles:          `rows` of k x `vectors` of o are summed in registers,
                for n, z, y in chunk:   from 0 for each chunk; the sums of chunks are added up
                    for x:              a vector of grad for each of the tile's, one broadcast
                        tile += x * g   element of the grid for each of its rows

A segment s is one tap, or, where the channels are few, all taps of a line of the window: then (the
tile's `form`) some outputs of a line meet some of its rows alone, and ask row by row. A weight's
sum is a chain for each chunk, and one chain over the chunks: where a chunk ends depends on the
sizes and the cache alone, so the bits do not depend on the number of threads.

    accumulates in   float32 for bfloat16, float16 and float32; float64
    flops            2 N O C/groups for each tap of a position that is inside
    bytes            128 of grad for 26 multiply-adds, from the second cache for all but the first
                     of an item's tiles
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
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
    maximum,
    minimum,
    ptr,
    select,
    splat,
    store,
    tail_mask,
    var,
    when,
    zeros,
)
from bedplate.ops.convolution.tile import Reader, Tile, Words
from bedplate.ops.matmul.pack import transpose

# behind them: SEGMENT_WORDS of each segment
WORDS = Words(
    "grid grad to parts n_blocks chunk images channels out_channels n_segments length out_z out_y "
    "place_n place* step_n step* stride_x first_x size_x taps_x"
)
# distance, and half-open outputs: along z, along y, along x those that meet all rows of the
# segment, those that meet any
SEGMENT_WORDS = 9


def weight_tile_rows(length: int, vectors: int) -> int:
    """How many elements of a segment a tile has.

    13 of the 14 that the registers hold: channels are mostly powers of two, from 64 on, and of
    those 13 leaves 1.6 % of a last tile empty, 14 up to 9. Segments of less than three tiles, as
    the first layer of a network has, are divided evenly.
    """
    few = host().vector_bits == 256
    most = {1: 8, 2: 6, 3: 4}[vectors] if few else {1: 16, 2: 13, 3: 8}[vectors]
    return most if length >= 3 * most else -(-length // -(-length // most))


def chunk_lines(width: int) -> int:
    """Lines of a chunk: its gradients and a line or two of each cell are a quarter of the cache."""
    return max(cache_bytes(2) // 4 // (256 * max(width, 1)), 1)


@functools.cache
def last_by_weight_kernel(tile: Tile) -> Kernel:
    """The task: an item is some tiles, elements before segments, of one block of a group."""

    @kernel
    def convolution_last_by_weight(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = WORDS.of(args)
        parts, n_segments, length, chunk = word.parts, word.n_segments, word.length, word.chunk
        n_tiles = (length + (tile.rows - 1)) // tile.rows * n_segments
        n_lines = word.images * word.out_z * word.out_y
        for item in loop(begin, end):
            part, block = item % parts, item // parts
            for line in loop(0, n_lines, chunk):
                lines = minimum(n_lines - line, chunk)
                for number in loop(part * n_tiles // parts, (part + 1) * n_tiles // parts):
                    fresh, segment = number // n_segments * tile.rows, number % n_segments
                    _emit_tile(tile, word, block, fresh, segment, (line, lines))

    return convolution_last_by_weight


def _emit_tile(
    tile: Tile, word: Reader, block: Value, fresh: Value, segment: Value,
    chunk: tuple[Value, Value],
) -> None:  # fmt: skip
    """One tile over one chunk; its sums are added to those of the chunks before.

    fresh   its first row, but the last tile reaches back over rows that another one adds
    """
    first = minimum(fresh, word.length - tile.rows)
    n_blocks, count = word.n_blocks, range(tile.vectors)
    group, channel = block // n_blocks, block % n_blocks * tile.columns
    distance, *ends = (word.more(segment * SEGMENT_WORDS + n) for n in range(SEGMENT_WORDS))
    grid = word.pointer("grid", tile.accumulate) + (group * word.channels + distance + first)
    grad = word.pointer("grad", tile.accumulate) + (group * word.out_channels + channel)
    masks = [tail_mask(word.out_channels - channel - v * tile.lanes, tile.lanes) for v in count]
    sums = [[var(zeros(tile.accumulate, tile.lanes)) for _ in count] for _ in range(tile.rows)]
    for here, there, (z, y) in _lines(word, grid, grad, *chunk):
        inside = (z >= ends[0]) & (z < ends[1]) & (y >= ends[2]) & (y < ends[3])
        with when(inside):
            line = (tile, word, sums, masks, here, there)
            if tile.form == "merged":
                _sum_edge(*line, first, ends[6], ends[4])
            for x in loop(ends[4], ends[5]):
                _sum_output(*line, x, None)
            if tile.form == "merged":
                _sum_edge(*line, first, ends[5], ends[7])
    at = ((block * word.n_segments + segment) * word.length + first) * tile.columns
    to = word.pointer("to", tile.accumulate) + at
    for r, row in enumerate(sums):
        with when(first + r >= fresh):
            for v, total in enumerate(row):
                place = to + (r * tile.columns + v * tile.lanes)
                mask = splat(chunk[0] > 0, tile.lanes)
                store(place, load(place, tile.lanes, mask=mask) + total.get())


def _sum_output(
    tile: Tile, word: Reader, sums: Any, masks: list[Value], here: Value, there: Value, x: Value,
    rows: tuple[Value, Value] | None,
) -> None:  # fmt: skip
    """What one output adds, to all rows of the tile or to some, half-open."""
    at, to = here + x * word.place_x, there + x * word.step_x
    factors = [load(to + v * tile.lanes, tile.lanes, mask=mask) for v, mask in enumerate(masks)]
    for r, row in enumerate(sums):
        if rows is None:
            _add_row(tile, at + r, row, factors)
        else:
            with when((rows[0] <= r) & (rows[1] > r)):
                _add_row(tile, at + r, row, factors)


def _add_row(tile: Tile, at: Value, row: Any, factors: list[Value]) -> None:
    value = splat(load(at), tile.lanes)
    for total, factor in zip(row, factors, strict=True):
        total.set(fma(value, factor, total.get()))


def _sum_edge(
    tile: Tile, word: Reader, sums: Any, masks: list[Value], here: Value, there: Value,
    first: Value, start: Value, stop: Value,
) -> None:  # fmt: skip
    """Outputs of a line that do not meet all taps of the segment, which lie one cell apart."""
    for x in loop(start, stop):
        at = x * word.stride_x + word.first_x
        low = minimum(maximum(-at, 0), word.taps_x) * word.channels
        high = minimum(maximum(word.size_x - at, 0), word.taps_x) * word.channels
        _sum_output(tile, word, sums, masks, here, there, x, (low - first, high - first))


def _lines(
    word: Reader, grid: Value, grad: Value, first: Value, count: Value
) -> Iterator[tuple[Value, Value, tuple[Value, Value]]]:
    """(the grid, the gradient, (z, y)) at the start of each of some lines, as a loop."""
    out_y, out_z = word.out_y, word.out_z
    ways = [[word.place_n, word.place_z, word.place_y], [word.step_n, word.step_z, word.step_y]]
    y, z, n = first % out_y, first // out_y % out_z, first // (out_y * out_z)
    line, plane = var(y), var(z)
    at = [var(base + (n * way[0] + z * way[1] + y * way[2]))
          for base, way in zip((grid, grad), ways, strict=True)]  # fmt: skip
    zero = constant(i64, 0)
    for _ in loop(count):
        yield at[0].get(), at[1].get(), (plane.get(), line.get())
        next_y = line.get() + 1
        over_y = next_y == out_y
        next_z = plane.get() + select(over_y, constant(i64, 1), zero)
        over_z = next_z == out_z
        line.set(select(over_y, zero, next_y))
        plane.set(select(over_z, zero, next_z))
        for pointer, way in zip(at, ways, strict=True):
            move = way[2] + select(over_y, way[1] - out_y * way[2], zero)
            move = move + select(over_z, way[0] - out_z * way[1], zero)
            pointer.set(pointer.get() + move)


UNPACK_WORDS = Words("source to n_blocks out_channels channels taps part")


@functools.cache
def unpack_kernel(accumulate: Type, out: Type, columns: int) -> Kernel:
    """Brings sums (group, block, tap, channel, output channel) to (output channel, channel, tap).

    An item is some channels of a block: squares of taps by output channels are transposed.
    """
    lanes = host().lanes(accumulate)

    @kernel
    def convolution_last_unpack(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = UNPACK_WORDS.of(args)
        channels, taps, part = word.channels, word.taps, word.part
        parts = (channels + (part - 1)) // part
        for item in loop(begin, end):
            first_channel, block = item % parts * part, item // parts
            group, first_out = block // word.n_blocks, block % word.n_blocks * columns
            source = word.pointer("source", accumulate) + block * taps * channels * columns
            to = word.pointer("to", out)
            to = to + (group * word.out_channels + first_out) * channels * taps
            for channel in loop(first_channel, minimum(first_channel + part, channels)):
                for first in range(0, columns, lanes):
                    left = word.out_channels - (first_out + first)
                    at = source + (channel * columns + first)
                    _unpack_channel(at, to + (channels * taps * first + channel * taps), left, word)

    def _unpack_channel(source: Value, to: Value, left: Value, word: Reader) -> None:
        """One channel of `lanes` output channels, of which `left` exist."""
        channels, taps = word.channels, word.taps
        for t in loop(0, taps, lanes):
            square = [load(source + minimum(t + n, taps - 1) * channels * columns, lanes)
                      for n in range(lanes)]  # fmt: skip
            mask = tail_mask(taps - t, lanes)
            for n, line in enumerate(transpose(square)):
                with when(left > n):
                    store(to + (channels * taps * n + t), cast(line, out), mask=mask)

    return convolution_last_unpack
