"""The kernels of top-k: the places of the k first elements of each row in sorted order.

    order = argsort(x[row], stable)             x    (rows, length)  any strides
    out[row] = order[:k]                        out  (rows, k)       int64

Nothing is sorted but candidates. A bound, the k-th best key so far, is held against whole vectors;
what passes goes into a buffer of some k, and when that is full it is sorted, cut to k, and its last
key is the new bound. Two passes over samples, every 256th and every 16th vector, give a bound
before the row is read whole, so that a row in order costs no more than a random one: in the last
pass some 16 k elements go through the buffer. Few long rows are cut into blocks, whose candidates
one item sorts together. The result is the only stable one, so the bits never depend on threads.

Bytes: the row once, 1.07 passes of one comparison a vector; that is the bound for small k.
"""

from __future__ import annotations

import functools
from typing import Any

from bedplate.kernel import (
    Value,
    any_of,
    call,
    cast,
    constant,
    from_dtype,
    give_back,
    i64,
    kernel,
    load,
    loop,
    minimum,
    ptr,
    select,
    splat,
    store,
    tail_mask,
    u8,
    var,
    when,
    word_int,
    word_pointer,
)
from bedplate.ops.sorting.blocks import ENOUGH_ROWS
from bedplate.ops.sorting.kernel import row_scratch, sort_columns
from bedplate.ops.sorting.keys import (
    Columns,
    Layout,
    known_step,
    layout_of,
    vector_reader,
    whole_lines,
)

SAMPLES = (256, 16, 1)  # of so many vectors one is looked at, pass by pass
# sorting a buffer that is four times k costs little beside filling it
ROOM = 4
# few long rows are cut into blocks, each worth its candidates
BLOCK = 65536
MOST_BLOCKS = 64
LEAST_ROOM = 256
# an element, measured on one core of an AMD EPYC with AVX-512: 1.5 to 2 ns for 10 of 4 million, 9
# for 1000 of them; of what blocks have found 45 ns for 10 of each and 10 ns for 1000
SELECT_NS = 2.0
MERGE_NS = 10.0


