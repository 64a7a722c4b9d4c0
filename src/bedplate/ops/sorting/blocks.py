"""The kernels that sort few long rows: cut into blocks, so that all cores take part.

Three launches a digit of 8 bits, lowest first. Each block counts its digits; one item a row turns
the counts of all blocks into first positions; each block moves its own elements there, in order.
So the order is stable and the same whoever does what. Wider digits mean fewer passes, but more
streams than the caches of pages and lines hold: with 11 bits 10^6 float32 take 9.5 ms on one core,
with 8 bits 6.7 (10^7: 96 and 73).

Floats have a launch before that, which looks for NaN and negative zeros: without them the keys can
be moved in place of the elements (keys.py).

A digit in which all elements of a row agree is not moved, so the words of a row stand in the one or
the other of two places: `state` notes where, before each digit. The first digit moves them in, the
last one moves them out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bedplate.kernel import (
    Value,
    any_of,
    cast,
    constant,
    i1,
    i64,
    kernel,
    load,
    loop,
    minimum,
    otherwise,
    ptr,
    select,
    store,
    tail_mask,
    u8,
    var,
    when,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.sorting.keys import Columns, Layout, element_reader, known_step, vector_reader

DIGIT_BITS = 8
# a block must be worth its counters, and not too many be summed up
BLOCK = 16384
MOST_BLOCKS = 256
ENOUGH_ROWS = 8
LANES = 8
# an element, measured on one core of an AMD EPYC with AVX-512: 0.6 and 0.8 to 2.5 ns for 4 rows of
# 100 000, 1.6 and 3.3 to 5.3 ns for one of 4 million
COUNT_NS = 1.5
MOVE_NS = 3.5
Source = Callable[[Value], tuple[Value, ...]]


def is_cut(rows: int, length: int) -> bool:
    """Whether rows are cut; told by the shape alone."""
    return rows < ENOUGH_ROWS and length >= 2 * BLOCK


def digits_of(bits: int) -> list[tuple[int, int]]:
    """(shift, width) of the digits of a key, lowest first, of nearly equal width."""
    width = -(-bits // -(-bits // DIGIT_BITS))
    return [(shift, min(width, bits - shift)) for shift in range(0, bits, width)]


def lower_blocks(builder: Any, layout: Layout, x: Any, out: Any) -> None:
    """Enter the launches that sort the rows of `x` into `out`."""
    rows, length = x.shape
    size = max(BLOCK, -(-length // MOST_BLOCKS))
    blocks = -(-length // size)
    digits = digits_of(layout.bits)
    counters = rows * (blocks + 1) << digits[0][1]
    counts, state = builder.temp(counters * 8, "counts"), builder.temp(rows * 128, "state")
    places = [builder.temp(rows * length * layout.nbytes, "words") for _ in range(2)]
    moved = float(rows * length * layout.nbytes)
    special = builder.temp(rows * blocks * 8, "special")
    if layout.has_variants:
        builder.launch(
            make_look(layout, known_step(x)), [x, *x.strides, length, size, blocks, special],
            rows * blocks, reads=[x.buffer], writes=[special], nbytes=moved, name="sort_look",
        )  # fmt: skip
    looked = [special] if layout.has_variants else []
    for number, (shift, width) in enumerate(digits):
        is_first, is_last = number == 0, number == len(digits) - 1
        words = [x, *x.strides, length, size, blocks, counts, state, *places, out, number, *looked]
        builder.launch(
            make_counts(layout, shift, width, is_first), words, rows * blocks,
            reads=[x.buffer, state, *places, *looked], writes=[counts],
            nbytes=moved, weight_ns=COUNT_NS * rows * length, name="sort_count",
        )  # fmt: skip
        builder.launch(
            make_positions(layout, width, is_first), words, rows,
            reads=[counts, state], writes=[counts, state],
            nbytes=16.0 * counters, name="sort_positions",
        )  # fmt: skip
        builder.launch(
            make_moves(layout, shift, width, is_first, is_last), words, rows * blocks,
            reads=[x.buffer, state, counts, *places, *looked],
            writes=[counts, out.buffer] if is_last else [counts, *places],
            nbytes=2 * moved, flops=float(rows * length), weight_ns=MOVE_NS * rows * length,
            name="sort_move",
        )  # fmt: skip


class _Words:
    """The argument words of the three kernels, and what an item of them is: a block of a row."""

    def __init__(self, layout: Layout, args: Value) -> None:
        self.layout = layout
        self.read = element_reader(layout, args, 0)
        self.length, self.size, self.blocks = (word_int(args, i) for i in (3, 4, 5))
        self.counts = word_pointer(args, 6, i64)
        self.state, self.number = word_pointer(args, 7, i64), word_int(args, 11)
        self.places = [word_int(args, i) for i in (8, 9)]
        self.out = word_pointer(args, 10, layout.out)
        self.special = word_pointer(args, 12, i64) if layout.has_variants else None

    def each_variant(self, row: Value, do: Callable[[Layout], None]) -> None:
        """Do what the layout of a row asks: the plain one if none of its blocks is special."""
        if not self.layout.has_variants:
            do(self.layout)
            return
        special = var(constant(i64, 0))
        for block in loop(self.blocks):
            special.set(special.get() | load(self.special + row * self.blocks + block))
        with when(special.get() == 0):
            do(self.layout.plain)
        with otherwise():
            do(self.layout)

    def counters(self, item: Value, values: int) -> Value:
        """The counters of a block; behind those of the last block of a row its first positions."""
        return self.counts + (item + item // self.blocks) * values

    def place(self, row: Value, number: Value) -> Value:
        """A pointer to where the words of a row stand before a digit: 0 or 1."""
        return self.state + row * 16 + number

    def columns(self, layout: Layout, row: Value, place: Value) -> Columns:
        start = select(place == 0, *self.places) + row * self.length * layout.nbytes
        return Columns(layout, cast(start, ptr(u8)), self.length)

    def source(self, layout: Layout, row: Value, is_first: bool) -> Source:
        """A function i -> words: of the input, or of where the last move left them."""
        if is_first:
            return lambda i: layout.words(self.read(row, i), i)
        return self.columns(layout, row, load(self.place(row, self.number))).load

    def span(self, item: Value) -> tuple[Value, Value]:
        first = item % self.blocks * self.size
        return first, minimum(first + self.size, self.length)


@functools.cache
def make_look(layout: Layout, step: int) -> Any:
    """Whether there is a NaN or a negative zero in a block."""
    lanes = 64 // max(layout.raw.itemsize, 4)

    @kernel
    def sort_look(args: ptr(i64), begin: i64, end: i64, worker: i64):
        length, size, blocks = (word_int(args, i) for i in (3, 4, 5))
        read = vector_reader(layout, args, 0, step, lanes)
        for item in loop(begin, end):
            first = item % blocks * size
            last = minimum(first + size, length)
            found = var(zeros(i1, lanes))
            for i in loop(first, last, lanes):
                raw = read(item // blocks, i, tail_mask(last - i, lanes))
                found.set(found.get() | layout.is_special(raw))
            store(
                word_pointer(args, 6, i64) + item, select(any_of(found.get()), constant(i64, 1), 0)
            )

    return sort_look


@functools.cache
def make_counts(layout: Layout, shift: int, width: int, is_first: bool) -> Any:
    """How often each value of a digit occurs in a block."""
    values = 1 << width

    @kernel
    def sort_count(args: ptr(i64), begin: i64, end: i64, worker: i64):
        words = _Words(layout, args)
        for item in loop(begin, end):
            counts = words.counters(item, values)
            for i in loop(values // LANES):
                store(counts + i * LANES, zeros(i64, LANES))
            row = item // words.blocks

            def count(
                layout: Layout, item: Value = item, row: Value = row, counts: Value = counts
            ) -> None:
                source = words.source(layout, row, is_first)
                for i in loop(*words.span(item)):
                    counter = counts + layout.digit(source(i), shift, width)
                    store(counter, load(counter) + 1)

            words.each_variant(row, count)

    return sort_count


@functools.cache
def make_positions(layout: Layout, width: int, is_first: bool) -> Any:
    """Counts to positions: within a digit block by block, and behind them where digits start."""
    values = 1 << width

    @kernel
    def sort_positions(args: ptr(i64), begin: i64, end: i64, worker: i64):
        words = _Words(layout, args)
        for row in loop(begin, end):
            counts = words.counters(row * words.blocks, values)
            starts = counts + words.blocks * values
            for i in loop(values // LANES):
                before = var(zeros(i64, LANES))
                for block in loop(words.blocks):
                    place = counts + block * values + i * LANES
                    count = load(place, LANES)
                    store(place, before.get())
                    before.set(before.get() + count)
                store(starts + i * LANES, before.get())
            total, is_moved = var(constant(i64, 0)), var(constant(i64, 1))
            for digit in loop(values):
                count = load(starts + digit)
                is_moved.set(select(count == words.length, 0, is_moved.get()))
                store(starts + digit, total.get())
                total.set(total.get() + count)
            # the words go from one place to the other; the first digit moves them into place 0
            old = 1 if is_first else load(words.place(row, words.number))
            new = 0 if is_first else old ^ is_moved.get()
            store(words.place(row, words.number + 1), new)

    return sort_positions


@functools.cache
def make_moves(layout: Layout, shift: int, width: int, is_first: bool, is_last: bool) -> Any:
    """Each element of a block moved to the next position of its digit."""
    values = 1 << width

    def move(words: _Words, layout: Layout, item: Value, keep: Any) -> None:
        counts, row = words.counters(item, values), item // words.blocks
        starts = words.counters((row + 1) * words.blocks, values) - values
        for i in loop(values // LANES):
            place = counts + i * LANES
            store(place, load(place, LANES) + load(starts + i * LANES, LANES))
        source = words.source(layout, row, is_first)
        for i in loop(*words.span(item)):
            value = source(i)
            counter = counts + layout.digit(value, shift, width)
            position = load(counter)
            store(counter, position + 1)
            keep(position, value)

    def move_block(words: _Words, item: Value, layout: Layout) -> None:
        row = item // words.blocks
        if is_last:
            out = words.out + row * words.length
            move(words, layout, item, lambda at, value: store(out + at, layout.result(value)))
        elif is_first:
            move(words, layout, item, words.columns(layout, row, constant(i64, 0)).store)
        else:
            new = load(words.place(row, words.number + 1))
            with when(new != load(words.place(row, words.number))):
                move(words, layout, item, words.columns(layout, row, new).store)

    @kernel
    def sort_move(args: ptr(i64), begin: i64, end: i64, worker: i64):
        words = _Words(layout, args)
        for item in loop(begin, end):
            words.each_variant(item // words.blocks, functools.partial(move_block, words, item))

    return sort_move
