"""The kernel of scatter_add: zeros with rows[i] added to row indices[i], in the order of i.

    for column in columns:                      indices  (n,)           int64, in [0, n_rows)
        out[:, column] = 0                      rows     (n, width)     any strides
        for i in range(n):                      out      (n_rows, width)
            out[indices[i], column] += rows[i, column]

A work item owns a block of columns, so no two items write one element and the order of the sum
is that of the rows: the same bits on any number of threads, without atomics or sorting. float16
and bfloat16 are added up in float32 and narrowed at the end. Bound by memory: n_rows * width
elements are zeroed, n * width are read and as many are read and written again.
"""

from __future__ import annotations

import functools
from typing import Any

from bedplate.kernel import (
    cast,
    f32,
    from_dtype,
    gather,
    host,
    i64,
    iota,
    kernel,
    load,
    loop,
    ptr,
    splat,
    store,
    tail_mask,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.kernel.types import Type

# four cache lines of float32: long enough for the prefetcher, short enough to have many items
BLOCK_COLUMNS = 64
LEAST_COLUMNS = 16  # one cache line
WANTED_ITEMS = 8


def lower_scatter_add(
    builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None
) -> None:
    """Enter the launch: one item a block of columns."""
    (indices, rows), (out,) = inputs, outputs
    count, width = rows.shape
    n_rows = out.shape[0]
    if n_rows * width == 0:
        return
    block = max(LEAST_COLUMNS, min(BLOCK_COLUMNS, -(-width // WANTED_ITEMS // 16) * 16))
    dtype = rows.dtype
    narrow = dtype.is_float and dtype.itemsize == 2
    wide = builder.temp(n_rows * width * 4) if narrow else out
    builder.launch(
        make_scatter_add(from_dtype(dtype), rows.strides[1] == 1),
        [indices, indices.strides[0], rows, *rows.strides, count, wide, out, n_rows, width, block],
        -(-width // block),
        reads=[indices.buffer, rows.buffer],
        writes=[out.buffer, wide] if narrow else [out.buffer],
        flops=float(count * width),
        nbytes=float((3 * count + n_rows) * width * dtype.itemsize),
        name="scatter_add",
    )


@functools.cache
def make_scatter_add(element: Type, side_by_side: bool) -> Any:
    """The kernel for rows of `element`, whose columns lie side by side or at a stride."""
    total = f32 if element.is_float and element.bits == 16 else element
    lanes = min(host().lanes(total), LEAST_COLUMNS)

    @kernel
    def scatter_add(args: ptr(i64), begin: i64, end: i64, worker: i64):
        indices, index_step = word_pointer(args, 0, i64), word_int(args, 1)
        rows = word_pointer(args, 2, element)
        row_step, column_step, count = (word_int(args, word) for word in (3, 4, 5))
        sums, out = word_pointer(args, 6, total), word_pointer(args, 7, element)
        n_rows, width, block = (word_int(args, word) for word in (8, 9, 10))
        for item in loop(begin, end):
            first = item * block
            for row in loop(n_rows):
                for column in loop(0, block, lanes):
                    mask = tail_mask(width - first - column, lanes)
                    store(sums + row * width + first + column, zeros(total, lanes), mask=mask)
            for i in loop(count):
                place = sums + load(indices + i * index_step) * width + first
                for column in loop(0, block, lanes):
                    mask = tail_mask(width - first - column, lanes)
                    source = rows + i * row_step + (first + column) * column_step
                    value = _load_columns(source, column_step, lanes, mask, side_by_side)
                    old = load(place + column, lanes, mask=mask)
                    store(place + column, old + cast(value, total), mask=mask)
            if total is not element:
                _narrow_columns(sums, out, n_rows, width, first, block, lanes, element)

    return scatter_add


def _load_columns(source: Any, step: Any, lanes: int, mask: Any, side_by_side: bool) -> Any:
    if side_by_side:
        return load(source, lanes, mask=mask)
    return gather(source, iota(i64, lanes) * splat(step, lanes), mask=mask)


def _narrow_columns(
    sums: Any, out: Any, n_rows: Any, width: Any, first: Any, block: Any, lanes: int, element: Type
) -> None:
    """Cast the sums of a block of columns to the dtype of the output."""
    for row in loop(n_rows):
        for column in loop(0, block, lanes):
            mask = tail_mask(width - first - column, lanes)
            place = row * width + first + column
            store(out + place, cast(load(sums + place, lanes, mask=mask), element), mask=mask)
