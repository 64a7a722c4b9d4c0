"""The kernel of convolution over channels that lie side by side: vectors over output channels.

    out[q, o] = sum over s, k of grid[place(q) + distance[s] + k] * w[o, s, k]

`q` counts all outputs of a batch, image by image; a segment s is what of the window lies in one
piece: the channels of a tap, or of all taps of a row where nothing stands between them. The plain
loop nest, and what becomes of it:

    for item in items:                  some blocks of output channels, some groups of tiles
        for block in blocks, for tile in group:
                                        `rows` positions, wherever they are: rows and images follow
                                        each other without a gap, so no size wastes lanes
            for s, k in window:         a vector of weights for each of the tile's vectors, one
                tile += x * w           broadcast element of x for each of its rows
            group <- tile               transposed, where channels are planes of the output

An output element is one chain of multiply-adds over s, then k: its bits depend neither on the cut,
on the batch, nor on the number of threads.

    accumulates in   float32 for bfloat16, float16 and float32; float64
    flops            2 N O C/groups taps positions; bound by multiply-adds from 16 channels on
    bytes            weights of a block from the second cache, 128 for 28 multiply-adds
    source           Georganas et al. 2018, arXiv:1808.05567 (the blocking); Dukhan 2019,
                     arXiv:1907.02129 (positions by pointers)
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
    host,
    i64,
    iota,
    kernel,
    load,
    local,
    loop,
    maximum,
    minimum,
    prefetch,
    ptr,
    scatter,
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

# words of a tile task; the distance of each segment follows them
(
    GRID, WEIGHT, OUT, N_TILES, N_CHUNKS, N_BLOCKS, BLOCKS, IMAGES, GROUPS, CHANNELS, OUT_CHANNELS,
    OUT_Z, OUT_Y, OUT_X, PLACE_N, PLACE_Z, PLACE_Y, PLACE_X, STEP_N, STEP_CHANNEL, STEP_Z, STEP_Y,
    STEP_X, N_SEGMENTS, LENGTH, AHEAD,
) = range(26)  # fmt: skip
N_WORDS = 26


# Tiles of a group, whose results are brought to their planes together: 8 x 14 float32 elements are
# 7 whole lines. Tile by tile most lines would be written twice.
TILES = 8


@dataclass(frozen=True, slots=True)
class LastTile:
    """What specialises a tile kernel.

    rows, vectors   positions and vectors of output channels that are summed in registers
    store           "plane": positions of an image follow each other in the output, and each channel
                    is stored as a vector of them; "apart": each position is stored by channels
    """

    accumulate: Type
    out: Type
    rows: int
    vectors: int
    store: str

    @property
    def lanes(self) -> int:
        return host().lanes(self.accumulate)

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors

    @property
    def buffer_row(self) -> int:
        """Elements of a channel in the buffer: a group of tiles, a vector that reaches past it,
        and a line, so that channels do not meet in one set of the first cache."""
        return TILES * self.rows + 2 * self.lanes


def last_tile_shape(channels: int, lanes: int) -> tuple[int, int]:
    """(rows, vectors) for so many output channels of a group.

    As many vectors as divide the channels with the least rest, two where that is equal: 32
    registers hold 14 x 2 sums, 2 weights and what is broadcast; 28 x 1, 9 x 3, 6 x 4; 16 hold
    6 x 2, 12 x 1, 4 x 3.
    """
    needed = -(-channels // lanes)
    free = 32 if host().vector_bits != 256 else 16
    best = min((2, 3, 1), key=lambda v: -(-needed // v) * v)
    return min((free - 1) // best - 1, 14), best


@functools.cache
def last_tile_kernel(tile: LastTile) -> Kernel:
    """The task: an item is some groups of tiles for some blocks of output channels."""

    @kernel
    def convolution_last(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        n_tiles, n_chunks, n_blocks = word(N_TILES), word(N_CHUNKS), word(N_BLOCKS)
        blocks = word(BLOCKS)
        cuts = (n_blocks + (blocks - 1)) // blocks
        n_groups = (n_tiles + (TILES - 1)) // TILES
        buffer = local(tile.accumulate, tile.columns * tile.buffer_row)
        for item in loop(begin, end):
            chunk, part = item % n_chunks, item // n_chunks
            group, first_block = part // cuts, part % cuts * blocks
            last_block = minimum(first_block + blocks, n_blocks)
            for number in loop(chunk * n_groups // n_chunks, (chunk + 1) * n_groups // n_chunks):
                first_tile = number * TILES
                last_tile = minimum(first_tile + TILES, n_tiles)
                for block in loop(first_block, last_block):
                    for n in loop(first_tile, last_tile):
                        to = buffer + (n - first_tile) * tile.rows
                        _emit_tile(tile, args, group, block, n * tile.rows, to)
                    if tile.store == "plane":
                        ends = first_tile * tile.rows, last_tile * tile.rows
                        _store_planes(tile, args, group, block, ends, buffer)

    return convolution_last


@dataclass(slots=True)
class _Positions:
    """The positions of a tile: the first, how many there are in all, where they are read, and
    where they are stored if that is apart."""

    first: Value
    total: Value
    size: Value
    sources: list[Value]
    targets: list[Value]


def _places(tile: LastTile, args: Value, first: Value) -> _Positions:
    """Where the positions of a tile lie. Those that do not exist lie where the first does."""
    sizes = [word_int(args, w) for w in (IMAGES, OUT_Z, OUT_Y, OUT_X)]
    size = sizes[1] * sizes[2] * sizes[3]
    total, rest = sizes[0] * size, first
    index = []
    for length in reversed(sizes[1:]):
        index.insert(0, rest % length)
        rest = rest // length
    index.insert(0, rest)
    ways = [[word_int(args, w) for w in (PLACE_N, PLACE_Z, PLACE_Y, PLACE_X)]]
    if tile.store == "apart":
        ways.append([word_int(args, w) for w in (STEP_N, STEP_Z, STEP_Y, STEP_X)])
    lists = [[sum((i * step for i, step in zip(index, way, strict=True)), first * 0)]
             for way in ways]  # fmt: skip
    zero, one = constant(i64, 0), constant(i64, 1)
    for r in range(1, tile.rows):
        index[3] = index[3] + 1
        moves = [way[3] for way in ways]
        for axis in (3, 2, 1):
            over = index[axis] == sizes[axis]
            index[axis] = select(over, zero, index[axis])
            index[axis - 1] = index[axis - 1] + select(over, one, zero)
            for n, way in enumerate(ways):
                jump = way[axis - 1] - sizes[axis] * way[axis]
                moves[n] = moves[n] + select(over, jump, zero)
        there = first + r < total
        for n, found in enumerate(lists):
            found.append(select(there, found[-1] + moves[n], found[0]))
    return _Positions(first, total, size, lists[0], lists[-1])


def _emit_tile(
    tile: LastTile, args: Value, group: Value, block: Value, first: Value, buffer: Value
) -> None:
    """One tile: its sums, then its rows to where they belong."""
    places = _places(tile, args, first)
    n_segments, length = word_int(args, N_SEGMENTS), word_int(args, LENGTH)
    grid = word_pointer(args, GRID, tile.accumulate) + group * word_int(args, CHANNELS)
    rows = [grid + place for place in places.sources]
    at_block = (group * word_int(args, N_BLOCKS) + block) * n_segments * length
    weight = word_pointer(args, WEIGHT, tile.accumulate) + at_block * tile.columns
    count = range(tile.vectors)
    if tile.store == "plane":
        _prefetch_planes(tile, args, group, block, places)
    sums = [[var(zeros(tile.accumulate, tile.lanes)) for _ in count] for _ in rows]
    # What the next tile reads that this one did not lies behind what this one reads last; without
    # asking for it 64 x 56 x 56 runs at 88 % of the peak, with it at 92.
    ahead = word_int(args, AHEAD)
    following = rows[-1] + (load(args + (n_segments - 1) + N_WORDS) + length)
    for s in loop(n_segments):
        distance, at = load(args + s + N_WORDS), weight + s * length * tile.columns
        for k in loop(length):
            prefetch(following + (s * length + k) * ahead, locality=2)
            here = at + k * tile.columns
            factors = [load(here + v * tile.lanes, tile.lanes) for v in count]
            for row, totals in zip(rows, sums, strict=True):
                x = splat(load(row + (distance + k)), tile.lanes)
                for total, factor in zip(totals, factors, strict=True):
                    total.set(fma(x, factor, total.get()))
    if tile.store == "plane":
        _turn(tile, sums, buffer)
    else:
        _store_apart(tile, args, group, block, places, sums)


def _prefetch_planes(
    tile: LastTile, args: Value, group: Value, block: Value, places: _Positions
) -> None:
    """Fetch the lines that the tile will be stored to while it is computed: the last of each
    channel, as the tile before had the first. Into the second cache: planes whose size is a power
    of 2 have their lines in one set of the first.
    """
    step = word_int(args, STEP_CHANNEL)
    channel = group * word_int(args, OUT_CHANNELS) + block * tile.columns
    last = minimum(places.first + tile.rows, places.total) - 1
    image = last // places.size
    to = word_pointer(args, OUT, tile.out) + channel * step
    to = to + (image * word_int(args, STEP_N) + (last - image * places.size))
    for o in loop(tile.columns):
        prefetch(to + o * step, locality=2)


def _turn(tile: LastTile, sums: Any, buffer: Value) -> None:
    """The tile with positions side by side, behind those of the tile before in the buffer.

    What a last vector has too much is written over by the next tile.
    """
    lanes, spare = tile.lanes, zeros(tile.accumulate, tile.lanes)
    for v in range(tile.vectors):
        for low in range(0, tile.rows, lanes):
            part = [row[v].get() for row in sums[low : low + lanes]]
            for n, channel in enumerate(transpose(part + [spare] * (lanes - len(part)))):
                store(buffer + ((v * lanes + n) * tile.buffer_row + low), channel)


def _store_planes(
    tile: LastTile, args: Value, group: Value, block: Value, ends: tuple[Value, Value],
    buffer: Value,
) -> None:  # fmt: skip
    """Each channel of a group of tiles, image by image where it reaches into several."""
    lanes, first = tile.lanes, ends[0]
    first_channel = block * tile.columns
    out_channels, step = word_int(args, OUT_CHANNELS), word_int(args, STEP_CHANNEL)
    out = word_pointer(args, OUT, tile.out) + (group * out_channels + first_channel) * step
    channels = minimum(out_channels - first_channel, tile.columns)
    size = word_int(args, OUT_Z) * word_int(args, OUT_Y) * word_int(args, OUT_X)
    behind = minimum(ends[1], size * word_int(args, IMAGES))
    for image in loop(first // size, (behind - 1) // size + 1):
        start = maximum(image * size - first, 0)
        stop = minimum((image + 1) * size, behind) - first
        to = out + (image * word_int(args, STEP_N) - image * size + first)
        for o in loop(channels):
            for at in loop(start, stop, lanes):
                value = load(buffer + (o * tile.buffer_row + at), lanes)
                mask = tail_mask(stop - at, lanes)
                store(to + (o * step + at), cast(value, tile.out), mask=mask)


def _store_apart(
    tile: LastTile, args: Value, group: Value, block: Value, places: _Positions, sums: Any
) -> None:
    """Each position as vectors of channels."""
    lanes = tile.lanes
    first_channel = block * tile.columns
    out_channels, step = word_int(args, OUT_CHANNELS), word_int(args, STEP_CHANNEL)
    out = word_pointer(args, OUT, tile.out) + (group * out_channels + first_channel) * step
    beside = iota(i64, lanes) * splat(step, lanes)
    masks = [tail_mask(out_channels - first_channel - v * lanes, lanes)
             for v in range(tile.vectors)]  # fmt: skip
    for r, (row, target) in enumerate(zip(sums, places.targets, strict=True)):
        with when(places.first + r < places.total):
            for v, (total, mask) in enumerate(zip(row, masks, strict=True)):
                to, value = out + (target + step * (v * lanes)), cast(total.get(), tile.out)
                with when(step == 1):
                    store(to, value, mask=mask)
                with when(step != 1):
                    scatter(to, beside, value, mask=mask)
