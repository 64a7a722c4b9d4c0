"""How a convolution is computed: what is packed, where taps lie, how the work is cut into items.

| op                      | launches                                                             |
|-------------------------|----------------------------------------------------------------------|
| convolution             | grid of x, weights, tiles                                            |
| convolution_by_input    | grid of grad; for each phase of the strides its taps, its tiles      |
| convolution_by_weight   | grid of x, grad if it must be widened or gathered, tiles of (o, c t) |

One and two dimensions run as three, with leading sizes of 1.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from typing import Any

from bedplate.devices.cpu.caches import cache_bytes
from bedplate.devices.cpu.workers import n_workers
from bedplate.kernel import from_dtype, host
from bedplate.ops.convolution.depthwise import enter_depthwise, enter_depthwise_by_weight, fits
from bedplate.ops.convolution.last import (
    LEAST_DEPTH,
    LastGrid,
    by_weight_last,
    enter_last,
    pack_last,
    pays,
    shared_pack,
)
from bedplate.ops.convolution.tiles import Tile, grid_kernel, tile_kernel, tile_shape, weight_kernel
from bedplate.ops.convolution.weight import by_weight_kernel, tile_of
from bedplate.ops.convolution.windows import lifted
from bedplate.ops.matmul.tiles import accumulator

Triple = tuple[int, ...]
ITEMS_PER_WORKER = 8
# Vectors over the whole grid divide to find their places, and store lane by lane: about so many
# multiply-adds they must save, each.
FLAT_COST = 2000
# 32-bit distances in the kernels
LONGEST = 2**31 - 2**16


@dataclass(frozen=True, slots=True)
class Shape3:
    """A convolution in three dimensions."""

    space: Triple
    window: Triple
    out: Triple
    stride: Triple
    before: Triple
    dilation: Triple
    groups: int


def shape_of(space: Any, window: Any, out: Any, attributes: Any) -> Shape3:
    """The geometry of a convolution from its sizes and attributes."""
    before = tuple(low for low, _ in attributes["padding"])
    return Shape3(
        lifted(space, 1), lifted(window, 1), lifted(out, 1), lifted(attributes["stride"], 1),
        lifted(before, 0), lifted(attributes["dilation"], 1), attributes["groups"],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grid:
    """A packed input: `phases` x `cells` elements a channel, `plane` in all."""

    buffer: Any
    phases: Triple
    cells: Triple

    @property
    def plane(self) -> int:
        return math.prod(self.phases) * math.prod(self.cells)

    def distance(self, place: Triple, stride: Triple) -> int:
        """How far into a plane the element `place` (counted in elements of the input) is."""
        phase, cell = 0, 0
        for axis in range(3):
            phase = phase * self.phases[axis] + place[axis] % stride[axis]
            cell = cell * self.cells[axis] + place[axis] // stride[axis]
        return phase * math.prod(self.cells) + cell


def _pack_grid(
    builder: Any, x: Any, before: Triple, stride: Triple, phases: Triple, cells: Triple
) -> Grid:
    """Enter the launch that makes the grid of x."""
    accumulate = accumulator(x.dtype)
    images, channels = x.shape[:2]
    grid = Grid(None, phases, cells)
    # a vector may reach past the last plane
    slack = 4 * host().lanes(accumulate)
    nbytes = (images * channels * grid.plane + slack) * accumulate.itemsize
    buffer = builder.temp(nbytes)
    words = [
        x, buffer, channels, *x.strides[:2], *lifted(x.strides[2:], 0), *lifted(x.shape[2:], 1),
        *cells, *stride, *before, *phases,
    ]  # fmt: skip
    builder.launch(
        grid_kernel(from_dtype(x.dtype), accumulate), words, images * channels, reads=[x.buffer],
        writes=[buffer], nbytes=2.0 * nbytes, name="convolution_grid",
    )  # fmt: skip
    return dataclasses.replace(grid, buffer=buffer)


def _grid_of_input(builder: Any, x: Any, shape: Shape3) -> Grid:
    reach = [(k - 1) * d for k, d in zip(shape.window, shape.dilation, strict=True)]
    phases = tuple(
        max(k * d % s for k in range(size)) + 1
        for size, d, s in zip(shape.window, shape.dilation, shape.stride, strict=True)
    )
    cells = tuple(o + r // s for o, r, s in zip(shape.out, reach, shape.stride, strict=True))
    return _pack_grid(builder, x, shape.before, shape.stride, phases, cells)


def _taps(shape: Shape3) -> list[Triple]:
    """The places in the window, row by row."""
    return list(itertools.product(*(range(size) for size in shape.window)))


def _times(a: Triple, b: Triple) -> Triple:
    return tuple(x * y for x, y in zip(a, b, strict=True))


def _cells(shape: Shape3) -> Triple:
    """How many elements of the padded input the windows reach along each axis."""
    sizes = zip(shape.out, shape.stride, shape.window, shape.dilation, strict=True)
    return tuple((o - 1) * s + (k - 1) * d + 1 for o, s, k, d in sizes)


def _tap_distances(grid: Grid, shape: Shape3) -> list[int]:
    return [
        grid.distance(tuple(k * d for k, d in zip(tap, shape.dilation, strict=True)), shape.stride)
        for tap in _taps(shape)
    ]


@dataclass(frozen=True, slots=True)
class Weights:
    """How weights are read: rows are output channels of a group, channels its input channels."""

    view: Any
    rows: int
    channels: int
    group_stride: int
    row_stride: int
    channel_stride: int

    def source(self, tap: Triple) -> int:
        """The distance of a tap from the first."""
        steps = lifted(self.view.strides[2:], 0)
        return sum(k * step for k, step in zip(tap, steps, strict=True))


@dataclass(frozen=True, slots=True)
class Target:
    """Where outputs go: counts and distances along z, y, x from `start` on in each channel."""

    view: Any
    start: int
    sizes: Triple
    steps: Triple

    @property
    def first(self) -> Any:
        """The view from the first output on."""
        return dataclasses.replace(self.view, offset=self.view.offset + self.start)


def _multiplier(weight: Any, shape: Shape3) -> int:
    """Output channels of a group, if it has one input channel; else 0."""
    return weight.shape[0] // shape.groups if weight.shape[1] == 1 else 0


def lower_forward(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter the launches of a convolution."""
    (x, w), (out,) = inputs, outputs
    if not out.size:
        return
    shape = shape_of(x.shape[2:], w.shape[2:], out.shape[2:], node.attributes)
    if fits(shape, _multiplier(w, shape), x):
        enter_depthwise(builder, x, w, out, shape, flipped=False)
        return
    rows = w.shape[0] // shape.groups
    weights = Weights(
        w, rows, w.shape[1], rows * w.strides[0], w.strides[0], w.strides[1]
    )  # fmt: skip
    target = Target(out, 0, shape.out, lifted(out.strides[2:], 0))
    if pays(rows, weights.channels * math.prod(shape.window), accumulator(x.dtype)):
        pairs = [(tap, _times(tap, shape.dilation)) for tap in _taps(shape)]
        last = pack_last(builder, x, shape.before, _cells(shape))
        enter_last(builder, last, weights, pairs, shape.stride, target, shape.groups)
        return
    grid = _grid_of_input(builder, x, shape)
    _enter(builder, grid, weights, _taps(shape), _tap_distances(grid, shape), target, shape.groups)


