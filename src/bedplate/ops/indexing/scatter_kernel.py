"""The kernels of scatter: rows[i] joined into row indices[i], in the order of i.

    out[:] = start                              indices  (n,)           int64, in [0, n_rows)
    for i in range(n):                          rows     (n, width)     any strides
        out[indices[i]] = join(out[...], rows[i])   out  (n_rows, width)

`join` and its start are a row of JOINS. The kernel `last_writer` tells only which i came last.

Two launches. The first sorts the numbers i by destination, keeping their order (a counting sort,
serial, a few nanoseconds a row). The second owns blocks of destination rows and columns: it adds
up in registers, in the order of i, and stores each element once. So the bits are the same on any
number of threads, without atomics, and every element of `rows` and `out` crosses the memory bus
once; that is the bound. float16 and bfloat16 are added up in float32 and narrowed at the store.

Rows of up to FEW_COLUMNS are joined by one item in one launch, in the same order and with the same
bits: that takes less than sorting them.
"""

from __future__ import annotations

import functools
from typing import Any

from bedplate.dtypes import DType
from bedplate.kernel import (
    Value,
    cast,
    constant,
    f32,
    from_dtype,
    gather,
    host,
    i64,
    iota,
    kernel,
    load,
    loop,
    maximum,
    minimum,
    otherwise,
    ptr,
    select,
    splat,
    store,
    tail_mask,
    var,
    when,
    word_int,
    word_pointer,
)
from bedplate.ops.reduction.reduce import greatest, least

# a work item: some KiB of output, so that taking one costs little beside it
BLOCK_ROWS = 8
BLOCK_COLUMNS = 256
# vectors in flight: the latency of an addition (4 cycles) with one load a cycle
UNROLL = 4
# sorting takes 8 ns a row on one core, joining a number in memory 2 ns
FEW_COLUMNS = 4
# how two values become one, and where that starts from, by dtype
JOINS: dict[str, tuple[Any, Any]] = {
    "sum": (lambda a, b: a + b, lambda dtype: 0),
    "prod": (lambda a, b: a * b, lambda dtype: 1),
    "amax": (maximum, least),
    "amin": (minimum, greatest),
}


def lower_scatter_add(
    builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None
) -> None:
    """Enter the launches of sums."""
    _enter(builder, inputs, outputs, "sum")


def lower_scatter_reduce(
    builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None
) -> None:
    """Enter the launches of the join that the node names."""
    _enter(builder, inputs, outputs, node.attributes["reduce"])


def lower_last_writer(
    builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None
) -> None:
    """Enter the one launch."""
    (indices,), (out,) = inputs, outputs
    (count,), (n_rows,) = indices.shape, out.shape
    builder.launch(
        last_writer,
        [indices, indices.strides[0], count, out, n_rows],
        1,
        reads=[indices.buffer],
        writes=[out.buffer],
        nbytes=float(16 * count + 8 * n_rows),
        name="last_writer",
    )


