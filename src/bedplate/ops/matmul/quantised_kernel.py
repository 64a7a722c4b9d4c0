"""The kernels of products with quantised weights: few rows, and weights written out as floats.

A block is 64 outputs; a word holds 32 / bits values of one output, in the order of k:

    word[block, k // (32 / bits), output]   the value of k: bits (k % (32 / bits)) * bits and up
    scale[block, k // 32, output]           the upper 16 bits of a float32
    w[output, k] = scale * (value - 2**(bits - 1))                exact in float32

A value becomes a weight in three instructions. Shifted to the top of a mantissa of exponent 0 it
is f = 1 + value / 2**bits, and

    w = fma(f, scale * 2**bits, -scale * (2**bits + 2**(bits - 1)))

is exact, because the scale has 8 significant bits and its multiples here 10 at most.

    out[i, output] = sum over k = 0, 1, 2 ... of x[i, k] * w[output, k]      one chain, as in matmul

So a row has the same bits as in a product with the weights written out, which is how many rows
are computed: quantised_weights writes them, and matmul_tiled multiplies.

    flops   2 M N K, and a multiply-add for each weight and every 4 rows
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
    f32,
    fma,
    host,
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

BLOCK = 64  # outputs: 256 bytes of words side by side, so that a block is one stream of memory
GROUP = 32  # values along k that share a scale
# words of the task; an epilogue's follow
X, PACKED, SCALES, OUT, SCRATCH, SCRATCH_BYTES, ROWS, COLUMNS, DEPTH, X_ROW, X_K = range(11)
N_WORDS = 11
# Rows of x that share a weight while it is in a register: with 4 vectors of outputs there are 16
# sums, 8 numbers of scales, 4 weights and one x, of 32 registers.
ROWS_AT_ONCE = 4
MANTISSA, ONE = 23, 0x3F800000  # of a float32


@dataclass(frozen=True, slots=True)
class Variant:
    """What specialises a kernel; sizes and strides are words.

    bits         of a value
    x, out       element types; sums run in `accumulate`
    one_row      x is one row
    in_place     x is read where it lies: contiguous rows of whole groups, of type `accumulate`
    """

    bits: int
    x: Type
    accumulate: Type
    out: Type
    one_row: bool
    in_place: bool

    @property
    def lanes(self) -> int:
        return host().lanes(self.accumulate)

    @property
    def vectors(self) -> int:
        """Vectors of outputs at a time: chains that wait for each other, within 16 registers 2."""
        return 2 if host().vector_bits == 256 else 4

    @property
    def rows(self) -> int:
        return 1 if self.one_row else ROWS_AT_ONCE


def padded(depth: Any) -> Any:
    """The depth in whole groups."""
    return (depth + (GROUP - 1)) // GROUP * GROUP


def make_kernel(variant: Variant, emit: Callable[..., Any] | None) -> Kernel:
    """The task kernel for few rows; an item is a block of outputs; `emit` is the epilogue's."""

    @kernel
    def quantised_linear(args: ptr(i64), begin: i64, end: i64, worker: i64):
        for block in loop(begin, end):
            x, x_row = _rows_of_x(variant, args, worker)
            place = Place(variant.bits, args, block)
            width = variant.vectors * variant.lanes
            for column in loop(0, BLOCK, width):
                for first in loop(0, word_int(args, ROWS), variant.rows):
                    last = word_int(args, ROWS) - 1
                    rows = [x + minimum(first + r, last) * x_row for r in range(variant.rows)]
                    sums = _multiply(variant, place, column, rows)
                    _finish(variant, args, emit, first, block * BLOCK + column, sums)

    return quantised_linear


@dataclass(frozen=True, slots=True)
class Place:
    """A block of weights under trace."""

    bits: int
    args: Value
    block: Value

    @property
    def groups(self) -> Value:
        return padded(word_int(self.args, DEPTH)) // GROUP

    def words(self, group: Value, column: Value) -> Value:
        """Where the words of a group begin, for outputs from `column` on."""
        start = (self.block * self.groups + group) * (self.bits * BLOCK)
        return word_pointer(self.args, PACKED, u32) + start + column

    def factors(self, group: Value, column: Value, lanes: int) -> tuple[Value, Value]:
        """What turns f into a weight, see the head of this file."""
        start = (self.block * self.groups + group) * BLOCK
        bits = load(word_pointer(self.args, SCALES, u16) + start + column, lanes)
        scale = bitcast(cast(bits, u32) << 16, f32)
        whole = 2.0**self.bits
        return scale * whole, scale * -(whole * 1.5)