def lower_by_input(
    builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None
) -> None:
    """Enter the launches of the gradient by the input: one set for each phase of the strides."""
    (grad, w), (out,) = inputs, outputs
    if not out.size:
        return
    shape = shape_of(out.shape[2:], w.shape[2:], grad.shape[2:], node.attributes)
    if fits(shape, _multiplier(w, shape), grad):
        enter_depthwise(builder, grad, w, out, shape, flipped=True)
        return
    reached, before, cells = _reach_of_input(shape)
    inner = w.shape[0] // shape.groups
    weights = Weights(w, w.shape[1], inner, inner * w.strides[0], w.strides[1], w.strides[0])
    fewest = inner * math.prod(min(map(len, taps)) for taps in reached)
    if pays(weights.rows, fewest, accumulator(grad.dtype)):
        grid = shared_pack(builder, grad, before, cells)
    else:
        grid = _pack_grid(builder, grad, before, (1, 1, 1), (1, 1, 1), cells)
    steps = lifted(out.strides[2:], 0)
    for phase in itertools.product(*(range(s) for s in shape.stride)):
        sizes = tuple(
            -(-(size - p) // s) for size, p, s in zip(shape.space, phase, shape.stride, strict=True)
        )
        if min(sizes) < 1:
            continue
        parts = list(itertools.product(*(reached[axis][phase[axis]] for axis in range(3))))
        taps = [tuple(k for k, _ in part) for part in parts]
        places = [tuple(e + b for (_, e), b in zip(part, before, strict=True)) for part in parts]
        start = sum(p * step for p, step in zip(phase, steps, strict=True))
        apart = tuple(s * step for s, step in zip(shape.stride, steps, strict=True))
        target = Target(out, start, sizes, apart)
        if isinstance(grid, LastGrid):
            pairs = list(zip(taps, places, strict=True))
            enter_last(builder, grid, weights, pairs, (1, 1, 1), target, shape.groups)
        else:
            distances = [grid.distance(place, (1, 1, 1)) for place in places]
            _enter(builder, grid, weights, taps, distances, target, shape.groups)


def _reach_of_input(shape: Shape3) -> tuple[list[Any], Triple, Triple]:
    """(taps that reach each phase of each axis, zeros before the gradient, its cells with them)."""
    reached = [[_reached(shape, axis, phase) for phase in range(shape.stride[axis])]
               for axis in range(3)]  # fmt: skip
    ends = [_ends(shape, axis, reached[axis]) for axis in range(3)]
    return reached, tuple(-low for low, _ in ends), tuple(high - low for low, high in ends)


def _cells_of_grad(shape: Shape3) -> tuple[Triple, Triple]:
    """(zeros before, cells) as the gradient by the input has them, if all of grad is there."""
    _, before, cells = _reach_of_input(shape)
    sizes = zip(before, shape.out, cells, strict=True)
    if all(low >= 0 and low + size <= room for low, size, room in sizes):
        return before, cells
    return (0, 0, 0), shape.out


def _reached(shape: Shape3, axis: int, phase: int) -> list[tuple[int, int]]:
    """[(tap, distance of its grad from the input's cell)] of the inputs of a phase."""
    stride, from_edge = shape.stride[axis], phase + shape.before[axis]
    places = [(k, from_edge - k * shape.dilation[axis]) for k in range(shape.window[axis])]
    return [(k, place // stride) for k, place in places if place % stride == 0]


def _ends(shape: Shape3, axis: int, reached: list[list[tuple[int, int]]]) -> tuple[int, int]:
    """The first and the last place of grad that is read along an axis, half-open."""
    distances = [e for taps in reached for _, e in taps] or [0]
    cells = -(-shape.space[axis] // shape.stride[axis])
    return min(distances), max(distances) + cells


def _enter(
    builder: Any, grid: Grid, weights: Weights, taps: list[Triple], distances: list[int],
    target: Target, groups: int,
) -> None:  # fmt: skip
    """Enter the packing of the weights, and the tiles."""
    view = target.view
    accumulate = accumulator(view.dtype)
    rows, vectors = tile_shape(weights.rows)
    tile = Tile(accumulate, from_dtype(view.dtype), rows, vectors, "row")
    depth = weights.channels * len(taps)
    store, n_vectors = _store_of(grid, target, tile.lanes, depth * rows)
    tile = dataclasses.replace(tile, store=store)
    n_blocks = -(-weights.rows // rows)
    packed = builder.temp(max(groups * n_blocks * rows * depth, 1) * accumulate.itemsize)
    builder.launch(
        weight_kernel(from_dtype(weights.view.dtype), accumulate, rows),
        [weights.view, packed, n_blocks, weights.rows, weights.channels, len(taps),
         weights.group_stride, weights.row_stride, weights.channel_stride,
         *(weights.source(tap) for tap in taps)],
        groups * n_blocks * weights.channels, reads=[weights.view.buffer], writes=[packed],
        nbytes=2.0 * packed.nbytes, name="convolution_weight_pack",
    )  # fmt: skip
    images = view.shape[0] * groups
    n_tiles = -(-n_vectors // vectors)
    # a block of weights that does not stay in the second cache is used for several tiles
    tiles = 2 if packed.nbytes // groups <= cache_bytes(2) // 2 else 8
    chunks = -(-n_tiles // tiles)
    cuts = min(max(-(-ITEMS_PER_WORKER * n_workers() // (images * chunks)), 1), n_blocks)
    blocks = -(-n_blocks // cuts)
    words = [
        grid.buffer, packed, dataclasses.replace(view, offset=view.offset + target.start), chunks,
        n_blocks, blocks, tiles, n_vectors, weights.channels, len(taps), groups, weights.rows,
        grid.plane, *grid.cells[1:], *target.sizes, *target.steps, view.strides[1], *distances,
    ]  # fmt: skip
    positions = math.prod(target.sizes)
    builder.launch(
        tile_kernel(tile), words, images * chunks * -(-n_blocks // blocks),
        reads=[grid.buffer, packed], writes=[view.buffer],
        flops=2.0 * images * weights.rows * depth * positions,
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


def lower_by_weight(
    builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None
) -> None:
    """Enter the launches of the gradient by the weights."""
    (x, grad), (out,) = inputs, outputs
    if not out.size:
        return
    shape = shape_of(x.shape[2:], out.shape[2:], grad.shape[2:], node.attributes)
    if fits(shape, _multiplier(out, shape), x, grad):
        enter_depthwise_by_weight(builder, x, grad, out, shape)
        return
    accumulate = accumulator(x.dtype)
    # without images there is no chunk, and the sums would not be set
    if x.shape[0] and pays(out.shape[0] // shape.groups, LEAST_DEPTH, accumulate):
        pairs = [(tap, _times(tap, shape.dilation)) for tap in _taps(shape)]
        cells = pack_last(builder, x, shape.before, _cells(shape))
        before, room = _cells_of_grad(shape)
        grads = shared_pack(builder, grad, before, room)
        sizes = x.shape[0], shape.out, shape.stride, before
        by_weight_last(builder, cells, grads, out, pairs, sizes, shape.groups)
        return
    grid = _grid_of_input(builder, x, shape)
    rows_of = grad.buffer, grad
    if not grad.contiguous or from_dtype(grad.dtype) is not accumulate:
        copy = _pack_grid(builder, grad, (0, 0, 0), (1, 1, 1), (1, 1, 1), shape.out)
        rows_of = copy.buffer, copy.buffer
    rows, pairs = tile_of()
    distances = _tap_distances(grid, shape)
    out_channels, channels = out.shape[0] // shape.groups, out.shape[1]
    items = shape.groups * -(-out_channels // rows) * -(-channels * len(distances) // pairs)
    words = [
        grid.buffer, rows_of[1], out, x.shape[0], shape.groups, out_channels, channels,
        len(distances), grid.plane, *grid.cells[1:], *shape.out, *distances,
    ]  # fmt: skip
    positions = math.prod(shape.out)
    builder.launch(
        by_weight_kernel(accumulate, from_dtype(out.dtype)), words, items,
        reads=[grid.buffer, rows_of[0]], writes=[out.buffer],
        flops=2.0 * x.shape[0] * out.size * positions,
        nbytes=float(grid.buffer.nbytes + grad.size * accumulate.itemsize),
        name="convolution_by_weight",
    )  # fmt: skip
