"""emit_base: what all emissions of a fused kernel begin with: its words, and errors at run time."""

from __future__ import annotations

from typing import Any

from bedplate.compiler.cost import register_type
from bedplate.compiler.emit_words import AccessWords, Words, access_kinds, read_number
from bedplate.compiler.program import (
    FULL,
    UNIT,
    CheckedIndex,
    Load,
    Number,
    Pattern,
    Program,
    StagePlan,
    cost_of,
    stage_plans,
)
from bedplate.devices.cpu.caches import cache_bytes
from bedplate.kernel import (
    any_of,
    cast,
    constant,
    extract,
    f32,
    host,
    i64,
    loop,
    select,
    splat,
    store,
    when,
)

# The stage with most arithmetic asks for the next row, if that takes this part of the second cache
AHEAD = 4


class EmitterBase:
    """The state of an emission: the program, the words, the values made so far.

    columns   (first, last) of the item;  position  columns before the innermost axis
    block     number of the block of rows;  row  number of the row
    """

    def __init__(self, program: Program, args: Any, worker: Any) -> None:
        self.program = program
        self.lanes = host().lanes(f32)  # for all dtypes: a sum has the same tree in every kernel
        self.plans = stage_plans(program)
        self.busiest = max(
            range(len(self.plans)), key=lambda i: self._weight(self.plans[i]) if i else -1
        )
        self.env: dict[int, Any] = {}
        self.item = self.block = self.row = self.position = constant(i64, 0)
        self.columns: tuple[Any, Any] = (self.item, self.item)
        self.scalars: dict[int, Any] = {}
        self._read_words(Words(args), worker)
        self.ahead = self._steps_ahead()

    def _weight(self, plan: StagePlan) -> int:
        """Instructions of a stage for each vector."""
        return sum(cost_of(self.program.values[i], self.program.values) for i in plan.compute)

    def _read_words(self, words: Words, worker: Any) -> None:
        program = self.program
        self.n_rows, self.rows_per_item = words.integer(), words.integer()
        if program.chunked:
            self.chunk, self.n_chunks = words.integer(), words.integer()
        if program.column:
            self.reduced_rows, self.parts = words.integer(), words.integer()
        self.row_sizes = [words.integer() for _ in range(program.n_row_dims)]
        self.col_sizes = [words.integer() for _ in range(program.n_col_dims)]
        if program.tiled:
            self.tile_rows = words.integer()
        self.access = [
            AccessWords(words, program, i, dtype, extra)
            for i, (dtype, extra) in enumerate(access_kinds(program))
        ]
        self._read_numbers(words)
        self.scratch: dict[int, Any] = {}
        for i in program.scratch:
            start = words.pointer(register_type(program.values[i].dtype))
            self.scratch[i] = start + worker * words.integer()
        if any(isinstance(v, CheckedIndex) for v in program.values):
            self.errors = words.pointer(i64)

    def _read_numbers(self, words: Words) -> None:
        self.sizes: dict[int, tuple[Any, Any]] = {}
        for i, value in enumerate(self.program.values):
            if isinstance(value, Number):
                self.env[i] = read_number(value, words)
            elif isinstance(value, CheckedIndex):
                self.sizes[i] = (words.integer(), words.integer())

    def _steps_ahead(self) -> dict[int, Any]:
        """For each access along a row that later stages walk again, how far the next row is.

        0 if a row is so long that the next one would drive it out of the second cache.
        """
        if self.program.n_stages == 1 or self.program.n_row_dims == 0:
            return {}
        steps = {}
        for value in self.program.values:
            if isinstance(value, Load) and value.index is None:
                access = self.access[value.access]
                if access.pattern == Pattern(FULL, UNIT) and self.program.n_col_dims == 1:
                    fits = self.col_sizes[-1] * value.dtype.itemsize <= cache_bytes(2) // AHEAD
                    steps[value.access] = select(fits, access.row_strides[-1], constant(i64, 0))
        return steps

    # run-time errors

    def _checked(self, i: int, index: Any, mask: Any) -> Any:
        """The index wrapped and clamped; what is out of range goes to the error record."""
        size, site = self.sizes[i]
        wide = cast(index, i64)
        wrap = self.program.values[i].wrap  # type: ignore[union-attr] - a value of this kind has it
        if mask is not None or self.program.levels[i] == FULL:
            return self._checked_vector(wide, mask, size, site, wrap)
        wrapped = select(wide < 0, wide + size, wide) if wrap else wide
        outside = (wrapped < 0) | (wrapped >= size)
        with when(outside):
            self._report(site, wide, size)
        return select(outside, constant(i64, 0), wrapped)

    def _checked_vector(self, wide: Any, mask: Any, size: Any, site: Any, wrap: bool) -> Any:
        sizes = splat(size, self.lanes)
        zero = constant(i64, 0, self.lanes)
        wrapped = select(wide < zero, wide + sizes, wide) if wrap else wide
        outside = (wrapped < zero) | (wrapped >= sizes)
        if mask is not None:
            outside = outside & mask
        with when(any_of(outside)):
            for lane in loop(self.lanes):
                with when(extract(outside, lane)):
                    self._report(site, extract(wide, lane), size)
        return select(outside, zero, wrapped)

    def _report(self, site: Any, index: Any, size: Any) -> None:
        store(self.errors + 1, site)
        store(self.errors + 2, index)
        store(self.errors + 3, size)
        store(self.errors, constant(i64, 1))
