"""emit: the kernel of a fused program.

The plain loop nest that it computes:

    for item in begin..end:                    a block of rows (and a chunk of the columns)
        for row in the block:
            row values of stage 0
            for stage in stages:
                for column in columns:         vectors of `lanes`, `unroll` at a time, masked tail
                    values of the stage, accumulate reductions, store results
                row values that follow from the reductions
            store row results

All argument words are read once, before the loops. Values of a row that do not change along
it are computed once a row, numbers once a launch.
"""

from __future__ import annotations

from typing import Any

from bedplate.compiler.cost import register_type
from bedplate.compiler.emit_columns import ColumnEmitter
from bedplate.compiler.emit_words import apply_op, least, moved
from bedplate.compiler.program import (
    FULL,
    ITEM,
    ROW,
    Apply,
    CheckedIndex,
    Load,
    Position,
    Program,
    Reduce,
    Store,
)
from bedplate.compiler.reductions import accumulator_type, initial_value
from bedplate.kernel import (
    cast,
    constant,
    i64,
    kernel,
    load,
    loop,
    ptr,
    quotient,
    select,
    store,
    tail_mask,
    var,
    while_,
)


def make_kernel(program: Program, emitter: type[Emitter]) -> Any:
    """The kernel of a program; its name says what it does."""

    def fused(args: ptr(i64), begin: i64, end: i64, worker: i64) -> None:
        emitter(program, args, worker).run(begin, end)

    fused.__name__ = fused.__qualname__ = program.name
    fused.__annotations__ = {"args": ptr(i64), "begin": i64, "end": i64, "worker": i64}
    return kernel(fused)


