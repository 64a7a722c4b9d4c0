"""How a convolution with enough output channels is computed: channels side by side.

A copy of the input with its channels innermost and zeros around it, the weights as vectors over
output channels, and the tiles of last_tiles.py. Which convolutions these are: `pays`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from bedplate.config import config
from bedplate.devices.cpu.caches import cache_bytes
from bedplate.devices.cpu.workers import n_workers
from bedplate.kernel import Type, from_dtype, host
from bedplate.ops.convolution.last_pack import (
    LEAST_TAPS,
    last_grid_kernel,
    last_weight_kernel,
    last_weight_rows_kernel,
)
from bedplate.ops.convolution.last_tiles import TILES, LastTile, last_tile_kernel, last_tile_shape
from bedplate.ops.convolution.last_weight import (
    WeightTile,
    chunk_lines,
    last_by_weight_kernel,
    unpack_kernel,
    weight_tile_rows,
)
from bedplate.ops.convolution.windows import lifted
from bedplate.ops.matmul.tiles import accumulator

Triple = tuple[int, ...]
ITEMS_PER_WORKER = 32
# each item reads all gradients of its output channels
WEIGHT_ITEMS_PER_WORKER = 8
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
    """An input with its channels innermost, `room` elements for those of a cell."""

    buffer: Any
    cells: Triple
    room: int

    @property
    def steps(self) -> Triple:
        """How far apart images, planes, lines and cells are."""
        _, y, x = self.cells
        return math.prod(self.cells) * self.room, y * x * self.room, x * self.room, self.room

    def distance(self, place: Triple) -> int:
        """How far from an image's first cell the cell `place` is."""
        return sum(i * step for i, step in zip(place, self.steps[1:], strict=True))