def _enter(builder: Any, inputs: Any, outputs: Any, join: str) -> None:
    """The sort by destination, and the join."""
    (indices, rows), (out,) = inputs, outputs
    (count, width), n_rows = rows.shape, out.shape[0]
    if n_rows * width == 0:
        return
    if width <= FEW_COLUMNS and not from_dtype(rows.dtype).is_narrow_float:
        builder.launch(
            make_join_numbers(rows.dtype, join),
            [indices, indices.strides[0], count, rows, *rows.strides, out, n_rows, width],
            1,
            reads=[indices.buffer, rows.buffer],
            writes=[out.buffer],
            flops=float(count * width),
            nbytes=float(8 * count + (2 * count + n_rows) * width * rows.dtype.itemsize),
            name=f"scatter_{join}",
        )
        return
    ends, order = builder.temp(n_rows * 8 + 8), builder.temp(count * 8)
    builder.launch(
        sort_by_destination,
        [indices, indices.strides[0], count, n_rows, ends, order],
        1,
        reads=[indices.buffer],
        writes=[ends, order],
        nbytes=float(32 * count + 24 * n_rows),
        name="scatter_sort",
    )
    builder.launch(
        make_join_rows(rows.dtype, rows.strides[1] == 1, join),
        [ends, order, rows, *rows.strides, out, n_rows, width],
        -(-n_rows // BLOCK_ROWS) * -(-width // BLOCK_COLUMNS),
        reads=[ends, order, rows.buffer],
        writes=[out.buffer],
        flops=float(count * width),
        nbytes=float((count + n_rows) * width * rows.dtype.itemsize),
        name=f"scatter_{join}",
    )


@kernel
def sort_by_destination(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """order: the numbers i by destination; ends[row]: where in it those of row end."""
    indices, step = word_pointer(args, 0, i64), word_int(args, 1)
    count, n_rows = word_int(args, 2), word_int(args, 3)
    ends, order = word_pointer(args, 4, i64), word_pointer(args, 5, i64)
    for _ in loop(begin, end):
        for row in loop(n_rows + 1):
            store(ends + row, 0)
        for i in loop(count):
            place = ends + load(indices + i * step) + 1
            store(place, load(place) + 1)
        for row in loop(n_rows):
            store(ends + row + 1, load(ends + row + 1) + load(ends + row))
        for i in loop(count):
            place = ends + load(indices + i * step)
            free = load(place)
            store(order + free, i)
            store(place, free + 1)


@kernel
def last_writer(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """out[row]: the last i with indices[i] = row, or -1; a few nanoseconds an index, serial."""
    indices, step, count = word_pointer(args, 0, i64), word_int(args, 1), word_int(args, 2)
    out, n_rows = word_pointer(args, 3, i64), word_int(args, 4)
    for _ in loop(begin, end):
        for row in loop(n_rows):
            store(out + row, -1)
        for i in loop(count):
            store(out + load(indices + i * step), i)


@functools.cache
def make_join_numbers(dtype: DType, join: str) -> Any:
    """The kernel for rows of few columns: each number joined into its place, one by one."""
    element = from_dtype(dtype)
    joined, start_of = JOINS[join]

    @kernel
    def join_numbers(args: ptr(i64), begin: i64, end: i64, worker: i64):
        indices, step, count = word_pointer(args, 0, i64), word_int(args, 1), word_int(args, 2)
        rows, row_step, column_step = (
            word_pointer(args, 3, element),
            *(word_int(args, i) for i in (4, 5)),
        )
        out, n_rows, width = word_pointer(args, 6, element), word_int(args, 7), word_int(args, 8)
        for _ in loop(begin, end):
            for i in loop(n_rows * width):
                store(out + i, constant(element, start_of(dtype)))
            for i in loop(count):
                row = out + load(indices + i * step) * width
                for column in loop(width):
                    value = load(rows + i * row_step + column * column_step)
                    store(row + column, joined(load(row + column), value))

    return join_numbers


@functools.cache
def make_join_rows(dtype: DType, side_by_side: bool, join: str) -> Any:
    """The kernel for rows of `dtype`, whose columns lie side by side or at a stride."""
    element = from_dtype(dtype)
    total = f32 if element.is_narrow_float else element
    joined, start_of = JOINS[join]
    neutral = start_of(dtype)
    lanes = min(host().lanes(total), BLOCK_COLUMNS // UNROLL)

    @kernel
    def join_rows(args: ptr(i64), begin: i64, end: i64, worker: i64):
        ends, order = word_pointer(args, 0, i64), word_pointer(args, 1, i64)
        rows = word_pointer(args, 2, element)
        row_step, column_step = word_int(args, 3), word_int(args, 4)
        out, n_rows, width = word_pointer(args, 5, element), word_int(args, 6), word_int(args, 7)
        column_blocks = (width + (BLOCK_COLUMNS - 1)) // BLOCK_COLUMNS
        for item in loop(begin, end):
            first_row = item // column_blocks * BLOCK_ROWS
            first = item % column_blocks * BLOCK_COLUMNS
            last = minimum(first + BLOCK_COLUMNS, width)
            for row in loop(first_row, minimum(first_row + BLOCK_ROWS, n_rows)):
                start = select(row == 0, 0, load(ends + select(row == 0, row, row - 1)))
                stop = load(ends + row)
                for column in loop(first, last, lanes * UNROLL):
                    place = out + row * width + column
                    columns = rows + column * column_step

                    def source(s: Value, columns: Value = columns) -> Value:
                        return columns + load(order + s) * row_step

                    with when(column + lanes * UNROLL <= last):
                        _join(place, source, start, stop, column_step, None)
                    with otherwise():
                        _join(place, source, start, stop, column_step, last - column)

    def _join(
        place: Value, source: Any, start: Value, stop: Value, step: Value, left: Value | None
    ) -> None:
        """Join UNROLL vectors of columns over the sources; only `left` columns if given."""
        masks = [
            None if left is None else tail_mask(left - v * lanes, lanes) for v in range(UNROLL)
        ]
        totals = [var(constant(total, neutral, lanes)) for _ in range(UNROLL)]
        for s in loop(start, stop):
            columns = source(s)
            for v in range(UNROLL):
                value = _load_columns(columns + v * lanes * step, step, masks[v])
                totals[v].set(joined(totals[v].get(), cast(value, total)))
        for v in range(UNROLL):
            store(place + v * lanes, cast(totals[v].get(), element), mask=masks[v])

    def _load_columns(columns: Value, step: Value, mask: Value | None) -> Value:
        if side_by_side:
            return load(columns, lanes, mask=mask)
        return gather(columns, iota(i64, lanes) * splat(step, lanes), mask=mask)

    return join_rows
