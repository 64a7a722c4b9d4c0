"""How a convolution with enough output channels is computed: channels side by side.

The input with its channels innermost, the weights as vectors over output channels, and the tiles of
last_tiles.py. Which convolutions these are: `pays`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from bedplate.config import config
from bedplate.devices.cpu.caches import cache_bytes
from bedplate.devices.cpu.workers import n_workers
from bedplate.kernel import Type, from_dtype, host
from bedplate.ops.convolution.last_pack import GRID_WORDS, grid_cuts, last_grid_kernel
from bedplate.ops.convolution.last_tiles import (
    RUN_WORDS,
    SEGMENT_WORDS,
    TILES,
    WORDS,
    LastForm,
    last_tile_kernel,
    last_tile_shape,
)
from bedplate.ops.convolution.last_weight import SEGMENT_WORDS as BY_WEIGHT_SEGMENT_WORDS
from bedplate.ops.convolution.last_weight import (
    UNPACK_WORDS,
    chunk_lines,
    last_by_weight_kernel,
    unpack_kernel,
    weight_tile_rows,
)
from bedplate.ops.convolution.last_weight import WORDS as BY_WEIGHT_WORDS
from bedplate.ops.convolution.last_weights import pack_weights
from bedplate.ops.convolution.reach import Tiling, Triple, WindowSum, tiling
from bedplate.ops.convolution.tile import Tile
from bedplate.ops.convolution.windows import lifted
from bedplate.ops.matmul.tiles import accumulator

# Counts of items: `python -m benchmarks.convolutions last` on two cores of a Zen 4.
# So many that all workers end at about the same time: alone 4 to 64 are within 2 %.
ITEMS_PER_WORKER = 32
# Fewer: each item reads all gradients of its output channels. With 1, 4, 8, 16 256 of 3 x 3 on
# 14 x 14 with gradients take 25.3, 25.1, 24.5, 24.3 ms, 64 on 64 x 64 the same with each.
WEIGHT_ITEMS_PER_WORKER = 8
# of an item, where blocks and workers allow it: items of 2 and 6 tiles, which read all chunks from
# memory for few sums, made a network's first layer with gradients take 39.1 ms in place of 35.4,
# and 64 of 3 x 3 on 64 x 64 38.8 in place of 37.2; 24 and 96 are within the noise but for 96 on
# 14 x 14 (25.0, 24.0 ms)
ITEM_TILES = 48
# A tile's places and its transposition take about as long as so many steps of 28 multiply-adds.
LEAST_DEPTH = 24


def pays(channels: int, depth: int, accumulate: Type) -> bool:
    """Whether vectors over the output channels of a group are full enough, and sums long enough."""
    if not config.layout:
        return False
    lanes = host().lanes(accumulate)
    _, vectors = last_tile_shape(channels, lanes)
    width = vectors * lanes
    return 4 * channels >= 3 * -(-channels // width) * width and depth >= LEAST_DEPTH


@dataclass(frozen=True, slots=True)
class LastGrid:
    """An input with its channels innermost.

    start    a word: its first element
    sizes    along z, y, x; steps: how far apart images, planes, lines and cells are
    """

    start: Any
    buffer: Any
    sizes: Triple
    steps: Triple
    nbytes: float


def room_for(channels: int, itemsize: int) -> int:
    """The distance of neighbouring cells: lines of a tile's cells must not all meet in one set.

    The sets of a first cache repeat after 4 KiB; from a distance of 1 KiB on that is a power of 2,
    less than half of a tile's rows would find different sets, so a line is left out.
    """
    nbytes = channels * itemsize
    return channels + (64 // itemsize if nbytes % 1024 == 0 else 0)


def shared_pack(builder: Any, x: Any) -> LastGrid:
    """The grid of x, made once for all that ask for it: both gradients need that of the output."""
    key = "convolution_last_grid", x.buffer, x.offset, x.shape, x.strides
    if key not in builder.shared:
        builder.shared[key] = pack_last(builder, x)
    return builder.shared[key]


def pack_last(builder: Any, x: Any) -> LastGrid:
    """The grid of x: x itself if it lies so, or the launch that makes a copy."""
    accumulate = accumulator(x.dtype)
    images, channels = x.shape[:2]
    sizes, strides = lifted(x.shape[2:], 1), lifted(x.strides[2:], 0)
    if x.strides[1] == 1 and from_dtype(x.dtype) is accumulate:
        nbytes = float(x.size * x.dtype.itemsize)
        return LastGrid(x, x.buffer, sizes, (x.strides[0], *strides), nbytes)
    room = room_for(channels, accumulate.itemsize)
    count = math.prod(sizes)
    buffer = builder.temp(images * count * room * accumulate.itemsize)
    lines, places, step = _lines(sizes, strides)
    cuts = grid_cuts(places, images * math.prod(lines))
    words = GRID_WORDS.values(
        source=x, to=buffer, channels=channels, room=room, stride_n=x.strides[0],
        stride_c=x.strides[1], stride_z=strides[0], stride_y=strides[1], stride_x=step,
        size_z=lines[0], size_y=lines[1], size_x=places, cuts=cuts,
    )  # fmt: skip
    builder.launch(
        last_grid_kernel(from_dtype(x.dtype), accumulate), words,
        images * math.prod(lines) * cuts, reads=[x.buffer], writes=[buffer],
        nbytes=float(x.size * x.dtype.itemsize + buffer.nbytes), name="convolution_last_grid",
    )  # fmt: skip
    _, y, x_size = sizes
    steps = count * room, y * x_size * room, x_size * room, room
    return LastGrid(buffer, buffer, sizes, steps, float(buffer.nbytes))


def _lines(sizes: Triple, strides: Triple) -> tuple[tuple[int, int], int, int]:
    """(sizes along z and y, along x, stride along x) with the axes that lie in one piece as one."""
    z, y, x = sizes
    if strides[1] == x * strides[2] or y == 1:
        if strides[0] == y * x * strides[2] or z == 1:
            return (1, 1), z * y * x, strides[2]
        if y == 1:
            return (z, y), x, strides[2]
    return (z, y), x, strides[2]


def _runs(of: WindowSum, images: int, lines: int, across: int) -> tuple[list[int], int, int]:
    """(words of the runs, how many, tiles of all): lines that meet the same taps, in that order."""
    words: list[int] = []
    n_tiles = 0
    for z, size_z, *ends_z in of.axes[0].runs():
        for y, size_y, *ends_y in of.axes[1].runs():
            words += [n_tiles, z, size_z, y, size_y, *ends_z, *ends_y]
            n_tiles += -(-images * size_z * size_y // lines) * across
    return words, len(words) // RUN_WORDS, n_tiles


def _kinds(cut: Tiling) -> tuple[list[int], list[int]]:
    """(first and last segment of each kind of tile, words of the segments)."""
    ends: list[int] = []
    words: list[int] = []
    for line in cut.all:
        first = len(words) // SEGMENT_WORDS
        for each in line:
            words += [each.distance, each.start, each.length, cut.cuts.index(each.cut)]
        ends += [first, len(words) // SEGMENT_WORDS]
    return ends, words


def _tile_of(weights: Any, of: WindowSum, cell: int, target: Any) -> tuple[Tile, Tiling]:
    """The tile, and how lines are cut into such.

    cell   elements from a cell of the grid to the next
    """
    accumulate = accumulator(weights.view.dtype)
    most, vectors = last_tile_shape(weights.rows, host().lanes(accumulate))
    cut = tiling(of.axes[2], most, weights.channels, cell)
    lines = max(most // cut.width, 1)
    _, y, x = of.out
    follows = zip(of.out, target.steps, (y * x, x, 1), strict=True)
    flat = all(size == 1 or step == beside for size, step, beside in follows)
    form = LastForm(lines, cut.width, "plane" if flat else "apart", cut.cuts)
    element = from_dtype(target.view.dtype)
    return Tile(accumulate, element, lines * cut.width, vectors, form), cut


def _place_words(grid: LastGrid, of: WindowSum, channels: int) -> dict[str, Any]:
    """The words that say where outputs meet elements of the grid."""
    along_z, along_y, along_x = of.axes
    moved = [axis.stride * step for axis, step in zip(of.axes, grid.steps[1:], strict=True)]
    return {
        "grid": grid.start, "moved_n": grid.steps[0], "moved": moved, "out_y": of.out[1],
        "out_x": of.out[2], "tap_z": along_z.step * grid.steps[1],
        "tap_y": along_y.step * grid.steps[2], "taps_y": len(along_y.taps),
        "first": along_z.first * grid.steps[1] + along_y.first * grid.steps[2],
        "channels": channels, "line_weights": len(along_x.taps) * channels,
    }  # fmt: skip


def enter_last(
    builder: Any, grid: LastGrid, weights: Any, of: WindowSum, target: Any, groups: int,
    epilogue: Any = None,
) -> None:  # fmt: skip
    """Enter the packing of the weights, and the tiles."""
    view, depth = target.view, weights.channels * of.n_taps
    tile, cut = _tile_of(weights, of, grid.steps[3], target)
    n_blocks = -(-weights.rows // tile.columns)
    packed = pack_weights(builder, weights, of.taps(), tile.accumulate, tile.columns, groups)
    # weights of an item stay in half of the second cache, if those of one block do
    block_bytes = depth * tile.columns * tile.accumulate.itemsize
    blocks = min(max(cache_bytes(2) // 2 // block_bytes, 1), n_blocks)
    parts = groups * -(-n_blocks // blocks)
    runs, n_runs, n_tiles = _runs(of, view.shape[0], tile.form.lines, cut.count)
    chunks = min(-(-ITEMS_PER_WORKER * n_workers() // parts), -(-n_tiles // TILES))
    kinds, segments = _kinds(cut)
    places = _place_words(grid, of, weights.channels)
    words = WORDS.values(
        **places, weight=packed, out=target.first, n_tiles=n_tiles, n_chunks=chunks,
        n_blocks=n_blocks, blocks=blocks, n_runs=n_runs, across=cut.count,
        kinds_first=len(cut.first), kinds_last=len(cut.last), kinds_at=len(runs),
        segments_at=len(runs + kinds), epilogue_at=len(runs + kinds + segments),
        out_channels=weights.rows, images=view.shape[0], step_n=view.strides[0],
        step_channel=view.strides[1], step=target.steps, depth=depth,
        ahead=-(-tile.rows * places["moved"][2] // depth),
    )  # fmt: skip
    words += [*runs, *kinds, *segments, *(() if epilogue is None else epilogue.words)]
    builder.launch(
        last_tile_kernel(tile, epilogue), words, parts * chunks, reads=[grid.buffer, packed],
        writes=[view.buffer],
        flops=2.0 * view.shape[0] * groups * weights.rows * depth * math.prod(of.out),
        nbytes=grid.nbytes + packed.nbytes + view.size * view.dtype.itemsize, name="convolution",
    )  # fmt: skip


def _weight_segments(of: WindowSum, grid: LastGrid, channels: int, merged: bool) -> list[int]:
    """The words of the segments of a gradient by the weights."""
    along_z, along_y, along_x = of.axes
    ends = [along_x.reached(tap) for tap in range(len(along_x.taps))]
    parts = [(tap, *each, *each) for tap, each in enumerate(ends)]
    if merged:
        low, high = max(low for low, _ in ends), min(high for _, high in ends)
        first, last = min(low for low, _ in ends), max(high for _, high in ends)
        low, high = (low, high) if low < high else (last, last)
        parts = [(0, low, high, first, last)]
    words: list[int] = []
    for z in range(len(along_z.taps)):
        for y in range(len(along_y.taps)):
            for x, *ends_x in parts:
                distance = sum(
                    (axis.first + tap * axis.step) * step
                    for axis, tap, step in zip(of.axes, (z, y, x), grid.steps[1:], strict=True)
                )
                words += [distance, *along_z.reached(z), *along_y.reached(y), *ends_x]
    return words


def _parts(n_tiles: int, blocks: int) -> int:
    """Into how many items the tiles of a block are cut: an item reads all chunks from memory."""
    workers = n_workers()
    wanted = min(-(-WEIGHT_ITEMS_PER_WORKER * workers // blocks), n_tiles // ITEM_TILES)
    return min(max(wanted, workers // math.gcd(blocks, workers)), n_tiles)


def by_weight_last(
    builder: Any, grid: LastGrid, grad: LastGrid, out: Any, of: WindowSum, images: int, groups: int
) -> None:
    """Enter the sums of the gradient by the weights, and bringing them to their places."""
    accumulate = accumulator(out.dtype)
    lanes = host().lanes(accumulate)
    rows_out, channels, n_taps = out.shape[0] // groups, out.shape[1], of.n_taps
    _, vectors = last_tile_shape(rows_out, lanes)
    along_x = of.axes[2]
    # taps side by side share the cells that a tile reads; those of few channels are one segment
    dense = along_x.step == 1 and grid.steps[3] == channels and len(along_x.taps) > 1
    merged = dense and channels < 3 * weight_tile_rows(channels, vectors)
    length = channels * (len(along_x.taps) if merged else 1)
    segments = _weight_segments(of, grid, channels, merged)
    rows = weight_tile_rows(length, vectors)
    tile = Tile(accumulate, from_dtype(out.dtype), rows, vectors, "merged" if merged else None)
    blocks = groups * -(-rows_out // tile.columns)
    sums = builder.temp(blocks * n_taps * channels * tile.columns * accumulate.itemsize)
    n_segments = len(segments) // BY_WEIGHT_SEGMENT_WORDS
    n_tiles = -(-length // rows) * n_segments
    parts = _parts(n_tiles, blocks)
    moved = [axis.stride * step for axis, step in zip(of.axes, grid.steps[1:], strict=True)]
    words = BY_WEIGHT_WORDS.values(
        grid=grid.start, grad=grad.start, to=sums, parts=parts, n_blocks=blocks // groups,
        chunk=chunk_lines(of.out[2]), images=images, channels=channels, out_channels=rows_out,
        n_segments=n_segments, length=length, out_z=of.out[0], out_y=of.out[1],
        place_n=grid.steps[0], place=moved, step_n=grad.steps[0], step=grad.steps[1:],
        stride_x=along_x.stride, first_x=along_x.first, size_x=along_x.size,
        taps_x=len(along_x.taps),
    )  # fmt: skip
    builder.launch(
        last_by_weight_kernel(tile), words + segments, blocks * parts,
        reads=[grid.buffer, grad.buffer], writes=[sums],
        flops=2.0 * images * out.size * math.prod(of.out), nbytes=grid.nbytes + grad.nbytes,
        name="convolution_by_weight",
    )  # fmt: skip
    _enter_unpack(builder, tile, sums, out, groups, n_taps)


def _enter_unpack(builder: Any, tile: Tile, sums: Any, out: Any, groups: int, n_taps: int) -> None:
    """Enter the launch that brings the sums to their places."""
    rows_out, channels = out.shape[0] // groups, out.shape[1]
    n_blocks = -(-rows_out // tile.columns)
    blocks = groups * n_blocks
    part = -(-channels // min(-(-ITEMS_PER_WORKER * n_workers() // blocks), channels))
    words = UNPACK_WORDS.values(
        source=sums, to=out, n_blocks=n_blocks, out_channels=rows_out, channels=channels,
        taps=n_taps, part=part,
    )  # fmt: skip
    builder.launch(
        unpack_kernel(tile.accumulate, tile.element, tile.columns), words,
        blocks * -(-channels // part), reads=[sums], writes=[out.buffer],
        nbytes=2.0 * sums.nbytes, name="convolution_last_unpack",
    )  # fmt: skip
