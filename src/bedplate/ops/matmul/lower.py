"""How a product is computed: which kernel, what is packed, how the work is cut into items.

| product                                | kernel                                          |
|----------------------------------------|-------------------------------------------------|
| of 16-bit floats, on tensor cores      | matmul_tensor_cores: lower_tensor_cores.py      |
| few rows (is_skinny)                   | matmul_skinny: b is read once, where it lies    |
| one column                             | the same, with a and b exchanged                |
| narrow floats and integers; a read     | matmul_pack packs a for all workers, then       |
| often from a bad place (_layout_of_a)  | matmul_tiled                                    |
| all else                               | matmul_tiled, which reads a where it lies       |

The items of matmul_tiled pack their part of b, or read it where it lies (_layout_of_b).
The choice never changes a result, see tiled.py, but for tensor cores, whose sums have an order of
their own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

from bedplate.devices.cpu.caches import cache_bytes
from bedplate.devices.cpu.workers import n_workers
from bedplate.kernel import Kernel
from bedplate.memory.classes import ALIGNMENT
from bedplate.ops.matmul import pack as matmul_pack
from bedplate.ops.matmul import skinny as matmul_skinny
from bedplate.ops.matmul import tiled as matmul_tiled
from bedplate.ops.matmul.lower_tensor_cores import lower_tensor_cores, on_tensor_cores
from bedplate.ops.matmul.problem import Problem, make_problem
from bedplate.ops.matmul.task import Variant
from bedplate.ops.matmul.tiles import accumulator, element, goes_by_bytes, goes_in_pairs, tiles

# A packed copy of a is made for at most this much at a time, so that it needs no second a.
PACKED_BYTES = 64 << 20
# An item should be worth handing out (about 4 us), and there should be a few for each worker.
ITEM_FLOPS = 1e6
ITEMS_PER_WORKER = 4
# Up to so many multiply-adds nothing is copied: the operands stay in the second cache anyway.
SMALL = 200**3
# A product is cut into columns, so that b is packed once, unless it has so many times more rows:
# then a is the larger, and each worker had better read its own. One block of rows against two, 2
# threads of Zen 4: 1.21 and 1.25 ms at 512 x 512 x 512, 4.08 and 4.25 at 768 x 768 x 768. Not where
# several k's make a step: a is then packed, and what another core packed is slow to read beside so
# short a computation (bfloat16 256 x 256 x 256: 129 against 104 us, int8 512: 399 against 359).
WIDE = 4
# A packed copy of a pays if a is read for more panels of b than this, and if its rows are a
# multiple of CLASH_BYTES apart, so that a tile's rows meet in the same places of the caches, or
# are not contiguous. Else reading it where it is was faster at all sizes that were measured:
# 255 against 248 GFLOP/s at 2000 x 2000 x 2000, but 198 against 245 at 2048.
PANELS = 16
CLASH_BYTES = 4096
# A packed a with so many tiles for each worker is cut so that each reads the tiles that it packed
# (the shares of devices/cpu/native.py): what two cores have read is slow to write again at the next
# call. 1024 x 1024 x 1024, 2 threads of Zen 4, one block of rows against two, medians in turns:
# float32 10.88 and 10.19 ms, bfloat16 5.64 and 5.33, int8 2.82 and 2.55. Below it, packing all of b
# for each block costs as much: 512 x 512 x 512 loses 1 to 2 %.
OWN_TILES = 32
# Rows of b that lie closer than this need no packing: their panels fit the second cache and
# the pages that the processor remembers.
CLOSE_BYTES = 512
# Nor does a b that leaves the second cache room for a's rows: 515 against 604 us at 384 x 384
# x 384, 154 against 166 at 256, but 9.8 against 9.4 ms at 1000 (2 threads of Zen 4, 1 MiB). Not
# where a is transposed: in the gradient of a weight the depth is the rows of a batch, and another
# batch should not need another kernel.
IN_PLACE = 0.75

_kernels: dict[Any, Kernel] = {}


def lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter the launches of a product; see compiler/builder.py for what the arguments are."""
    a, b = inputs
    (out,) = outputs
    problem = make_problem(a, b, out)
    if not problem.n_products * problem.rows * problem.columns:
        return
    if on_tensor_cores(builder, a.dtype):
        lower_tensor_cores(builder, a, b, out, epilogue, problem)
    elif problem.columns == 1 and problem.rows > 1 and is_readable(problem.swapped()):
        _Product(builder, b, a, out, epilogue, problem, problem.swapped()).lower_skinny()
    elif is_readable(problem) and matmul_skinny.is_skinny(
        problem, element(a.dtype).itemsize, goes_in_pairs(a.dtype)
    ):
        _Product(builder, a, b, out, epilogue, problem, problem).lower_skinny()
    else:
        _Product(builder, a, b, out, epilogue, problem, problem).lower_tiled()


