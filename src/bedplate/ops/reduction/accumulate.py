"""How sums are accumulated on request: `accumulate=` of a call, or `bp.config(accumulate=...)`.

| mode          | float16, bfloat16         | float32             | float64            |
|---------------|---------------------------|---------------------|--------------------|
| ""            | in float32                | in float32          | in float64         |
| "float32"     | in float32                | in float32          | in float64         |
| "float64"     | in float64                | in float64          | in float64         |
| "compensated" | in pairs of float32       | in pairs of float32 | pairs of float64   |

Every result is rounded once to the dtype of its input. An accumulator is never narrower than
what it adds up. Integers are exact as they are. Gradients do not depend on the mode.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.config import ACCUMULATE, config
from bedplate.dtypes import (
    FLOATS,
    DType,
    bfloat16,
    complex128,
    float16,
    float32,
    float64,
    real_dtype,
)
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Node, Shape
from bedplate.later import deferred
from bedplate.ops.build import Value, as_type
from bedplate.ops.elementwise import parted
from bedplate.ops.record import Op, apply, each_element, refuse_foreign, register
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import floats
from bedplate.ops.shape.views import broadcast_to, moveaxis, reshape

COMPENSATED = "compensated"


def accumulator(dtype: DType) -> DType:
    """The dtype in which values of `dtype` are accumulated by default."""
    return float32 if dtype in (float16, bfloat16) else dtype


def accumulation(op: str, accumulate: Any, x: Value) -> str:
    """What is to be done otherwise than by default: "float64", "compensated", or "" for nothing.

    accumulate  the argument of a call, a word or a dtype; None: as `config.accumulate` says to
                calls of tensors. What an op or a gradient is made of are nodes: it asks nobody
    raises      ValueError for another word
    """
    if accumulate is None:
        word = "" if isinstance(x, Node) else config.accumulate
        if not word and hasattr(x, "_apply"):
            return ""
    else:
        word = getattr(accumulate, "name", accumulate)
    if word not in ACCUMULATE:
        expected = ", ".join(map(repr, ACCUMULATE))
        raise ValueError(f"{op}: accumulate={accumulate!r}\n  expected one of {expected}, or None")
    if not hasattr(x, "_apply"):
        refuse_foreign(op, (x,))
    dtype = real_dtype(x.dtype)
    if not dtype.is_float or word == "float32" or (word == "float64" and dtype is float64):
        return ""
    return word


def accumulating(x: Value, mode: str) -> Value:
    """x in the dtype that it is accumulated in."""
    if mode != "float64":
        return as_type(x, accumulator(x.dtype))
    return as_type(x, complex128 if x.dtype.kind == "c" else float64)


def wide_array(x: Any, mode: str) -> Any:
    """The same for the arrays of references, which have no pairs: they take the next wider one."""
    if not mode:
        return x
    plain = mode == "float64" or x.real.dtype != np.float64
    return x.astype(np.result_type(x.dtype, np.float64 if plain else np.longdouble))


def _infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (x,) = inputs
    if x.dtype.kind not in "fc":
        refuse_inputs(DTypeError, "compensated_sum", "only floats lose anything", inputs)
    if len(x.shape) != 2:
        refuse_inputs(ShapeError, "compensated_sum", "expected (rows, length)", inputs)
    return x.shape[:1], x.dtype


def _reference(x: Any) -> Any:
    """Exact but for the last rounding; NumPy's sum where a number is not finite."""
    dtype = x.dtype
    x = x.astype(np.float64)
    finite = np.isfinite(x).all(axis=1)
    sums = [math.fsum(row) if ok else np.sum(row) for row, ok in zip(x, finite, strict=True)]
    with np.errstate(all="ignore"):
        return np.array(sums, np.float64).astype(dtype)


def compensated_sum_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """The gradient of a row repeated along it."""
    (x,) = inputs
    return (broadcast_to(reshape(grad_out, (x.shape[0], 1)), x.shape),)


COMPENSATED_SUM = register(
    Op(
        "compensated_sum",
        "kernel",
        _infer,
        reference=parted(_reference),
        gradient=compensated_sum_gradient,
        cost=each_element(7, "7 flops an element; input and output once"),
        lower=deferred("bedplate.ops.reduction.compensated", "lower_sum"),
        by_parts=True,
        dtypes=FLOATS,
        samples=(
            floats((3, 7)),
            floats((2, 130)),
            floats((1, 1)),
            floats((0, 3)),
            floats((3, 0)),
        ),
        doc="The sum of each row, added up in pairs of numbers: rounded as if once.",
    )
)


def total(x: Value, axes: Shape, mode: str) -> Value:
    """The compensated sum over axes, which are kept with size 1; in the accumulator's dtype."""
    x = accumulating(x, mode)
    kept = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
    moved = moveaxis(x, axes, tuple(range(len(kept), len(x.shape))))
    rows = math.prod(x.shape[axis] for axis in kept)
    length = math.prod(x.shape[axis] for axis in axes)
    sums = apply(COMPENSATED_SUM, (reshape(moved, (rows, length)),))
    return reshape(sums, tuple(1 if i in axes else size for i, size in enumerate(x.shape)))
