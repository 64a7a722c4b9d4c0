"""The kernels of products with quantised weights; how these lie in memory: quantised_format.py.

A value v = q + 2**(bits - 1) becomes a float in two instructions: shifted to the top of a mantissa
whose exponent is 0 it is f = 1 + v / 2**bits, so q = 2**bits * (f - 1.5). For each row and output:

    for group in groups of 32:
        sum = -1.5 * (the sum of the group's x, halves added to halves)
        for k in group:
            sum = sum + x[i, k] * f[k]                one chain
        total = total + sum * (scale * 2**bits)       one chain over the groups

So a weight costs a shift, a merge and a multiply-add, and its scale a multiply-add in 32. Both
kernels keep to this order: a row has the same bits alone and in any batch.

    quantised_few     up to 3 rows at a time; a weight stays in a register for all of them
    quantised_many    f of one group and 64 outputs is written to the first cache, for all rows
                      of a part
    quantised_rows    x widened to whole groups where it is not so, and -1.5 times its sums
    quantised_weights the weights as float32, for the gradient

    flops   2 M N K
    bytes   the packed weights once; bound by memory for one row
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    Variable,
    bitcast,
    cast,
    constant,
    element,
    f32,
    fma,
    host,
    i64,
    kernel,
    load,
    loop,
    minimum,
    ptr,
    reduce_add,
    splat,
    store,
    tail_mask,
    u16,
    u32,
    var,
    when,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.matmul.quantised_format import BLOCK, GROUP

# words of the task; an epilogue's follow
(
    X, X_ROW, X_GROUP, SUMS, PACKED, SCALES, OUT, SCRATCH, SCRATCH_BYTES, ROWS, COLUMNS, GROUPS,
    PARTS,
) = range(13)  # fmt: skip
N_WORDS = 13
MANTISSA, ONE = 23, 0x3F800000  # of a float32
# Rows that share a weight in a register: 3 x 4 sums and as many totals, 4 weights and one x take
# 29 of 32 registers. In quantised_many totals rest in memory, and 6 x 4 sums take 24; of the rows
# that are left 2 x 4 are chains enough.
FEW_AT_ONCE = 3
MANY_AT_ONCE, LEFT_AT_ONCE = 6, 2
# Rows of a part: with 64 outputs their totals take 24 KiB, which stay in the first two caches
# while all groups pass.
PART_ROWS = 16 * MANY_AT_ONCE


@dataclass(frozen=True, slots=True)
class Variant:
    """What specialises a kernel; sizes and strides are words.

    bits         of a value
    accumulate   the type of sums and of x
    out          of the result
    one_row      x is one row
    """

    bits: int
    accumulate: Type
    out: Type
    one_row: bool = False

    @property
    def lanes(self) -> int:
        return host().lanes(self.accumulate)

    @property
    def vectors(self) -> int:
        """Vectors of outputs at a time: chains that wait for each other; of 16 registers fewer."""
        return 2 if host().vector_bits == 256 else 4

    @property
    def many(self) -> int:
        """Rows of a register tile of quantised_many."""
        return MANY_AT_ONCE if self.vectors == 4 else 4


@dataclass(frozen=True, slots=True)
class Place:
    """A block of weights under trace."""

    bits: int
    args: Value
    block: Value

    def _group(self, group: Value) -> Value:
        return self.block * word_int(self.args, GROUPS) + group

    def words(self, group: Value, column: Value) -> Value:
        """Where the words of a group begin, for outputs from `column` on."""
        start = word_pointer(self.args, PACKED, u32) + self._group(group) * (self.bits * BLOCK)
        return start + column

    def scale(self, group: Value, column: Value, lanes: int) -> Value:
        """The scales of a group times 2**bits, in float32."""
        place = word_pointer(self.args, SCALES, u16) + self._group(group) * BLOCK + column
        return bitcast(cast(load(place, lanes), u32) << 16, f32) * 2.0**self.bits


def values_of_word(bits: int, word: Value) -> list[Value]:
    """f of each value that a vector of words holds, in the order of k."""
    mask = (2**bits - 1) << (MANTISSA - bits)
    found = []
    for index in range(32 // bits):
        up = MANTISSA - bits - index * bits
        moved = word << up if up >= 0 else word >> -up
        found.append(bitcast((moved & mask) | ONE, f32))
    return found


def first_sum(x: Value, type_: Type) -> Value:
    """-1.5 times the sum of a group of x: halves are added to halves, on any machine alike."""
    lanes = min(host().lanes(type_), GROUP)
    parts = [load(x + at, lanes) for at in range(0, GROUP, lanes)]
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [a + b for a, b in zip(parts[:half], parts[half:], strict=True)]
    return reduce_add(parts[0]) * -1.5


def make_few(variant: Variant, emit: Callable[..., Any] | None) -> Kernel:
    """The task kernel for few rows; an item is a block of outputs; `emit` is the epilogue's."""
    n_rows = 1 if variant.one_row else FEW_AT_ONCE

    @kernel
    def quantised_few(args: ptr(i64), begin: i64, end: i64, worker: i64):
        x, x_row = word_pointer(args, X, variant.accumulate), word_int(args, X_ROW)
        last = word_int(args, ROWS) - 1
        for block in loop(begin, end):
            place = Place(variant.bits, args, block)
            for column in loop(0, BLOCK, variant.vectors * variant.lanes):
                for first in loop(0, last + 1, n_rows):
                    rows = [x + minimum(first + r, last) * x_row for r in range(n_rows)]
                    totals = _few(variant, place, column, rows)
                    for r, line in enumerate(totals):
                        with when(first + r <= last):
                            for v, total in enumerate(line):
                                at = block * BLOCK + column + v * variant.lanes
                                _finish(variant, args, emit, first + r, at, total.get())

    return quantised_few


