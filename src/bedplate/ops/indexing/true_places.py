"""The places where a mask is true, in order: a record that is told how many to give.

    count = 0                                  mask  (length,)  bool
    for i in range(length):                    out   (n,)       int64
        out[count] = i
        count += mask[i]
    out[count:] = -1                           where fewer are true

Three launches: blocks are counted, the counts added up, the places of each block written from
there. A place is stored whether or not it stays, since the next one overwrites it: that takes no
branch that depends on the values. Bytes: the mask twice, the places once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import DType, bool_, int64
from bedplate.errors import DTypeError
from bedplate.graph.node import Attributes, Shape
from bedplate.kernel import (
    cast,
    constant,
    gather,
    i64,
    iota,
    kernel,
    load,
    loop,
    minimum,
    otherwise,
    ptr,
    reduce_add,
    splat,
    store,
    tail_mask,
    u8,
    var,
    when,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.build import Value, as_type
from bedplate.ops.record import NoGradient, Op, apply, each_element, register
from bedplate.ops.reduction.reduce import sum_
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import mixed
from bedplate.ops.shape.views import reshape

BLOCK = 16384  # some 20 us of work
LANES = 8
# an element, measured on one core of an AMD EPYC with AVX-512 that had other work besides, for 4
# million: 0.12 to 0.15 ns to count, 0.5 (nine of ten true) to 4 ns (three of ten) to place
COUNT_NS = 0.15
PLACE_NS = 2.0


def _infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (mask,) = inputs
    if mask.dtype is not bool_ or len(mask.shape) != 1:
        refuse_inputs(DTypeError, "true_places", "expected (length,) bool", inputs)
    return (attributes["count"],), int64


def _lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    (mask,), (out,) = inputs, outputs
    length = mask.shape[0]
    if not out.size:
        return
    blocks = max(-(-length // BLOCK), 1)
    starts = builder.temp(8 * (blocks + 1), "starts")
    words = [mask, mask.strides[0], length, blocks, starts]
    builder.launch(
        count_block, words, blocks, reads=[mask.buffer], writes=[starts], flops=float(length),
        nbytes=float(length), weight_ns=COUNT_NS * length, name="true_count",
    )  # fmt: skip
    builder.launch(
        add_up, words[3:], 1, reads=[starts], writes=[starts], nbytes=16.0 * blocks,
        name="true_starts",
    )  # fmt: skip
    builder.launch(
        write_places, [*words, out, out.size], blocks,
        reads=[mask.buffer, starts], writes=[out.buffer],
        nbytes=float(length + 8 * out.size), weight_ns=PLACE_NS * length, name="true_places",
    )  # fmt: skip


@kernel
def count_block(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """How many are true in a block, by lanes."""
    mask, step, length = word_pointer(args, 0, u8), word_int(args, 1), word_int(args, 2)
    starts = word_pointer(args, 4, i64)
    for item in loop(begin, end):
        last = minimum((item + 1) * BLOCK, length)
        total = var(zeros(i64, LANES))
        for i in loop(item * BLOCK, last, LANES):
            there = tail_mask(last - i, LANES)
            with when(step == 1):
                total.set(total.get() + cast(load(mask + i, LANES, mask=there), i64))
            with otherwise():
                found = gather(mask + i * step, iota(i64, LANES) * splat(step, LANES), mask=there)
                total.set(total.get() + cast(found, i64))
        store(starts + item, reduce_add(total.get()))


@kernel
def add_up(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """Each count replaced by the sum of those before it; behind the last, the sum of all."""
    blocks, starts = word_int(args, 0), word_pointer(args, 1, i64)
    for _ in loop(begin, end):
        total = var(constant(i64, 0))
        for block in loop(blocks):
            own = load(starts + block)
            store(starts + block, total.get())
            total.set(total.get() + own)
        store(starts + blocks, total.get())


@kernel
def write_places(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """The places of a block, from where those of the blocks before it end."""
    mask, step, length = word_pointer(args, 0, u8), word_int(args, 1), word_int(args, 2)
    starts, out, room = word_pointer(args, 4, i64), word_pointer(args, 5, i64), word_int(args, 6)
    blocks = word_int(args, 3)
    for item in loop(begin, end):
        at, stop = var(load(starts + item)), minimum(load(starts + (item + 1)), room)
        for i in loop(item * BLOCK, minimum((item + 1) * BLOCK, length)):
            with when(at.get() < stop):
                store(out + at.get(), i)
            at.set(at.get() + cast(load(mask + i * step), i64))
        with when(item == blocks - 1):
            for i in loop(stop, room):
                store(out + i, -1)


def _reference(mask: Any, *, count: int) -> Any:
    places = np.flatnonzero(mask)[:count]
    return np.concatenate([places, np.full(count - len(places), -1)]).astype(np.int64)


def _sample(length: int, every: int, more: int = 0) -> Any:
    def make(rng: Any) -> Any:
        return [rng.permutation(np.arange(length) % every == 0)]

    return mixed(make, f"{length} {every} {more}", count=-(-length // every) + more)


TRUE_PLACES = register(
    Op(
        "true_places",
        "kernel",
        _infer,
        reference=_reference,
        gradient=NoGradient("places are integers"),
        cost=each_element(1, "1 addition an element; the mask twice, the places once"),
        lower=_lower,
        dtypes=(bool_,),
        samples=(
            _sample(37, 3),
            _sample(9, 1),
            _sample(0, 1),
            _sample(40000, 7),
            _sample(40, 2, -5),
            _sample(0, 1, 3),
        ),
        doc="The first `count` places where a mask is true; -1 where there are fewer.",
    )
)


def true_places(mask: Value) -> Value:
    """(n,) int64: the places where a flattened mask is true. How many is computed at once."""
    flat = reshape(mask, (math.prod(mask.shape),))
    count = int(sum_(as_type(flat, int64)).item())
    return apply(TRUE_PLACES, (flat,), {"count": count})
