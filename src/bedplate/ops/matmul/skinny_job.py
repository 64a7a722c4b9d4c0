"""What both orders of skinny.py share: a's copy, the sums, and how they are stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from bedplate.kernel import (
    Value,
    cast,
    gather,
    i64,
    iota,
    load,
    loop,
    minimum,
    ptr,
    splat,
    store,
    tail_mask,
    u32,
    when,
    zeros,
)
from bedplate.ops.matmul.task import Item, Variant, apply_epilogue
from bedplate.ops.matmul.words import from_memory, joined

LINE_BYTES = 64


class Job(ABC):
    """One item under trace: `width` columns from `first` on, of which `valid` exist.

    block    elements of a row of a that its copy keeps together
    sums     one row for each row of a, `stride` apart
    copy     a, if it was copied
    each     k's of one step: two if they go in pairs
    """

    def __init__(
        self, variant: Variant, item: Item, lanes: int, first: Value, width: Value, block: int
    ) -> None:
        self.variant, self.item, self.lanes = variant, item, lanes
        self.first, self.width, self.block = first, width, block
        self.valid = minimum(item.columns - first, width)
        # one line more than the width: rows a power of two apart would meet in the first cache
        self.sums, self.stride = item.scratch, width + lanes
        self.copy = cast(self.sums + item.rows * self.stride, ptr(variant.packed))
        self.b = item.b + first * item.b_column
        self.each = variant.each

    @abstractmethod
    def multiply(self) -> None:
        """Add all products to the sums."""

    def prepare(self) -> None:
        """Before `multiply`: the sums are zeros, and a lies where it is wanted."""
        if self.variant.copy_a:
            self._copy_a()
        for n in loop(0, self.item.rows * self.stride, self.lanes):
            store(self.sums + n, zeros(self.variant.accumulate, self.lanes))

    def _copy_a(self) -> None:
        """Put a into scratch memory in the accumulator type, as `_a_at` reads it.

        The elements that one step needs lie together: read where they are, as many streams as
        there are rows come from the second cache or the third (48 x 4096 x 4096: 10.6 ms).
        """
        item, lanes = self.item, self.lanes
        if self.variant.pairs:
            self._copy_pairs_of_a()
            return
        places = iota(i64, lanes) * item.a_k
        for i in loop(item.rows):
            for k in loop(0, item.depth, lanes):
                mask = tail_mask(item.depth - k, lanes)
                there = item.a + i * item.a_row + k * item.a_k
                if self.variant.a_layout == "along":
                    row = load(there, lanes, mask=mask)
                else:
                    row = gather(there, places, mask)
                store(self.a_at(i, k), cast(row, self.variant.accumulate))

    def _copy_pairs_of_a(self) -> None:
        """As `_copy_a`, two k's in a word."""
        item, lanes = self.item, self.lanes
        whole = item.depth // 2
        apart = iota(i64, lanes) * (item.a_k * 2)
        for i in loop(item.rows):
            row = item.a + i * item.a_row
            for k in loop(0, item.words, lanes):
                mask = tail_mask(whole - k, lanes)
                if self.variant.a_layout == "along":
                    words = load(cast(row + k * 2, ptr(u32)), lanes, mask=mask)
                    words = from_memory(words, self.variant.a)
                else:
                    there = row + k * 2 * item.a_k
                    words = joined(
                        [gather(there + item.a_k * n, apart, mask) for n in range(2)], u32
                    )
                store(self.a_at(i, k), words)
            with when(item.depth % 2 == 1):
                last = load(row + (item.depth - 1) * item.a_k)
                store(self.a_at(i, whole), joined([last], u32))

    def a_at(self, i: Any, k: Value) -> Value:
        """Where a[i, k] is, and behind it the following elements of the step."""
        if not self.variant.copy_a:
            return self.item.a + i * self.item.a_row + k
        turn = k % self.block
        return self.copy + ((k - turn) * self.item.rows + i * self.block + turn)

    def accumulate(self, k: Value, column: Value, rows_of_b: list[list[Value]]) -> None:
        """sums[i, column ...] += a[i, k + n] * rows_of_b[n], in the order of n, for all i."""
        for i in range(1) if self.variant.one_row else loop(self.item.rows):
            at = self.sums + i * self.stride + column
            starts = [at + v * self.lanes for v in range(len(rows_of_b[0]))]
            totals = [load(start, self.lanes) for start in starts]
            totals = self.chains(self.a_at(i, k), rows_of_b, totals)
            for start, total in zip(starts, totals, strict=True):
                store(start, total)

    def chains(
        self, factors: Value, rows_of_b: list[list[Value]], totals: list[Value]
    ) -> list[Value]:
        """totals + factors[n] * rows_of_b[n], in the order of n."""
        for n, row in enumerate(rows_of_b):
            factor = splat(load(factors + n), self.lanes)
            totals = [
                self.variant.multiply_add(factor, b, c) for b, c in zip(row, totals, strict=True)
            ]
        return totals

    def finish(self, emit: Callable[..., Any] | None) -> None:
        """Store the sums: through the epilogue, or cast."""
        item, lanes = self.item, self.lanes
        if self.variant.swapped and emit is not None:
            self._finish_column(emit)
            return
        for i in loop(item.rows):
            for column in loop(0, self.valid, lanes):
                at = self.first + column
                mask = tail_mask(item.columns - at, lanes)
                value = load(self.sums + i * self.stride + column, lanes)
                value = apply_epilogue(
                    self.variant, emit, item.args, item.batch, i, at, value, mask
                )
                store(item.c + i * item.columns + at, value, mask=mask)

    def _finish_column(self, emit: Callable[..., Any]) -> None:
        """The sums stand below each other in c, so the epilogue takes them one by one."""
        item = self.item
        for n in loop(self.valid):
            row = self.first + n
            value = load(self.sums + n)
            value = apply_epilogue(
                self.variant, emit, item.args, item.batch, row, row * 0, value, None
            )
            store(item.c + row, value)
