"""The kernel of resampling: each place along one axis a weighted sum of some places.

    y[o, i, c] = sum over t of weight[t, i] x[o, place[t, i], c]      x (outer, size, inner)

    for item in items:                 an outer index, some places
        for i in places:               inner > 1: vectors along inner, one weight for each
        for i by lanes:                inner = 1: vectors of places, gathered
            for t in taps: y += weight * x

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
    loop,
    minimum,
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

X, OUT, BLOCKS, PLACES, TAPS, COUNT, INNER, STRIDE_OUTER, STRIDE, STRIDE_INNER = range(10)
TABLE, TABLE_ROW, TABLE_COLUMN = range(10, 13)


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
