"""update_slice: rows written at a place that is known when the kernel runs.

    out = x;  out[o, start + r, :] = values[o, r, :]      all as (outer, rows, inner)

Where out lies over x (a state that a captured step assigns, which nobody else holds) only the new
rows are written: what a cache of keys takes for a token does not depend on how many it holds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import ALL, DType, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.kernel import from_dtype
from bedplate.ops.build import Value, as_values, is_number, normalised_axis, number
from bedplate.ops.indexing.gather import TAKE
from bedplate.ops.indexing.update_slice_kernel import make_kernel
from bedplate.ops.pointwise.arithmetic import add
from bedplate.ops.pointwise.convert import checked_index
from bedplate.ops.record import Cost, Op, apply, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.views import broadcast_to, reshape


def _infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    x, values, start = inputs
    named = {"x": x, "values": values, "start": start}
    if values.dtype is not x.dtype or start.dtype is not int64:
        refuse(DTypeError, "update_slice", "expected values of the dtype of x, start int64", named)
    fits = len(x.shape) == 3 == len(values.shape) and start.shape == ()
    if not fits or x.shape[::2] != values.shape[::2] or values.shape[1] > x.shape[1]:
        refuse(
            ShapeError, "update_slice", "the shapes do not fit", named,
            "expected x (outer, size, inner), values (outer, rows, inner), start ()",
        )  # fmt: skip
    return x.shape, x.dtype


def _reference(x: Any, values: Any, start: Any) -> Any:
    out = x.copy()
    out[:, int(start) : int(start) + values.shape[1]] = values
    return out


def update_slice_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any, None]:
    """To x what was not written over, to the values what was."""
    _, values, start = inputs
    zeros = broadcast_to(number(grad_out, 0), values.shape)
    rows = add(index_along(start, 0, (values.shape[1],), int64), start)
    return (
        apply(UPDATE_SLICE, (grad_out, zeros, start)),
        apply(TAKE, (grad_out, rows), {"axis": 1}),
        None,
    )


def lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter the one launch; an item is one of the outermost axis."""
    (x, values, start), (out,) = inputs, outputs
    if not out.size:
        return
    variant = from_dtype(x.dtype), x.strides[2] == 1, values.strides[2] == 1
    launch = builder.launch(
        make_kernel(*variant),
        [x, out, values, start, *x.shape[1:], values.shape[1], *x.strides, *values.strides],
        x.shape[0],
        reads=[x.buffer, values.buffer, start.buffer],
        writes=[out.buffer],
        nbytes=2.0 * out.size * x.dtype.itemsize,
        name="update_slice",
    )
    apart = x.buffer is not values.buffer and x.buffer is not start.buffer
    if apart and x.contiguous and not x.offset:
        # most likely it writes the rows alone: not worth a call of the workers
        launch.nbytes = 2.0 * values.size * x.dtype.itemsize
        launch.in_place.append((x.buffer, out.buffer))


UPDATE_SLICE = register(
    Op(
        "update_slice",
        "kernel",
        _infer,
        reference=_reference,
        gradient=update_slice_gradient,
        cost=Cost("no arithmetic; x is copied, unless the result lies over it", lambda *_: 0.0),
        lower=lower,
        by_parts=True,
        dtypes=ALL,
        samples=(
            mixed(lambda r: [r.random((2, 5, 3)), r.random((2, 2, 3)), np.array(3)], "last rows"),
            mixed(lambda r: [r.random((3, 4, 37)), r.random((3, 1, 37)), np.array(0)], "one row"),
            mixed(lambda r: [r.random((1, 4, 1)), r.random((1, 4, 1)), np.array(0)], "all"),
            mixed(lambda r: [r.random((2, 4, 3)), r.random((2, 0, 3)), np.array(4)], "none"),
        ),
        doc="Rows of x replaced, from a row on that is known when the kernel runs.",
    )
)


def update_slice(x: Value, values: Value, start: Any, axis: int = 0) -> Value:
    """Replace neighbouring slices along an axis: y[start : start + n] = values.

    x        any shape
    values   the shape of x but for the axis, where it has n <= size; of the dtype of x
    start    integer, 0 or more, a number or a () tensor: another place is no other plan
    returns  x.shape. A step under `bp.jit` that assigns the result to x, which nobody else holds,
             writes nothing but the new slices.
    raises   ShapeError, DTypeError if they do not fit; IndexError when the value is computed, if
             a slice lies outside
    cost     x is copied once, unless it is written in place
    >>> import bedplate as bp
    >>> bp.update_slice(bp.zeros(4), bp.ones(2), bp.tensor(1)).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    x, values, start = as_values("update_slice", (x, values, start))
    start = number(x, start, int64) if is_number(start) else start
    axis = normalised_axis("update_slice", axis, len(x.shape), x)
    _check(x, values, start, axis)
    if 0 in values.shape:
        return x._alias()
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    room = x.shape[axis] - values.shape[axis] + 1
    place = checked_index(start, room, f"update_slice: axis {axis}", wrap=False)
    rows = [reshape(v, (outer, v.shape[axis], inner)) for v in (x, values)]
    out = apply(UPDATE_SLICE, (*rows, place))
    return reshape(out, x.shape)


def _check(x: Value, values: Value, start: Value, axis: int) -> None:
    named = {"x": x, "values": values, "start": start}
    others = [tuple(s for i, s in enumerate(v.shape) if i != axis) for v in (x, values)]
    same = len(x.shape) == len(values.shape) and others[0] == others[1]
    if not same or values.shape[axis] > x.shape[axis] or start.shape != ():
        refuse(
            ShapeError, "update_slice", f"the shapes do not fit along axis {axis}", named,
            "values has the shape of x but for the axis, where it is no longer; start is a number",
        )  # fmt: skip
    if values.dtype is not x.dtype or start.dtype.kind not in "iu":
        refuse(
            DTypeError, "update_slice", "the dtypes do not fit", named,
            "values has the dtype of x, try values.astype(x.dtype); start is an integer",
        )  # fmt: skip
