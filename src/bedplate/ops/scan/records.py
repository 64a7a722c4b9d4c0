"""What the records of scans share: their rule, reference and lowering, and how rows are moved.

The records scan the rows of a matrix; `along` brings an axis there and back. A gradient that runs
backwards is a scan of reversed rows, which are views.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.dtypes import DType
from bedplate.errors import ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value, normalised_axis, number
from bedplate.ops.elementwise import NARROW_FLOATS, refuse_dtype
from bedplate.ops.record import Op, Sample, apply
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import floats
from bedplate.ops.scan.kernel import Scan, lower_scan
from bedplate.ops.shape.regions import concat, flip, narrow
from bedplate.ops.shape.views import broadcast_to, moveaxis, reshape


def scan_rule(name: str, accepted: tuple[DType, ...]) -> Any:
    """Matrices of one shape and one of the accepted dtypes."""

    def infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
        first = inputs[0]
        if any(len(x.shape) != 2 or x.shape != first.shape for x in inputs):
            refuse_inputs(ShapeError, name, "expected (rows, length), the same for all", inputs)
        if first.dtype not in accepted or any(x.dtype is not first.dtype for x in inputs):
            refuse_dtype(name, inputs, accepted)
        return first.shape, first.dtype

    return infer


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy scan that runs in float64 and narrows once, as the kernels do."""

    @functools.wraps(function)
    def reference(*arrays: Any) -> Any:
        dtype = arrays[0].dtype
        floating = dtype in NARROW_FLOATS or dtype.kind == "f"
        with np.errstate(all="ignore"):
            wide = [a.astype(np.float64) if floating else a for a in arrays]
            if dtype.kind == "c":
                wide = [a.astype(np.complex128) for a in arrays]
            return np.asarray(function(*wide)).astype(dtype)

    return reference


def lowering(scan: Scan) -> Callable[..., None]:
    def lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
        lower_scan(scan, inputs, outputs[0], builder)

    return lower


def scan_samples(*more: Sample) -> tuple[Sample, ...]:
    shapes = ((3, 7), (2, 37), (1, 1), (4, 8), (0, 3), (3, 0))
    return (*(floats(shape) for shape in shapes), *more)


def backwards(op: Op, *values: Value) -> Value:
    """A scan from the end of the rows to their start."""
    return flip(apply(op, tuple(flip(value, 1) for value in values)), 1)


def shifted(x: Value, first: bool | int | float) -> Value:
    """The rows moved on by one: `first`, x[0], x[1], ... without the last."""
    rows, length = x.shape
    if length == 0:
        return x
    head = broadcast_to(number(x, first), (rows, 1))
    return concat([head, narrow(x, 1, 0, length - 1)], 1) if length > 1 else head


def following(x: Value) -> Value:
    """The rows moved back by one: x[1], x[2], ..., 0."""
    return flip(shifted(flip(x, 1), 0), 1)


def along(op: Op, x: Value, axis: int | None) -> Value:
    """Apply a scan of rows along an axis; None: x flattened."""
    if axis is None:
        x, axis = reshape(x, (math.prod(x.shape),)), 0
    axis = normalised_axis(op.name, axis, len(x.shape), x)
    moved = moveaxis(x, axis, -1)
    length = moved.shape[-1]
    rows = reshape(moved, (math.prod(moved.shape[:-1]), length))
    return moveaxis(reshape(apply(op, (rows,)), moved.shape), -1, axis)
