"""The memory of users' kernels: outputs that start as zeros, inputs in order or as copies."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from bedplate.kernel import (
    Kernel,
    constant,
    from_dtype,
    host,
    i64,
    kernel,
    load,
    loop,
    minimum,
    ptr,
    quotient,
    store,
    tail_mask,
    u8,
    word_int,
    word_pointer,
    zeros,
)

# bytes of an output that one work item sets to zero: taking one costs little beside it
CLEARED = 1 << 18


def clear(builder: Any, view: Any) -> None:
    """Set an output to zero."""
    size = view.size * view.dtype.itemsize
    builder.launch(
        set_to_zero, [view, size], -(-size // CLEARED), reads=[], writes=[view.buffer],
        nbytes=float(size), name="clear",
    )  # fmt: skip


@kernel
def set_to_zero(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """out[:] = 0, in bytes; an item is CLEARED of them."""
    out, size = word_pointer(args, 0, u8), word_int(args, 1)
    lanes = host().lanes(u8)
    stop = minimum(end * CLEARED, size)
    for at in loop(begin * CLEARED, stop, lanes):
        store(out + at, zeros(u8, lanes), tail_mask(stop - at, lanes))


def contiguous(builder: Any, view: Any, copied: bool) -> Any:
    """The view, or a copy of it: where its elements do not lie in order, or if `copied`."""
    if not view.size or (view.contiguous and not copied):
        return view
    if not view.shape:
        view = dataclasses.replace(view, shape=(1,), strides=(1,))
    copy = builder.temp(view.size * view.dtype.itemsize, "contiguous")
    words = [view, copy, *view.shape[1:], *view.strides]
    builder.launch(
        make_copy(from_dtype(view.dtype), len(view.shape)), words, view.shape[0],
        reads=[view.buffer], writes=[copy], nbytes=2.0 * view.size * view.dtype.itemsize,
        name="contiguous",
    )  # fmt: skip
    return copy


@functools.cache
def make_copy(element: Any, rank: int) -> Kernel:
    """out[i, ...] = x[i, ...] for a strided x of some rank; an item is an index of axis 0."""

    @kernel
    def copy_in_order(args: ptr(i64), begin: i64, end: i64, worker: i64):
        x, out = word_pointer(args, 0, element), word_pointer(args, 1, element)
        sizes = [word_int(args, 2 + axis) for axis in range(rank - 1)]
        strides = [word_int(args, 1 + rank + axis) for axis in range(rank)]
        count = functools.reduce(lambda a, b: a * b, sizes, constant(i64, 1))
        for item in loop(begin, end):
            for place in loop(count):
                offset, rest = item * strides[0], place
                for axis in range(rank - 1, 0, -1):
                    above = quotient(rest, sizes[axis - 1])
                    offset = offset + (rest - above * sizes[axis - 1]) * strides[axis]
                    rest = above
                store(out + (item * count + place), load(x + offset))

    return copy_in_order
