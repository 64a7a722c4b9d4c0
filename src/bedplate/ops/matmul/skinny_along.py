"""The order of skinny.py where columns of b are contiguous: squares, transposed in registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bedplate.devices.cpu.caches import cache_bytes
from bedplate.kernel import (
    Type,
    Value,
    Variable,
    bf16,
    bitcast,
    cast,
    f32,
    gather,
    i64,
    iota,
    load,
    local,
    loop,
    minimum,
    prefetch,
    ptr,
    select,
    splat,
    store,
    tail_mask,
    u16,
    u32,
    var,
    when,
    word_int,
    zeros,
)
from bedplate.ops.matmul.pack import transpose
from bedplate.ops.matmul.skinny_job import LINE_BYTES, Job
from bedplate.ops.matmul.task import B, Item, Variant
from bedplate.ops.matmul.words import from_memory, joined

# How far ahead b is asked for, in bytes along a contiguous column: some KiB in flight for all
# columns of a square. 1024, 1536 and 2048 are equal, 512 is some 5 % slower.
AHEAD_BYTES = 1024
LEAST_ALIGNED_BYTES = 2048  # of a column: in shorter ones, its first k's one by one cost as much


class Along(Job):
    """See `Job`.

    side        elements (or pairs) of a column of b that are transposed at a time
    has_halves  of them each two fill a word, which is transposed as a whole
    """

    def __init__(
        self, variant: Variant, item: Item, lanes: int, first: Value, width: Value
    ) -> None:
        super().__init__(variant, item, lanes, first, width, lanes)
        self.has_halves = variant.b.is_narrow_float and not variant.pairs
        self.side = 2 * lanes if self.has_halves else lanes

    def multiply(self) -> None:
        side, lanes = self.side, self.lanes
        steps, head = self.item.depth // self.each, self._until_aligned()
        whole = head + (steps - head) // side * side
        places = local(i64, lanes)
        for column in loop(0, self.width, lanes):
            # where each column starts; one that does not exist is read as the last one
            for n in loop(lanes):
                store(places + n, minimum(self.valid - 1, column + n) * self.item.b_column)
            total = var(zeros(self.variant.accumulate, lanes)) if self.variant.one_row else None
            for k in loop(head):
                self._accumulate_along(k, column, [[self._gather(k, column)]], total)
            for k in loop(head, whole, side):
                self._ask_ahead(k, column, places)
                columns = [self.b + load(places + n) for n in range(lanes)]
                for at, rows in self._square(k, columns):
                    self._accumulate_along(at, column, rows, total)
            for k in loop(whole, self.item.words):
                self._accumulate_along(k, column, [[self._gather(k, column)]], total)
            if total is not None:
                store(self.sums + column, total.get())

    def _until_aligned(self) -> Value:
        """How many k's come one by one, so that all vectors of b behind them lie in one line each.

        A large array of NumPy begins 16 bytes behind a line, so that each vector of it lies in two:
        1.85 ms at 1 x 4096 x 4096 in float32, 1.25 so, where a read took 1.21.
        """
        depth, step_bytes = self.item.depth, self.variant.b.itemsize * self.each
        if not self.variant.one_row or self.variant.rank:
            return depth * 0
        column_bytes = self.item.b_column * self.variant.b.itemsize
        left = (LINE_BYTES - word_int(self.item.args, B) % LINE_BYTES) % LINE_BYTES
        is_long = depth * self.variant.b.itemsize >= LEAST_ALIGNED_BYTES
        is_worth = (column_bytes % LINE_BYTES == 0) & is_long
        return select(is_worth & (left % step_bytes == 0), left // step_bytes, 0)

    def _accumulate_along(
        self, k: Value, column: Value, rows_of_b: list[list[Value]], total: Variable | None
    ) -> None:
        """As `_accumulate`; the sums of one row stay in a register.

        Its chain of additions is what bounds the kernel where b comes from a cache: in memory, each
        square waited 10 cycles longer.
        """
        if total is None:
            self.accumulate(k, column, rows_of_b)
        else:
            (value,) = self.chains(self.a_at(0, k), rows_of_b, [total.get()])
            total.set(value)

    def _ask_ahead(self, k: Value, column: Value, places: Value) -> None:
        """Ask for b some way ahead: if columns lie one behind the other, in the order of memory.

        Asked in that order, memory answers faster than by a line of each column in turn: 1 x 4096 x
        4096 in bfloat16 46 against 35 GB/s where a read gave 29, 61 against 50 where it gave 58.
        """
        depth, itemsize = self.item.depth, self.variant.b.itemsize
        is_small = depth * (self.lanes * itemsize) <= cache_bytes(2) // 2
        in_order = (self.item.b_column == depth) & is_small
        with when(in_order):
            self._ask_in_order(k, column)
        with when(~in_order | (column == 0)):
            self._ask_by_column(k, places)

    def _ask_in_order(self, k: Value, column: Value) -> None:
        """Ask for as much of the next columns as is used of these at k."""
        lanes, each = self.lanes, self.each
        there = self.b + (column + lanes) * self.item.b_column + k * (each * lanes)
        for at in range(0, self.side * each * lanes, LINE_BYTES // self.variant.b.itemsize):
            prefetch(there + at, locality=2)

    def _ask_by_column(self, k: Value, places: Value) -> None:
        """Ask for each column AHEAD_BYTES from k: beyond its end, for the beginning of a later one.

        Columns of a few KiB end soon: unasked, the beginnings of the next took a fifth of the
        time of 1 x 1024 x 2816 in bfloat16.
        """
        depth = self.item.depth
        ahead = minimum(depth, AHEAD_BYTES // self.variant.b.itemsize)
        next_columns = self.lanes * self.item.b_column - depth
        ahead = ahead + select(k * self.each + ahead < depth, depth * 0, next_columns)
        for n in range(self.lanes):
            prefetch(self.b + load(places + n) + (k * self.each + ahead), locality=2)

    def _square(self, k: Value, columns: list[Value]) -> Iterator[tuple[Value, Any]]:
        """Rows of b from where its columns start, as (k, rows from there on).

        Pairs of 16-bit floats are transposed as if they were words: half the work an element. One
        row of a takes a few rows of b at once, while the others are transposed; more rows of a
        take all, as their sums are loaded and stored each time.
        """
        lanes, source = self.lanes, self.variant.b
        there = [column + k * self.each for column in columns]
        type_ = self.variant.packed
        if source.is_narrow_float:
            type_, there = u32, [cast(at, ptr(u32)) for at in there]
        most = lanes // 2 if self.has_halves else lanes
        most = max(lanes // 4, 1) if self.variant.one_row else most
        vectors = transpose([cast(load(at, lanes), type_) for at in there])
        first = 0
        for n in range(0, lanes, most):
            rows = self._rows(vectors[n : n + most])
            yield k + first, [[row] for row in rows]
            first += len(rows)

    def _rows(self, vectors: list[Value]) -> list[Value]:
        """The rows of b, or pairs of them, that transposed vectors hold."""
        if self.variant.pairs:
            return [from_memory(words, self.variant.b) for words in vectors]
        if self.has_halves:
            return [row for words in vectors for row in _pair(words, self.variant.b)]
        return vectors

    def _gather(self, k: Value, column: Value) -> Value:
        """`lanes` elements of row k of b, or of a pair of rows, which lie apart."""
        places = iota(i64, self.lanes) * self.item.b_column
        mask = tail_mask(self.valid - column, self.lanes)
        there = self.b + column * self.item.b_column + k * self.each
        rows = [gather(there, places, mask)]
        if self.variant.pairs:
            mask = mask & splat(k * 2 + 1 < self.item.depth, self.lanes)
            rows.append(gather(there + 1, places, mask))
        return joined(rows, self.variant.packed)


def _pair(words: Value, source: Type) -> tuple[Value, Value]:
    """The two floats of 16 bits that each word holds, the one that stands first first, as f32."""
    if source is bf16:
        return bitcast(words << 16, f32), bitcast(words & 0xFFFF0000, f32)
    low, high = (bitcast(cast(half, u16), source) for half in (words, words >> 16))
    return cast(low, f32), cast(high, f32)