def room_for(channels: int, itemsize: int) -> int:
    """The distance of neighbouring cells: lines of a tile's cells must not all meet in one set.

    The sets of a first cache repeat after 4 KiB; from a distance of 1 KiB on that is a power of 2,
    less than half of a tile's rows would find different sets, so a line is left out.
    """
    nbytes = channels * itemsize
    return channels + (64 // itemsize if nbytes % 1024 == 0 else 0)


def shared_pack(builder: Any, x: Any, before: Triple, cells: Triple) -> LastGrid:
    """The grid of x, made once for all that ask for it: both gradients need that of the output."""
    key = "convolution_last_grid", x.buffer, x.offset, x.shape, x.strides, before, cells
    if key not in builder.shared:
        builder.shared[key] = pack_last(builder, x, before, cells)
    return builder.shared[key]


def pack_last(builder: Any, x: Any, before: Triple, cells: Triple) -> LastGrid:
    """Enter the launch that makes the grid of x."""
    accumulate = accumulator(x.dtype)
    images, channels = x.shape[:2]
    room = room_for(channels, accumulate.itemsize)
    # a tile's last rows may reach past the last cell
    slack = 64
    nbytes = (images * math.prod(cells) * room + slack) * accumulate.itemsize
    buffer = builder.temp(nbytes)
    words = [
        x, buffer, channels, room, *x.strides[:2], *lifted(x.strides[2:], 0),
        *lifted(x.shape[2:], 1), *cells, *before,
    ]  # fmt: skip
    builder.launch(
        last_grid_kernel(from_dtype(x.dtype), accumulate), words, images * cells[0] * cells[1],
        reads=[x.buffer], writes=[buffer], nbytes=float(x.size * x.dtype.itemsize + nbytes),
        name="convolution_last_grid",
    )  # fmt: skip
    return LastGrid(buffer, cells, room)


def _segments(
    grid: LastGrid, taps: list[tuple[Triple, Triple]], channels: int, merge: bool = True
) -> tuple[list[tuple[Triple, Triple]], list[int], int]:
    """(the taps in the order of their cells, distances of segments, elements of one).

    taps    (place in the window, place in the grid)
    merge   whether taps side by side may be one segment
    """
    order = sorted(taps, key=lambda tap: grid.distance(tap[1]))
    distances = [grid.distance(place) for _, place in order]
    if channels != grid.room or not merge:
        return order, distances, channels
    starts = [d for n, d in enumerate(distances) if n == 0 or d != distances[n - 1] + channels]
    length = len(order) // len(starts)
    if starts != distances[::length]:
        return order, distances, channels
    return order, starts, length * channels


def _pack_weights(
    builder: Any, weights: Any, taps: list[Triple], accumulate: Type, columns: int, groups: int
) -> Any:
    """Enter the packing of the weights, taps in this order; gives the packed ones."""
    n_blocks, n_taps = -(-weights.rows // columns), len(taps)
    blocks = groups * n_blocks
    nbytes = blocks * weights.channels * n_taps * columns * accumulate.itemsize
    packed = builder.temp(max(nbytes, 1))
    sources = [weights.source(tap) for tap in taps]
    beside = n_taps >= LEAST_TAPS and sorted(sources) == list(range(n_taps))
    words = [
        weights.view, packed, n_blocks, weights.rows, weights.channels, n_taps,
        weights.group_stride, weights.row_stride, weights.channel_stride,
    ]  # fmt: skip
    kernel, items, more = last_weight_kernel, blocks * weights.channels, sources
    if beside:
        parts = min(-(-ITEMS_PER_WORKER * n_workers() // blocks), weights.channels)
        part = -(-weights.channels // parts)
        kernel, items = last_weight_rows_kernel, blocks * -(-weights.channels // part)
        more = [part, *(sources.index(t) for t in range(n_taps))]
    element = from_dtype(weights.view.dtype)
    builder.launch(
        kernel(element, accumulate, columns), words + more, items, reads=[weights.view.buffer],
        writes=[packed], nbytes=2.0 * nbytes, name="convolution_last_weights",
    )  # fmt: skip
    return packed


def enter_last(
    builder: Any, grid: LastGrid, weights: Any, taps: list[tuple[Triple, Triple]], stride: Triple,
    target: Any, groups: int,
) -> None:  # fmt: skip
    """Enter the packing of the weights, and the tiles.

    stride   how many cells of the grid a step of the output is
    """
    view = target.view
    accumulate = accumulator(view.dtype)
    lanes = host().lanes(accumulate)
    rows, vectors = last_tile_shape(weights.rows, lanes)
    z, y, x = target.sizes
    follows = zip(target.sizes, target.steps, (y * x, x, 1), strict=True)
    flat = all(size == 1 or step == beside for size, step, beside in follows)
    tile = LastTile(accumulate, from_dtype(view.dtype), rows, vectors, "plane" if flat else "apart")
    order, segments, length = _segments(grid, taps, weights.channels)
    depth = weights.channels * len(taps)
    n_blocks = -(-weights.rows // tile.columns)
    block_bytes = depth * tile.columns * accumulate.itemsize
    packed = _pack_weights(builder, weights, [tap for tap, _ in order], accumulate, tile.columns,
                           groups)  # fmt: skip
    # weights of an item stay in half of the second cache, if those of one block do
    blocks = min(max(cache_bytes(2) // 2 // block_bytes, 1), n_blocks)
    parts = groups * -(-n_blocks // blocks)
    n_tiles = -(-view.shape[0] * z * y * x // rows)
    chunks = min(-(-ITEMS_PER_WORKER * n_workers() // parts), -(-n_tiles // TILES))
    moved = tuple(s * step for s, step in zip((1, *stride), grid.steps, strict=True))
    words = [
        grid.buffer, packed, target.first, n_tiles, chunks, n_blocks, blocks, view.shape[0],
        groups, weights.channels, weights.rows, z, y, x, *moved, view.strides[0], view.strides[1],
        *target.steps, len(segments), length, -(-rows * moved[3] // depth), *segments,
    ]  # fmt: skip
    builder.launch(
        last_tile_kernel(tile), words, parts * chunks, reads=[grid.buffer, packed],
        writes=[view.buffer], flops=2.0 * view.shape[0] * groups * weights.rows * depth * z * y * x,
        nbytes=float(grid.buffer.nbytes + packed.nbytes + view.size * view.dtype.itemsize),
        name="convolution",
    )  # fmt: skip


def by_weight_last(
    builder: Any, grid: LastGrid, grad: LastGrid, out: Any, taps: list[tuple[Triple, Triple]],
    sizes: tuple[int, Triple, Triple, Triple], groups: int,
) -> None:  # fmt: skip
    """Enter the sums of the gradient by the weights, and bringing them to their places.

    sizes   images, outputs, how many cells of the grid a step of the output is, the cell of grad
            where its first element is
    """
    images, shape, stride, first = sizes
    accumulate = accumulator(out.dtype)
    lanes = host().lanes(accumulate)
    rows_out, channels, n_taps = out.shape[0] // groups, out.shape[1], len(taps)
    _, vectors = last_tile_shape(rows_out, lanes)
    # taps side by side share the cells that a tile reads; those of few channels are one segment
    merges = channels < 3 * weight_tile_rows(channels, vectors)
    order, segments, length = _segments(grid, taps, channels, merges)
    tile = WeightTile(accumulate, weight_tile_rows(length, vectors), vectors)
    blocks = groups * -(-rows_out // tile.columns)
    sums = builder.temp(blocks * n_taps * channels * tile.columns * accumulate.itemsize)
    n_tiles = -(-length // tile.rows) * len(segments)
    parts = min(-(-WEIGHT_ITEMS_PER_WORKER * n_workers() // blocks), n_tiles)
    moved = tuple(s * step for s, step in zip((1, *stride), grid.steps, strict=True))
    words = [
        grid.buffer, grad.buffer, sums, parts, blocks // groups, chunk_lines(shape, accumulate),
        images, channels, rows_out, len(segments), length, *shape, *moved, *grad.steps,
        grad.distance(first), *segments,
    ]  # fmt: skip
    builder.launch(
        last_by_weight_kernel(tile), words, blocks * parts, reads=[grid.buffer, grad.buffer],
        writes=[sums], flops=2.0 * images * out.size * math.prod(shape),
        nbytes=float(grid.buffer.nbytes + grad.buffer.nbytes), name="convolution_by_weight",
    )  # fmt: skip
    part = -(-channels // min(-(-ITEMS_PER_WORKER * n_workers() // blocks), channels))
    ranks = [order.index(tap) for tap in taps]
    builder.launch(
        unpack_kernel(accumulate, from_dtype(out.dtype), tile.columns),
        [sums, out, blocks // groups, rows_out, channels, n_taps, part, *ranks],
        blocks * -(-channels // part), reads=[sums], writes=[out.buffer],
        nbytes=2.0 * sums.nbytes, name="convolution_last_unpack",
    )  # fmt: skip
