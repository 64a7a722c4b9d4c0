"""Products with few rows: b is read once, in the order in which it lies in memory.

    c[i, j] = sum over k of a[i, k] * b[k, j]       up to MAX_ROWS rows i

The plain loop nest; `sums` has one row of accumulators for each i, in the caches:

    for block in columns by a share for each worker:  an item
        for k in depth by step:                       "across": rows of b are contiguous
            for j in block by lanes:
                for i in rows:
                    sums[i, j] += a[i, k] * b[k, j] + ... + a[i, k + step - 1] * b[k + step - 1, j]

    for block in columns by a share for each worker:  "along": columns of b are contiguous
        for j in block by lanes:
            for k in depth by lanes:
                square = transpose(b[k : k + lanes, j : j + lanes])      in registers
                for i in rows:
                    sums[i, j] += a[i, k] * square[0] + ... + a[i, k + lanes - 1] * square[-1]

Packing would read b once more and write it; here it is the only traffic that counts. In both
orders each output is one chain over k = 0, 1, 2 ..., as in tiled.py, so a row has the
same bits here and there. b in another layout is left to matmul_tiled.

    flops   2 M N K
    bytes   b once; bound by memory up to about 10 rows of float32
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from bedplate.devices.cpu.caches import cache_bytes
from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    bf16,
    bitcast,
    cast,
    f32,
    gather,
    host,
    i64,
    iota,
    kernel,
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
    when,
    word_int,
    zeros,
)
from bedplate.ops.matmul.pack import transpose
from bedplate.ops.matmul.problem import Problem
from bedplate.ops.matmul.task import (
    COLUMN_BLOCKS,
    Item,
    Variant,
    apply_epilogue,
    open_item,
)
from bedplate.ops.matmul.tiles import Tiles
from bedplate.ops.matmul.words import from_memory, interleaved, joined

# This kernel reads b while it computes, where matmul_tiled packs it first: 205 against 139 GFLOP/s
# at 32 x 4096 x 4096, 197 against 171 at 64 rows (2 threads of Zen 4, peak 219), but 203 against
# 207 at 64 x 512 x 512 and 184 against 192 at 96 x 1000 x 3000.
MAX_ROWS = 64
# Each item copies all of a (if it has more than ROWS_IN_PLACE rows), which must cost little beside
# its columns of b, or stay in the second cache: 16 x 65536 x 64 took 2.8 ms here, 1.4 tiled;
# 64 x 65536 x 64 9 against 5.5; but 16 x 4096 x 64 61 against 82 us.
ROWS_IN_PLACE, FEW_ROWS, COLUMNS_PER_ROW = 4, 16, 8
# Pairs of bfloat16 halve the multiply-adds, but not the transposition, which packing does once
# for all rows: 5.9 against 3.9 ms at 32 x 4096 x 4096, 3.5 against 3.1 at 16 rows.
PAIR_ROWS = 12
# How far ahead b is asked for, in bytes along a contiguous column: some KiB in flight for all
# columns of a square. 1024, 1536 and 2048 are equal, 512 is some 5 % slower.
AHEAD_BYTES = 1024
LINE_BYTES = 64
# Memory likes long pieces: an item takes at least so many bytes of each row of b, if there
# are enough of them for all workers; more items than workers only serve to balance.
PIECE_BYTES = 16 << 10
MOST_ROUNDS = 4


def is_skinny(problem: Problem, itemsize: int, in_pairs: bool) -> bool:
    """Whether this kernel is the better one, if it can read b at all."""
    rows = problem.rows
    if rows > MAX_ROWS or (in_pairs and problem.b_column != 1 and rows > PAIR_ROWS):
        return False
    if rows <= ROWS_IN_PLACE or problem.columns >= COLUMNS_PER_ROW * rows:
        return True
    return rows <= FEW_ROWS and rows * problem.depth * itemsize <= cache_bytes(2)


def rows_at_a_time() -> int:
    """How many rows of b stay in registers, one vector of each, while all rows of a use them.

    Half of the registers: the other half is for sums and for what is computed ahead. A sum is
    then loaded and stored once for 16 (AVX2: 8) multiply-adds. Two vectors of half as many rows
    took 6.4 ms at 8 x 4096 x 11008, where one vector of 16 rows took 5.4 and reading b alone 5.3
    (Zen 4, 2 threads).
    """
    return 16 if host().vector_bits != 256 else 8


def n_blocks(problem: Problem, lanes: int, itemsize: int, n_workers: int) -> int:
    """Into how many blocks of columns a product is cut.

    Each worker streams its own columns of each row of b: as few pieces as keep all workers
    busy, because two pieces of 8 KiB a row come faster than four of 4 KiB (1.36 against 1.50 ms at
    1 x 4096 x 4096, 2 threads of Zen 4), unless the sums of a block would take more than a
    quarter of the second cache.
    """
    row_bytes = problem.columns * itemsize * problem.n_products
    rounds = min(max(row_bytes // (n_workers * PIECE_BYTES), 1), MOST_ROUNDS)
    sums_bytes = problem.rows * problem.columns * itemsize
    wanted = max(
        -(-n_workers * rounds // problem.n_products), -(-sums_bytes // (cache_bytes(2) // 4))
    )
    even = n_workers // math.gcd(n_workers, problem.n_products)  # as many items for each worker
    return min(-(-wanted // even) * even, -(-problem.columns // lanes))


def make_kernel(variant: Variant, tiles: Tiles, emit: Callable[..., Any] | None) -> Kernel:
    """The task kernel of a variant; `emit` is the epilogue's, or None."""
    lanes = tiles.lanes

    @kernel
    def matmul_skinny(args: ptr(i64), begin: i64, end: i64, worker: i64):
        blocks = word_int(args, COLUMN_BLOCKS)
        for number in loop(begin, end):
            item = open_item(variant, tiles, args, number // blocks, worker)
            block = number % blocks
            units = (item.columns + (lanes - 1)) // lanes
            first = block * units // blocks * lanes
            width = (block + 1) * units // blocks * lanes - first
            job = _Job(variant, item, lanes, first, width, minimum(item.columns - first, width))
            job.clear()
            if variant.b_layout == "across":
                job.multiply_across()
            else:
                job.multiply_along()
            job.finish(emit)

    return matmul_skinny


class _Job:
    """One item under trace: `width` columns from `first` on, of which `valid` exist.

    sums     one row for each row of a, `stride` apart
    step     rows of b that are added to the sums at a time
    vectors  of each of them
    block    elements of a row of a that its copy keeps together
    copy     a, if it was copied
    each     k's of one step: two if they go in pairs, and then `step` and `side` count pairs
    side     elements of a column of b that are transposed at a time
    """

    def __init__(
        self, variant: Variant, item: Item, lanes: int, first: Value, width: Value, valid: Value
    ) -> None:
        self.variant, self.item, self.lanes = variant, item, lanes
        self.first, self.width, self.valid = first, width, valid
        # one line more than the width: rows a power of two apart would meet in the first cache
        self.sums, self.stride = item.scratch, width + lanes
        self.b = item.b + first * item.b_column
        self.block = rows_at_a_time() if variant.b_layout == "across" else lanes
        self.vectors = 2 if variant.pairs and variant.b_layout == "across" else 1
        self.step = self.block // self.vectors
        self.each = variant.each
        has_halves = variant.b.is_narrow_float and not variant.pairs
        self.side = 2 * lanes if has_halves else lanes
        if variant.copy_a:
            self._copy_a()

    def _copy_a(self) -> None:
        """Put a into scratch memory in the accumulator type, as `_a_at` reads it.

        The elements that one step needs lie together: read where they are, as many streams as
        there are rows come from the second cache or the third (48 x 4096 x 4096: 10.6 ms).
        """
        item, lanes = self.item, self.lanes
        self.copy = cast(self.sums + item.rows * self.stride, ptr(self.variant.packed))
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
                store(self._a_at(i, k), cast(row, self.variant.accumulate))

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
                store(self._a_at(i, k), words)
            with when(item.depth % 2 == 1):
                last = load(row + (item.depth - 1) * item.a_k)
                store(self._a_at(i, whole), joined([last], u32))

    def _a_at(self, i: Any, k: Value) -> Value:
        """Where a[i, k] is, and behind it the following elements of the step."""
        if not self.variant.copy_a:
            return self.item.a + i * self.item.a_row + k
        turn = k % self.block
        return self.copy + ((k - turn) * self.item.rows + i * self.block + turn)

    def clear(self) -> None:
        for n in loop(0, self.item.rows * self.stride, self.lanes):
            store(self.sums + n, zeros(self.variant.accumulate, self.lanes))

    def _accumulate(self, k: Value, column: Value, rows_of_b: list[list[Value]]) -> None:
        """sums[i, column ...] += a[i, k + n] * rows_of_b[n], in the order of n, for all i."""
        for i in range(1) if self.variant.one_row else loop(self.item.rows):
            at = self.sums + i * self.stride + column
            starts = [at + v * self.lanes for v in range(len(rows_of_b[0]))]
            totals = [load(start, self.lanes) for start in starts]
            factors = self._a_at(i, k)
            for n, row in enumerate(rows_of_b):
                factor = splat(load(factors + n), self.lanes)
                totals = [
                    self.variant.multiply_add(factor, b, c)
                    for b, c in zip(row, totals, strict=True)
                ]
            for start, total in zip(starts, totals, strict=True):
                store(start, total)

    def multiply_across(self) -> None:
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
            self._accumulate(k, column, [self._load_row(row, column, None) for row in rows])
        with when(whole < self.valid):
            mask = tail_mask(self.valid - whole, unit)
            self._accumulate(k, whole, [self._load_row(row, whole, mask) for row in rows])

    def _load_row(self, row: list[Value], column: Value, mask: Any) -> list[Value]:
        """The vectors of one row of b, or of the two that make a pair, from a column on."""
        values = [load(at + column, self.vectors * self.lanes, mask=mask) for at in row]
        if not self.variant.pairs:
            return [cast(values[0], self.variant.accumulate)]
        return interleaved(values)

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

    def multiply_along(self) -> None:
        side, lanes = self.side, self.lanes
        whole = self.item.depth // self.each // side * side
        places = local(i64, lanes)
        for column in loop(0, self.width, lanes):
            # where each column starts; one that does not exist is read as the last one
            for n in loop(lanes):
                store(places + n, minimum(self.valid - 1, column + n) * self.item.b_column)
            for k in loop(0, whole, side):
                columns = [self.b + load(places + n) for n in range(lanes)]
                for at, rows in self._square(k, columns):
                    self._accumulate(at, column, rows)
            for k in loop(whole, self.item.words):
                self._accumulate(k, column, [[self._gather(k, column)]])

    def _ahead(self, k: Value) -> Value:
        """How far from b[k, j] lies what is asked for there: beyond the end, in later columns.

        Columns of a few KiB end soon: unasked, the beginnings of the next took a fifth of the
        time of 1 x 1024 x 2816 in bfloat16.
        """
        depth = self.item.depth
        ahead = minimum(depth, AHEAD_BYTES // self.variant.b.itemsize)
        next_columns = self.lanes * self.item.b_column - depth
        return ahead + select(k * self.each + ahead < depth, depth * 0, next_columns)

    def _square(self, k: Value, columns: list[Value]) -> Iterator[tuple[Value, Any]]:
        """Rows of b from where its columns start, as (k, `lanes` rows from there on).

        Pairs of 16-bit floats are transposed as if they were words: half the work an element.
        """
        lanes, source = self.lanes, self.variant.b
        there = [column + k * self.each for column in columns]
        ahead = self._ahead(k)
        for at in there:
            prefetch(at + ahead, locality=2)
        if not source.is_narrow_float:
            rows = transpose([cast(load(at, lanes), self.variant.accumulate) for at in there])
            yield k, [[row] for row in rows]
            return
        words = transpose([load(cast(at, ptr(u32)), lanes) for at in there])
        if self.variant.pairs:
            yield k, [[from_memory(word, source)] for word in words]
            return
        for first in (0, lanes // 2):
            pairs = [_pair(word, source) for word in words[first : first + lanes // 2]]
            yield k + 2 * first, [[row] for pair in pairs for row in pair]

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


def _pair(words: Value, source: Type) -> tuple[Value, Value]:
    """The two floats of 16 bits that each word holds, the one that stands first first, as f32."""
    if source is bf16:
        return bitcast(words << 16, f32), bitcast(words & 0xFFFF0000, f32)
    low, high = (bitcast(cast(half, u16), source) for half in (words, words >> 16))
    return cast(low, f32), cast(high, f32)