def _few(variant: Variant, place: Place, column: Value, rows: list[Value]) -> list[list[Variable]]:
    """The totals of each row for `vectors` vectors of outputs."""
    lanes, count, wide = variant.lanes, range(variant.vectors), variant.accumulate
    totals = [[var(zeros(wide, lanes)) for _ in count] for _ in rows]
    each = GROUP // variant.bits
    for group in loop(word_int(place.args, GROUPS)):
        here = [row + group * word_int(place.args, X_GROUP) for row in rows]
        starts = [splat(first_sum(x, wide), lanes) for x in here]
        sums = [[var(start) for _ in count] for start in starts]
        words = place.words(group, column)
        for number in loop(variant.bits):
            at = words + number * BLOCK
            values = [values_of_word(variant.bits, load(at + v * lanes, lanes)) for v in count]
            for index in range(each):
                factors = [splat(load(x + (number * each + index)), lanes) for x in here]
                for v in count:
                    value = cast(values[v][index], wide)
                    for factor, line in zip(factors, sums, strict=True):
                        line[v].set(fma(factor, value, line[v].get()))
        for v in count:
            scale = cast(place.scale(group, column + v * lanes, lanes), wide)
            for line, ends in zip(sums, totals, strict=True):
                ends[v].set(fma(line[v].get(), scale, ends[v].get()))
    return totals


def _finish(
    variant: Variant, args: Value, emit: Any, row: Value, column: Value, value: Value
) -> None:
    """Store the totals of the columns that exist: through the epilogue, or cast."""
    columns, lanes = word_int(args, COLUMNS), variant.lanes
    mask = tail_mask(columns - column, lanes)
    if emit is None:
        value = cast(value, variant.out)
    else:
        value = emit(value, row * 0, row, column, lanes, mask, args, N_WORDS)
    store(word_pointer(args, OUT, variant.out) + row * columns + column, value, mask=mask)


def many_scratch(accumulate: Type) -> int:
    """Bytes that a worker of quantised_many needs: f of a group, its scales, the totals."""
    return (GROUP + 1 + PART_ROWS) * BLOCK * accumulate.itemsize


