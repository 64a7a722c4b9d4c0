"""The kernels of the CTC loss: a recursion over steps in time, for each of the batch.

    ctc_paths                                        chances, out  (T, N, L)
        out[0, s] = chances[0, s] for s < 2, else -inf
        out[t, s] = chances[t, s] + log sum over k of exp out[t - 1, s - k], k = 2 only where leaps
                    out[t - 1, s] from the end on

    banded_recurrence                                shares (T, N, L, 3), b, out (T, N, L)
        out[t, s] = b[t, s] + sum over k of shares[t, s, k] out[t - 1, s - k]
        backwards:  b[t, s] + sum over k of shares[t + 1, s + k, k] out[t + 1, s + k]

    item             one of the batch: steps follow one another, vectors run along the labels
    accumulates in   the type of the output; the three ways are added in the order of k
    flops            12 an element of ctc_paths, 6 of the recurrence; bound by the exponentials

Labels that are not there read as -inf or 0. An output row is read again at the next step, so it
comes from the cache.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    constant,
    element,
    fma,
    gather,
    host,
    i64,
    iota,
    kernel,
    load,
    loop,
    maximum,
    ptr,
    select,
    splat,
    store,
    tail_mask,
    u8,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.kernel.maths import exp, log


class _Input:
    """An input with strides: its words are its address, then a stride an axis."""

    def __init__(self, args: Value, first: int, element: Type, axes: int) -> None:
        self.start = word_pointer(args, first, element)
        self.strides = [word_int(args, first + 1 + axis) for axis in range(axes)]

    def read(
        self, indices: tuple[Any, ...], along: int, lanes: int, mask: Value, other: Any
    ) -> Any:
        """Elements side by side along an axis, from `indices` on."""
        steps = zip(indices, self.strides, strict=True)
        place = self.start
        for index, stride in steps:
            place = place + index * stride
        apart = iota(i64, lanes) * splat(self.strides[along], lanes)
        return gather(place, apart, mask=mask, other=other)


def _shifted(row: Value, s: Value, way: int, lanes: int, mask: Value, other: float) -> Value:
    """The elements `way` places before s, ..., of a row."""
    there = (iota(i64, lanes) + splat(s, lanes)) >= way
    return load(row + (s - way), lanes, mask=mask & there, other=other)


@functools.cache
def paths_kernel(element: Type) -> Kernel:
    """The task of `ctc_paths`."""
    lanes = host().lanes(element)
    nothing = -math.inf

    @kernel
    def ctc_paths(args: ptr(i64), begin: i64, end: i64, worker: i64):
        out = word_pointer(args, 0, element)
        chances, leaps = _Input(args, 1, element, 3), _Input(args, 5, u8, 2)
        ends = _Input(args, 8, i64, 1)
        steps, batch, size = (word_int(args, 10 + i) for i in range(3))
        for n in loop(begin, end):
            last = load(ends.start + n * ends.strides[0])
            for s in loop(0, size, lanes):
                mask = tail_mask(size - s, lanes)
                own = chances.read((0, n, s), 2, lanes, mask, nothing)
                first = (iota(i64, lanes) + splat(s, lanes)) < 2
                store(
                    out + n * size + s, select(first, own, constant(element, nothing, lanes)), mask
                )
            for t in loop(1, steps):
                row = out + ((t - 1) * batch + n) * size
                for s in loop(0, size, lanes):
                    mask = tail_mask(size - s, lanes)
                    leap = leaps.read((n, s), 1, lanes, mask, 0) != 0
                    ways = [_shifted(row, s, way, lanes, mask & leap if way == 2 else mask, nothing)
                            for way in range(3)]  # fmt: skip
                    after = _log_sum(ways) + chances.read((t, n, s), 2, lanes, mask, nothing)
                    value = select(splat(t, lanes) < splat(last, lanes), after, ways[0])
                    store(row + batch * size + s, value, mask)

    return ctc_paths


def _log_sum(values: list[Value]) -> Value:
    """The logarithm of the sum of exponentials; -inf of -inf alone."""
    most = functools.reduce(maximum, values)
    infinite = abs(most) == math.inf
    shift = select(infinite, zeros(element(most.type), most.type.lanes), most)
    first, *others = [exp(value - shift) for value in values]
    total = functools.reduce(lambda a, b: a + b, others, first)
    return shift + log(total)


@functools.cache
def banded_kernel(element: Type, backwards: bool) -> Kernel:
    """The task of `banded_recurrence`."""
    lanes = host().lanes(element)

    @kernel
    def banded_recurrence(args: ptr(i64), begin: i64, end: i64, worker: i64):
        out = word_pointer(args, 0, element)
        shares, given = _Input(args, 1, element, 4), _Input(args, 6, element, 3)
        steps, batch, size = (word_int(args, 10 + i) for i in range(3))
        for n in loop(begin, end):
            for turn in loop(steps):
                t = steps - 1 - turn if backwards else turn
                earlier = t + 1 if backwards else t - 1
                place, row = (out + (at * batch + n) * size for at in (t, earlier))
                for s in loop(0, size, lanes):
                    mask = tail_mask(size - s, lanes)
                    total = given.read((t, n, s), 2, lanes, mask, 0)
                    for way in range(3):
                        ahead = way if backwards else 0
                        there = tail_mask(size - s - ahead, lanes) & splat(turn > 0, lanes)
                        at = (t + 1 if backwards else t, n, s + ahead, way)
                        share = shares.read(at, 2, lanes, there, 0)
                        before = _shifted(row, s + ahead, way - ahead, lanes, there, 0.0)
                        total = fma(share, before, total)
                    store(place + s, total, mask)

    return banded_recurrence
