"""Where values belong in sorted rows: searchsorted, bucketize, and membership.

    out[row, i] = how many elements of sorted[row] are less than values[row, i]     (side "left")
                  how many are not greater                                          (side "right")

Elements are compared by the keys of keys.py, so the order is that of `sort`: NaN is the
greatest, -0.0 equals 0.0. A vector of values walks down the halves of its row together; every step
is a gather and a comparison, no branch depends on a value. Cost: log2(length) gathers a vector.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from bedplate.dtypes import DType, bool_, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.kernel import (
    from_dtype,
    gather,
    i64,
    iota,
    kernel,
    loop,
    minimum,
    ptr,
    select,
    splat,
    store,
    tail_mask,
    var,
    while_,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.build import Value, promoted
from bedplate.ops.elementwise import ANY, NARROW_FLOATS
from bedplate.ops.indexing.gather import TAKE, take_along_axis
from bedplate.ops.pointwise.comparison import equal, less, logical_and, logical_not
from bedplate.ops.pointwise.extremes import minimum as smaller
from bedplate.ops.record import Cost, NoGradient, Op, apply, register
from bedplate.ops.reduction.reduce import any_
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed, rough
from bedplate.ops.shape.creation import full
from bedplate.ops.shape.views import expand_dims, reshape
from bedplate.ops.sorting.keys import Layout, layout_of
from bedplate.ops.sorting.sorting import sort

BLOCK = 4096  # values of a work item
# a value and halving, measured on one core of an AMD EPYC with AVX-512: 2 ns in 100 elements, 6 in
# 10 000, 16 in a million
HALVING_NS = 4.0
LANES = 8


def _infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    ordered, values = inputs
    named = {"sorted": ordered, "values": values}
    if ordered.dtype not in ANY or values.dtype is not ordered.dtype:
        refuse(DTypeError, "searchsorted", "expected one dtype that has an order", named)
    if len(ordered.shape) != 2 or len(values.shape) != 2 or ordered.shape[0] != values.shape[0]:
        refuse(ShapeError, "searchsorted", "expected matrices with as many rows", named)
    return values.shape, int64


def _reference(ordered: Any, values: Any, *, right: bool) -> Any:
    if ordered.dtype in NARROW_FLOATS:
        ordered, values = ordered.astype(np.float32), values.astype(np.float32)
    side = "right" if right else "left"
    rows = [np.searchsorted(a, v, side) for a, v in zip(ordered, values, strict=True)]
    return np.array(rows, np.int64).reshape(values.shape)


def _lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    ordered, values = inputs
    (out,) = outputs
    rows, count = values.shape
    if rows * count == 0:
        return
    length = ordered.shape[1]
    layout = layout_of(from_dtype(values.dtype), length, descending=False, indexed=False)
    blocks = -(-count // BLOCK)
    half = 1 << length.bit_length() - 1 if length else 0
    builder.launch(
        make_search(layout, node.attributes["right"]),
        [ordered, *ordered.strides, values, *values.strides, length, count, half, blocks, out],
        rows * blocks, reads=[ordered.buffer, values.buffer], writes=[out.buffer],
        flops=rows * count * math.log2(length + 1), name="searchsorted",
        weight_ns=HALVING_NS * rows * count * math.log2(length + 2),
    )  # fmt: skip


@functools.cache
def make_search(layout: Layout, right: bool) -> Any:
    """A block of the values of a row an item."""

    @kernel
    def search(args: ptr(i64), begin: i64, end: i64, worker: i64):
        ordered, values = (word_pointer(args, i, layout.raw) for i in (0, 3))
        row_steps, steps = [word_int(args, i) for i in (1, 4)], [word_int(args, i) for i in (2, 5)]
        length, count, half, blocks = (word_int(args, i) for i in range(6, 10))
        out = word_pointer(args, 10, i64)
        for item in loop(begin, end):
            row, first = item // blocks, item % blocks * BLOCK
            own, wanted = ordered + row * row_steps[0], values + row * row_steps[1]
            last = minimum(first + BLOCK, count)
            for i in loop(first, last, LANES):
                mask = tail_mask(last - i, LANES)
                places = iota(i64, LANES) * splat(steps[1], LANES)
                key = layout.key(gather(wanted + i * steps[1], places, mask))
                found, step = var(zeros(i64, LANES)), var(half)
                for _ in while_(lambda step=step: step.get() > 0):
                    reached = found.get() + splat(step.get(), LANES)
                    inside = reached <= splat(length, LANES)
                    index = (reached - 1) * splat(steps[0], LANES)
                    other = layout.key(gather(own, index, inside & mask))
                    is_before = other <= key if right else other < key
                    found.set(select(inside & is_before, reached, found.get()))
                    step.set(step.get() >> 1)
                store(out + row * count + i, found.get(), mask)

    return search


def _sample(length: int, count: int, rows: int, right: bool) -> Any:
    return mixed(
        lambda r: [
            np.sort(r.integers(-9, 9, (rows, length)) / 4.0, 1),
            r.integers(-11, 11, (rows, count)) / 4.0,
        ],
        f"{length} {count} {right}",
        right=right,
    )


def _comparisons(inputs: Any, output: Any, attributes: Attributes) -> float:
    return math.prod(output.shape) * math.log2(inputs[0].shape[-1] + 1)


SEARCH = register(
    Op(
        "searchsorted",
        "kernel",
        _infer,
        reference=_reference,
        gradient=NoGradient("places are integers"),
        cost=Cost("log2 N comparisons a value", _comparisons),
        lower=_lower,
        dtypes=ANY,
        samples=(
            *(_sample(37, 21, 2, right) for right in (False, True)),
            *(_sample(length, 5, 1, True) for length in (0, 1, 2, 64)),
            _sample(5, 0, 3, False),
            rough(
                lambda r: [
                    np.array([[-np.inf, -0.0, 0.0, 1, np.inf, np.nan, np.nan]]),
                    np.array([[np.nan, 0.0, -0.0, np.inf, -np.inf, 2]]),
                ],
                "special",
                right=False,
            ),
        ),
        doc="How many elements of each sorted row are less than each value, or not greater.",
    )
)


def searchsorted(
    x1: Value, x2: Value, side: str = "left", sorter: Value | None = None, right: bool = False
) -> Value:
    """The places at which values would be inserted into a sorted row to keep it sorted.

    x1       (n,), or (..., n) with the leading axes of x2: sorted as `sort` does, NaN last
    x2       values, any shape if x1 has one axis; a number
    side     "left": before equal elements; "right": behind them
    sorter   int64, shape of x1: the places that sort x1, as `argsort` gives them
    right    True is another word for side="right"
    returns  int64, shape of x2, in [0, n]; no gradient, since places are integers
    raises   ShapeError if the shapes do not fit; DTypeError for complex numbers; ValueError for
             another side
    cost     log2(n) gathers an element of x2
    >>> import bedplate as bp
    >>> bp.searchsorted(bp.tensor([1, 3, 5]), bp.tensor([3, 4])).tolist()
    [1, 2]
    """
    if side not in ("left", "right"):
        raise ValueError(f'searchsorted: side is "left" or "right", not {side!r}')
    x1, x2 = promoted("searchsorted", (x1, x2))
    return _search(x1, x2, side == "right" or right, sorter)


def _search(x1: Value, x2: Value, right: bool, sorter: Value | None = None) -> Value:
    named = {"x1": x1, "x2": x2}
    if x1.dtype not in ANY:
        refuse(DTypeError, "searchsorted", "complex numbers have no order", named)
    if not x1.shape or (len(x1.shape) > 1 and x1.shape[:-1] != x2.shape[:-1]):
        refuse(
            ShapeError, "searchsorted", "the shapes do not fit", named,
            "x1 has one axis, or its axes but the last are those of x2",
        )  # fmt: skip
    if sorter is not None:
        if sorter.shape != x1.shape:
            refuse(ShapeError, "searchsorted", "the shapes differ", {"x1": x1, "sorter": sorter})
        x1 = take_along_axis(x1, sorter)
    rows = math.prod(x1.shape[:-1])
    values = reshape(x2, (rows, math.prod(x2.shape) // rows if rows else 0))
    found = apply(SEARCH, (reshape(x1, (rows, x1.shape[-1])), values), {"right": right})
    return reshape(found, x2.shape)


def bucketize(x: Value, boundaries: Value, right: bool = False) -> Value:
    """The number of the bucket of each element: boundaries[i - 1] < x <= boundaries[i].

    boundaries  (n,), sorted
    right       boundaries[i - 1] <= x < boundaries[i]
    returns     int64, shape of x, in [0, n]: `searchsorted` with the arguments exchanged
    >>> import bedplate as bp
    >>> bp.bucketize(bp.tensor([0.5, 1.0, 9.0]), bp.tensor([1.0, 2.0])).tolist()
    [0, 0, 2]
    """
    return searchsorted(boundaries, x, side="right" if right else "left")


def isin(x1: Value, x2: Value, invert: bool = False) -> Value:
    """Whether each element of x1 occurs in x2; NaN occurs nowhere.

    x1, x2   any shapes, also numbers
    invert   whether it does not occur
    returns  bool, shape of x1
    cost     a sort of x2 and a search for each element of x1
    >>> import bedplate as bp
    >>> bp.isin(bp.tensor([1, 2, 3]), bp.tensor([3, 1])).tolist()
    [True, False, True]
    """
    x1, x2 = promoted("isin", (x1, x2))
    pool = reshape(x2, (math.prod(x2.shape),))
    if pool.shape[0] == 0:
        found = full(x1, x1.shape, False, bool_)
    elif x1.dtype in ANY:
        pool = sort(pool)
        place = _search(pool, x1, right=False)
        nearest = apply(TAKE, (pool, smaller(place, pool.shape[0] - 1)), {"axis": 0})
        found = logical_and(less(place, pool.shape[0]), equal(nearest, x1))
    else:  # complex numbers have no order: each is compared with all
        found = any_(equal(expand_dims(x1, -1), pool), axis=-1)
    return logical_not(found) if invert else found
