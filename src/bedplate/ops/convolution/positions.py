"""How convolutions are computed whose vectors run over positions: a padded copy of the input.

The kernels: tiles.py and weight.py, of packing tiles_pack.py.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from bedplate.devices.cpu.caches import cache_bytes
from bedplate.devices.cpu.workers import n_workers
from bedplate.kernel import from_dtype, host
from bedplate.ops.convolution.geometry import Shape3, Target, Weights
from bedplate.ops.convolution.reach import Triple, WindowSum
from bedplate.ops.convolution.tile import Tile
from bedplate.ops.convolution.tiles import WORDS, tile_kernel, tile_shape
from bedplate.ops.convolution.tiles_pack import GRID_WORDS, WEIGHT_WORDS, grid_kernel, weight_kernel
from bedplate.ops.convolution.weight import WORDS as BY_WEIGHT_WORDS
from bedplate.ops.convolution.weight import by_weight_kernel, tile_of
from bedplate.ops.convolution.windows import lifted
from bedplate.ops.matmul.tiles import accumulator

# Both were measured by `python -m benchmarks.convolutions positions`, on two cores of a Zen 4.
# So many that all workers end at about the same time: alone 2 to 32 are within 1 %.
ITEMS_PER_WORKER = 8
# Vectors over the whole grid divide to find their places, and store lane by lane: about so many
# multiply-adds they must save, each. 4 groups of 8 channels out of 3 x 3 on 7 x 7, row by row and
# over the grid: of 4 channels in (which save 216 each) 42 and 54 us, of 16 (864) 104 and 98, of 32
# (1728) 146 and 124, of 64 296 and 224.
FLAT_COST = 800
# 32-bit distances in the kernels
LONGEST = 2**31 - 2**16
ONES = (1, 1, 1)


@dataclass(frozen=True, slots=True)
class Grid:
    """A packed input: `phases` x `cells` elements a channel, `plane` in all.

    before   zeros before the first element along each axis
    stride   of the phases
    """

    buffer: Any
    phases: Triple
    cells: Triple
    before: Triple
    stride: Triple

    @property
    def plane(self) -> int:
        return math.prod(self.phases) * math.prod(self.cells)

    def distance(self, element: Triple) -> int:
        """How far into a plane an element of the input is, which may be one of the zeros."""
        phase, cell = 0, 0
        for axis, step in enumerate(self.stride):
            place = element[axis] + self.before[axis]
            phase = phase * self.phases[axis] + place % step
            cell = cell * self.cells[axis] + place // step
        return phase * math.prod(self.cells) + cell


def _pack_grid(
    builder: Any, x: Any, before: Triple, stride: Triple, phases: Triple, cells: Triple
) -> Grid:
    """Enter the launch that makes the grid of x."""
    accumulate = accumulator(x.dtype)
    images, channels = x.shape[:2]
    grid = Grid(None, phases, cells, before, stride)
    # a vector may reach past the last plane
    slack = 4 * host().lanes(accumulate)
    nbytes = (images * channels * grid.plane + slack) * accumulate.itemsize
    buffer = builder.temp(nbytes)
    words = GRID_WORDS.values(
        source=x, to=buffer, channels=channels, stride_n=x.strides[0], stride_c=x.strides[1],
        stride=lifted(x.strides[2:], 0), size=lifted(x.shape[2:], 1), cells=cells, apart=stride,
        before=before, phases=phases,
    )  # fmt: skip
    builder.launch(
        grid_kernel(from_dtype(x.dtype), accumulate), words, images * channels, reads=[x.buffer],
        writes=[buffer], nbytes=2.0 * nbytes, name="convolution_grid",
    )  # fmt: skip
    return dataclasses.replace(grid, buffer=buffer)


def grid_of_input(builder: Any, x: Any, shape: Shape3) -> Grid:
    """The grid that the outputs of a convolution meet."""
    reach = [(k - 1) * d for k, d in zip(shape.window, shape.dilation, strict=True)]
    phases = tuple(
        max(k * d % s for k in range(size)) + 1
        for size, d, s in zip(shape.window, shape.dilation, shape.stride, strict=True)
    )
    cells = tuple(o + r // s for o, r, s in zip(shape.out, reach, shape.stride, strict=True))
    return _pack_grid(builder, x, shape.before, shape.stride, phases, cells)


def grid_of_gradient(builder: Any, grad: Any, sums: list[WindowSum]) -> Grid:
    """The grid that all phases of the input meet."""
    lows, highs = [], []
    for axes in zip(*(of.axes for of in sums), strict=True):
        ends = [(a.first, a.first + (len(a.taps) - 1) * a.step) for a in axes if a.taps] or [(0, 0)]
        lows.append(min(low for low, _ in ends))
        highs.append(max(high for _, high in ends) + max(axis.out for axis in axes))
    cells = tuple(high - low for low, high in zip(lows, highs, strict=True))
    return _pack_grid(builder, grad, tuple(-low for low in lows), ONES, ONES, cells)


def _reach_words(grid: Grid, of: WindowSum) -> list[int]:
    """The words of the taps: their distances in the grid, and the elements that output 0 meets."""
    places = of.places()
    return [*map(grid.distance, places), *(each for place in places for each in place)]


def _pack_weights(
    builder: Any, weights: Weights, taps: list[Triple], rows: int, groups: int
) -> Any:
    """Enter the packing of the weights in blocks of rows; gives the packed ones."""
    accumulate = accumulator(weights.view.dtype)
    n_blocks = -(-weights.rows // rows)
    count = groups * n_blocks * rows * weights.channels * len(taps)
    packed = builder.temp(max(count, 1) * accumulate.itemsize)
    words = WEIGHT_WORDS.values(
        source=weights.view, to=packed, n_blocks=n_blocks, out_channels=weights.rows,
        channels=weights.channels, taps=len(taps), stride_group=weights.group_stride,
        stride_row=weights.row_stride, stride_c=weights.channel_stride,
    )  # fmt: skip
    builder.launch(
        weight_kernel(from_dtype(weights.view.dtype), accumulate, rows),
        words + [weights.source(tap) for tap in taps], groups * n_blocks * weights.channels,
        reads=[weights.view.buffer], writes=[packed], nbytes=2.0 * packed.nbytes,
        name="convolution_weight_pack",
    )  # fmt: skip
    return packed


def enter_positions(
    builder: Any, grid: Grid, weights: Weights, of: WindowSum, target: Target, groups: int
) -> None:
    """Enter the packing of the weights, and the tiles."""
    view, taps = target.view, of.taps()
    rows, vectors = tile_shape(weights.rows)
    tile = Tile(accumulator(view.dtype), from_dtype(view.dtype), rows, vectors)
    depth = weights.channels * len(taps)
    form, n_vectors = _store_of(grid, target, tile.lanes, depth * rows)
    packed = _pack_weights(builder, weights, taps, rows, groups)
    n_blocks, images, n_tiles = (
        -(-weights.rows // rows), view.shape[0] * groups, -(-n_vectors // vectors)
    )  # fmt: skip
    # a block of weights that does not stay in the second cache is used for several tiles
    tiles = 2 if packed.nbytes // groups <= cache_bytes(2) // 2 else 8
    chunks = -(-n_tiles // tiles)
    cuts = min(max(-(-ITEMS_PER_WORKER * n_workers() // (images * chunks)), 1), n_blocks)
    blocks = -(-n_blocks // cuts)
    words = WORDS.values(
        grid=grid.buffer, weight=packed, to=target.first, n_chunks=chunks, n_blocks=n_blocks,
        blocks=blocks, tiles=tiles, n_vectors=n_vectors, channels=weights.channels,
        n_taps=len(taps), groups=groups, out_channels=weights.rows, plane=grid.plane,
        grid_y=grid.cells[1], grid_x=grid.cells[2], out=of.out, step=target.steps,
        step_channel=view.strides[1], padded=of.is_padded, stride=of.stride, size=of.sizes,
    )  # fmt: skip
    builder.launch(
        tile_kernel(dataclasses.replace(tile, form=form)), words + _reach_words(grid, of),
        images * chunks * -(-n_blocks // blocks), reads=[grid.buffer, packed],
        writes=[view.buffer], flops=2.0 * images * weights.rows * depth * math.prod(of.out),
        nbytes=float(grid.buffer.nbytes + packed.nbytes + view.size * view.dtype.itemsize),
        name="convolution",
    )  # fmt: skip


def _store_of(grid: Grid, target: Target, lanes: int, work: int) -> tuple[str, int]:
    """How vectors run over the outputs, and how many there are.

    work   multiply-adds that one vector takes
    """
    z, y, x = target.sizes
    in_rows = z * y * -(-x // lanes)
    flat = -(-(((z - 1) * grid.cells[1] + y - 1) * grid.cells[2] + x) // lanes)
    reach = sum((n - 1) * step for n, step in zip(target.sizes, target.steps, strict=True))
    saved = (in_rows - flat) * work > flat * FLAT_COST
    if saved and max(reach, grid.plane) < LONGEST:
        return "flat", flat
    return "row" if target.steps[2] == 1 else "spread", in_rows


def by_weight_positions(builder: Any, x: Any, grad: Any, out: Any, shape: Shape3, of: Any) -> None:
    """Enter the packing, and the sums of the gradient by the weights."""
    accumulate = accumulator(x.dtype)
    grid = grid_of_input(builder, x, shape)
    buffer, rows_of = grad.buffer, grad
    if not grad.contiguous or from_dtype(grad.dtype) is not accumulate:
        buffer = rows_of = _pack_grid(builder, grad, (0, 0, 0), ONES, ONES, shape.out).buffer
    tile = tile_of(accumulate, from_dtype(out.dtype))
    out_channels, channels = out.shape[0] // shape.groups, out.shape[1]
    pairs = channels * of.n_taps
    items = shape.groups * -(-out_channels // tile.rows) * -(-pairs // tile.vectors)
    words = BY_WEIGHT_WORDS.values(
        grid=grid.buffer, grad=rows_of, to=out, images=x.shape[0], groups=shape.groups,
        out_channels=out_channels, channels=channels, n_taps=of.n_taps, plane=grid.plane,
        grid_y=grid.cells[1], grid_x=grid.cells[2], out=of.out, padded=of.is_padded,
        stride=of.stride, size=of.sizes,
    )  # fmt: skip
    builder.launch(
        by_weight_kernel(tile), words + _reach_words(grid, of), items,
        reads=[grid.buffer, buffer], writes=[out.buffer],
        flops=2.0 * x.shape[0] * out.size * math.prod(shape.out),
        nbytes=float(grid.buffer.nbytes + grad.size * accumulate.itemsize),
        name="convolution_by_weight",
    )  # fmt: skip
