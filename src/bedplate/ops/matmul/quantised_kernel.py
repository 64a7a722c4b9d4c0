"""The kernels of products with quantised weights; how these lie in memory: quantised_format.py.

x comes as whole numbers of some bytes, digits to the base 256, with a step for every group
(quantised_rows.py); a weight is a byte v = q + 2**(bits - 1), or half of one. For each row and
output:

    for group in groups of 32:
        for plane in planes of x:
            sum[plane] = sum over k of digit[i, plane, k] * (v[k] - 2**(bits - 1))
        value = ((sum[0] * 256) + sum[1]) * 256 + ...                   in the accumulator's type
        total = total + (value * step[i, group]) * scale[n, group]      one chain over the groups

Weights are left to the processor's own prefetching: a block is one stream of memory. Asked for
1 to 8 KiB ahead, those of 8 bits came at 39 to 46 GB/s, unasked at 64 (2 threads of Zen 4).

The sums are exact. So a row has the same bits alone and in any batch, and with any instructions.
`byte_dot` multiplies 64 bytes at a time: of 4 bits, 128 weights cost a load, a shift, two ands and
two dots for each plane, where weights made into floats took a shift, a merge and a multiply-add for
16 each, which bound them at 18 GB/s a core (Zen 4).

    quantised_few     up to FEW_ROWS rows: all groups of a block for some rows at a time
    quantised_many    a group for all rows of a part: its weights stay in the first cache
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
    byte_dot,
    cast,
    f32,
    fma,
    host,
    i32,
    i64,
    kernel,
    load,
    loop,
    minimum,
    ptr,
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
from bedplate.ops.matmul.quantised_rows import WORDS

# words of the task; an epilogue's follow
(
    DIGITS, STARTS, STEPS, PACKED, SCALES, OUT, SCRATCH, SCRATCH_BYTES, ROWS, COLUMNS, GROUPS,
    PARTS,
) = range(12)  # fmt: skip
N_WORDS = 12
# Sums that stay in registers beside weights and a word of x: of 32 registers, of 16.
MOST_SUMS, MOST_SUMS_OF_16 = 24, 8
# Rows of a part: with 64 outputs their totals take 24 KiB, which stay in the first two caches
# while all groups pass.
PART_ROWS = 96


@dataclass(frozen=True, slots=True)
class Variant:
    """What specialises a kernel; sizes and strides are words.

    bits         of a value
    planes       bytes of an element of x
    accumulate   the type of totals
    out          of the result
    one_row      x is one row
    """

    bits: int
    planes: int
    accumulate: Type
    out: Type
    one_row: bool = False

    @property
    def lanes(self) -> int:
        return host().lanes(self.accumulate)

    @property
    def most_sums(self) -> int:
        return MOST_SUMS_OF_16 if host().vector_bits == 256 else MOST_SUMS

    @property
    def vectors(self) -> int:
        """Vectors of outputs at a time."""
        return max(n for n in (1, 2, 4) if n == 1 or n * self.planes * 2 <= self.most_sums)

    @property
    def rows(self) -> int:
        """Rows that share the bytes of weights in registers."""
        return 1 if self.one_row else max(self.most_sums // (self.vectors * self.planes), 1)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of weights under trace."""

    variant: Variant
    args: Value
    number: Value

    def _group(self, group: Value) -> Value:
        return self.number * word_int(self.args, GROUPS) + group

    def words(self, group: Value, column: Value) -> Value:
        """Where the words of a group begin, for outputs from `column` on."""
        start = word_pointer(self.args, PACKED, u32)
        return start + self._group(group) * (self.variant.bits * BLOCK) + column

    def scale(self, group: Value, column: Value) -> Value:
        """A vector of scales of a group, in float32."""
        place = word_pointer(self.args, SCALES, u16) + self._group(group) * BLOCK + column
        return bitcast(cast(load(place, self.variant.lanes), u32) << 16, f32)

    def add(
        self, group: Value, column: Value, rows: list[Value], totals: list[list[Variable]]
    ) -> None:
        """totals[row][vector] += the sums of a group times step and scale."""
        variant, lanes = self.variant, self.variant.lanes
        places = [group * word_int(self.args, ROWS) + row for row in rows]
        sums = self._sums(self.words(group, column), places)
        steps = [load(word_pointer(self.args, STEPS, variant.accumulate) + at) for at in places]
        for v in range(variant.vectors):
            scale = cast(self.scale(group, column + v * lanes), variant.accumulate)
            for row, step in enumerate(steps):
                value = self._joined([plane[v].get() for plane in sums[row]]) * splat(step, lanes)
                totals[row][v].set(fma(value, scale, totals[row][v].get()))

    def _sums(self, words: Value, places: list[Value]) -> list[list[list[Variable]]]:
        """The sums of a group by row, plane and vector."""
        variant, lanes, vectors = self.variant, self.variant.lanes, range(self.variant.vectors)
        digits, starts = word_pointer(self.args, DIGITS, u32), word_pointer(self.args, STARTS, i32)
        numbers = [[place * variant.planes + p for p in range(variant.planes)] for place in places]
        sums = [
            [[var(splat(load(starts + n), lanes)) for _ in vectors] for n in row] for row in numbers
        ]
        for index in range(WORDS):
            number, half = divmod(index, 8 // variant.bits)
            weights = [
                self._bytes(load(words + number * BLOCK + v * lanes, lanes), half) for v in vectors
            ]
            for row, line in zip(numbers, sums, strict=True):
                for n, plane in zip(row, line, strict=True):
                    factor = splat(load(digits + n * WORDS + index), lanes)
                    for v in vectors:
                        plane[v].set(byte_dot(weights[v], factor, plane[v].get()))
        return sums

    def _bytes(self, words: Value, half: int) -> Value:
        """The bytes that words of weights are, or one half of each byte."""
        if self.variant.bits == 8:
            return words
        return (words >> 4 * half) & 0x0F0F0F0F

    def _joined(self, planes: list[Value]) -> Value:
        """The number of which the planes are the digits, the highest first."""
        value, *others = (cast(plane, self.variant.accumulate) for plane in planes)
        for other in others:
            value = fma(value, value * 0.0 + 256.0, other)
        return value


def make_few(variant: Variant, emit: Callable[..., Any] | None) -> Kernel:
    """The task kernel for few rows; an item is a block of outputs; `emit` is the epilogue's."""
    vectors, lanes = range(variant.vectors), variant.lanes

    @kernel
    def quantised_few(args: ptr(i64), begin: i64, end: i64, worker: i64):
        last = word_int(args, ROWS) - 1
        for number in loop(begin, end):
            block = Block(variant, args, number)
            for column in loop(0, BLOCK, variant.vectors * lanes):
                for first in loop(0, last + 1, variant.rows):
                    rows = [minimum(first + r, last) for r in range(variant.rows)]
                    totals = [
                        [var(zeros(variant.accumulate, lanes)) for _ in vectors] for _ in rows
                    ]
                    for group in loop(word_int(args, GROUPS)):
                        block.add(group, column, rows, totals)
                    for r, line in enumerate(totals):
                        with when(first + r <= last):
                            for v, total in enumerate(line):
                                at = number * BLOCK + column + v * lanes
                                _finish(variant, args, emit, first + r, at, total.get())

    return quantised_few


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
    """Bytes that a worker of quantised_many needs, for the totals."""
    return PART_ROWS * BLOCK * accumulate.itemsize


def make_many(variant: Variant, emit: Callable[..., Any] | None) -> Kernel:
    """The task kernel for many rows; an item is a part of the rows and a block of outputs."""
    lanes, wide = variant.lanes, variant.accumulate

    @kernel
    def quantised_many(args: ptr(i64), begin: i64, end: i64, worker: i64):
        totals = cast(word_int(args, SCRATCH) + worker * word_int(args, SCRATCH_BYTES), ptr(wide))
        rows, parts = word_int(args, ROWS), word_int(args, PARTS)
        blocks = (word_int(args, COLUMNS) + (BLOCK - 1)) // BLOCK
        for item in loop(begin, end):
            part, number = item // blocks, item % blocks
            first, stop = part * rows // parts, (part + 1) * rows // parts
            block = Block(variant, args, number)
            for at in loop(0, (stop - first) * BLOCK, lanes):
                store(totals + at, zeros(wide, lanes))
            for group in loop(word_int(args, GROUPS)):
                for column in loop(0, BLOCK, variant.vectors * lanes):
                    for row in loop(first, stop, variant.rows):
                        at = totals + (row - first) * BLOCK + column
                        _add_in_memory(block, group, column, row, stop, at)
            for row in loop(first, stop):
                for column in loop(0, BLOCK, lanes):
                    total = load(totals + (row - first) * BLOCK + column, lanes)
                    _finish(variant, args, emit, row, number * BLOCK + column, total)

    return quantised_many


def _add_in_memory(
    block: Block, group: Value, column: Value, first: Value, stop: Value, totals: Value
) -> None:
    """As `Block.add`, for totals in memory and the rows of a tile before `stop`."""
    variant, lanes = block.variant, block.variant.lanes
    rows = [minimum(first + r, stop - 1) for r in range(variant.rows)]
    lines = [totals + (row - first) * BLOCK for row in rows]
    vectors = range(variant.vectors)
    found = [[var(load(line + v * lanes, lanes)) for v in vectors] for line in lines]
    block.add(group, column, rows, found)
    for r, line in enumerate(lines):
        with when(first + r < stop):
            for v in vectors:
                store(line + v * lanes, found[r][v].get())


@functools.cache
def weights_kernel(bits: int) -> Kernel:
    """Writes the weights out: out[k, output] = scale * q in float32, exactly; an item is a block.

    Words as above, but for STEPS, which is the depth.
    """
    variant = Variant(bits, 0, f32, f32)
    lanes, each = variant.lanes, 32 // bits

    @kernel
    def quantised_weights(args: ptr(i64), begin: i64, end: i64, worker: i64):
        depth, columns = word_int(args, STEPS), word_int(args, COLUMNS)
        for number in loop(begin, end):
            block = Block(variant, args, number)
            for group in loop(word_int(args, GROUPS)):
                for column in loop(0, BLOCK, lanes):
                    at = number * BLOCK + column
                    out, mask = word_pointer(args, OUT, f32) + at, tail_mask(columns - at, lanes)
                    scale = block.scale(group, column)
                    for n in loop(bits):
                        word = load(block.words(group, column) + n * BLOCK, lanes)
                        for index in range(each):
                            k = group * GROUP + n * each + index
                            value = (word >> bits * index) & (2**bits - 1)
                            weight = cast(cast(value, i32) - 2 ** (bits - 1), f32) * scale
                            with when(k < depth):
                                store(out + k * columns, weight, mask=mask)

    return quantised_weights
