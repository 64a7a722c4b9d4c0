"""Lower a fused group: its program, the words that fill it in, and its launches.

Needs final groups; enters one launch for the group, and one more for the results that come
in parts (sums over rows, and over rows too long for one item).
"""

from __future__ import annotations

import math
from typing import Any

from bedplate.compiler.access import numel
from bedplate.compiler.builder import BufferRef, scratch_bytes
from bedplate.compiler.combine import combine_kernel
from bedplate.compiler.fused_kernel import fused_kernel
from bedplate.compiler.groups import Group
from bedplate.compiler.layout import LayoutBuilder, Strides
from bedplate.compiler.program import (
    FULL,
    ITEM,
    ROW,
    STRIDED,
    Apply,
    CheckedIndex,
    Load,
    Number,
    Pattern,
    Program,
    Reduce,
    Store,
    stage_plans,
)
from bedplate.compiler.program_builder import ITEM_ELEMENTS
from bedplate.compiler.reductions import BLOCK
from bedplate.compiler.uses import AccessUse, Context, Region
from bedplate.errors import InternalError
from bedplate.graph.node import Node
from bedplate.kernel import f32, host

COLUMN_CHUNK = 4096  # columns whose running sums stay in the first cache
TOUCHING = 1 << 14  # elements above which memory in use counts for more than such waits
ONE_PART_CHUNK = 1024  # of rows in one part, which only columns share out among the workers


def lower_fused(group: Group, context: Context) -> None:
    """Enter the launches of a group."""
    FusedLowering(group, context).launch()


def lower_region(region: Region, context: Context, shared: bool) -> None:
    """Enter the launch that copies a value to its region of an assembled one."""
    builder = FusedLowering(Group("fused", numel(region.source)), context)
    builder.region = region
    launched = len(context.builder.launches)
    builder.launch()
    for launch in context.builder.launches[launched:]:
        launch.shared = shared


