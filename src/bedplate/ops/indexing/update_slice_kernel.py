"""The kernel of update_slice: x copied, unless the result lies over it, then the new rows.

    out = x;  out[o, start + r, :] = values[o, r, :]      all as (outer, rows, inner)

Whether the result lies over x is seen by the two addresses, so one plan serves both.
"""

from __future__ import annotations

import functools

from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    cast,
    element,
    host,
    i64,
    kernel,
    load,
    loop,
    ptr,
    store,
    tail_mask,
    when,
    word_int,
    word_pointer,
)

# words of the task
X, OUT, VALUES, START, SIZE, INNER, COUNT, X_STRIDES, VALUE_STRIDES = 0, 1, 2, 3, 4, 5, 6, 7, 10


@functools.cache
def make_kernel(type_: Type, x_joined: bool, values_joined: bool) -> Kernel:
    """The task kernel; `joined`: neighbours of the innermost axis are neighbours in memory."""

    @kernel
    def update_slice(args: ptr(i64), begin: i64, end: i64, worker: i64):
        size, inner, count = (word_int(args, i) for i in (SIZE, INNER, COUNT))
        start = load(word_pointer(args, START, i64))
        for item in loop(begin, end):
            out = word_pointer(args, OUT, type_) + item * (size * inner)
            source = _rows(args, X, X_STRIDES, type_, item)
            with when(cast(source[0], i64) != cast(out, i64)):
                _copy(source, out, size, inner, x_joined)
            values = _rows(args, VALUES, VALUE_STRIDES, type_, item)
            _copy(values, out + start * inner, count, inner, values_joined)

    return update_slice


def _rows(args: Value, base: int, strides: int, type_: Type, item: Value) -> tuple[Value, ...]:
    """(where the rows of an item start, from row to row, from element to element)"""
    outer, row, column = (word_int(args, strides + i) for i in range(3))
    return word_pointer(args, base, type_) + item * outer, row, column


def _copy(source: tuple[Value, ...], to: Value, rows: Value, inner: Value, joined: bool) -> None:
    start, row_step, step = source
    lanes = host().lanes(element(to.type)) if joined else 1
    for row in loop(rows):
        at, there = start + row * row_step, to + row * inner
        if not joined:
            for i in loop(inner):
                store(there + i, load(at + i * step))
            continue
        whole = inner // lanes * lanes
        for i in loop(0, whole, lanes):
            store(there + i, load(at + i, lanes))
        with when(whole < inner):
            mask = tail_mask(inner - whole, lanes)
            store(there + whole, load(at + whole, lanes, mask), mask=mask)
