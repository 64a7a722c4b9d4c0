"""Choosing elements of each row by index, and adding to them: `row_take` and `row_add`.

    row_take(x, places)[r, i] = x[r, places[r, i]]             places  (rows, count) int32
    row_add(grad, places)[r, places[r, i]] += grad[r, i]       -1 chooses nothing: 0

They are each other's gradients. Places come from an op that found them (pooling), so they are in
range. One item is one row: it adds in the order of i, so the bits are the same on any threads.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from bedplate.dtypes import DType, int32
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.kernel import (
    Kernel,
    Type,
    cast,
    f32,
    from_dtype,
    gather,
    host,
    i32,
    i64,
    iota,
    kernel,
    load,
    loop,
    ptr,
    splat,
    store,
    tail_mask,
    when,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.build import Value
from bedplate.ops.elementwise import NUMBERS, widened
from bedplate.ops.record import Op, Sample, apply, each_element, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed


def _check(op: str, x: Any, places: Any) -> None:
    named = {"x": x, "places": places}
    if places.dtype is not int32 or x.dtype not in NUMBERS:
        refuse(DTypeError, op, "expected numbers and int32 places", named)
    if len(x.shape) != 2 or len(places.shape) != 2 or x.shape[0] != places.shape[0]:
        refuse(ShapeError, op, "expected matrices of as many rows", named)


def _take_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    x, places = inputs
    _check("row_take", x, places)
    return places.shape, x.dtype


def _add_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    x, places = inputs
    _check("row_add", x, places)
    if x.shape != places.shape:
        refuse(ShapeError, "row_add", "the shapes differ", {"x": x, "places": places})
    return (x.shape[0], attributes["width"]), x.dtype


def _take_reference(x: Any, places: Any) -> Any:
    if not x.shape[1]:
        return np.zeros(places.shape, x.dtype)
    taken = np.take_along_axis(x, np.maximum(places, 0).astype(np.int64), 1)
    return np.where(places < 0, x.dtype.type(0), taken)


def _add_reference(x: Any, places: Any, *, width: int) -> Any:
    total = np.zeros((x.shape[0], width), x.dtype)
    rows, columns = np.nonzero(places >= 0)
    np.add.at(total, (rows, places[rows, columns]), x[rows, columns])
    return total


def take_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Value, None]:
    """Each element of x gets the gradients of the places that chose it."""
    x, places = inputs
    return row_add(grad_out, places, x.shape[1]), None


def add_gradient(grad_out: Value, inputs: Any, output: Value, *, width: int) -> tuple[Value, None]:
    """Each element gets the gradient of the place that it was added to."""
    return row_take(grad_out, inputs[1]), None


def _lower_take(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    (x, places), (out,) = inputs, outputs
    if not out.size:
        return
    rows, count = out.shape
    builder.launch(
        take_kernel(from_dtype(x.dtype)),
        [x, places, out, count, *x.strides, *places.strides], rows,
        reads=[x.buffer, places.buffer], writes=[out.buffer],
        nbytes=float(out.size * (4 + 2 * x.dtype.itemsize)), name="row_take",
    )  # fmt: skip


def _lower_add(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    (x, places), (out,) = inputs, outputs
    if not out.size:
        return
    rows, width = out.shape
    element = from_dtype(x.dtype)
    narrow = element.is_narrow_float
    scratch = builder.scratch(4 * width) if narrow else out.buffer
    step = -(-4 * width // 64) * 16
    builder.launch(
        add_kernel(element),
        [x, places, out, x.shape[1], width, scratch, step, *x.strides, *places.strides], rows,
        reads=[x.buffer, places.buffer], writes=[out.buffer, *([scratch] if narrow else [])],
        flops=float(x.size), nbytes=float(x.size * (4 + x.dtype.itemsize) + out.size * 4),
        name="row_add",
    )  # fmt: skip


@functools.cache
def take_kernel(element: Type) -> Kernel:
    """An item is a row; vectors of places, one gather each."""
    lanes = host().lanes(f32)

    @kernel
    def row_take(args: ptr(i64), begin: i64, end: i64, worker: i64):
        count = word_int(args, 3)
        steps = [word_int(args, 4 + i) for i in range(4)]
        for row in loop(begin, end):
            source = word_pointer(args, 0, element) + row * steps[0]
            chosen = word_pointer(args, 1, i32) + row * steps[2]
            out = word_pointer(args, 2, element) + row * count
            for i in loop(0, count, lanes):
                mask = tail_mask(count - i, lanes)
                index = (iota(i64, lanes) + splat(i, lanes)) * splat(steps[3], lanes)
                place = gather(chosen, index, mask=mask, other=-1)
                at = cast(place, i64) * splat(steps[1], lanes)
                store(out + i, gather(source, at, mask=place >= 0), mask=mask)

    return row_take


@functools.cache
def add_kernel(element: Type) -> Kernel:
    """An item is a row: zeros, then one element after the other; 16-bit floats in float32."""
    narrow = element.is_narrow_float
    total = f32 if narrow else element
    lanes = host().lanes(total)

    @kernel
    def row_add(args: ptr(i64), begin: i64, end: i64, worker: i64):
        count, width = word_int(args, 3), word_int(args, 4)
        steps = [word_int(args, 7 + i) for i in range(4)]
        for row in loop(begin, end):
            source = word_pointer(args, 0, element) + row * steps[0]
            chosen = word_pointer(args, 1, i32) + row * steps[2]
            out = word_pointer(args, 2, element) + row * width
            sums = word_pointer(args, 5, total) + worker * word_int(args, 6) if narrow else out
            for i in loop(0, width, lanes):
                store(sums + i, zeros(total, lanes), mask=tail_mask(width - i, lanes))
            for i in loop(count):
                place = cast(load(chosen + i * steps[3]), i64)
                with when(place >= 0):
                    value = cast(load(source + i * steps[1]), total)
                    store(sums + place, load(sums + place) + value)
            if narrow:
                for i in loop(0, width, lanes):
                    mask = tail_mask(width - i, lanes)
                    store(out + i, cast(load(sums + i, lanes, mask=mask), element), mask=mask)

    return row_add


def _samples(sizes: tuple[tuple[int, int, int], ...], taken: bool) -> tuple[Sample, ...]:
    found = []
    for rows, width, count in sizes:
        shape = (rows, width if taken else count)

        def make(r: Any, shape: Any = shape, width: int = width, count: int = count) -> list[Any]:
            places = r.integers(-1, max(width, 0), (shape[0], count)).astype(np.int32)
            return [r.uniform(-2, 2, shape), places]

        attributes = {} if taken else {"width": width}
        found.append(mixed(make, f"{shape} by {count}", **attributes))
    return tuple(found)


_SIZES = ((3, 7, 5), (2, 40, 37), (1, 3, 40), (0, 3, 2), (2, 3, 0))

ROW_TAKE = register(
    Op(
        "row_take",
        "kernel",
        _take_infer,
        reference=_take_reference,
        gradient=take_gradient,
        cost=each_element(0, "no flops; what is chosen, read and written"),
        lower=_lower_take,
        dtypes=NUMBERS,
        samples=_samples(_SIZES, taken=True),
        doc="Elements of each row at the given places; 0 for the place -1.",
    )
)
ROW_ADD = register(
    Op(
        "row_add",
        "kernel",
        _add_infer,
        reference=widened(_add_reference),
        gradient=add_gradient,
        cost=each_element(1, "1 addition an element"),
        lower=_lower_add,
        dtypes=NUMBERS,
        samples=_samples(_SIZES, taken=False),
        doc="Rows of zeros with the given elements added at the given places; none for -1.",
    )
)


def row_take(x: Value, places: Value) -> Value:
    """x[r, places[r, i]], or 0 for the place -1."""
    return apply(ROW_TAKE, (x, places))


def row_add(x: Value, places: Value, width: int) -> Value:
    """Rows of `width` zeros with x[r, i] added to element places[r, i]."""
    return apply(ROW_ADD, (x, places), {"width": width})