class FusedLowering(LayoutBuilder):
    """Enters the launches of one group."""

    def launch(self) -> None:
        """Enter the launch, and those that combine partial results."""
        if self.group.total == 0:
            return
        layout = self.build()
        program, row_sizes, col_sizes = layout.program, layout.row_sizes, layout.col_sizes
        if program.tiled:
            self.tile_rows = row_sizes[-1]
            row_sizes[-1] = -(-self.tile_rows // host().lanes(f32))
        n_rows = math.prod(row_sizes)
        self._inner_columns = math.prod(col_sizes)
        rows_per_item = self._rows_per_item()
        items = -(-n_rows // rows_per_item)
        words: list[Any] = [n_rows, rows_per_item]
        n_chunks = 1
        if program.chunked:
            chunk = self._chunk(col_sizes)
            n_chunks = -(-col_sizes[-1] // chunk)
            words += [chunk, n_chunks]
        if program.column:
            parts = self._n_parts()
            words += [self._reduced_rows(), parts]
            items = n_rows // self._reduced_rows() * parts
        items *= n_chunks
        words += [*row_sizes, *col_sizes]
        if program.tiled:
            words.append(self.tile_rows)
        for use, pattern, stride in zip(self.uses, program.patterns, layout.strides, strict=True):
            words += self._access_words(use, pattern, stride)
        for i, value in enumerate(program.values):
            if isinstance(value, Number | CheckedIndex):
                words += self.words[i]
        self._enter(program, words, items)

    def _chunk(self, col_sizes: list[int]) -> int:
        if self.group.split:
            return BLOCK
        if len(col_sizes) > 1:
            return col_sizes[-1]
        if self.column:
            return COLUMN_CHUNK if self._n_parts() > 1 else ONE_PART_CHUNK
        return ITEM_ELEMENTS

    def _access_words(self, use: AccessUse, pattern: Pattern, stride: Strides) -> list[Any]:
        words: list[Any] = [self._start(use)]
        if pattern.level >= ROW:
            words += stride[0]
        if pattern.level == FULL:
            words += stride[1][:-1]
            if pattern.inner in STRIDED:
                words.append(stride[1][-1])
        return words + use.extra

    def _enter(self, program: Program, words: list[Any], items: int) -> None:
        builder = self.context.builder
        reads = [self._buffer(use) for use in self.uses if not use.written and use.base is not None]
        writes = [self._buffer(use) for use in self.uses if use.written]
        for i in program.scratch:
            itemsize = program.values[i].dtype.itemsize
            step = scratch_bytes(self.cols * itemsize)
            buffer = builder.scratch(step)
            words += [buffer, step // itemsize]
            writes.append(buffer)
        if any(isinstance(v, CheckedIndex) for v in program.values):
            words.append(builder.error_record)
        nbytes = sum(moved_bytes(use) for use in self.uses)
        launch = builder.launch(
            fused_kernel(program), words, items, reads=reads, writes=writes,
            flops=float(self._flops(program)), nbytes=float(nbytes), name=program.name,
        )  # fmt: skip
        launch.in_place = self._in_place(program)
        launch.checks = any(isinstance(v, CheckedIndex) for v in program.values)
        launch.shared = bool(self.group.regions)
        for node, parts, partial in self.combines:
            self._combine(node, parts, partial)

    def _flops(self, program: Program) -> int:
        """One for each op at each element; an op on rows is done once a row."""
        total, counted = self.group.total, {ITEM: 1, ROW: self.rows, FULL: self.group.total}
        flops = 0
        for value, level in zip(program.values, program.levels, strict=True):
            if isinstance(value, Reduce):
                flops += total
            elif isinstance(value, Apply):
                flops += counted[level]
        return flops

    def _in_place(self, program: Program) -> list[tuple[BufferRef, BufferRef]]:
        """Results that may lie over an input: same elements, written after its last reading."""
        if self._rows_touch():
            return []
        last: dict[int, int] = {}
        for stage, plan in enumerate(stage_plans(program)):
            for i in plan.compute:
                last[i] = stage
        reads: dict[int, list[int]] = {}
        for i, value in enumerate(program.values):
            if isinstance(value, Load):
                reads.setdefault(id(self.uses[value.access].base), []).append(i)
        pairs = []
        for entry in program.stores:
            target = self.uses[entry.access]
            if target.buffer is not None or program.patterns[entry.access].level != FULL:
                continue
            for loads in reads.values():
                if all(self._same_place(program, i, target, last, entry) for i in loads):
                    source = self.uses[program.values[loads[0]].access]  # type: ignore[union-attr]
                    pairs.append((self._buffer(source), self._buffer(target)))
        return pairs

    def _rows_touch(self) -> bool:
        """Whether most of a row's time would be waiting for the row before, were it in place.

        The masked store at the end of a row and the load at the start of the next one have bytes
        in common for the processor, which waits until the store is in the cache: softmax with
        cross-entropy of 32 rows of 10 takes 2.2 us in place, 1.5 beside.
        """
        lanes = host().lanes(f32)
        narrow = self.group.rows is not None and self.cols % lanes and self.cols < 4 * lanes
        return bool(narrow) and self.group.total <= TOUCHING

    def _same_place(
        self, program: Program, i: int, target: AccessUse, last: dict[int, int], entry: Store
    ) -> bool:
        value = program.values[i]
        if not isinstance(value, Load) or value.index is not None:
            return False
        use = self.uses[value.access]
        # a region of the target may be as large as what it is read from, and lie elsewhere
        same = use.dims == target.dims and use.offset == target.offset == 0
        same = same and use.itemsize == target.itemsize
        return same and last.get(i, -1) <= program.stages[entry.value]

    def _combine(self, node: Node, parts: int, partial: BufferRef) -> None:
        value = self.values[self.ids[node]]
        if not isinstance(value, Reduce):
            raise InternalError("only reductions leave partial results")
        outer = numel(node) // self.cols if value.kind == "column" else numel(node)
        columns = self.cols if value.kind == "column" else 1
        target = self.context.buffer_of(node)
        kernel, chunk = combine_kernel(value.op, value.dtype, value.accumulate)
        chunks = -(-columns // chunk)
        self.context.builder.launch(
            kernel, [partial, target, parts, columns, chunks], outer * chunks, reads=[partial],
            writes=[target], flops=float(outer * columns * parts),
            nbytes=float(partial.nbytes + target.nbytes), name=f"combine_{value.op.name}",
        )  # fmt: skip


def moved_bytes(use: AccessUse) -> int:
    """What an access reads or writes, each element once; a take reads what it chooses."""
    if use.extra and not use.written:
        return use.size * use.itemsize
    return math.prod(size for size, stride in use.dims if stride) * use.itemsize
