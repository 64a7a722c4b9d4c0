"""Mean, variance and standard deviation: composed of reductions, each with its own gradient.

float16 and bfloat16 are computed in float32 throughout and narrowed once at the end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType
from bedplate.errors import DTypeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value, as_type, normalised_axes, number
from bedplate.ops.complex_numbers.parts import imag, real
from bedplate.ops.elementwise import INEXACT, parted, widened
from bedplate.ops.pointwise.arithmetic import add, divide, multiply, subtract
from bedplate.ops.pointwise.comparison import equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import sqrt
from bedplate.ops.record import Op, apply, register
from bedplate.ops.reduction.accumulate import (
    COMPENSATED,
    accumulating,
    accumulation,
    accumulator,
    wide_array,
)
from bedplate.ops.reduction.reduce import Axis, sum_reference, summed, without
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import floats
from bedplate.ops.shape.views import broadcast_to


def kept_rule(name: str, complex_too: bool = False) -> Any:
    """The shape and dtype rule of a reduction of floats that keeps its axes with size 1."""

    def infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
        (x,) = inputs
        if x.dtype.kind not in ("fc" if complex_too else "f"):
            refuse_inputs(
                DTypeError, name, "only floats have one", inputs, "cast first: x.astype(bp.float32)"
            )
        axes = attributes["axes"]
        return tuple(1 if axis in axes else size for axis, size in enumerate(x.shape)), x.dtype

    return infer


def count_of(x: Value, axes: Shape) -> int:
    """How many elements a reduction over `axes` joins."""
    return math.prod(x.shape[axis] for axis in axes)


def wide(x: Value) -> Value:
    """x in the dtype of its accumulator."""
    return as_type(x, accumulator(x.dtype))


def mean_gradient(
    grad_out: Value, inputs: Any, output: Value, *, axes: Shape, accumulate: str = ""
) -> tuple[Any]:
    """The gradient shared by all elements."""
    (x,) = inputs
    share = multiply(grad_out, 1 / max(1, count_of(x, axes)))
    return (broadcast_to(share, x.shape),)


def _mean_expand(inputs: tuple[Any, ...], attributes: Attributes) -> Any:
    (x,) = inputs
    axes = attributes["axes"]
    total = summed(x, axes, attributes.get("accumulate", ""))
    return as_type(divide(total, number(total, count_of(x, axes))), x.dtype)


def _mean_reference(x: Any, *, axes: Shape, accumulate: str = "") -> Any:
    x = wide_array(x, accumulate)
    count = math.prod(x.shape[axis] for axis in axes)
    return sum_reference(x, axes=axes) / x.dtype.type(count)


SAMPLES = (
    floats((3, 7), axes=(1,)),
    floats((5, 6), axes=(0,)),
    floats((2, 3, 4), axes=(0, 2)),
    floats((0, 3), axes=(1,)),
    floats((3, 5), axes=(1,), accumulate="float64"),
    floats((5, 3), axes=(0,), accumulate="compensated"),
)
MEAN = register(
    Op(
        "mean",
        "composed",
        kept_rule("mean", complex_too=True),
        reference=parted(widened(_mean_reference)),
        gradient=mean_gradient,
        expand=_mean_expand,
        by_parts=True,
        dtypes=INEXACT,
        samples=SAMPLES,
        doc="The mean over `axes`.",
    )
)


def mean(x: Value, axis: Axis = None, keepdims: bool = False, accumulate: Any = None) -> Value:
    """The mean over axes: y = sum(x) / n.

    x           floats; float16 and bfloat16 are summed and divided in float32, narrowed once
    axis        one, several, or None for all; `dim` works too
    accumulate  as in `sum`
    keepdims    keep the axes, with size 1; `keepdim` works too
    returns     NaN for an empty axis
    raises      DTypeError for integers: cast first
    >>> import bedplate as bp
    >>> bp.mean(bp.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1).tolist()
    [1.5, 3.5]
    """
    axes = normalised_axes("mean", axis, x)
    mode = accumulation("mean", accumulate, x)
    if not axes:
        return x._alias()
    result = apply(MEAN, (x,), _attributes(mode, axes=axes))
    return result if keepdims else without(result, axes)


def _attributes(mode: str, **others: Any) -> Attributes:
    """The attributes of a record; the mode stands among them only if it is not the default."""
    return {**others, "accumulate": mode} if mode else others


def _deviations(x: Value, axes: Shape, mode: str = "") -> Value:
    x = accumulating(x, mode)
    return subtract(x, apply(MEAN, (x,), _attributes(mode, axes=axes)))


def degrees_of_freedom(count: int, correction: float) -> float:
    """count - correction; NaN where that is not positive, and so will be what is divided by it."""
    return count - correction if count > correction else math.nan


def var_gradient(
    grad_out: Value,
    inputs: Any,
    output: Value,
    *,
    axes: Shape,
    correction: float,
    accumulate: str = "",
) -> tuple[Any]:
    """2 (x - mean) / (n - correction)"""
    (x,) = inputs
    scale = 2 / degrees_of_freedom(count_of(x, axes), correction)
    slope = multiply(_deviations(x, axes), scale)
    return (as_type(multiply(wide(grad_out), slope), x.dtype),)


def _variance(x: Value, *, axes: Shape, correction: float, accumulate: str = "") -> Value:
    deviations = _deviations(x, axes, accumulate)
    total = summed(multiply(deviations, deviations), axes, accumulate)
    count = count_of(x, axes)
    if accumulate == COMPENSATED and count:
        # the mean was rounded: what that moved all deviations by
        rest = summed(deviations, axes, accumulate)
        total = subtract(total, divide(multiply(rest, rest), number(total, count)))
    return divide(total, number(total, degrees_of_freedom(count, correction)))


def _var_expand(inputs: tuple[Any, ...], attributes: Attributes) -> Any:
    (x,) = inputs
    return as_type(_variance(x, **attributes), x.dtype)


def _var_reference(x: Any, *, axes: Shape, correction: float, accumulate: str = "") -> Any:
    x = wide_array(x, accumulate)
    count = math.prod(x.shape[axis] for axis in axes)
    deviations = x - _mean_reference(x, axes=axes)
    total = sum_reference(deviations * deviations, axes=axes)
    return total / x.dtype.type(degrees_of_freedom(count, correction))


_VAR_SAMPLES = (
    floats((3, 7), axes=(1,), correction=0.0),
    floats((5, 6), axes=(0,), correction=1.0),
    floats((2, 3, 4), axes=(0, 2), correction=1.0),
    floats((0, 3), axes=(1,), correction=0.0),
    floats((3, 5), axes=(1,), correction=1.0, accumulate="float64"),
    floats((5, 3), axes=(0,), correction=0.0, accumulate="compensated"),
)
VAR = register(
    Op(
        "var",
        "composed",
        kept_rule("var"),
        reference=widened(_var_reference),
        gradient=var_gradient,
        expand=_var_expand,
        dtypes=FLOATS,
        samples=_VAR_SAMPLES,
        doc="The variance over `axes`, by two passes.",
    )
)


def var(
    x: Value,
    axis: Axis = None,
    keepdims: bool = False,
    correction: float = 0,
    accumulate: Any = None,
) -> Value:
    """The variance over axes: y = sum((x - mean(x))^2) / (n - correction).

    x           floats; two passes, so a large mean costs no precision
                of complex numbers the sum of the variances of their parts
    axis        one, several, or None for all; `dim` works too
    correction  0 for the variance of the elements, 1 to estimate that of what they stand for
    accumulate  as in `sum`
    keepdims    keep the axes, with size 1; `keepdim` works too
    returns     NaN where n <= correction
    >>> import bedplate as bp
    >>> bp.var(bp.tensor([10000.0, 10001.0, 10002.0, 10003.0])).item()
    1.25
    """
    if x.dtype.kind == "c":
        parts = (var(part, axis, keepdims, correction, accumulate) for part in (real(x), imag(x)))
        return add(*parts)
    return _corrected(VAR, x, axis, keepdims, correction, accumulate)


def _corrected(
    op: Op, x: Value, axis: Axis, keepdims: bool, correction: float, accumulate: Any
) -> Value:
    axes = normalised_axes(op.name, axis, x)
    mode = accumulation(op.name, accumulate, x)
    result = apply(op, (x,), _attributes(mode, axes=axes, correction=float(correction)))
    return result if keepdims else without(result, axes)


def std_gradient(
    grad_out: Value,
    inputs: Any,
    output: Value,
    *,
    axes: Shape,
    correction: float,
    accumulate: str = "",
) -> tuple[Any]:
    """(x - mean) / ((n - correction) y), and 0 where y is 0"""
    (x,) = inputs
    degrees = degrees_of_freedom(count_of(x, axes), correction)
    spread = wide(output)
    flat = equal(spread, 0)
    share = divide(wide(grad_out), multiply(where(flat, number(spread, 1), spread), degrees))
    share = where(flat, number(share, 0), share)
    return (as_type(multiply(share, _deviations(x, axes)), x.dtype),)


def _std_expand(inputs: tuple[Any, ...], attributes: Attributes) -> Any:
    (x,) = inputs
    return as_type(sqrt(_variance(x, **attributes)), x.dtype)


STD = register(
    Op(
        "std",
        "composed",
        kept_rule("std"),
        reference=widened(lambda x, **named: np.sqrt(_var_reference(x, **named))),
        gradient=std_gradient,
        expand=_std_expand,
        dtypes=FLOATS,
        samples=_VAR_SAMPLES,
        doc="The standard deviation over `axes`.",
    )
)


def std(
    x: Value,
    axis: Axis = None,
    keepdims: bool = False,
    correction: float = 0,
    accumulate: Any = None,
) -> Value:
    """The standard deviation over axes, y = sqrt(var(x)): the square root of `var`.

    x           floats
    axis        one, several, or None for all; `dim` works too
    correction  as in `var`
    accumulate  as in `sum`
    keepdims    keep the axes, with size 1; `keepdim` works too
    returns     its gradient is 0 where all elements are equal
    >>> import bedplate as bp
    >>> bp.std(bp.tensor([1.0, 3.0])).item()
    1.0
    """
    if x.dtype.kind == "c":
        return sqrt(var(x, axis, keepdims, correction, accumulate))
    return _corrected(STD, x, axis, keepdims, correction, accumulate)
