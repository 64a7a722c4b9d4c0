"""The kernels of scans: each element of a row joined with all before it, in blocks.

    state = identity                            inputs   (rows, length)  any strides
    for column in range(length):                out      (rows, length)
        state = combine(state, inputs[row, column])
        out[row, column] = state

A vector is scanned in registers by log2(lanes) shifted combinations; the state of all before it,
the carry, then joins every lane. A long row is cut into blocks: one launch gives the total of each
block, one scans the totals, one scans the blocks from there. Where blocks and lanes lie depends on
the shape alone, so the bits are the same on any number of threads. Floats are scanned in float64
and narrowed at the store: the error of a float32 sum does not grow with its length. Bytes: the
input twice, the output once; that is the bound for sums, the arithmetic for logarithms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bedplate.kernel import (
    Value,
    cast,
    constant,
    extract,
    f32,
    f64,
    from_dtype,
    gather,
    i64,
    iota,
    kernel,
    load,
    loop,
    minimum,
    ptr,
    shuffle,
    splat,
    store,
    tail_mask,
    var,
    word_int,
    word_pointer,
)
from bedplate.kernel.types import Type

# a block is some 50 us of work, so that entering it costs little
BLOCK = 16384
# this many rows keep every core busy without cutting them
ENOUGH_ROWS = 32
# fixed, so that every machine adds up in one order: a register of float64 with AVX-512
LANES = 8

State = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Scan:
    """What is scanned: a state of one value an input, the last of which is the result.

    identity  (element type) -> the state that changes nothing, as Python numbers
    combine   (earlier state, later state) -> state; associative up to rounding
    widen     floats are scanned in float64; else float16 and bfloat16 in float32, others as is
    blocked   whether long rows may be cut: the states of blocks do not overflow on their own
    flops     an element, as the record's cost has them
    lane_ns   an element of a combination of all lanes, measured on one core of an AMD EPYC with
              AVX-512; the scan of a vector takes five such
    """

    name: str
    identity: Callable[[Type], tuple[Any, ...]]
    combine: Callable[[State, State], State]
    widen: bool = True
    blocked: bool = True
    flops: float = 1.0
    lane_ns: float = 0.1

    def accumulator(self, element: Type) -> Type:
        """The type of the state."""
        if not element.is_float:
            return element
        return f64 if self.widen else (f32 if element.bits == 16 else element)


def lower_scan(scan: Scan, inputs: Any, out: Any, builder: Any) -> None:
    """Enter the launches: one if the rows stay whole, else three."""
    rows, length = out.shape
    if rows * length == 0:
        return
    cut = scan.blocked and rows < ENOUGH_ROWS and length > BLOCK
    size = BLOCK if cut else length
    blocks = -(-length // size)
    element = from_dtype(out.dtype)
    totals = builder.temp(rows * blocks * 8, "totals")
    words = [word for view in inputs for word in (view, *view.strides)]
    words += [length, size, blocks, totals, out]
    steps = {view.strides[1] for view in inputs}
    step = steps.pop() if steps in ({1}, {-1}) else 0
    reads = [view.buffer for view in inputs]
    nbytes = float(rows * length * out.dtype.itemsize)
    lane_ns = scan.lane_ns * rows * length
    if cut:
        builder.launch(
            make_totals(scan, element, step), words[:-1], rows * blocks,
            reads=reads, writes=[totals], nbytes=nbytes, name=f"{scan.name}_totals",
            weight_ns=lane_ns,
        )  # fmt: skip
        builder.launch(
            make_prefixes(scan, element), [totals, blocks], rows,
            reads=[totals], writes=[totals], nbytes=16.0 * rows * blocks,
            name=f"{scan.name}_prefixes",
        )  # fmt: skip
    builder.launch(
        make_blocks(scan, element, step, cut), words, rows * blocks,
        reads=[*reads, totals] if cut else reads, writes=[out.buffer],
        flops=scan.flops * rows * length, nbytes=nbytes * (len(inputs) + 1), name=scan.name,
        weight_ns=5 * lane_ns,
    )  # fmt: skip


def _scanned(scan: Scan, state: State, identity: State) -> State:
    """The inclusive scan of the lanes of a state."""
    reach = 1
    while reach < LANES:
        # lane i of a shuffle below LANES is of the first vector: the identity fills in
        places = [i if i < reach else LANES + i - reach for i in range(LANES)]
        earlier = tuple(shuffle(a, b, places) for a, b in zip(identity, state, strict=True))
        state = scan.combine(earlier, state)
        reach *= 2
    return state


@dataclass(frozen=True)
class _Rows:
    """How a kernel reads its inputs, from the words that `lower_scan` writes."""

    scan: Scan
    element: Type
    step: int  # between columns: 1, -1, or 0 where only the words know

    def identity(self) -> State:
        total = self.scan.accumulator(self.element)
        return tuple(constant(total, v, LANES) for v in self.scan.identity(self.element))

    def words(self, args: Value) -> tuple[Value, Value, Value, Value, int]:
        """Length, size of a block, number of blocks, totals, and the place of the next word."""
        first = 3 * len(self.scan.identity(self.element))
        length, size, blocks = (word_int(args, first + i) for i in range(3))
        total = self.scan.accumulator(self.element)
        return length, size, blocks, word_pointer(args, first + 3, total), first + 4

    def starts(self, args: Value, row: Value) -> list[tuple[Value, Value]]:
        """(first element of the row, distance of columns) of each input: read once, not at each
        vector, which stores to the output would ask for."""
        found = []
        for number in range(len(self.scan.identity(self.element))):
            row_step, step = (word_int(args, 3 * number + i) for i in (1, 2))
            found.append((word_pointer(args, 3 * number, self.element) + row * row_step, step))
        return found

    def read(self, starts: list[tuple[Value, Value]], column: Value, left: Value | None) -> State:
        """The state of LANES columns, of which `left` (None: all) are no identity."""
        total = self.scan.accumulator(self.element)
        others = self.scan.identity(self.element)
        return tuple(
            cast(self._vector(start + column * step, step, left, other), total)
            for (start, step), other in zip(starts, others, strict=True)
        )

    def _vector(self, place: Value, step: Value, left: Value | None, other: Any) -> Value:
        if left is None:
            if self.step == 1:
                return load(place, LANES)
            left = constant(i64, LANES)
        mask = tail_mask(left, LANES)
        if self.step == 1:
            return load(place, LANES, mask=mask, other=other)
        if self.step == -1:
            mask = iota(i64, LANES) >= splat(LANES - left, LANES)
            value = load(place - (LANES - 1), LANES, mask=mask, other=other)
            return shuffle(value, value, range(LANES - 1, -1, -1))
        return gather(place, iota(i64, LANES) * splat(step, LANES), mask=mask, other=other)


def _vectors(first: Value, last: Value) -> Iterator[tuple[Value, Value | None]]:
    """(column, None) of whole vectors, then (column, how many columns are left)."""
    whole = last - (last - first) % LANES
    for column in loop(first, whole, LANES):
        yield column, None
    for column in loop(whole, last, LANES):
        yield column, last - column


@functools.cache
def make_totals(scan: Scan, element: Type, step: int) -> Any:
    """totals[item] = the combination of all of a block: lane by lane, then over the lanes."""
    rows = _Rows(scan, element, step)

    @kernel
    def scan_totals(args: ptr(i64), begin: i64, end: i64, worker: i64):
        length, size, blocks, totals, _ = rows.words(args)
        for item in loop(begin, end):
            row, first = item // blocks, item % blocks * size
            last = minimum(first + size, length)
            starts = rows.starts(args, row)
            parts = [var(value) for value in rows.identity()]
            for column, left in _vectors(first, last):
                state = rows.read(starts, column, left)
                joined = scan.combine(tuple(part.get() for part in parts), state)
                for part, value in zip(parts, joined, strict=True):
                    part.set(value)
            lanes = [tuple(extract(part.get(), i) for part in parts) for i in range(LANES)]
            store(totals + item, functools.reduce(scan.combine, lanes)[-1])

    return scan_totals


@functools.cache
def make_prefixes(scan: Scan, element: Type) -> Any:
    """Each total of a row replaced by the combination of those before it."""
    total = scan.accumulator(element)

    @kernel
    def scan_prefixes(args: ptr(i64), begin: i64, end: i64, worker: i64):
        totals, blocks = word_pointer(args, 0, total), word_int(args, 1)
        for row in loop(begin, end):
            before = var(constant(total, scan.identity(element)[-1]))
            for block in loop(blocks):
                place = totals + row * blocks + block
                own = load(place)
                store(place, before.get())
                before.set(scan.combine((before.get(),), (own,))[-1])

    return scan_prefixes


@functools.cache
def make_blocks(scan: Scan, element: Type, step: int, cut: bool) -> Any:
    """The scan of a block, from the combination of all before it."""
    rows = _Rows(scan, element, step)

    @kernel
    def scan_blocks(args: ptr(i64), begin: i64, end: i64, worker: i64):
        length, size, blocks, totals, word = rows.words(args)
        out = word_pointer(args, word, element)
        for item in loop(begin, end):
            row, first = item // blocks, item % blocks * size
            last = minimum(first + size, length)
            carry = [var(value) for value in rows.identity()]
            if cut:
                carry[-1].set(splat(load(totals + item), LANES))
            starts, to = rows.starts(args, row), out + row * length
            for column, left in _vectors(first, last):
                state = rows.read(starts, column, left)
                state = _scanned(scan, state, rows.identity())
                joined = scan.combine(tuple(part.get() for part in carry), state)
                for part, value in zip(carry, joined, strict=True):
                    part.set(shuffle(value, value, [LANES - 1] * LANES))
                mask = None if left is None else tail_mask(left, LANES)
                store(to + column, cast(joined[-1], element), mask=mask)

    return scan_blocks
