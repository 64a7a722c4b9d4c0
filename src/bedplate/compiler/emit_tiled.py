"""emit_tiled: a fused kernel that reads some inputs across their rows.

Where a result is walked along an axis on which an input jumps, while the input has its
neighbours on the result's next axis, reading vector by vector would gather from as many cache
lines as there are lanes. Instead a tile of lanes x lanes is read by rows of the input,
transposed in registers (log2(lanes) rounds of shuffles), and the rest of the program runs on
the tile's rows:

    for tile of rows:
        for block of columns:
            load `lanes` vectors along the rows, transpose
            for row in tile: the other values; store

The last loop is unrolled if little is computed; else the tile is kept in memory meanwhile, and its
rows are walked: gammaln unrolled for 16 rows, with and without masks, compiled for 2.3 s.

Each load and store is a whole vector: a cache line of float32 on AVX-512.
"""

from __future__ import annotations

from typing import Any

from bedplate.compiler.emit import Emitter
from bedplate.compiler.emit_words import least
from bedplate.compiler.program import FULL, TRANSPOSED, Load, cost_of
from bedplate.kernel import (
    constant,
    i64,
    load,
    local,
    loop,
    prefetch,
    select,
    shuffle,
    store,
    tail_mask,
    when,
)

# Instructions of a row up to which its code stands there for each row of the tile. Unrolled, the
# loads of a row overtake the stores of the one before: gelu(x.T) + y of 2048 x 2048 takes 1.9 ms,
# in a loop 3.0. What computes more than this waits for arithmetic, not for memory.
UNROLLED = 64


class TiledEmitter(Emitter):
    """Emits a tiled kernel: its innermost row axis counts tiles of `lanes` rows."""

    def _row(self, row: Any, bases: dict[int, Any], index: Any) -> None:
        first = index * self.lanes
        valid = least(self.tile_rows - first, constant(i64, self.lanes))
        pointers = self._in_rows(bases, first)
        (plan,) = self.plans
        env = self._splats(plan, dict(self.env))
        begin, end = self.columns
        middle = end - ((end - begin) & (self.lanes - 1))
        whole = select(valid == self.lanes, middle, begin)  # up to here no lane is left out
        for column in loop(begin, whole, self.lanes):
            self._tile(plan, column, None, None, pointers, env)
        for column in loop(whole, end, self.lanes):
            self._tile(plan, column, end, valid, pointers, env)

    def _tile(
        self, plan: Any, column: Any, end: Any, valid: Any, pointers: dict[int, Any], env: Any
    ) -> None:
        """One tile; end and valid are None if no row and no column is left out."""
        turned = {
            i: self._transposed(self.program.values[i], column, end, valid, pointers)
            for i in plan.compute
            if self._is_turned(i)
        }
        mask = None if end is None else tail_mask(end - column, self.lanes)
        if self._is_long(plan):
            kept = {i: _kept(rows, self.lanes) for i, rows in turned.items()}
            for r in loop(self.lanes if valid is None else valid):
                here = {i: self._in_row(i, pointer, r) for i, pointer in pointers.items()}
                rows = {i: load(tile + r * self.lanes, self.lanes) for i, tile in kept.items()}
                self._tile_row(plan, env | rows, column, mask, here)
            return
        for r in range(self.lanes):
            here = {i: self._in_row(i, pointer, r) for i, pointer in pointers.items()}
            values = env | {i: rows[r] for i, rows in turned.items()}
            if valid is None:
                self._tile_row(plan, values, column, mask, here)
            else:
                with when(valid > r):
                    self._tile_row(plan, values, column, mask, here)

    def _is_long(self, plan: Any) -> bool:
        """Whether a row takes so many instructions that its code should stand there once."""
        values = self.program.values
        return sum(cost_of(values[i], values) for i in plan.compute) > UNROLLED

    def _in_row(self, i: int, pointer: Any, r: Any) -> Any:
        strides = self.access[i].row_strides
        first = isinstance(r, int) and r == 0
        return pointer if first or not strides else pointer + strides[-1] * r

    def _tile_row(
        self, plan: Any, values: dict[int, Any], column: Any, mask: Any, here: dict[int, Any]
    ) -> None:
        for i in plan.compute:
            if not self._is_turned(i):
                values[i] = self._full(i, values, column, mask, here)
        for entry in plan.stores:
            self._store(entry, values[entry.value], column, mask, here[entry.access])

    def _is_turned(self, i: int) -> bool:
        value = self.program.values[i]
        return (
            isinstance(value, Load)
            and self.program.levels[i] == FULL
            and self.program.patterns[value.access].inner == TRANSPOSED
        )

    def _transposed(
        self, value: Any, column: Any, end: Any, valid: Any, pointers: dict[int, Any]
    ) -> list[Any]:
        """The tile's rows: vectors along the columns."""
        stride = self.access[value.access].inner
        vectors = []
        for c in range(self.lanes):
            here = column + c
            mask = None
            if end is not None:
                rows = select(here < end, valid, constant(i64, 0))
                mask = tail_mask(rows, self.lanes)
            elif self.program.stream:
                # lines so far apart make no pattern that the processor sees: 4096 x 4096 takes
                # 4.3 ms so, 5.4 otherwise; what the caches hold needs no asking
                prefetch(pointers[value.access] + (here + self.lanes) * stride)
            vectors.append(load(pointers[value.access] + here * stride, self.lanes, mask))
        return transposed(vectors, self.lanes)


def _kept(rows: list[Any], lanes: int) -> Any:
    """A tile in memory, row behind row."""
    tile = local(rows[0].type.scalar, lanes * lanes)
    for r, row in enumerate(rows):
        store(tile + r * lanes, row)
    return tile


def transposed(vectors: list[Any], lanes: int) -> list[Any]:
    """A square of vectors turned: lane i of vector j becomes lane j of vector i.

    In round k (1, 2, 4, ...) blocks of k x k lanes change places.
    """
    block = 1
    while block < lanes:
        vectors = _exchanged(vectors, lanes, block)
        block *= 2
    return vectors


def _exchanged(vectors: list[Any], lanes: int, block: int) -> list[Any]:
    low = [i if not i & block else i - block + lanes for i in range(lanes)]
    high = [i + block if not i & block else i + lanes for i in range(lanes)]
    result = list(vectors)
    for i in range(lanes):
        if not i & block:
            a, b = vectors[i], vectors[i + block]
            result[i] = shuffle(a, b, low)
            result[i + block] = shuffle(a, b, high)
    return result