def is_readable(problem: Problem) -> bool:
    """Whether matmul_skinny can read b: neighbours in memory are neighbours in b."""
    return 1 in (problem.b_k, problem.b_column) or 1 in (problem.columns, problem.depth)


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """What one launch computes: some products, or some rows of one."""

    first_batch: int
    n_batches: int
    first_row: int
    rows: int


class _Product:
    """One product on its way into a builder.

    whole     the problem as asked for
    problem   the same, or with a and b exchanged (then they are exchanged here too)
    """

    def __init__(
        self, builder: Any, a: Any, b: Any, out: Any, epilogue: Any, whole: Problem,
        problem: Problem,
    ) -> None:  # fmt: skip
        self.builder, self.a, self.b, self.out = builder, a, b, out
        self.epilogue, self.whole, self.problem = epilogue, whole, problem
        self.accumulate = accumulator(a.dtype)
        self.types = tuple(element(view.dtype) for view in (a, b, out))
        self.each = 2 if goes_in_pairs(a.dtype) else 1  # k's of a step
        cut = tiles(self.accumulate)
        self.cut = dataclasses.replace(cut, vectors=1) if problem.columns <= cut.lanes else cut

    @property
    def words(self) -> int:
        """Steps over k."""
        return ceil_divide(self.problem.depth, self.each)

    def lower_skinny(self) -> None:
        problem, size = self.problem, self.accumulate.itemsize
        self.cut = tiles(self.accumulate)
        lanes = self.cut.lanes
        across = problem.b_column == 1 or problem.columns == 1
        # a small a is read where it is: it stays in the first cache
        is_large = (
            problem.rows > matmul_skinny.ROWS_IN_PLACE
            and problem.rows * problem.depth * size > cache_bytes(1) // 4
        )
        copy_a = self.types[0] is not self.accumulate or problem.a_k != 1 or is_large
        a_layout = "along" if problem.a_k == 1 else "other"
        variant = self._variant(a_layout, "across" if across else "along", copy_a=copy_a)
        few_rows = problem.rows <= matmul_skinny.ROWS_IN_PLACE
        variant = dataclasses.replace(variant, few_rows=few_rows)
        blocks = matmul_skinny.n_blocks(problem, lanes, self.types[1].itemsize, n_workers())
        deep = (self.words // 16 + 1) * 16 if copy_a else 0
        width = ceil_divide(ceil_divide(problem.columns, lanes), blocks) * lanes
        part = _Part(0, problem.n_products, 0, problem.rows)
        self._enter(
            matmul_skinny, variant, part, self.a, self.out, (1, blocks),
            problem.rows * (width + lanes + deep) * size, [self.out.buffer],
        )  # fmt: skip

    def lower_tiled(self) -> None:
        if goes_by_bytes(self.a.dtype, self.b.dtype):
            self.each = 4
        problem, cut, size = self.problem, self.cut, self.accumulate.itemsize
        variant = self._variant(self._layout_of_a(), self._layout_of_b())
        for part in self._parts(variant.a_layout == "packed"):
            source = moved(self.a, part.first_row * problem.a_row)
            if variant.a_layout == "packed":
                source = self._pack(variant, part)
            first = (part.first_batch * problem.rows + part.first_row) * problem.columns
            partial, writes = moved(self.out, first), [self.out.buffer]
            if self.words > cut.depth and variant.out is not self.accumulate:
                # between depth blocks the sums rest unrounded
                partial = self.builder.temp(part.n_batches * part.rows * problem.columns * size)
                writes.append(partial)
            # behind the panels, a row of numbers for each (_corrections in tiled.py)
            is_packed = variant.b_layout != "direct" or problem.columns % cut.columns != 0
            deep = min(ceil_divide(self.words, cut.lanes) * cut.lanes, cut.depth) + 1
            scratch_bytes = is_packed * cut.panels * deep * cut.columns * size
            grid = self._grid(part, variant)
            self._enter(matmul_tiled, variant, part, source, partial, grid, scratch_bytes, writes)

    def _variant(self, a_layout: str, b_layout: str, copy_a: bool = False) -> Variant:
        a, b, out = self.types
        has_epilogue = self.epilogue is not None
        return Variant(
            a, b, self.accumulate, out, a_layout, b_layout, len(self.problem.batch),
            self.whole.is_split and has_epilogue, has_epilogue or out is not self.accumulate,
            copy_a, self.problem is not self.whole, self.problem.rows == 1, self.each,
        )  # fmt: skip

    def _enter(
        self, kernels: ModuleType, variant: Variant, part: _Part, source: Any, partial: Any,
        grid: tuple[int, int], scratch_bytes: int, writes: list[Any],
    ) -> None:  # fmt: skip
        """Enter the launch of one part.

        kernels        the module whose kernel it is
        source         a, or its packed copy
        partial        where sums rest between depth blocks
        grid           blocks of rows and of columns of each product
        scratch_bytes  for each worker
        """
        problem, whole, epilogue = self.problem, self.whole, self.epilogue
        scratch_bytes = ceil_divide(scratch_bytes, ALIGNMENT) * ALIGNMENT
        # where nothing is packed none is asked for: 1 MiB of it took longer than 64 x 64 x 64
        scratch = self.builder.scratch(scratch_bytes) if scratch_bytes else self.out.buffer
        first = (part.first_batch * problem.rows + part.first_row) * problem.columns
        words = [
            source, self.b, moved(self.out, first), partial, scratch, scratch_bytes, part.rows,
            problem.columns, problem.depth, problem.a_row, problem.a_k, problem.b_k,
            problem.b_column, *grid, part.first_batch, part.first_row, whole.rows,
            whole.one_rows, *(word for dimension in problem.batch for word in dimension),
        ]  # fmt: skip
        sizes = [type_.itemsize for type_ in self.types]
        share = part.n_batches * part.rows / (problem.n_products * problem.rows)
        self.builder.launch(
            self._kernel(kernels, variant),
            words + ([] if epilogue is None else list(epilogue.words)),
            part.n_batches * grid[0] * grid[1],
            reads=[getattr(source, "buffer", source), self.b.buffer], writes=[*writes, scratch],
            flops=problem.flops * share, nbytes=problem.nbytes(*sizes) * share, name="matmul",
        )  # fmt: skip

    def _kernel(self, kernels: ModuleType, variant: Variant) -> Kernel:
        """The kernel of a variant and an epilogue, made once."""
        cut, epilogue = self.cut, self.epilogue
        key = (kernels.__name__, variant, cut, None if epilogue is None else epilogue.key)
        found = _kernels.get(key)
        if found is None:
            make: Callable[..., Kernel] = kernels.make_kernel
            emit = None if epilogue is None else epilogue.emit
            found = _kernels.setdefault(key, make(variant, cut, emit))
        return found

    def _layout_of_a(self) -> str:
        """How a is read: "packed" if it must be widened, or is read often from a bad place."""
        problem, size = self.problem, self.accumulate.itemsize
        if self.types[0] is not self.accumulate:
            return "packed"
        # a small a is read where it is: it stays in the first cache
        is_large = problem.rows * problem.depth * problem.columns > SMALL
        is_reread = problem.columns > PANELS * self.cut.columns
        is_clashing = problem.a_row * size % CLASH_BYTES == 0
        if is_large and is_reread and (problem.a_k != 1 or is_clashing):
            return "packed"
        return "along" if problem.a_k == 1 else "other"

    def _layout_of_b(self) -> str:
        """How b is read: "direct", or the layout that it is packed from."""
        problem = self.problem
        row_bytes = problem.b_k * self.accumulate.itemsize
        is_small = problem.rows * problem.depth * problem.columns <= SMALL
        leaves_room = problem.depth * row_bytes <= IN_PLACE * cache_bytes(2)
        is_cached = leaves_room and problem.a_k == 1
        is_close = row_bytes <= CLOSE_BYTES or (is_cached and row_bytes % CLASH_BYTES != 0)
        is_whole = self.types[1] is self.accumulate and problem.b_column == 1
        if is_whole and (is_small or is_close):
            return "direct"
        return matmul_pack.layout(problem.b_column, problem.b_k)

    def _parts(self, a_packed: bool) -> list[_Part]:
        """What is done at a time: as much as may be packed at once."""
        problem, cut = self.problem, self.cut
        if not a_packed:
            return [_Part(0, problem.n_products, 0, problem.rows)]
        row_bytes = self.accumulate.itemsize * max(self.words, 1)
        rows = max(PACKED_BYTES // row_bytes // cut.rows, 1) * cut.rows
        if rows >= problem.rows:
            each = max(rows // problem.rows, 1)
            return [
                _Part(first, min(each, problem.n_products - first), 0, problem.rows)
                for first in range(0, problem.n_products, each)
            ]
        return [
            _Part(product, 1, first, min(rows, problem.rows - first))
            for product in range(problem.n_products)
            for first in range(0, problem.rows, rows)
        ]

    def _pack(self, variant: Variant, part: _Part) -> Any:
        """Enter the launch that packs rows of a; gives the packed copy."""
        problem, cut = self.problem, self.cut
        deep = ceil_divide(self.words, cut.lanes) * cut.lanes
        n_tiles = ceil_divide(part.rows, cut.rows)
        size = part.n_batches * n_tiles * cut.rows * deep * self.accumulate.itemsize
        packed = self.builder.temp(size)
        kind = matmul_pack.layout(problem.a_row, problem.a_k)
        words = [
            self.a, packed, part.rows, problem.depth, problem.a_row, problem.a_k, n_tiles,
            cut.rows * deep, part.first_row, part.first_batch,
            *(word for size, stride, _ in problem.batch for word in (size, stride)),
        ]  # fmt: skip
        read_bytes = part.n_batches * part.rows * problem.depth * variant.a.itemsize
        self.builder.launch(
            matmul_pack.pack_kernel(
                kind, variant.a, variant.packed, cut.rows, cut.lanes, variant.rank,
                variant.turned,
            ),
            words, matmul_pack.n_pack_items(n_tiles, part.n_batches), reads=[self.a.buffer],
            writes=[packed], nbytes=size + read_bytes, name="matmul_pack",
        )  # fmt: skip
        return packed

    def _grid(self, part: _Part, variant: Variant) -> tuple[int, int]:
        """Into how many blocks of rows and of columns each product is cut."""
        problem, cut = self.problem, self.cut
        n_tiles = ceil_divide(part.rows, cut.rows)
        n_panels = ceil_divide(problem.columns, cut.columns)
        is_direct, is_packed = variant.b_layout == "direct", variant.a_layout == "packed"
        shares = ceil_divide(n_workers(), part.n_batches)
        own = max(min(shares, n_tiles // OWN_TILES), 1) if is_packed else 1
        wanted = self._wanted_items(part, shares)
        # Cutting columns reads a again; each block of rows packs b again, or reads it at least.
        # What that leaves undivided may be cut as far as it goes.
        is_wide = part.rows <= WIDE * problem.columns and self.each == 1
        panels_of_block = 4 if not is_wide else 1 if is_direct else cut.panels
        columns = min(max(math.ceil(wanted / own), 1), max(n_panels // panels_of_block, 1))
        columns -= columns % shares if columns > shares else 0
        rows = own
        if not is_wide or columns * own < shares:
            most_rows = max(n_tiles // (2 if is_direct else 8), 1)
            rows = min(max(math.ceil(wanted / columns / own), 1) * own, most_rows)
        if rows * columns < n_workers():
            columns = max(min(math.ceil(wanted / rows), n_panels), 1)
        return rows, columns

    def _wanted_items(self, part: _Part, shares: int) -> float:
        """Into how many items each product should be cut: several for each worker, or one."""
        flops = 2.0 * part.rows * self.problem.columns * max(self.problem.depth, 1)
        several, worth = ITEMS_PER_WORKER * n_workers() / part.n_batches, flops / ITEM_FLOPS
        return several if worth >= several else min(worth, shares)


def ceil_divide(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def moved(view: Any, elements: int) -> Any:
    """The view, starting `elements` further."""
    return dataclasses.replace(view, offset=view.offset + elements) if elements else view
