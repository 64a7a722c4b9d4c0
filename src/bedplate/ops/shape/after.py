"""after: a copy of a value that is not made before other values are known.

    out = x

What is computed from the copy is not what is computed from x, so no pass takes the two for one,
and none of it can run early: this is how `rematerialise` has its values computed a second time,
late, in place of being kept. The copy costs one pass over x.
"""

from __future__ import annotations

import functools
from typing import Any

from bedplate.dtypes import ALL, DType
from bedplate.graph.node import Attributes, Shape
from bedplate.kernel import (
    Kernel,
    Type,
    from_dtype,
    host,
    i64,
    kernel,
    load,
    loop,
    maximum,
    minimum,
    ptr,
    store,
    tail_mask,
    when,
    word_int,
    word_pointer,
)
from bedplate.ops.build import Value
from bedplate.ops.record import Cost, Op, register
from bedplate.ops.samples import mixed

# words of the task
X, OUT, COUNT, STRIDE = range(4)
ITEM = 16384  # elements that an item copies: 64 KiB of float32, far above the cost of an item


def _infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    return inputs[0].shape, inputs[0].dtype


def after_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, ...]:
    """The gradient itself to x; the others only say when."""
    return (grad_out, *[None] * (len(inputs) - 1))


@functools.cache
def make_kernel(type_: Type, joined: bool) -> Kernel:
    """The task kernel; `joined`: neighbours are neighbours in memory."""
    lanes = host().lanes(type_) if joined else 1

    @kernel
    def after(args: ptr(i64), begin: i64, end: i64, worker: i64):
        x, out = word_pointer(args, X, type_), word_pointer(args, OUT, type_)
        last, stride = minimum(end * ITEM, word_int(args, COUNT)), word_int(args, STRIDE)
        first = begin * ITEM
        whole = first + maximum(last - first, 0) // lanes * lanes
        for i in loop(first, whole, lanes):
            store(out + i, load(x + i, lanes) if joined else load(x + i * stride))
        if joined:
            with when(whole < last):
                mask = tail_mask(last - whole, lanes)
                store(out + whole, load(x + whole, lanes, mask), mask=mask)

    return after


def lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter the one launch: it counts as a reader of the other values, whose memory it leaves."""
    (x, *others), (out,) = inputs, outputs
    if not out.size:
        return
    launch = builder.launch(
        make_kernel(from_dtype(x.dtype), x.strides[0] == 1),
        [x, out, out.size, x.strides[0]],
        -(-out.size // ITEM),
        reads=[x.buffer, *[view.buffer for view in others]],
        writes=[out.buffer],
        nbytes=2.0 * out.size * x.dtype.itemsize,
        name="after",
    )
    if x.contiguous and not x.offset:
        launch.in_place.append((x.buffer, out.buffer))


AFTER = register(
    Op(
        "after",
        "kernel",
        _infer,
        reference=lambda x, *others: x,
        gradient=after_gradient,
        cost=Cost("no arithmetic; x is copied", lambda *_: 0.0),
        lower=lower,
        by_parts=True,
        dtypes=ALL,
        samples=(
            mixed(lambda r: [r.random(37), r.random((2, 3))], "one"),
            mixed(lambda r: [r.random(20000), r.random(1), r.random(4)], "two, several items"),
            mixed(lambda r: [r.random(0), r.random(3)], "nothing"),
        ),
        doc="A copy that is made when other values are known.",
    )
)
