"""The kernel of resampling: each place along one axis a weighted sum of some places.

    y[o, i, c] = sum over t of weight[t, i] x[o, place[t, i], c]      x (outer, size, inner)

    for item in items:                 an outer index, some places
        for i in places:               inner > 1: vectors along inner, one weight for each
        for i by lanes:                else: vectors of places, gathered
            for t in taps: y += weight * x

With inner = 1 as many rows as a vector has lanes are transposed into a buffer, where they are a
matrix with inner = lanes, and the results are transposed back: 8 shuffles for a vector of places
instead of 3 gathers for each of its taps.

Places and weights stand in a table (2 taps, outputs) of int64, see resampling_tables.py. A tap that
a place does not have has the place -1 and is left out, so that 0 times infinity does not arise. An
output is one chain of multiply-adds: its bits do not depend on the number of threads.

    accumulates in   the type of x, which is float32 or float64
    bytes            x once (from the cache for each further tap), y once, 16 an output and tap
"""

from __future__ import annotations

import functools

from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    cast,
    f64,
    fma,
    gather,
    host,
    i64,
    iota,
    kernel,
    load,
    local,
    loop,
    minimum,
    otherwise,
    ptr,
    scatter,
    select,
    splat,
    store,
    tail_mask,
    var,
    when,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.matmul.pack import transpose

X, OUT, BLOCKS, PLACES, TAPS, COUNT, INNER, STRIDE_OUTER, STRIDE, STRIDE_INNER = range(10)
TABLE, TABLE_ROW, TABLE_COLUMN, SCRATCH, SCRATCH_STEP, OUTER, SIZE = range(10, 17)


@functools.cache
def resample_kernel(element: Type, beside: bool) -> Kernel:
    """The task; `beside`: vectors run along inner, whose elements lie side by side."""
    lanes = host().lanes(element)

    @kernel
    def resample(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        blocks, places, count, inner = word(BLOCKS), word(PLACES), word(COUNT), word(INNER)
        for item in loop(begin, end):
            outer, first = item // blocks, item % blocks * places
            last = minimum(first + places, count)
            source = word_pointer(args, X, element) + outer * word(STRIDE_OUTER)
            out = word_pointer(args, OUT, element) + outer * count * inner
            if beside:
                for i in loop(first, last):
                    for c in loop(0, inner, lanes):
                        mask = tail_mask(inner - c, lanes)
                        total = _along_inner(element, lanes, args, source, i, c, mask)
                        store(out + i * inner + c, total, mask=mask)
            else:
                for c in loop(inner):
                    column = source + c * word(STRIDE_INNER)
                    for i in loop(first, last, lanes):
                        mask = tail_mask(last - i, lanes)
                        total = _along_places(element, lanes, args, column, i, mask)
                        _store_places(out + i * inner + c, total, inner, mask, lanes)

    return resample


@functools.cache
def resample_rows_kernel(element: Type) -> Kernel:
    """The task for inner = 1; an item is as many rows as a vector has lanes."""
    lanes = host().lanes(element)

    @kernel
    def resample_rows(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        count, step = word(COUNT), word(STRIDE_OUTER)
        turned = word_pointer(args, SCRATCH, element) + worker * word(SCRATCH_STEP)
        square = local(element, lanes * lanes)
        for item in loop(begin, end):
            first = item * lanes
            left = word(OUTER) - first
            source = word_pointer(args, X, element) + first * step
            out = word_pointer(args, OUT, element) + first * count
            _turn(element, lanes, args, source, left, turned)
            for i in loop(0, count, lanes):
                for n in loop(minimum(count - i, lanes)):
                    store(square + n * lanes, _taps_at(element, lanes, args, turned, i + n))
                mask = tail_mask(count - i, lanes)
                columns = [load(square + n * lanes, lanes) for n in range(lanes)]
                for n, row in enumerate(transpose(columns)):
                    with when(n < left):
                        store(out + (count * n + i), row, mask=mask)

    return resample_rows


def _turn(
    element: Type, lanes: int, args: Value, source: Value, left: Value, turned: Value
) -> None:
    """turned[place, row] = source[row, place] for `lanes` rows; those that lack repeat the last."""
    size, stride, step = (word_int(args, w) for w in (SIZE, STRIDE, STRIDE_OUTER))
    with when(stride == 1):
        rows = [source + minimum(left - 1, n) * step for n in range(lanes)]
        for x in loop(0, size, lanes):
            mask = tail_mask(size - x, lanes)
            square = [load(row + x, lanes, mask=mask) for row in rows]
            for n, column in enumerate(transpose(square)):
                with when(x + n < size):
                    store(turned + (x + n) * lanes, column)
    with otherwise():
        beside, mask = iota(i64, lanes) * splat(step, lanes), tail_mask(left, lanes)
        for x in loop(size):
            store(turned + x * lanes, gather(source + x * stride, beside, mask=mask))


def _taps_at(element: Type, lanes: int, args: Value, turned: Value, i: Value) -> Value:
    """Output i of `lanes` rows."""
    taps = word_int(args, TAPS)
    total = var(zeros(element, lanes))
    for t in loop(taps):
        place = load(_entry(args, i64, t, i))
        with when(place >= 0):
            weight = cast(load(_entry(args, f64, taps + t, i)), element)
            value = load(turned + place * lanes, lanes)
            total.set(fma(splat(weight, lanes), value, total.get()))
    return total.get()


def _entry(args: Value, type_: Type, row: Value, i: Value) -> Value:
    """Where the table has what row `row` says of output i."""
    at = row * word_int(args, TABLE_ROW) + i * word_int(args, TABLE_COLUMN)
    return word_pointer(args, TABLE, type_) + at


def _along_inner(
    element: Type, lanes: int, args: Value, source: Value, i: Value, c: Value, mask: Value
) -> Value:
    taps = word_int(args, TAPS)
    total = var(zeros(element, lanes))
    for t in loop(taps):
        place = load(_entry(args, i64, t, i))
        with when(place >= 0):
            weight = cast(load(_entry(args, f64, taps + t, i)), element)
            row = source + place * word_int(args, STRIDE) + c
            value = load(row, lanes, mask=mask)
            total.set(fma(splat(weight, lanes), value, total.get()))
    return total.get()


def _along_places(
    element: Type, lanes: int, args: Value, column: Value, i: Value, mask: Value
) -> Value:
    taps = word_int(args, TAPS)
    beside = iota(i64, lanes) * splat(word_int(args, TABLE_COLUMN), lanes)
    total = var(zeros(element, lanes))
    for t in loop(taps):
        place = gather(_entry(args, i64, t, i), beside, mask=mask, other=-1)
        there = place >= 0
        weight = cast(gather(_entry(args, f64, taps + t, i), beside, mask=mask), element)
        value = gather(column, place * splat(word_int(args, STRIDE), lanes), mask=there)
        total.set(select(there, fma(weight, value, total.get()), total.get()))
    return total.get()


def _store_places(to: Value, value: Value, inner: Value, mask: Value, lanes: int) -> None:
    from_step = iota(i64, lanes) * splat(inner, lanes)
    with when(inner == 1):
        store(to, value, mask=mask)
    with when(inner != 1):
        scatter(to, from_step, value, mask=mask)
