"""How a product is computed: which kernel, what is packed, how the work is cut into items.

| product                                | kernel                                          |
|----------------------------------------|-------------------------------------------------|
| up to 48 rows                          | matmul_skinny: b is read once, where it lies    |
| small, wide enough elements            | matmul_tiled: a (and b's rows) read in place    |
| all else                               | matmul_pack packs a for all workers, then       |
|                                        | matmul_tiled, whose items pack their part of b  |

The choice never changes a result; see matmul_tiled.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from bedplate.devices.cpu.workers import n_workers
from bedplate.kernel import Kernel
from bedplate.ops import matmul_pack, matmul_skinny, matmul_tiled
from bedplate.ops.matmul_problem import Problem, make_problem
from bedplate.ops.matmul_tiled import Variant
from bedplate.ops.matmul_tiles import Tiles, accumulator, element, tiles

# A packed copy of a is made for at most this much at a time, so that it needs no second a.
PACKED_BYTES = 64 << 20
# An item should be worth handing out (about 4 us), and there should be a few for each worker.
ITEM_FLOPS = 1e6
ITEMS_PER_WORKER = 4
# Up to so many multiply-adds nothing is copied: the operands stay in the second cache anyway.
SMALL = 200**3
# A packed copy of a pays if it is read for more panels of b than this: 4096 x 512 x 512 makes
# 249 GFLOP/s without and 228 with it, 2048 x 2048 x 2048 220 without and 240 with it.
PANELS = 16

_kernels: dict[Any, Kernel] = {}


def kernel_for(key: Any, make: Callable[[], Kernel]) -> Kernel:
    """The kernel of a variant and an epilogue, made once."""
    found = _kernels.get(key)
    if found is None:
        found = _kernels.setdefault(key, make())
    return found


def lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter the launches of a product; see compiler/builder.py for what the arguments are."""
    a, b = inputs
    (out,) = outputs
    problem = make_problem(a, b, out)
    if not problem.n_products * problem.rows * problem.columns:
        return
    if problem.columns == 1 and problem.rows > 1 and is_readable(problem.swapped()):
        _lower_skinny(builder, problem, problem.swapped(), b, a, out, epilogue)
    elif problem.rows <= matmul_skinny.MAX_ROWS and is_readable(problem):
        _lower_skinny(builder, problem, problem, a, b, out, epilogue)
    else:
        _lower_tiled(builder, problem, a, b, out, epilogue)


def is_readable(problem: Problem) -> bool:
    """Whether matmul_skinny can read b: neighbours in memory are neighbours in b."""
    return 1 in (problem.b_k, problem.b_column) or 1 in (problem.columns, problem.depth)


