"""Regions: slices of a value, and values put together from pieces (pad, update, concat, stack).

A little long, because the gradient of each of these is made of the others.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from bedplate.dtypes import ALL, DType
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import (
    Value,
    is_index,
    normalised_axes,
    normalised_axis,
    number,
    promoted,
    several,
)
from bedplate.ops.leaves import fitting
from bedplate.ops.record import Op, apply, register
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import floats
from bedplate.ops.shape.views import Axes, broadcast_to, expand_dims, squeeze


def slice_count(start: int, stop: int, step: int) -> int:
    """How many elements a slice has."""
    count = -((start - stop) // step) if step > 0 else -((stop - start) // -step)
    return count if count > 0 else 0


def slice_gradient(
    grad_out: Value, inputs: Any, output: Value, *, starts: Shape, stops: Shape, steps: Shape
) -> tuple[Any]:
    """Zeros with the gradient in the region that was taken."""
    (x,) = inputs
    backward = tuple(axis for axis, step in enumerate(steps) if step < 0)
    grad = flip(grad_out, backward) if backward else grad_out
    if 0 in grad.shape:
        return (broadcast_to(number(grad_out, 0), x.shape),)
    first = tuple(
        start if step > 0 else start + (size - 1) * step
        for start, step, size in zip(starts, steps, grad.shape, strict=True)
    )
    return (placed(grad, x.shape, first, tuple(abs(step) for step in steps)),)


def _slice_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    bounds = zip(attributes["starts"], attributes["stops"], attributes["steps"], strict=True)
    return tuple([slice_count(*bound) for bound in bounds]), inputs[0].dtype


def _slice_reference(x: Any, *, starts: Shape, stops: Shape, steps: Shape) -> Any:
    return x[
        tuple(
            slice(start, None if stop < 0 else stop, step)
            for start, stop, step in zip(starts, stops, steps, strict=True)
        )
    ]


SLICE = register(
    Op(
        "slice",
        "view",
        _slice_infer,
        reference=_slice_reference,
        gradient=slice_gradient,
        by_parts=True,
        dtypes=ALL,
        samples=(
            floats((5, 6), starts=(1, 0), stops=(4, 6), steps=(1, 1)),
            floats((7, 9), starts=(6, 1), stops=(-1, 8), steps=(-2, 3)),
            floats((4,), starts=(2,), stops=(2,), steps=(1,)),
        ),
        doc="Elements start, start + step, ... before stop, along each axis; step may be negative "
        "(then stop may be -1: before the first element).",
    )
)


def slice_(
    x: Value, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int] | None = None
) -> Value:
    """Elements start, start + step, ... before stop, along each axis.

    starts, stops  one an axis; 0 <= start <= size and start <= stop <= size for positive steps;
                   0 <= start < size and -1 <= stop <= start for negative ones
    >>> import bedplate as bp
    >>> bp.tensor([1, 2, 3, 4])[1:3].tolist()
    [2, 3]
    """
    ones = (1,) * len(starts)
    steps = ones if steps is None else tuple(steps)
    starts, stops = tuple(starts), tuple(stops)
    if stops == x.shape and steps == ones and not any(starts):
        return x._alias()
    return apply(SLICE, (x,), {"starts": starts, "stops": stops, "steps": steps})


def narrow(x: Value, axis: int, start: int, size: int) -> Value:
    """The elements start to start + size of one axis.

    axis     which
    start    the first element, counted from the front
    size     how many
    returns  shape of x with `size` along the axis
    raises   ShapeError for an axis that does not exist, and for elements that do not
    cost     none
    >>> import bedplate as bp
    >>> bp.narrow(bp.tensor([1, 2, 3, 4]), 0, 1, 2).tolist()
    [2, 3]
    """
    axis = normalised_axis("narrow", axis, len(x.shape), x)
    start, size = operator.index(start), operator.index(size)
    if not 0 <= start <= start + size <= x.shape[axis]:
        refuse_inputs(
            ShapeError, "narrow", f"{start} to {start + size} leaves axis {axis}", (x,),
            f"the axis has size {x.shape[axis]}",
        )  # fmt: skip
    starts, stops = [0] * len(x.shape), list(x.shape)
    starts[axis], stops[axis] = start, start + size
    return slice_(x, starts, stops)


def flip(x: Value, axis: Axes | None = None) -> Value:
    """Reverse the order along axes; None for all.

    axis     one, several, or None
    returns  y[i] = x[n - 1 - i] along each
    raises   ShapeError for an axis that does not exist
    cost     none: whoever reads the result reads x backwards
    >>> import bedplate as bp
    >>> bp.flip(bp.tensor([1, 2, 3])).tolist()
    [3, 2, 1]
    """
    axes = normalised_axes("flip", None if axis is None else several(axis), x)
    axes = tuple(axis for axis in axes if x.shape[axis] > 1)
    starts = [size - 1 if axis in axes else 0 for axis, size in enumerate(x.shape)]
    stops = [-1 if axis in axes else size for axis, size in enumerate(x.shape)]
    return slice_(x, starts, stops, [-1 if axis in axes else 1 for axis in range(len(x.shape))])


def split(x: Value, sizes: int | Sequence[int], axis: int = 0) -> tuple[Value, ...]:
    """Cut an axis into pieces of the given sizes; an integer is the size of each but the last.

    sizes    sizes of the pieces, or one for all
    axis     which
    returns  a tuple of pieces
    raises   ShapeError if the sizes do not add up to the axis; ValueError for a size below 1
    cost     none: each is read where x lies
    >>> import bedplate as bp
    >>> [piece.tolist() for piece in bp.split(bp.tensor([1, 2, 3]), 2)]
    [[1, 2], [3]]
    """
    axis = normalised_axis("split", axis, len(x.shape), x)
    total = x.shape[axis]
    if is_index(sizes):
        (size,) = several(sizes)
        if size < 1:
            raise ValueError(f"split: the size of a piece must be positive, got {size}")
        sizes = [min(size, total - start) for start in range(0, total, size)] or [0]
    sizes = several(sizes)
    if sum(sizes) != total or min(sizes, default=0) < 0:
        refuse_inputs(
            ShapeError, "split", f"sizes {sizes} do not add up to axis {axis}", (x,),
            f"the axis has size {total}, the sizes add up to {sum(sizes)}",
        )  # fmt: skip
    ends = np.cumsum(sizes).tolist()
    return tuple(narrow(x, axis, end - size, size) for end, size in zip(ends, sizes, strict=True))


def chunk(x: Value, count: int, axis: int = 0) -> tuple[Value, ...]:
    """Cut an axis into at most `count` pieces of equal size; the last may be smaller.

    count    how many
    axis     which
    returns  ceil(size / count) elements each, the last what is left
    raises   ShapeError for an axis that does not exist; ValueError for a count below 1
    >>> import bedplate as bp
    >>> [piece.shape for piece in bp.chunk(bp.zeros((5, 2)), 2)]
    [(3, 2), (2, 2)]
    """
    axis = normalised_axis("chunk", axis, len(x.shape), x)
    if count < 1:
        raise ValueError(f"chunk: the number of pieces must be positive, got {count}")
    return split(x, max(1, -(-x.shape[axis] // count)), axis)


def unstack(x: Value, axis: int = 0) -> tuple[Value, ...]:
    """The slices along an axis, without that axis.

    axis     which
    returns  as many as the axis is long
    raises   ShapeError for an axis that does not exist
    cost     none: each is read where x lies
    >>> import bedplate as bp
    >>> [row.tolist() for row in bp.unstack(bp.tensor([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    axis = normalised_axis("unstack", axis, len(x.shape), x)
    return tuple(squeeze(narrow(x, axis, i, 1), axis) for i in range(x.shape[axis]))


def placed(x: Value, shape: Shape, starts: Shape, steps: Shape) -> Value:
    """x as a region of zeros: element i of x goes to starts + i * steps."""
    if all(step == 1 for step in steps):
        widths = tuple(
            (start, size - start - inner)
            for start, size, inner in zip(starts, shape, x.shape, strict=True)
        )
        return pad(x, widths)
    zeros = broadcast_to(number(x, 0), shape)
    return apply(UPDATE, (zeros, x), {"starts": starts, "steps": steps})


def pad_gradient(
    grad_out: Value, inputs: Any, output: Value, *, widths: Any, value: float
) -> tuple[Any]:
    """The region that x takes."""
    starts = [before for before, _ in widths]
    stops = [before + size for (before, _), size in zip(widths, inputs[0].shape, strict=True)]
    return (slice_(grad_out, starts, stops),)


def _pad_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (x,) = inputs
    pairs = zip(x.shape, attributes["widths"], strict=True)
    return tuple(size + before + after for size, (before, after) in pairs), x.dtype


PAD = register(
    Op(
        "pad",
        "assemble",
        _pad_infer,
        reference=lambda x, *, widths, value: np.pad(x, widths, constant_values=value),
        gradient=pad_gradient,
        dtypes=ALL,
        samples=(
            floats((3, 4), widths=((1, 2), (0, 3)), value=0.0),
            floats((5,), widths=((2, 0),), value=1.5),
            floats((0, 2), widths=((1, 1), (0, 0)), value=0.0),
        ),
        doc="x with `value` around it.",
    )
)


def pad(x: Value, widths: Any, value: bool | int | float = 0) -> Value:
    """Put a number around a value.

    widths   (before, after) for each axis; one pair, or one integer, for all
    value    the number
    returns  before + size + after along each axis; the gradient is that of the middle
    raises   ShapeError if the pairs do not match the axes; ValueError for a negative width
    >>> import bedplate as bp
    >>> bp.pad(bp.tensor([1, 2]), (1, 2)).tolist()
    [0, 1, 2, 0, 0]
    """
    pairs = np.asarray(widths)
    if pairs.ndim < 2:
        pairs = np.broadcast_to(pairs, (len(x.shape), 2))
    if pairs.shape != (len(x.shape), 2):
        refuse_inputs(
            ShapeError, "pad", f"widths {widths!r} do not match the axes", (x,),
            "one pair (before, after) for each axis",
        )  # fmt: skip
    if pairs.size and (pairs.dtype.kind not in "iu" or pairs.min() < 0):
        raise ValueError(f"pad: widths are integers and not negative, got {widths!r}")
    if not pairs.any():
        return x._alias()
    whole = tuple((before, after) for before, after in pairs.tolist())
    return apply(PAD, (x,), {"widths": whole, "value": fitting(value, x.dtype)})


def update_gradient(
    grad_out: Value, inputs: Any, output: Value, *, starts: Shape, steps: Shape
) -> tuple[Any, Any]:
    """x has none where it was overwritten; v has that of its region."""
    v = inputs[1]
    attributes = {"starts": starts, "steps": steps}
    zeros = broadcast_to(number(grad_out, 0), v.shape)
    stops = region_stops(v.shape, starts, steps)
    return (
        apply(UPDATE, (grad_out, zeros), attributes),
        apply(SLICE, (grad_out,), {**attributes, "stops": stops}),
    )


def region_stops(sizes: Shape, starts: Shape, steps: Shape) -> Shape:
    """The end of a region of the given sizes, just behind its last element."""
    return tuple(
        start + (size - 1) * step + 1 if size else start
        for size, start, step in zip(sizes, starts, steps, strict=True)
    )


def _update_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    x, v = inputs
    if x.dtype is not v.dtype:
        refuse_inputs(DTypeError, "update", "the dtypes differ", inputs)
    stops = region_stops(v.shape, attributes["starts"], attributes["steps"])
    if len(x.shape) != len(v.shape) or any(a > b for a, b in zip(stops, x.shape, strict=True)):
        refuse_inputs(ShapeError, "update", f"the region ends at {stops}", inputs)
    return x.shape, x.dtype


def _update_reference(x: Any, v: Any, *, starts: Shape, steps: Shape) -> Any:
    result = x.copy()
    region = zip(starts, region_stops(v.shape, starts, steps), steps, strict=True)
    result[tuple(slice(*bounds) for bounds in region)] = v
    return result


UPDATE = register(
    Op(
        "update",
        "assemble",
        _update_infer,
        reference=_update_reference,
        gradient=update_gradient,
        by_parts=True,
        dtypes=ALL,
        samples=(
            floats((5, 6), (2, 3), starts=(1, 2), steps=(1, 1)),
            floats((7,), (3,), starts=(1,), steps=(2,)),
            floats((3, 2), (0, 2), starts=(1, 0), steps=(1, 1)),
        ),
        doc="x with the region from `starts` in `steps` (positive) replaced by v.",
    )
)


def concat_gradient(grad_out: Value, inputs: Any, output: Value, *, axis: int) -> tuple[Any, ...]:
    """The piece that each input is."""
    return split(grad_out, [x.shape[axis] for x in inputs], axis)


def _concat_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    axis = attributes["axis"]
    first = inputs[0]
    for x in inputs:
        if x.dtype is not first.dtype:
            refuse_inputs(DTypeError, "concat", "the dtypes differ", inputs)
        same = len(x.shape) == len(first.shape) and all(
            a == b or i == axis for i, (a, b) in enumerate(zip(x.shape, first.shape, strict=True))
        )
        if not same:
            refuse_inputs(
                ShapeError, "concat", f"the shapes differ beside axis {axis}", inputs,
                "all sizes but that of the axis must be equal",
            )  # fmt: skip
    total = sum(x.shape[axis] for x in inputs)
    return (*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype


CONCAT = register(
    Op(
        "concat",
        "assemble",
        _concat_infer,
        reference=lambda *arrays, axis: np.concatenate(arrays, axis),
        gradient=concat_gradient,
        by_parts=True,
        dtypes=ALL,
        samples=(
            floats((2, 3), (4, 3), axis=0),
            floats((2, 3), (2, 1), (2, 5), axis=1),
            floats((0, 2), (3, 2), axis=0),
        ),
        doc="The inputs one after the other along `axis`.",
    )
)


def concat(values: Sequence[Value], axis: int | None = 0) -> Value:
    """Put values one after the other along an axis.

    values   at least one; sizes equal but along the axis; dtypes are promoted
    axis     None: flatten each first
    returns  the sizes along the axis added up; the gradient of each is its part
    raises   ShapeError if the sizes differ; ValueError for no value at all
    >>> import bedplate as bp
    >>> bp.concat([bp.tensor([1]), bp.tensor([2, 3])]).tolist()
    [1, 2, 3]
    """
    if not values:
        raise ValueError("concat: at least one value is needed")
    inputs = promoted("concat", tuple(values))
    if axis is None:
        inputs, axis = tuple(x.reshape(-1) for x in inputs), 0
    axis = normalised_axis("concat", axis, len(inputs[0].shape), inputs[0])
    if len(inputs) == 1:
        return inputs[0]._alias()
    return apply(CONCAT, inputs, {"axis": axis})


def stack(values: Sequence[Value], axis: int = 0) -> Value:
    """Put values of one shape side by side along a new axis.

    values   at least one; shapes equal; dtypes are promoted
    axis     the place of the new axis in the result
    returns  shape of each, with the number of values put in
    raises   ShapeError if the shapes differ; ValueError for no value at all
    >>> import bedplate as bp
    >>> bp.stack([bp.tensor([1, 2]), bp.tensor([3, 4])], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    if not values:
        raise ValueError("stack: at least one value is needed")
    inputs = promoted("stack", tuple(values))
    if any(x.shape != inputs[0].shape for x in inputs):
        refuse_inputs(ShapeError, "stack", "the shapes differ", inputs)
    return concat([expand_dims(x, axis) for x in inputs], axis)
