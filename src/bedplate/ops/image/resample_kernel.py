"""The kernel of resampling: each place along one axis a weighted sum of some places.

    y[o, i, c] = sum over t of weight[t, i] x[o, place[t, i], c]      x (outer, size, inner)

    for item in items:                 an outer index, some places
        for i in places:               inner > 1: vectors along inner, one weight for each
        for i by lanes:                inner = 1: vectors of places, gathered
            for t in taps: y += weight * x

Places and weights stand among the words of the launch, after N_WORDS of them: all places of the
first tap, of the second, ...; then the weights in the same order. A tap that a place does not
have has the place -1 and is left out, so that 0 times infinity does not arise. An output is one
chain of multiply-adds: its bits do not depend on the number of threads.

    accumulates in   the type of x, which is float32 or float64
    bytes            x once (from the cache for each further tap), y once
"""

from __future__ import annotations

import functools
from typing import Any

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
N_WORDS = 10


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


def _along_inner(
    element: Type, lanes: int, args: Value, source: Value, i: Value, c: Value, mask: Value
) -> Value:
    taps, count = word_int(args, TAPS), word_int(args, COUNT)
    weights = cast(args, ptr(f64))
    total = var(zeros(element, lanes))
    for t in loop(taps):
        place = load(args + (t * count + i) + N_WORDS)
        with when(place >= 0):
            weight = cast(load(weights + ((taps + t) * count + i) + N_WORDS), element)
            row = source + place * word_int(args, STRIDE) + c
            value = load(row, lanes, mask=mask)
            total.set(fma(splat(weight, lanes), value, total.get()))
    return total.get()


def _along_places(
    element: Type, lanes: int, args: Value, column: Value, i: Value, mask: Value
) -> Value:
    taps, count = word_int(args, TAPS), word_int(args, COUNT)
    weights = cast(args, ptr(f64))
    total = var(zeros(element, lanes))
    for t in loop(taps):
        place = load(args + (t * count + i) + N_WORDS, lanes, mask=mask, other=-1)
        there = place >= 0
        at = weights + ((taps + t) * count + i) + N_WORDS
        weight = cast(load(at, lanes, mask=mask), element)
        value = gather(column, place * splat(word_int(args, STRIDE), lanes), mask=there)
        total.set(select(there, fma(weight, value, total.get()), total.get()))
    return total.get()


def _store_places(to: Value, value: Value, inner: Value, mask: Value, lanes: int) -> None:
    from_step = iota(i64, lanes) * splat(inner, lanes)
    with when(inner == 1):
        store(to, value, mask=mask)
    with when(inner != 1):
        scatter(to, from_step, value, mask=mask)


def words_of(places: Any, weights: Any) -> list[int | float]:
    """The words that follow the first N_WORDS, from (count, taps) tables."""
    return [*(int(p) for p in places.T.ravel()), *(float(w) for w in weights.T.ravel())]