def lower_top_k(builder: Any, x: Any, out: Any, descending: bool) -> None:
    """Enter the launches that write the places of the first elements of `x` into `out`."""
    (rows, length), k = x.shape, out.shape[1]
    if rows * k == 0:
        return
    layout = layout_of(from_dtype(x.dtype), length, descending, indexed=True)
    is_whole = rows >= ENOUGH_ROWS or length < 2 * BLOCK or k * 16 > BLOCK
    size = length if is_whole else max(BLOCK, -(-length // MOST_BLOCKS))
    blocks = -(-length // size)
    room = ROOM * k + LEAST_ROOM
    nbytes = whole_lines(room * layout.nbytes + row_scratch(layout, room))
    scratch, found = builder.scratch(nbytes), builder.temp(rows * blocks * k * layout.nbytes)
    words = [
        x,
        *x.strides,
        length,
        size,
        blocks,
        k,
        room,
        scratch,
        nbytes,
        out if is_whole else found,
    ]
    builder.launch(
        make_select(layout, known_step(x), is_whole), words, rows * blocks,
        reads=[x.buffer], writes=[scratch, out.buffer if is_whole else found],
        nbytes=1.1 * rows * length * x.dtype.itemsize, flops=float(rows * length), name="top_k",
        weight_ns=SELECT_NS * rows * length,
    )  # fmt: skip
    if is_whole:
        return
    nbytes = whole_lines(row_scratch(layout, blocks * k))
    scratch = builder.scratch(nbytes)
    builder.launch(
        make_merge(layout), [found, length, size, blocks, k, scratch, nbytes, out], rows,
        reads=[found], writes=[scratch, out.buffer], name="top_k_merge",
        weight_ns=MERGE_NS * rows * blocks * k,
    )  # fmt: skip


@functools.cache
def make_shrink(layout: Layout) -> Any:
    """Sort the words of a buffer and keep the first k; returns how many there are."""

    @kernel
    def top_k_shrink(buffer: ptr(u8), scratch: ptr(u8), room: i64, count: i64, k: i64) -> i64:
        columns = Columns(layout, buffer, room)
        in_order = sort_columns(layout, scratch, count, columns.load)
        kept = minimum(count, k)
        for i in loop(kept):
            columns.store(i, in_order.load(i))
        give_back(kept)

    return top_k_shrink


def _keep(
    is_whole: bool, target: Value, item: Value, k: Value, count: Value, found: Columns
) -> None:
    """Write what an item found: places, or words for `make_merge`."""
    layout = found.layout
    for i in loop(count):
        if is_whole:
            store(cast(target, ptr(i64)) + item * k + i, layout.result(found.load(i)))
        else:
            place = cast(target, ptr(u8)) + item * k * layout.nbytes
            Columns(layout, place, k).store(i, found.load(i))


@functools.cache
def make_select(layout: Layout, known: int, is_whole: bool) -> Any:
    """The first k of a block of a row an item: as places, or as words to be merged."""
    lanes = 64 // max(layout.raw.itemsize, 4)
    shrink = make_shrink(layout)
    ones = (1 << layout.bits) - 1

    @kernel
    def top_k(args: ptr(i64), begin: i64, end: i64, worker: i64):
        row_step, step, length, size, blocks, k, room = (word_int(args, i) for i in range(1, 8))
        buffer = word_pointer(args, 8, u8) + worker * word_int(args, 9)
        scratch = buffer + room * layout.nbytes
        columns = Columns(layout, buffer, room)
        count, bound = var(constant(i64, 0)), var(constant(layout.raw, ones))
        is_open = var(constant(i64, 1))

        def shrink_buffer(is_last: Value) -> None:
            count.set(call(shrink, buffer, scratch, room, count.get(), k))
            with when(count.get() == k):
                last = cast(layout.key_of(columns.load(k - 1)), layout.raw)
                # an equal element that comes later is not among the first k
                is_open.set(select(is_last & (last == 0), 0, is_open.get()))
                bound.set(select(is_last & (last != 0), last - 1, last))

        read = vector_reader(layout, args, 0, known, lanes)
        for item in loop(begin, end):
            number_of_row = item // blocks
            row = word_pointer(args, 0, layout.raw) + number_of_row * row_step
            first = item % blocks * size
            last = minimum(first + size, length)
            bound.set(constant(layout.raw, ones))
            is_open.set(constant(i64, 1))
            for number in loop(len(SAMPLES)):
                is_last = number == len(SAMPLES) - 1
                stride = select(
                    is_last, 1, select(number == 0, constant(i64, SAMPLES[0]), SAMPLES[1])
                )
                count.set(constant(i64, 0))
                for at in loop(first, last, stride * lanes):
                    mask = tail_mask(last - at, lanes)
                    keys = layout.key(read(number_of_row, at, mask))
                    mask = mask & (keys <= splat(bound.get(), lanes))
                    with when(any_of(mask) & (is_open.get() != 0)):
                        with when(count.get() + lanes > room):
                            shrink_buffer(is_last)
                        for place in loop(at, minimum(at + lanes, last)):
                            raw = load(row + place * step)
                            with when((layout.key(raw) <= bound.get()) & (is_open.get() != 0)):
                                columns.store(count.get(), layout.words(raw, place))
                                count.set(count.get() + 1)
                shrink_buffer(constant(i64, 0) != 0)
            _keep(is_whole, word_int(args, 10), item, k, count.get(), columns)

    return top_k


@functools.cache
def make_merge(layout: Layout) -> Any:
    """The first k of a row from those of its blocks."""

    @kernel
    def top_k_merge(args: ptr(i64), begin: i64, end: i64, worker: i64):
        length, size, blocks, k = (word_int(args, i) for i in range(1, 5))
        scratch = word_pointer(args, 5, u8) + worker * word_int(args, 6)
        for row in loop(begin, end):
            found = word_pointer(args, 0, u8) + row * blocks * k * layout.nbytes
            # only the last block may be shorter than k
            left = minimum(length - (blocks - 1) * size, k)

            def words(i: Value, found: Value = found) -> tuple[Value, ...]:
                block = Columns(layout, found + i // k * k * layout.nbytes, k)
                return block.load(i % k)

            in_order = sort_columns(layout, scratch, (blocks - 1) * k + left, words)
            out = word_pointer(args, 7, i64) + row * k
            for i in loop(k):
                store(out + i, layout.result(in_order.load(i)))

    return top_k_merge