class Emitter(ColumnEmitter):
    """Emits one fused kernel; see the head of this file."""

    def run(self, begin: Any, end: Any) -> None:
        """Emit the loop over items."""
        pointers = {i: a.start for i, a in enumerate(self.access) if a.pattern.level == ITEM}
        self._scalars(ITEM, 0, pointers, self.env)
        if self._is_copy():
            # an update in place copies the old value over itself first
            source, target = (cast(access.start, i64) for access in self.access)
            end = select(source == target, begin, end)
        for item in loop(begin, end):
            self._item(item)

    def _is_copy(self) -> bool:
        """Whether the program does nothing but copy elements to places of the same pattern."""
        program = self.program
        alone = len(program.values) == 1 and isinstance(program.values[0], Load)
        return alone and len(program.patterns) == 2 and len(set(program.patterns)) == 1

    def _item(self, item: Any) -> None:
        program = self.program
        self.item, self.block = item, item
        first, last = constant(i64, 0), self.col_sizes[-1]
        if program.chunked:
            self.block = quotient(item, self.n_chunks)
            first = (item - self.block * self.n_chunks) * self.chunk
            last = least(first + self.chunk, last)
        self.columns = (first, last)
        row_first, row_last = self._rows_of_block()
        if program.column:
            self._clear_partials()
        starts = {i: access.start for i, access in enumerate(self.access)}
        if program.n_row_dims == 0:
            self._row(constant(i64, 0), starts, constant(i64, 0))
        elif program.n_row_dims == 1:
            for row in loop(row_first, row_last):
                self._row(row, starts, row)
        else:
            self._runs(row_first, row_last, starts)

    def _rows_of_block(self) -> tuple[Any, Any]:
        if self.program.column:
            outer = quotient(self.block, self.parts)
            base = outer * self.reduced_rows
            first = base + (self.block - outer * self.parts) * self.rows_per_item
            return first, least(first + self.rows_per_item, base + self.reduced_rows)
        first = self.block * self.rows_per_item
        return first, least(first + self.rows_per_item, self.n_rows)

    def _runs(self, first: Any, last: Any, starts: dict[int, Any]) -> None:
        """Rows of several axes: runs along the innermost, counters for the others."""
        length = self.row_sizes[-1]
        above = quotient(first, length)
        place, row = var(first - above * length), var(first)
        cells = self._decoded(above)
        for _ in while_(lambda: row.get() < last):
            begin, here = place.get(), row.get()
            count = least(length - begin, last - here)
            outer = [cell.get() for cell in cells]
            bases = {
                i: moved(start, self.access[i].row_strides[:-1], outer)
                for i, start in starts.items()
            }
            for index in loop(begin, begin + count):
                self._row(here + (index - begin), bases, index)
            place.set(constant(i64, 0))
            row.set(here + count)
            self._count_on(cells)

    def _decoded(self, number: Any) -> list[Any]:
        """Counters of the outer row axes that stand at a number."""
        cells, rest = [], number
        for size in reversed(self.row_sizes[1:-1]):
            above = quotient(rest, size)
            cells.insert(0, var(rest - above * size))
            rest = above
        return [var(rest), *cells]

    def _count_on(self, cells: list[Any]) -> None:
        carry = constant(i64, 1)
        for cell, size in zip(reversed(cells), reversed(self.row_sizes[:-1]), strict=True):
            following = cell.get() + carry
            wrapped = following == size
            cell.set(select(wrapped, constant(i64, 0), following))
            carry = select(wrapped, constant(i64, 1), constant(i64, 0))

    def _clear_partials(self) -> None:
        for i, value in enumerate(self.program.values):
            if isinstance(value, Reduce) and value.kind == "column":
                words = self.access[self._partial_access(i)]
                start = words.start + self.block * words.extra[0]
                zero = constant(accumulator_type(value), initial_value(value), self.lanes)
                flat = self.program.n_col_dims == 1
                first, last = self.columns if flat else (0, words.extra[0])
                for column in loop(first, last, self.lanes):
                    store(start + column, zero, tail_mask(last - column, self.lanes))

    # rows

    def _row(self, row: Any, bases: dict[int, Any], index: Any) -> None:
        """One row: number `row`, at `index` along the innermost row axis."""
        self.row = row
        pointers = self._in_rows(bases, index)
        env = dict(self.env)
        for stage, plan in enumerate(self.plans):
            self._scalars(ROW, stage, pointers, env)
            if not plan.empty:
                self._stage(plan, pointers, env)
        for entry in self.program.stores:
            if self._is_row_store(entry):
                self._store_row(entry, pointers, env)

    def _in_rows(self, bases: dict[int, Any], index: Any) -> dict[int, Any]:
        """The starts of all accesses at an index along the innermost row axis."""
        return {
            i: moved(base, self.access[i].row_strides[-1:], [index]) for i, base in bases.items()
        }

    def _is_row_store(self, entry: Store) -> bool:
        value = self.program.values[entry.value]
        if isinstance(value, Reduce) and value.kind != "row":
            return value.kind == "split"
        return self.program.patterns[entry.access].level != FULL

    def _store_row(self, entry: Store, pointers: dict[int, Any], env: dict[int, Any]) -> None:
        value = self.program.values[entry.value]
        target = pointers[entry.access]
        if isinstance(value, Reduce) and value.kind == "split":
            chunk = self.item - self.block * self.n_chunks
            store(target + (self.row * self.n_chunks + chunk), env[entry.value])
        else:
            store(target, env[entry.value])

    def _scalars(
        self, level: int, stage: int, pointers: dict[int, Any], env: dict[int, Any]
    ) -> None:
        """Emit the values of a level and stage that are one for a row, or one for all."""
        program = self.program
        for i, value in enumerate(program.values):
            if program.levels[i] != level or program.stages[i] != stage or i in env:
                continue
            if isinstance(value, Load):
                pointer = pointers[value.access]
                if value.index is not None:
                    pointer = pointer + env[value.index] * self.access[value.access].extra[0]
                env[i] = load(pointer)
            elif isinstance(value, Position):
                env[i] = cast(pointers[value.access], register_type(value.dtype))
            elif isinstance(value, Apply):
                env[i] = apply_op(value, [env[j] for j in value.inputs])
            elif isinstance(value, CheckedIndex):
                env[i] = self._checked(i, env[value.source], None)
