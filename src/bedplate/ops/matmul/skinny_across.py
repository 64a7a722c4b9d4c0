"""The order of skinny.py where rows of b are contiguous: some of them at a time, all columns."""

from __future__ import annotations

from typing import Any

from bedplate.kernel import Value, cast, host, load, loop, prefetch, tail_mask, when
from bedplate.ops.matmul.skinny_job import LINE_BYTES, Job
from bedplate.ops.matmul.task import Item, Variant
from bedplate.ops.matmul.words import interleaved


def rows_at_a_time() -> int:
    """How many rows of b stay in registers, one vector of each, while all rows of a use them.

    Half of the registers: the other half is for sums and for what is computed ahead. A sum is
    then loaded and stored once for 16 (AVX2: 8) multiply-adds.
    """
    return 16 if host().vector_bits != 256 else 8


def step_across(variant: Variant) -> tuple[int, int]:
    """(rows of b, or pairs of them, that are added to the sums at a time; vectors of each).

    Few rows of a leave the registers to b: half as many rows of it, in longer pieces. GB/s, 2
    threads of Zen 4; in brackets 16 rows x 1 vector (8 pairs x 2):

    | product         | read | float32        | float64        | bfloat16        |
    |-----------------|------|----------------|----------------|-----------------|
    | 1 x 4096 x 4096 | 33   | 8 x 4: 43 (34) | 8 x 4: 35 (34) | 4 x 4: 71 (54)  |
    | 4 x 4096 x 4096 | 54   | 8 x 2: 38 (26) | 8 x 2: 40 (24) | 4 x 4: 57 (29)  |
    | 8 x 4096 x 4096 | 54   | 8 x 2: 35 (39) |                | 4 x 4: 21 (23)  |

    (Above a read: the third cache keeps a part of b between calls. Float64 is 2048 deep at 4 rows.)
    """
    rows = rows_at_a_time()
    if variant.pairs:
        return (rows // 4, 4) if variant.few_rows else (rows // 2, 2)
    if variant.one_row:
        return rows // 2, 4
    return (rows // 2, 2) if variant.few_rows else (rows, 1)


class Across(Job):
    """See `Job`.

    step     rows of b, or pairs of them, that are added to the sums at a time
    vectors  of each of them
    """

    def __init__(
        self, variant: Variant, item: Item, lanes: int, first: Value, width: Value
    ) -> None:
        super().__init__(variant, item, lanes, first, width, rows_at_a_time())
        self.step, self.vectors = step_across(variant)

    def multiply(self) -> None:
        depth, step = self.item.depth // self.each, self.step
        whole = depth // step * step
        for k in loop(0, whole, step):
            self._step_across(k, step)
        for k in loop(whole, depth):
            self._step_across(k, 1)
        if self.variant.pairs:
            with when(depth < self.item.words):
                self._step_across(depth, 1, is_single=True)

    def _step_across(self, k: Value, step: int, is_single: bool = False) -> None:
        """All columns of the block for `step` rows of b; or pairs of rows, the last single."""
        parts = range(1 if is_single else self.each)
        rows = [
            [self.b + ((k + n) * self.each + m) * self.item.b_k for m in parts] for n in range(step)
        ]
        unit = self.vectors * self.lanes
        whole = self.valid // unit * unit
        for column in loop(0, whole, unit):
            self._prefetch_rows(k, column, step)
            self.accumulate(k, column, [self._load_row(row, column, unit) for row in rows])
        # what is left in smaller steps: a row of sums has room for one vector behind its end
        wide = self.lanes * self.each
        for column in loop(whole, self.valid, wide):
            mask = tail_mask(self.valid - column, wide)
            self.accumulate(k, column, [self._load_row(row, column, wide, mask) for row in rows])

    def _load_row(
        self, row: list[Value], column: Value, count: int, mask: Any = None
    ) -> list[Value]:
        """Vectors of `count` elements of one row of b, or of the two that make a pair."""
        wide, vectors = self.lanes * self.each, []
        for first in range(0, count, wide):
            values = [load(at + (column + first), wide, mask=mask) for at in row]
            if self.variant.pairs:
                vectors += interleaved(values)
            else:
                vectors.append(cast(values[0], self.variant.accumulate))
        return vectors

    def _prefetch_rows(self, k: Value, column: Value, step: int) -> None:
        """Ask for a longer piece of one of the rows that come next, of each in turn.

        Into the second cache: the same columns of many rows may all fall into one place of the
        first. Measured at 1 x 4096 x 4096, 2 threads of Zen 4: 1.80 ms; 1.95 where each step
        asks for its own columns of all rows, 2.15 if into the first cache, 2.05 unasked.
        """
        unit, line = self.vectors * self.lanes, LINE_BYTES // self.variant.b.itemsize
        turn = column // unit % step
        for n in range(self.each):
            row = self.b + ((k + step + turn) * self.each + n) * self.item.b_k
            for at in range(0, step * unit, line):
                prefetch(row + (column - turn * unit) + at, locality=2)