def weights_of_word(bits: int, word: Value, factors: tuple[Value, Value]) -> list[Value]:
    """The float32 weights that a vector of words holds, in the order of k."""
    mask = (2**bits - 1) << (MANTISSA - bits)
    found = []
    for index in range(32 // bits):
        up = MANTISSA - bits - index * bits
        moved = word << up if up >= 0 else word >> -up
        found.append(fma(bitcast((moved & mask) | ONE, f32), *factors))
    return found


def _multiply(
    variant: Variant, place: Place, column: Value, rows: list[Value]
) -> list[list[Variable]]:
    """The sums of each row for `vectors` vectors of outputs."""
    lanes, count = variant.lanes, range(variant.vectors)
    sums = [[var(zeros(variant.accumulate, lanes)) for _ in count] for _ in rows]
    each = 32 // variant.bits
    for group in loop(place.groups):
        factors = [place.factors(group, column + v * lanes, lanes) for v in count]
        words = place.words(group, column)
        for number in loop(variant.bits):
            at = words + number * BLOCK
            weights = [
                weights_of_word(variant.bits, load(at + v * lanes, lanes), factors[v])
                for v in count
            ]
            first = group * GROUP + number * each
            for index in range(each):
                wide = [cast(weights[v][index], variant.accumulate) for v in count]
                for row, totals in zip(rows, sums, strict=True):
                    factor = splat(load(row + (first + index)), lanes)
                    for weight, total in zip(wide, totals, strict=True):
                        total.set(fma(factor, weight, total.get()))
    return sums


def _rows_of_x(variant: Variant, args: Value, worker: Value) -> tuple[Value, Value]:
    """(row 0 of x, elements from row to row): where it lies, or a wide copy with zeros behind."""
    x = word_pointer(args, X, variant.x)
    if variant.in_place:
        return x, word_int(args, X_ROW)
    start = word_int(args, SCRATCH) + worker * word_int(args, SCRATCH_BYTES)
    copy = cast(start, ptr(variant.accumulate))
    depth, row_step, step = (word_int(args, i) for i in (DEPTH, X_ROW, X_K))
    deep = padded(depth)
    for row in loop(word_int(args, ROWS)):
        for k in loop(depth):
            value = load(x + row * row_step + k * step)
            store(copy + row * deep + k, cast(value, variant.accumulate))
        for k in loop(depth, deep):
            store(copy + row * deep + k, constant(variant.accumulate, 0.0))
    return copy, deep


def _finish(
    variant: Variant, args: Value, emit: Any, first: Value, column: Value,
    sums: list[list[Variable]],
) -> None:  # fmt: skip
    """Store the sums of the rows and columns that exist: through the epilogue, or cast."""
    columns, lanes = word_int(args, COLUMNS), variant.lanes
    for r, totals in enumerate(sums):
        row = first + r
        with when(row < word_int(args, ROWS)):
            for v, total in enumerate(totals):
                at = column + v * lanes
                mask = tail_mask(columns - at, lanes)
                value = total.get()
                if emit is None:
                    value = cast(value, variant.out)
                else:
                    value = emit(value, row * 0, row, at, lanes, mask, args, N_WORDS)
                out = word_pointer(args, OUT, variant.out) + row * columns + at
                store(out, value, mask=mask)


@functools.cache
def weights_kernel(bits: int) -> Kernel:
    """Writes the weights out: out[k, output] in float32.

    An item is a block. Of the words PACKED, SCALES, OUT, COLUMNS and DEPTH are read.
    """
    lanes, each = host().lanes(f32), 32 // bits

    @kernel
    def quantised_weights(args: ptr(i64), begin: i64, end: i64, worker: i64):
        depth, columns = word_int(args, DEPTH), word_int(args, COLUMNS)
        for block in loop(begin, end):
            place = Place(bits, args, block)
            for group in loop(place.groups):
                for column in loop(0, BLOCK, lanes):
                    at = block * BLOCK + column
                    out, mask = word_pointer(args, OUT, f32) + at, tail_mask(columns - at, lanes)
                    factors = place.factors(group, column, lanes)
                    words = place.words(group, column)
                    for number in loop(bits):
                        word = load(words + number * BLOCK, lanes)
                        first = group * GROUP + number * each
                        for index, weight in enumerate(weights_of_word(bits, word, factors)):
                            with when(first + index < depth):
                                store(out + (first + index) * columns, weight, mask=mask)

    return quantised_weights