def make_many(variant: Variant, emit: Callable[..., Any] | None) -> Kernel:
    """The task kernel for many rows; an item is a part of the rows and a block of outputs."""
    lanes, wide = variant.lanes, variant.accumulate

    @kernel
    def quantised_many(args: ptr(i64), begin: i64, end: i64, worker: i64):
        start = word_int(args, SCRATCH) + worker * word_int(args, SCRATCH_BYTES)
        panel = cast(start, ptr(wide))
        scales = panel + GROUP * BLOCK
        totals = scales + BLOCK
        rows, parts = word_int(args, ROWS), word_int(args, PARTS)
        blocks = (word_int(args, COLUMNS) + (BLOCK - 1)) // BLOCK
        for item in loop(begin, end):
            part, block = item // blocks, item % blocks
            first, stop = part * rows // parts, (part + 1) * rows // parts
            place = Place(variant.bits, args, block)
            for at in loop(0, (stop - first) * BLOCK, lanes):
                store(totals + at, zeros(wide, lanes))
            for group in loop(word_int(args, GROUPS)):
                _expand(variant, place, group, panel, scales)
                job = _Group(variant, args, group, panel, scales, stop)
                whole = first + (stop - first) // variant.many * variant.many
                for row in loop(first, whole, variant.many):
                    job.add(row, totals + (row - first) * BLOCK, variant.many)
                for row in loop(whole, stop, LEFT_AT_ONCE):
                    job.add(row, totals + (row - first) * BLOCK, LEFT_AT_ONCE)
            for row in loop(first, stop):
                for column in loop(0, BLOCK, lanes):
                    total = load(totals + (row - first) * BLOCK + column, lanes)
                    _finish(variant, args, emit, row, block * BLOCK + column, total)

    return quantised_many


def _expand(variant: Variant, place: Place, group: Value, panel: Value, scales: Value) -> None:
    """panel[k, output] = f, scales[output]: of one group."""
    lanes, wide = variant.lanes, variant.accumulate
    each = GROUP // variant.bits
    for column in loop(0, BLOCK, lanes):
        store(scales + column, cast(place.scale(group, column, lanes), wide))
        for number in loop(variant.bits):
            word = load(place.words(group, column) + number * BLOCK, lanes)
            for index, value in enumerate(values_of_word(variant.bits, word)):
                k = number * each + index
                store(panel + k * BLOCK + column, cast(value, wide))


@dataclass(frozen=True, slots=True)
class _Group:
    """One group of one block under trace: what `_expand` wrote, for rows before `stop`."""

    variant: Variant
    args: Value
    group: Value
    panel: Value
    scales: Value
    stop: Value

    def add(self, row: Value, totals: Value, height: int) -> None:
        """totals[r, output] += the sums of the group, for `height` rows from `row` on."""
        variant, wide, lanes = self.variant, self.variant.accumulate, self.variant.lanes
        numbers = [minimum(row + r, self.stop - 1) for r in range(height)]
        x_row, x_group = word_int(self.args, X_ROW), word_int(self.args, X_GROUP)
        first_x = word_pointer(self.args, X, wide) + self.group * x_group
        x = [first_x + n * x_row for n in numbers]
        rows = word_int(self.args, ROWS)
        starts = [word_pointer(self.args, SUMS, wide) + self.group * rows + n for n in numbers]
        for column in loop(0, BLOCK, variant.vectors * lanes):
            sums = [[var(splat(load(p), lanes)) for _ in range(variant.vectors)] for p in starts]
            for k in loop(0, GROUP, 4):
                for step in range(4):
                    self._multiply(k + step, column, x, sums)
            for r, line in enumerate(sums):
                with when(row + r < self.stop):
                    self._scale(column, totals + r * BLOCK + column, line)

    def _multiply(
        self, k: Value, column: Value, x: list[Value], sums: list[list[Variable]]
    ) -> None:
        lanes = self.variant.lanes
        at = self.panel + k * BLOCK + column
        values = [load(at + v * lanes, lanes) for v in range(self.variant.vectors)]
        for place, line in zip(x, sums, strict=True):
            factor = splat(load(place + k), lanes)
            for value, total in zip(values, line, strict=True):
                total.set(fma(factor, value, total.get()))

    def _scale(self, column: Value, totals: Value, sums: list[Variable]) -> None:
        lanes = self.variant.lanes
        for v, total in enumerate(sums):
            place, scale = totals + v * lanes, load(self.scales + column + v * lanes, lanes)
            store(place, fma(total.get(), scale, load(place, lanes)))


