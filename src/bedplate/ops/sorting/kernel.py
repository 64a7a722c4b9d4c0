"""The kernels of sorting: a stable radix sort of rows from the lowest digit to the highest.

    for each digit of the keys, lowest first:   x    (rows, length)  any strides
        count how often each value occurs       out  (rows, length)  elements, or places (int64)
        turn counts into first positions
        move each element to the next position of its digit, in the order in which they stand

What is moved stands in keys.py. One work item sorts a whole row, with digits of 8 bits and one
count of all digits; up to SHORT elements by ranks. Few long rows are cut into blocks, see
blocks.py. A digit in which all elements agree is passed over. The result is the only stable
order, whoever does what, so the bits never depend on threads.

Bytes: every pass reads and writes the row once, scattered over as many streams as a digit has
values; the bound is the latency of a counter that is read after it was written, 5 cycles a move.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bedplate.kernel import (
    Value,
    cast,
    constant,
    from_dtype,
    i32,
    i64,
    iota,
    kernel,
    load,
    local,
    loop,
    otherwise,
    ptr,
    scatter,
    select,
    splat,
    store,
    tail_mask,
    u8,
    var,
    when,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.sorting.blocks import is_cut, lower_blocks
from bedplate.ops.sorting.keys import (
    Columns,
    Layout,
    element_reader,
    known_step,
    layout_of,
    vector_reader,
    whole_lines,
)

# where n^2 comparisons of whole vectors still cost less than counting 256 positions a digit
SHORT = 64
# measured on one core of an AMD EPYC with AVX-512: rows of 8 and 50 by ranks, of 2000 and 20 000 by
# digits (3.6 and 4.1 ns an element and pass)
RANK_NS = 0.45
PASS_NS = 4.0
DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS
LANES = 8


def lower_sort(builder: Any, x: Any, out: Any, descending: bool, indexed: bool) -> None:
    """Enter the launches that sort the rows of `x` into `out`."""
    rows, length = x.shape
    if rows * length == 0:
        return
    layout = layout_of(from_dtype(x.dtype), length, descending, indexed)
    if is_cut(rows, length):
        lower_blocks(builder, layout, x, out)
        return
    nbytes = whole_lines(row_scratch(layout, length))
    scratch = builder.scratch(nbytes)
    is_short = length <= SHORT
    build = make_ranks(layout, known_step(x)) if is_short else make_rows(layout)
    passes = layout.bits // DIGIT_BITS
    builder.launch(
        build, [x, *x.strides, length, scratch, nbytes, out], rows,
        reads=[x.buffer], writes=[scratch, out.buffer], name="sort",
        flops=float(rows * length * passes), nbytes=float(rows * length * layout.nbytes * 2),
        weight_ns=rows * length * (RANK_NS * length if is_short else PASS_NS * passes),
    )  # fmt: skip


def row_scratch(layout: Layout, length: int) -> int:
    """Bytes with which `sort_columns` sorts a row: counters, and the words twice."""
    passes = layout.bits // DIGIT_BITS
    return passes * DIGITS * 8 + 2 * length * layout.nbytes


def sort_columns(
    layout: Layout, scratch: Value, length: Value, words: Callable[[Value], tuple[Value, ...]]
) -> Columns:
    """Write words(i) for each i into scratch and sort them there; returns where they are."""
    _count(layout, scratch, length, words)
    return _move(layout, scratch, length)


def _count(
    layout: Layout, scratch: Value, length: Value, words: Callable[[Value], tuple[Value, ...]]
) -> None:
    """Write words(i) for each i into scratch, and count the values of all digits."""
    passes = layout.bits // DIGIT_BITS
    counts = cast(scratch, ptr(i64))
    for i in loop(passes * DIGITS // LANES):
        store(counts + i * LANES, zeros(i64, LANES))
    first = Columns(layout, scratch + passes * DIGITS * 8, length)
    for i in loop(length):
        value = words(i)
        first.store(i, value)
        for number in range(passes):
            digit = layout.digit(value, number * DIGIT_BITS, DIGIT_BITS)
            place = counts + number * DIGITS + digit
            store(place, load(place) + 1)


def _move(layout: Layout, scratch: Value, length: Value) -> Columns:
    """Sort what `_count` left, digit by digit; returns where it is."""
    passes = layout.bits // DIGIT_BITS
    counts, rest = cast(scratch, ptr(i64)), scratch + passes * DIGITS * 8
    first = Columns(layout, rest, length)
    held = var(constant(i64, 0))
    size = length * layout.nbytes
    for number in range(passes):
        own = counts + number * DIGITS
        value = first.load(constant(i64, 0))  # any element: do all have its digit?
        digit = layout.digit(value, number * DIGIT_BITS, DIGIT_BITS)
        with when(load(own + digit) != length):
            _to_positions(own)
            source = Columns(layout, rest + held.get(), length)
            target = Columns(layout, rest + (size - held.get()), length)
            for i in loop(length):
                value = source.load(i)
                place = own + layout.digit(value, number * DIGIT_BITS, DIGIT_BITS)
                position = load(place)
                store(place, position + 1)
                target.store(position, value)
            held.set(size - held.get())
    return Columns(layout, rest + held.get(), length)


def _to_positions(counts: Value) -> None:
    """Each count of a digit replaced by the sum of those before it."""
    total = var(constant(i64, 0))
    for digit in loop(DIGITS):
        count = load(counts + digit)
        store(counts + digit, total.get())
        total.set(total.get() + count)


@functools.cache
def make_rows(layout: Layout) -> Any:
    """A whole row an item."""

    def keep(out: Value, length: Value, result: Columns) -> None:
        for i in loop(length):
            store(out + i, result.layout.result(result.load(i)))

    @kernel
    def sort_rows(args: ptr(i64), begin: i64, end: i64, worker: i64):
        length = word_int(args, 3)
        scratch = word_pointer(args, 4, u8) + worker * word_int(args, 5)
        read = element_reader(layout, args, 0)
        special = var(constant(i64, 0))
        for row in loop(begin, end):
            out = word_pointer(args, 6, layout.out) + row * length

            def words(i: Value, row: Value = row) -> tuple[Value, ...]:
                return layout.words(read(row, i), i)

            def plain_words(i: Value, row: Value = row) -> tuple[Value, ...]:
                raw = read(row, i)
                special.set(select(layout.is_special(raw), 1, special.get()))
                return layout.plain.words(raw, i)

            if not layout.has_variants:
                keep(out, length, sort_columns(layout, scratch, length, words))
                continue
            special.set(constant(i64, 0))
            _count(layout.plain, scratch, length, plain_words)
            with when(special.get() == 0):
                keep(out, length, _move(layout.plain, scratch, length))
            with otherwise():
                keep(out, length, sort_columns(layout, scratch, length, words))

    return sort_rows


@functools.cache
def make_ranks(layout: Layout, step: int) -> Any:
    """A whole short row an item: each element goes to the place that is its rank.

    The rank counts the elements that are less, or equal and before it: no branch depends on values.
    """
    lanes = 64 // max(layout.raw.itemsize, 4)

    @kernel
    def sort_short_rows(args: ptr(i64), begin: i64, end: i64, worker: i64):
        length, out = word_int(args, 3), word_pointer(args, 6, layout.out)
        keys, read = local(layout.raw, SHORT), vector_reader(layout, args, 0, step, lanes)
        for row in loop(begin, end):
            for first in loop(0, length, lanes):
                raw = read(row, first, tail_mask(length - first, lanes))
                store(keys + first, layout.key(raw))
            for first in loop(0, length, lanes):
                own, place = load(keys + first, lanes), iota(i32, lanes) + cast(first, i32)
                rank = var(zeros(i32, lanes))
                for other in loop(length):
                    key = splat(load(keys + other), lanes)
                    is_before = (key < own) | (
                        (key == own) & (splat(cast(other, i32), lanes) < place)
                    )
                    rank.set(rank.get() + select(is_before, 1, zeros(i32, lanes)))
                mask = tail_mask(length - first, lanes)
                value = cast(place, i64) if layout.indexed else read(row, first, mask)
                scatter(out + row * length, rank.get(), value, mask)

    return sort_short_rows
