"""Products with few rows: b is read once, in the order in which it lies in memory.

    c[i, j] = sum over k of a[i, k] * b[k, j]       up to MAX_ROWS rows i

The plain loop nest; `sums` has one row of accumulators for each i, in the first cache:

    for block in columns by block_columns:            an item
        for k in depth by STEP:                       "across": rows of b are contiguous
            for j in block by 2 vectors:
                for i in rows:
                    sums[i, j] += a[i, k] * b[k, j] + ... + a[i, k + STEP - 1] * b[k + STEP - 1, j]

    for block in columns by block_columns:            "along": columns of b are contiguous
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

from collections.abc import Callable
from typing import Any

from bedplate.devices.cpu.caches import cache_bytes
from bedplate.kernel import (
    Kernel,
    Value,
    cast,
    gather,
    i64,
    iota,
    kernel,
    load,
    loop,
    minimum,
    prefetch,
    ptr,
    splat,
    store,
    tail_mask,
    var,
    word_int,
    zeros,
)
from bedplate.ops.matmul.pack import transpose
from bedplate.ops.matmul.task import (
    COLUMN_BLOCKS,
    Item,
    Variant,
    apply_epilogue,
    multiply_add,
    open_item,
)
from bedplate.ops.matmul.tiles import Tiles

# At 48 x 4096 x 4096 this kernel reads b while it computes (157 GFLOP/s, one core of Zen 5),
# where packing comes first and then computing (140); at 96 rows it is behind.
MAX_ROWS = 48
# Rows of b at a time, and vectors of each: 8 x 2 stay in registers while all rows of a use
# them, so the sums are loaded and stored once for 16 multiply-adds. A single row of a has
# registers to spare, and longer pieces of fewer rows come faster from memory: 37 GB/s a core
# of Zen 5 instead of 30.
STEP, VECTORS = 8, 2
STEP_OF_ONE_ROW, VECTORS_OF_ONE_ROW = 4, 4
# How far ahead b is asked for, in bytes along a contiguous column: as many streams as a
# vector has lanes are more than the hardware follows well.
AHEAD_BYTES = 512
LINE_BYTES = 64


def step_and_vectors(one_row: bool) -> tuple[int, int]:
    """Rows of b at a time, and vectors of each."""
    return (STEP_OF_ONE_ROW, VECTORS_OF_ONE_ROW) if one_row else (STEP, VECTORS)


def block_columns(rows: int, lanes: int, itemsize: int) -> int:
    """The most columns of an item: its sums take two thirds of the first cache.

    Half as many make the pieces of b's rows so short that memory delivers less: 105 instead of
    120 GFLOP/s at 16 x 4096 x 4096.
    """
    unit = step_and_vectors(rows == 1)[1] * lanes
    most = cache_bytes(1) * 2 // 3 // (rows * itemsize)
    return max(min(most, 2048) // unit, 1) * unit


def make_kernel(variant: Variant, tiles: Tiles, emit: Callable[..., Any] | None) -> Kernel:
    """The task kernel of a variant; `emit` is the epilogue's, or None."""
    lanes = tiles.lanes
    unit = step_and_vectors(variant.one_row)[1] * lanes

    @kernel
    def matmul_skinny(args: ptr(i64), begin: i64, end: i64, worker: i64):
        blocks = word_int(args, COLUMN_BLOCKS)
        for number in loop(begin, end):
            item = open_item(variant, tiles, args, number // blocks, worker)
            block = number % blocks
            units = (item.columns + (unit - 1)) // unit
            first = block * units // blocks * unit
            width = (block + 1) * units // blocks * unit - first
            job = _Job(variant, item, lanes, first, width, minimum(item.columns - first, width))
            job.clear()
            if variant.b_layout == "across":
                job.multiply_across()
            else:
                job.multiply_along()
            job.finish(emit)

    return matmul_skinny


class _Job:
    """One item under trace: `width` columns from `first` on, of which `valid` exist."""

    def __init__(
        self, variant: Variant, item: Item, lanes: int, first: Value, width: Value, valid: Value
    ) -> None:
        self.variant, self.item, self.lanes = variant, item, lanes
        self.first, self.width, self.valid = first, width, valid
        self.sums = item.scratch
        self.b = item.b + first * item.b_column
        self.a, self.a_row, self.a_k = item.a, item.a_row, item.a_k
        self.step, self.vectors = step_and_vectors(variant.one_row)
        if variant.copy_a:
            self._copy_a()

    def _copy_a(self) -> None:
        """Put a into scratch memory, row by row, in the accumulator type."""
        item, lanes = self.item, self.lanes
        target = self.sums + item.rows * self.width
        places = iota(i64, lanes) * item.a_k
        deep = (item.depth + (lanes - 1)) // lanes * lanes
        for i in loop(item.rows):
            for k in loop(0, item.depth, lanes):
                mask = tail_mask(item.depth - k, lanes)
                there = item.a + i * item.a_row + k * item.a_k
                row = gather(there, places, mask)
                store(target + i * deep + k, cast(row, self.variant.accumulate))
        self.a, self.a_row, self.a_k = target, deep, 1

    def clear(self) -> None:
        for n in loop(0, self.item.rows * self.width, self.lanes):
            store(self.sums + n, zeros(self.variant.accumulate, self.lanes))

    def _accumulate(self, k: Value, column: Value, rows_of_b: list[list[Value]]) -> None:
        """sums[i, column ...] += a[i, k + n] * rows_of_b[n], in the order of n, for all i."""
        vectors = range(len(rows_of_b[0]))
        for i in range(1) if self.variant.one_row else loop(self.item.rows):
            at = self.sums + i * self.width + column
            sums = [load(at + v * self.lanes, self.lanes) for v in vectors]
            sums = self._add(self.a + i * self.a_row + k * self.a_k, rows_of_b, sums)
            for v in vectors:
                store(at + v * self.lanes, sums[v])

    def _add(self, a: Value, rows_of_b: list[list[Value]], sums: list[Value]) -> list[Value]:
        """The sums, and a[n] * rows_of_b[n] added in the order of n."""
        for n, row in enumerate(rows_of_b):
            factor = splat(load(a + self.a_k * n), self.lanes)
            sums = [multiply_add(factor, b, c) for b, c in zip(row, sums, strict=True)]
        return sums

    def multiply_across(self) -> None:
        depth, step = self.item.depth, self.step
        whole = depth // step * step
        for k in loop(0, whole, step):
            self._step_across(k, step)
        for k in loop(whole, depth):
            self._step_across(k, 1)

    def _step_across(self, k: Value, step: int) -> None:
        """All columns of the block for `step` rows of b."""
        item, unit = self.item, self.vectors * self.lanes
        rows = [self.b + (k + n) * item.b_k for n in range(step)]
        whole = self.valid // unit * unit
        for column in loop(0, whole, unit):
            self._columns_across(k, column, rows, [None] * self.vectors)
        for column in loop(whole, self.valid, unit):
            left = self.valid - column
            masks = [tail_mask(left - v * self.lanes, self.lanes) for v in range(self.vectors)]
            self._columns_across(k, column, rows, masks)

    def _columns_across(self, k: Value, column: Value, rows: list[Value], masks: Any) -> None:
        if self.variant.one_row:
            self._prefetch_below(column, rows)
        else:
            self._prefetch_along(k, column, len(rows))
        lanes, count = self.lanes, range(self.vectors)
        vectors = [[self._load(row + column + v * lanes, masks[v]) for v in count] for row in rows]
        self._accumulate(k, column, vectors)

    def _prefetch_below(self, column: Value, rows: list[Value]) -> None:
        """Ask for these columns of the rows that come next."""
        line = LINE_BYTES // self.variant.b.itemsize
        ahead = column + self.item.b_k * len(rows)
        for row in rows:
            for at in range(0, self.vectors * self.lanes, line):
                prefetch(row + ahead + at)

    def _prefetch_along(self, k: Value, column: Value, step: int) -> None:
        """Ask for a longer piece of one of the rows that come next, of each in turn.

        141 instead of 108 GFLOP/s at 16 x 4096 x 4096: memory likes long pieces.
        """
        unit, line = self.vectors * self.lanes, LINE_BYTES // self.variant.b.itemsize
        turn = column // unit % step
        there = self.b + (k + step + turn) * self.item.b_k + (column - turn * unit)
        for at in range(0, step * unit, line):
            prefetch(there + at, locality=2)

    def _load(self, at: Value, mask: Any) -> Value:
        return cast(load(at, self.lanes, mask=mask), self.variant.accumulate)

    def multiply_along(self) -> None:
        depth, lanes = self.item.depth, self.lanes
        whole = depth // lanes * lanes
        for column in loop(0, self.width, lanes):
            if self.variant.one_row:
                self._add_squares(column, whole)
            else:
                columns = self._columns(column)
                for k in loop(0, whole, lanes):
                    self._accumulate(k, column, self._square(k, columns))
            for k in loop(whole, depth):
                self._accumulate(k, column, [[self._gather(k, column)]])

    def _add_squares(self, column: Value, whole: Value) -> None:
        """For a single row of a: its sums stay in a register."""
        columns = self._columns(column)
        total = var(zeros(self.variant.accumulate, self.lanes))
        for k in loop(0, whole, self.lanes):
            square = self._square(k, columns)
            total.set(self._add(self.a + k * self.a_k, square, [total.get()])[0])
        store(self.sums + column, total.get())

    def _columns(self, column: Value) -> list[Value]:
        """Where `lanes` columns of b start; one that does not exist is read as the last one."""
        last, step = self.valid - 1, self.item.b_column
        return [self.b + minimum(last, column + n) * step for n in range(self.lanes)]

    def _square(self, k: Value, columns: list[Value]) -> list[list[Value]]:
        """lanes x lanes elements of b by rows, from where its columns start."""
        for each in columns:
            prefetch(each + k + AHEAD_BYTES // self.variant.b.itemsize)
        return [[row] for row in transpose([self._load(each + k, None) for each in columns])]

    def _gather(self, k: Value, column: Value) -> Value:
        """`lanes` elements of row k of b, which lie apart."""
        places = iota(i64, self.lanes) * self.item.b_column
        mask = tail_mask(self.valid - column, self.lanes)
        row = gather(self.b + column * self.item.b_column + k, places, mask)
        return cast(row, self.variant.accumulate)

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
                value = load(self.sums + i * self.width + column, lanes)
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
