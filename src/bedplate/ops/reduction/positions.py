"""Where the extreme of an axis stands: argmax and argmin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.dtypes import int64
from bedplate.graph.node import Shape
from bedplate.ops.build import Value
from bedplate.ops.elementwise import NARROW_FLOATS, NUMBERS
from bedplate.ops.record import NoGradient, Op, register
from bedplate.ops.reduction.reduce import accumulator, reduce_rule, reduced
from bedplate.ops.samples import floats, integers, mixed
from bedplate.ops.shape.views import reshape


def _position(name: str, function: Callable[..., Any]) -> Op:
    def reference(x: Any, *, axes: Shape) -> Any:
        wide = x.astype(np.float32) if x.dtype in NARROW_FLOATS else x
        return np.expand_dims(function(wide, axis=axes[0]), axes[0]).astype(np.int64)

    return register(
        Op(
            name,
            "reduce",
            reduce_rule(name, NUMBERS, int64, empty=False),
            reference=reference,
            gradient=NoGradient("its values are indices"),
            accumulate=accumulator,
            dtypes=NUMBERS,
            samples=(
                floats((3, 7), axes=(1,)),
                mixed(lambda r: [r.integers(0, 3, (5, 9)) * 1.0], "ties", axes=(0,)),
                mixed(lambda r: [np.array([1.0, np.nan, 3.0, np.nan])], "NaN wins", axes=(0,)),
                integers((4, 6), axes=(1,)),
            ),
            doc="The first index of that element along one axis; the first NaN wins.",
        )
    )


ARGMAX = _position("argmax", np.argmax)
ARGMIN = _position("argmin", np.argmin)


def _positioned(op: Op, x: Value, axis: int | None, keepdims: bool) -> Value:
    if axis is not None:
        return reduced(op, x, axis, keepdims)
    found = reduced(op, reshape(x, (-1,)), 0, False)
    return reshape(found, (1,) * len(x.shape)) if keepdims else found


def argmax(x: Value, axis: int | None = None, keepdims: bool = False) -> Value:
    """The index of the largest element along an axis, the first if there are several.

    axis      None: of the flattened value
    keepdims  keep the axis, with size 1; `keepdim` works too
    returns   int64; the first NaN counts as largest
    raises    ShapeError for an empty axis
    >>> import bedplate as bp
    >>> bp.argmax(bp.tensor([1.0, 3.0, 3.0])).item()
    1
    """
    return _positioned(ARGMAX, x, axis, keepdims)


def argmin(x: Value, axis: int | None = None, keepdims: bool = False) -> Value:
    """The index of the smallest element along an axis, the first if there are several.

    axis      None: of the flattened value
    keepdims  keep the axis, with size 1; `keepdim` works too
    returns   int64; the first NaN counts as smallest
    raises    ShapeError for an empty axis
    >>> import bedplate as bp
    >>> bp.argmin(bp.tensor([1.0, 3.0, 1.0])).item()
    0
    """
    return _positioned(ARGMIN, x, axis, keepdims)