def _lower_skinny(
    builder: Any, whole: Problem, problem: Problem, a: Any, b: Any, out: Any, epilogue: Any
) -> None:
    """Enter the launch for `problem`, which is `whole` or `whole` with a and b exchanged."""
    accumulate = accumulator(a.dtype)
    cut = tiles(accumulate)
    a_type, b_type, out_type = (element(view.dtype) for view in (a, b, out))
    across = problem.b_column == 1 or problem.columns == 1
    copy_a = a_type is not accumulate
    variant = Variant(
        a_type, b_type, accumulate, out_type, False, "across" if across else "along",
        len(problem.batch), whole.is_split and epilogue is not None, True, copy_a, True,
        problem is not whole,
    )  # fmt: skip
    size = accumulate.itemsize
    unit = matmul_skinny.VECTORS * cut.lanes
    most = matmul_skinny.block_columns(problem.rows, cut.lanes, size)
    n_units = -(-problem.columns // unit)
    share = -(-problem.columns * problem.n_products // (ITEMS_PER_WORKER * n_workers()))
    blocks = min(-(-problem.columns // max(min(most, share), unit)), n_units)
    deep = -(-problem.depth // cut.lanes) * cut.lanes if copy_a else 0
    width = -(-n_units // blocks) * unit
    scratch_bytes = -(-problem.rows * (width + deep) * size // 64) * 64
    scratch = builder.scratch(scratch_bytes)
    words = [
        a, b, out, out, scratch, scratch_bytes, problem.rows, problem.columns, problem.depth,
        problem.a_row, problem.a_k, problem.b_k, problem.b_column, 1, blocks, 0, 0, whole.rows,
        whole.one_rows, *(word for dimension in problem.batch for word in dimension),
    ]  # fmt: skip
    emit = None if epilogue is None else epilogue.emit
    builder.launch(
        kernel_for(
            (variant, None if epilogue is None else epilogue.key),
            lambda: matmul_skinny.make_kernel(variant, cut, emit),
        ),
        words + ([] if epilogue is None else list(epilogue.words)),
        problem.n_products * blocks,
        reads=[a.buffer, b.buffer], writes=[out.buffer, scratch], flops=problem.flops,
        nbytes=problem.nbytes(a_type.itemsize, b_type.itemsize, out_type.itemsize),
        name="matmul_skinny",
    )  # fmt: skip


def _lower_tiled(
    builder: Any, problem: Problem, a: Any, b: Any, out: Any, epilogue: Any
) -> None:
    accumulate = accumulator(a.dtype)
    cut = tiles(accumulate)
    if problem.columns <= cut.lanes:
        cut = dataclasses.replace(cut, vectors=1)
    a_type, b_type, out_type = (element(view.dtype) for view in (a, b, out))
    pack_a = a_type is not accumulate or _is_worth_packing_a(problem, cut)
    layout = _layout_of_b(problem, accumulate.itemsize, b_type is accumulate)
    variant = Variant(
        a_type, b_type, accumulate, out_type, pack_a, layout, len(problem.batch),
        problem.is_split and epilogue is not None, epilogue is not None or out_type is not accumulate,
    )  # fmt: skip
    for first_batch, n_batches, first_row, rows in _chunks(problem, cut, pack_a):
        _Chunk(problem, cut, variant, first_batch, n_batches, first_row, rows).launch(
            builder, a, b, out, epilogue
        )


def _is_worth_packing_a(problem: Problem, cut: Tiles) -> bool:
    """Whether a is read often enough to be copied first."""
    size = problem.rows * problem.depth * problem.columns
    return size > SMALL and problem.columns > PANELS * cut.columns


def _layout_of_b(problem: Problem, accumulate_size: int, same_type: bool) -> str:
    """How b is read: "direct", or the layout that it is packed from."""
    is_small = problem.rows * problem.depth * problem.columns <= SMALL
    is_close = problem.b_k * accumulate_size <= 512
    if same_type and problem.b_column == 1 and (is_small or is_close):
        return "direct"
    return matmul_pack.layout(problem.b_column, problem.b_k)


def _chunks(problem: Problem, cut: Tiles, pack_a: bool) -> list[tuple[int, int, int, int]]:
    """(first product, products, first row, rows) of what is done at a time."""
    if not pack_a:
        return [(0, problem.n_products, 0, problem.rows)]
    row_bytes = 8 * max(problem.depth, 1)
    rows = max(PACKED_BYTES // row_bytes // cut.rows, 1) * cut.rows
    if rows >= problem.rows:
        each = max(rows // problem.rows, 1)
        return [
            (first, min(each, problem.n_products - first), 0, problem.rows)
            for first in range(0, problem.n_products, each)
        ]
    return [
        (product, 1, first, min(rows, problem.rows - first))
        for product in range(problem.n_products)
        for first in range(0, problem.rows, rows)
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class _Chunk:
    """A part of the problem: some products, or some rows of one."""

    problem: Problem
    cut: Tiles
    variant: Variant
    first_batch: int
    n_batches: int
    first_row: int
    rows: int

    def launch(self, builder: Any, a: Any, b: Any, out: Any, epilogue: Any) -> None:
        problem, cut, variant = self.problem, self.cut, self.variant
        reads = [b.buffer]
        if variant.a_packed:
            source: Any = self._pack(builder, a)
            reads.append(source)
        else:
            source = moved(a, self.first_row * problem.a_row)
            reads.append(a.buffer)
        place = moved(
            out, (self.first_batch * problem.rows + self.first_row) * problem.columns
        )
        partial, writes = place, [out.buffer]
        if problem.depth > cut.depth and variant.out is not variant.accumulate:
            size = self.n_batches * self.rows * problem.columns * variant.accumulate.itemsize
            partial = builder.temp(size)
            writes.append(partial)
        row_blocks, column_blocks = self._grid()
        scratch_bytes = cut.panels * cut.depth * cut.columns * variant.accumulate.itemsize
        scratch = builder.scratch(scratch_bytes)
        words = [
            source, b, place, partial, scratch, scratch_bytes, self.rows, problem.columns,
            problem.depth, problem.a_row, problem.a_k, problem.b_k, problem.b_column, row_blocks,
            column_blocks, self.first_batch, self.first_row, problem.rows, problem.one_rows,
            *(word for dimension in problem.batch for word in dimension),
        ]  # fmt: skip
        key = (variant, cut, None if epilogue is None else epilogue.key)
        emit = None if epilogue is None else epilogue.emit
        share = self.n_batches * self.rows / (problem.n_products * problem.rows)
        builder.launch(
            kernel_for(key, lambda: matmul_tiled.make_kernel(variant, cut, emit)),
            words + ([] if epilogue is None else list(epilogue.words)),
            self.n_batches * row_blocks * column_blocks,
            reads=reads, writes=[*writes, scratch], flops=problem.flops * share,
            nbytes=share * problem.nbytes(*(t.itemsize for t in (variant.a, variant.b, variant.out))),
            name="matmul",
        )  # fmt: skip

    def _pack(self, builder: Any, a: Any) -> Any:
        """Enter the launch that packs the rows of a; gives the packed copy."""
        problem, cut, variant = self.problem, self.cut, self.variant
        deep = -(-problem.depth // cut.lanes) * cut.lanes
        n_tiles = -(-self.rows // cut.rows)
        size = self.n_batches * n_tiles * cut.rows * deep * variant.accumulate.itemsize
        packed = builder.temp(size)
        kind = matmul_pack.layout(problem.a_row, problem.a_k)
        kernel = matmul_pack.pack_kernel(
            kind, variant.a, variant.accumulate, cut.rows, cut.lanes, variant.rank
        )
        words = [
            a, packed, self.rows, problem.depth, problem.a_row, problem.a_k, n_tiles,
            cut.rows * deep, self.first_row, self.first_batch,
            *(word for size, stride, _ in problem.batch for word in (size, stride)),
        ]  # fmt: skip
        n_elements = self.n_batches * self.rows * problem.depth
        builder.launch(
            kernel, words, matmul_pack.n_pack_items(n_tiles, self.n_batches), reads=[a.buffer],
            writes=[packed],
            nbytes=size + n_elements * variant.a.itemsize, name="matmul_pack",
        )  # fmt: skip
        return packed

    def _grid(self) -> tuple[int, int]:
        """Into how many blocks of rows and of columns each product is cut."""
        problem, cut = self.problem, self.cut
        n_tiles = -(-self.rows // cut.rows)
        n_panels = -(-problem.columns // cut.columns)
        flops = 2.0 * self.rows * problem.columns * max(problem.depth, 1)
        wanted = min(ITEMS_PER_WORKER * n_workers() / self.n_batches, flops / ITEM_FLOPS)
        # Cutting columns costs little; each block of rows packs b again, or reads it at least.
        # What that leaves undivided may be cut as far as it goes, if it is much.
        columns = min(max(math.ceil(wanted), 1), max(n_panels // 4, 1))
        tiles_of_block = 2 if self.variant.b_layout == "direct" else 8
        rows = min(max(math.ceil(wanted / columns), 1), max(n_tiles // tiles_of_block, 1))
        if rows * columns < n_workers():
            columns = max(min(math.ceil(wanted / rows), n_panels), 1)
        return rows, columns


def moved(view: Any, elements: int) -> Any:
    """The view, starting `elements` further."""
    return dataclasses.replace(view, offset=view.offset + elements) if elements else view