# words of quantised_rows
FROM, FROM_ROW, FROM_K, WIDE, ROW_SUMS, DEPTH, ROW_GROUPS, N_ROWS = range(8)


@functools.cache
def rows_kernel(given: Type, accumulate: Type, joined: bool) -> Kernel:
    """wide[group, i, k] = x[i, k] with zeros behind, sums[group, i] of it; an item is a row.

    So what quantised_many reads of a group lies together: rows that are a multiple of 4 KiB apart
    would meet in the same places of the caches.
    joined   neighbours along k are neighbours in memory
    """
    lanes = min(host().lanes(accumulate), GROUP)

    @kernel
    def quantised_rows(args: ptr(i64), begin: i64, end: i64, worker: i64):
        depth, groups, rows = (word_int(args, i) for i in (DEPTH, ROW_GROUPS, N_ROWS))
        for row in loop(begin, end):
            x = word_pointer(args, FROM, given) + row * word_int(args, FROM_ROW)
            for group in loop(groups):
                first, place = group * GROUP, group * rows + row
                wide = word_pointer(args, WIDE, accumulate) + place * GROUP
                with when(first + GROUP <= depth):
                    for k in range(0, GROUP, lanes):
                        _widen(args, x, first + k, wide + k, lanes, joined)
                with when(first + GROUP > depth):
                    for k in loop(GROUP):
                        store(wide + k, constant(accumulate, 0.0))
                    for k in loop(depth - first):
                        _widen(args, x, first + k, wide + k, 1, joined)
                sums = word_pointer(args, ROW_SUMS, accumulate) + place
                store(sums, first_sum(wide, accumulate))

    return quantised_rows


def _widen(args: Value, x: Value, k: Value, to: Value, lanes: int, joined: bool) -> None:
    """Some neighbours along k, in the type of `to`."""
    if joined and lanes > 1:
        store(to, cast(load(x + k, lanes), element(to.type)))
        return
    for i in range(lanes):
        store(to + i, cast(load(x + (k + i) * word_int(args, FROM_K)), element(to.type)))


@functools.cache
def weights_kernel(bits: int) -> Kernel:
    """Writes the weights out: out[k, output] = scale * q in float32, exactly; an item is a block.

    Words as above, but for X_ROW, which is the depth.
    """
    lanes, each = host().lanes(f32), GROUP // bits

    @kernel
    def quantised_weights(args: ptr(i64), begin: i64, end: i64, worker: i64):
        depth, columns = word_int(args, X_ROW), word_int(args, COLUMNS)
        for block in loop(begin, end):
            place = Place(bits, args, block)
            for group in loop(word_int(args, GROUPS)):
                for column in loop(0, BLOCK, lanes):
                    at = block * BLOCK + column
                    out, mask = word_pointer(args, OUT, f32) + at, tail_mask(columns - at, lanes)
                    scale = place.scale(group, column, lanes)
                    for number in loop(bits):
                        word = load(place.words(group, column) + number * BLOCK, lanes)
                        first = group * GROUP + number * each
                        for index, value in enumerate(values_of_word(bits, word)):
                            with when(first + index < depth):
                                weight = (value - 1.5) * scale
                                store(out + (first + index) * columns, weight, mask=mask)

    return quantised_weights
