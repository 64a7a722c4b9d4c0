"""The kernel of convolution over channels that lie side by side: vectors over output channels.

    out[q, o] = sum over taps z, y, segments s, k of grid[place(q) + distance + k] w[o, z, y, s, k]

where only taps inside of the input are: reach.py says which. The plain loop nest, and what becomes
of it:

    for item in items:                  some blocks of output channels, some groups of tiles
        for block in blocks, for tile in group:
                                        `form.lines` lines of `form.width` outputs; lines of a tile
                                        meet the same taps along z and y, whatever image they are of
            for z, y in taps, s, k:     a vector of weights for each of the tile's vectors, one
                tile += x * w           broadcast element of x for each output that s reaches:
                                        a loop of its own for each of `form.cuts`
            group <- tile               transposed, where channels are planes of the output

An output element is one chain of multiply-adds over its taps, then channels: its bits depend
neither on the cut, on the batch, nor on the number of threads.

    accumulates in   float32 for bfloat16, float16 and float32; float64
    flops            2 N O C/groups for each tap that is inside; bound by multiply-adds from 16
                     channels on
    bytes            weights of a block from the second cache, 128 for 28 multiply-adds
    source           Georganas et al. 2018, arXiv:1808.05567 (the blocking)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bedplate.kernel import (
    Kernel,
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
    zeros,
)
from bedplate.ops.convolution.tile import Reader, Tile, Words
from bedplate.ops.matmul.pack import transpose

# Behind them: the runs of lines, RUN_WORDS each; (first, last) segment of each kind of tile along a
# line; the segments, SEGMENT_WORDS each; the words of the epilogue.
WORDS = Words(
    "grid weight out n_tiles n_chunks n_blocks blocks n_runs across kinds_first kinds_last "
    "kinds_at segments_at epilogue_at channels out_channels images out_y out_x moved_n moved* "
    "step_n step_channel step* first tap_z tap_y taps_y line_weights depth ahead"
)
RUN_WORDS = 9
SEGMENT_WORDS = 4

# Tiles of a group, whose results are brought to their planes together: 8 x 14 float32 elements are
# 7 whole lines. Tile by tile most lines would be written twice.
TILES = 8


@dataclass(frozen=True, slots=True)
class LastForm:
    """What a kernel depends on beside its tile, whose rows are `lines` x `width` outputs.

    store   "plane": outputs of an image follow each other, and each channel is stored as a vector
            of them; "apart": each output is stored as vectors of channels
    cuts    (first, last) outputs of a line that a segment leaves out
    """

    lines: int
    width: int
    store: str
    cuts: tuple[tuple[int, int], ...]


def last_tile_shape(channels: int, lanes: int) -> tuple[int, int]:
    """(rows at most, vectors) for so many output channels of a group.

    As many vectors as divide the channels with the least rest, two where that is equal: 32
    registers hold 14 x 2 sums, 2 weights and what is broadcast; 14 x 1, 9 x 3; 16 hold 6 x 2,
    14 x 1, 4 x 3.
    """
    needed = -(-channels // lanes)
    free = 32 if host().vector_bits != 256 else 16
    best = min((2, 3, 1), key=lambda v: -(-needed // v) * v)
    return min((free - 1) // best - 1, 14), best


def _margin(tile: Tile) -> int:
    """Elements before a group of tiles in the buffer: its first tile may begin with outputs that
    another group has, whole vectors of them."""
    return -(-tile.rows // tile.lanes) * tile.lanes


def _buffer_row(tile: Tile) -> int:
    """Elements of a channel in the buffer: a group of tiles, and a vector that reaches past it.

    With AVX-512 9 lines, so that channels do not meet in one set of the first cache.
    """
    return _margin(tile) + TILES * tile.rows + tile.lanes


_kernels: dict[Any, Kernel] = {}


def last_tile_kernel(tile: Tile, epilogue: Any) -> Kernel:
    """The kernel of a tile and an epilogue (or None), made once."""
    key = (tile, None if epilogue is None else epilogue.key)
    found = _kernels.get(key)
    if found is None:
        emit = None if epilogue is None else epilogue.emit
        found = _kernels.setdefault(key, _make_kernel(tile, emit))
    return found


def _make_kernel(tile: Tile, emit: Any) -> Kernel:
    """The task: an item is some groups of tiles for some blocks of output channels."""

    @kernel
    def convolution_last(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = WORDS.of(args)
        n_tiles, n_chunks, n_blocks, blocks = (
            word.n_tiles, word.n_chunks, word.n_blocks, word.blocks
        )  # fmt: skip
        cuts = (n_blocks + (blocks - 1)) // blocks
        n_groups = (n_tiles + (TILES - 1)) // TILES
        pieces = _Pieces(tile)
        for item in loop(begin, end):
            chunk, part = item % n_chunks, item // n_chunks
            group, first_block = part // cuts, part % cuts * blocks
            last_block = minimum(first_block + blocks, n_blocks)
            for number in loop(chunk * n_groups // n_chunks, (chunk + 1) * n_groups // n_chunks):
                first_tile = number * TILES
                last_tile = minimum(first_tile + TILES, n_tiles)
                for block in loop(first_block, last_block):
                    pieces.clear()
                    for n in loop(first_tile, last_tile):
                        _emit_tile(tile, word, group, block, n, pieces)
                    if tile.form.store == "plane":
                        pieces.store(word, group, block, emit)

    return convolution_last


@dataclass(slots=True)
class _Place:
    """Where a tile is: its lines, and which taps they meet.

    lines   (image, plane, line, whether there is such a line) for each
    column  its first output in a line; `fresh` is the first that the tile before has not
    ends    the taps along z and along y, half-open
    kind    which of the lists of segments is its own
    """

    lines: list[tuple[Value, Value, Value, Value]]
    column: Value
    fresh: Value
    ends: tuple[Value, Value, Value, Value]
    kind: Value


def _place(tile: Tile, word: Reader, number: Value) -> _Place:
    """Finds the run that a tile belongs to, and its lines in it."""
    run = var(constant(i64, 0))
    for each in loop(1, word.n_runs):
        with when(word.more(each * RUN_WORDS) <= number):
            run.set(each)
    first, z, size_z, y, size_y, low_z, high_z, low_y, high_y = (
        word.more(run.get() * RUN_WORDS + n) for n in range(RUN_WORDS)
    )
    across, width = word.across, tile.form.width
    here = number - first
    j, group = here % across, here // across
    in_image = size_z * size_y
    total = word.images * in_image
    lines = []
    for n in range(tile.form.lines):
        line = group * tile.form.lines + n
        at = minimum(line, total - 1)
        inside = at % in_image
        lines.append((at // in_image, z + inside // size_y, y + inside % size_y, line < total))
    column = minimum(j * width, word.out_x - width)
    n_first, n_last = word.kinds_first, word.kinds_last
    behind = j - (across - n_last) + (n_first + 1)
    kind = select(j < n_first, j, select(j >= across - n_last, behind, n_first))
    ends = low_z, high_z, low_y, high_y
    return _Place(lines, column, j * width - column, ends, kind)


def _emit_tile(
    tile: Tile, word: Reader, group: Value, block: Value, number: Value, pieces: _Pieces
) -> None:
    """One tile: its sums, then its rows to where they belong."""
    place = _place(tile, word, number)
    grid = word.pointer("grid", tile.accumulate) + group * word.channels
    starts = [
        grid
        + (n * word.moved_n + z * word.moved_z + y * word.moved_y + place.column * word.moved_x)
        for n, z, y, _ in place.lines
    ]
    rows = [[start + word.moved_x * x for x in range(tile.form.width)] for start in starts]
    weight = word.pointer("weight", tile.accumulate)
    weight = weight + (group * word.n_blocks + block) * word.depth * tile.columns
    count = range(tile.vectors)
    sums = [[[var(zeros(tile.accumulate, tile.lanes)) for _ in count] for _ in line]
            for line in rows]  # fmt: skip
    if tile.form.store == "plane":
        _prefetch_planes(tile, word, group, block, place)
    for distance, at, length, cut in _segments(word, place):
        for n, (first, last) in enumerate(tile.form.cuts):
            with when(cut == n):
                stop = tile.form.width - last
                _sum_segment(
                    tile, word, [line[first:stop] for line in rows],
                    [line[first:stop] for line in sums], (distance, weight, at, length),
                )  # fmt: skip
    flat = [each for line in sums for each in line]
    if tile.form.store == "plane":
        pieces.add(word, place, flat)
    else:
        _store_apart(tile, word, group, block, place, flat)


def _segments(word: Reader, place: _Place) -> Iterator[tuple[Value, Value, Value, Value]]:
    """(distance, first weight, elements, cut) of all segments that a tile meets, as a loop."""
    low_z, high_z, low_y, high_y = place.ends
    kind = word.kinds_at + place.kind * 2
    low, high = word.more(kind), word.more(kind + 1)
    for z in loop(low_z, high_z):
        for y in loop(low_y, high_y):
            line = word.first + (z * word.tap_z + y * word.tap_y)
            weights = (z * word.taps_y + y) * word.line_weights
            for s in loop(low, high):
                at = word.segments_at + s * SEGMENT_WORDS
                distance, start, length, cut = (word.more(at + n) for n in range(SEGMENT_WORDS))
                yield line + distance, weights + start, length, cut


def _sum_segment(
    tile: Tile, word: Reader, rows: list[list[Value]], sums: Any, segment: tuple[Value, ...]
) -> None:
    """What a segment adds to the outputs that it reaches."""
    distance, weight, start, length = segment
    # What the next tile reads that this one did not lies behind what this one reads last; without
    # asking for it 64 x 56 x 56 runs at 88 % of the peak, with it at 92.
    ahead = word.ahead
    following = rows[-1][-1] + word.moved_x * tile.form.width
    pointers = [row + distance for line in rows for row in line]
    totals = [each for line in sums for each in line]
    at = weight + start * tile.columns
    for k in loop(length):
        prefetch(following + (start + k) * ahead, locality=2)
        here = at + k * tile.columns
        factors = [load(here + v * tile.lanes, tile.lanes) for v in range(tile.vectors)]
        for row, output in zip(pointers, totals, strict=True):
            x = splat(load(row + k), tile.lanes)
            for total, factor in zip(output, factors, strict=True):
                total.set(fma(x, factor, total.get()))


def _prefetch_planes(tile: Tile, word: Reader, group: Value, block: Value, place: _Place) -> None:
    """Fetch the lines that the tile will be stored to while it is computed: the last of each
    channel, as the tile before had the first. Into the second cache: planes whose size is a power
    of 2 have their lines in one set of the first.
    """
    image, z, y, _ = place.lines[-1]
    step = word.step_channel
    channel = group * word.out_channels + block * tile.columns
    inside = (z * word.out_y + y) * word.out_x + (place.column + (tile.form.width - 1))
    to = word.pointer("out", tile.element) + (channel * step + image * word.step_n + inside)
    for o in loop(tile.columns):
        prefetch(to + o * step, locality=2)


class _Pieces:
    """The results of a group of tiles, transposed into a buffer, and where they belong.

    A piece is what follows each other in a plane as in the buffer: most often the whole group.
    """

    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        self.buffer = local(tile.accumulate, tile.columns * _buffer_row(tile))
        most = TILES * tile.form.lines
        self.images, self.places, self.starts, self.ends = (local(i64, most + 1) for _ in range(4))
        self.count, self.filled = var(constant(i64, 0)), var(constant(i64, 0))

    def clear(self) -> None:
        self.count.set(constant(i64, 0))
        self.filled.set(constant(i64, _margin(self.tile)))

    def add(self, word: Reader, place: _Place, sums: Any) -> None:
        """A tile behind those before; outputs that the one before had are written over."""
        width = self.tile.form.width
        start = self.filled.get() - place.fresh
        self._turn(sums, start)
        for n, (image, z, y, exists) in enumerate(place.lines):
            with when(exists):
                inside = (z * word.out_y + y) * word.out_x + place.column
                first = start + n * width
                self._extend(image, inside + place.fresh, first + place.fresh, first + width)

    def _extend(self, image: Value, place: Value, start: Value, end: Value) -> None:
        last = maximum(self.count.get() - 1, 0)
        behind = load(self.places + last) + (load(self.ends + last) - load(self.starts + last))
        known = (self.count.get() > 0) & (load(self.images + last) == image)
        follows = known & (behind == place) & (load(self.ends + last) == start)
        with when(follows):
            store(self.ends + last, end)
        with when(~follows):
            new = self.count.get()
            for array, value in zip(
                (self.images, self.places, self.starts, self.ends), (image, place, start, end),
                strict=True,
            ):  # fmt: skip
                store(array + new, value)
            self.count.set(new + 1)
        self.filled.set(end)

    def _turn(self, sums: Any, start: Value) -> None:
        """What a last vector has too much is written over by the next tile."""
        tile = self.tile
        lanes, spare = tile.lanes, zeros(tile.accumulate, tile.lanes)
        for v in range(tile.vectors):
            for low in range(0, tile.rows, lanes):
                part = [row[v].get() for row in sums[low : low + lanes]]
                for n, channel in enumerate(transpose(part + [spare] * (lanes - len(part)))):
                    at = self.buffer + ((v * lanes + n) * _buffer_row(tile) + low)
                    store(at + start, channel)

    def store(self, word: Reader, group: Value, block: Value, emit: Any) -> None:
        """Each channel of the pieces to its planes, as the epilogue makes it of the sums."""
        tile = self.tile
        first_channel, out_channels = block * tile.columns, word.out_channels
        channels = minimum(out_channels - first_channel, tile.columns)
        step = word.step_channel
        row = group * out_channels + first_channel
        out = word.pointer("out", tile.element) + row * step
        for piece in loop(self.count.get()):
            start, end = load(self.starts + piece), load(self.ends + piece)
            image, place = load(self.images + piece), load(self.places + piece)
            to = out + (image * word.step_n + place)
            for o in loop(channels):
                for at in loop(start, end, tile.lanes):
                    value = load(self.buffer + (o * _buffer_row(tile) + at), tile.lanes)
                    mask = tail_mask(end - at, tile.lanes)
                    if emit is None:
                        value = cast(value, tile.element)
                    else:
                        column = place + (at - start)
                        value = emit(
                            value, image, row + o, column, tile.lanes, mask, word.args,
                            word.epilogue_at + len(WORDS),
                        )  # fmt: skip
                    store(to + (o * step + (at - start)), value, mask=mask)


def _store_apart(
    tile: Tile, word: Reader, group: Value, block: Value, place: _Place, sums: Any
) -> None:
    """Each output as vectors of channels."""
    lanes, width = tile.lanes, tile.form.width
    first_channel, out_channels, step = block * tile.columns, word.out_channels, word.step_channel
    out = word.pointer("out", tile.element) + (group * out_channels + first_channel) * step
    beside = iota(i64, lanes) * splat(step, lanes)
    masks = [tail_mask(out_channels - first_channel - v * lanes, lanes)
             for v in range(tile.vectors)]  # fmt: skip
    for n, (image, z, y, exists) in enumerate(place.lines):
        line = out + (image * word.step_n + z * word.step_z + y * word.step_y)
        for x in range(width):
            with when(exists & (place.fresh <= x)):
                at = line + (place.column + x) * word.step_x
                for v, (total, mask) in enumerate(zip(sums[n * width + x], masks, strict=True)):
                    to, value = at + step * (v * lanes), cast(total.get(), tile.element)
                    with when(step == 1):
                        store(to, value, mask=mask)
                    with when(step != 1):
                        scatter(to, beside, value, mask=mask)
