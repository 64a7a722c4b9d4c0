"""Reductions: sum, prod, max, min, all, any.

A reduce node keeps its axes with size 1; the functions here take them away afterwards. float16
and bfloat16 are accumulated in float32 and narrowed once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.dtypes import COMPLEX, DType, as_dtype, bool_, int64, uint64
from bedplate.errors import ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value, as_type, normalised_axes, number
from bedplate.ops.complex_numbers.parts import conj
from bedplate.ops.elementwise import NUMBERS, parted, refuse_dtype, widened
from bedplate.ops.pointwise.arithmetic import divide, multiply
from bedplate.ops.pointwise.comparison import equal, logical_and, logical_or, not_equal
from bedplate.ops.record import NoGradient, Op, Sample, apply, register
from bedplate.ops.reduction.accumulate import (
    COMPENSATED,
    accumulating,
    accumulation,
    accumulator,
    total,
)
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import bools, floats, integers, mixed
from bedplate.ops.shape.regions import concat, slice_
from bedplate.ops.shape.views import RESHAPE, broadcast_to, moveaxis, reshape

Axis = int | tuple[int, ...] | None


def reduce_rule(name: str, accepted: tuple[DType, ...], result: DType | None, empty: bool) -> Any:
    allowed = frozenset(accepted)

    def infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
        (x,) = inputs
        axes = attributes["axes"]
        if x.dtype not in allowed:
            refuse_dtype(name, inputs, accepted)
        if not empty and any(x.shape[axis] == 0 for axis in axes):
            refuse_inputs(
                ShapeError, name, f"nothing to choose from along axes {axes}", inputs,
                "an empty axis has no such element",
            )  # fmt: skip
        return tuple([1 if i in axes else s for i, s in enumerate(x.shape)]), result or x.dtype

    return infer


def _samples(*more: Sample) -> tuple[Sample, ...]:
    return (
        floats((3, 7), axes=(1,)),
        floats((5, 6), axes=(0,)),
        floats((2, 3, 4), axes=(0, 2)),
        floats((37,), axes=(0,)),
        floats((0, 3), axes=(1,)),
        floats((), axes=()),
        floats((3, 4, 1), axes=(0, 2)),
        floats((3, 1, 4), axes=(0, 2)),
        *more,
    )


def sum_gradient(grad_out: Value, inputs: Any, output: Value, *, axes: Shape) -> tuple[Any]:
    """The gradient repeated along the axes."""
    return (broadcast_to(grad_out, inputs[0].shape),)


def sum_reference(x: Any, *, axes: Shape) -> Any:
    """NumPy's sum; float32 in float64, since along a strided axis NumPy adds one by one."""
    if x.dtype != np.float32:
        return np.sum(x, axis=axes, keepdims=True)
    return np.sum(x, axis=axes, keepdims=True, dtype=np.float64).astype(np.float32)


SUM = register(
    Op(
        "sum",
        "reduce",
        reduce_rule("sum", NUMBERS + COMPLEX, None, empty=True),
        reference=parted(widened(sum_reference)),
        gradient=sum_gradient,
        initial=lambda dtype: 0,
        combine=lambda a, b: a + b,
        accumulate=accumulator,
        by_parts=True,
        dtypes=NUMBERS + COMPLEX,
        samples=_samples(floats((0, 3), axes=(0,)), integers((3, 5), axes=(0,))),
        doc="The sum over `axes`.",
    )
)


def prod_gradient(grad_out: Value, inputs: Any, output: Value, *, axes: Shape) -> tuple[Any]:
    """The product of all other elements, without division: right with zeros too."""
    (x,) = inputs
    kept = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
    rows = math.prod(x.shape[axis] for axis in kept)
    length = math.prod(x.shape[axis] for axis in axes)
    if rows * length == 0:
        return (multiply(x, 0),)
    last = tuple(range(len(kept), len(x.shape)))
    moved = moveaxis(x, axes, last)
    others = reshape(_products_of_others(reshape(moved, (rows, length))), moved.shape)
    return (multiply(grad_out, conj(moveaxis(others, last, axes))),)


def _products_of_others(x: Value) -> Value:
    """For each element of a row the product of the others; log2(length) steps each way."""
    rows, length = x.shape
    one = broadcast_to(number(x, 1), (rows, 1))
    before = concat([one, slice_(x, (0, 0), (rows, length - 1))], 1) if length > 1 else one
    after = concat([slice_(x, (0, 1), (rows, length)), one], 1) if length > 1 else one
    reach = 1
    while reach < length:
        fill = broadcast_to(one, (rows, reach))
        before = multiply(before, concat([fill, slice_(before, (0, 0), (rows, length - reach))], 1))
        after = multiply(after, concat([slice_(after, (0, reach), (rows, length)), fill], 1))
        reach *= 2
    return multiply(before, after)


PROD = register(
    Op(
        "prod",
        "reduce",
        reduce_rule("prod", NUMBERS + COMPLEX, None, empty=True),
        reference=widened(lambda x, *, axes: np.prod(x, axis=axes, keepdims=True)),
        gradient=prod_gradient,
        initial=lambda dtype: 1,
        combine=lambda a, b: a * b,
        accumulate=accumulator,
        dtypes=NUMBERS + COMPLEX,
        samples=_samples(
            floats((0, 3), axes=(0,)),
            mixed(lambda r: [np.array([[0.0, 2, 3], [0, 0, 3], [1, 2, 3]])], "zeros", axes=(1,)),
        ),
        doc="The product over `axes`.",
    )
)


def _extreme_gradient(grad_out: Value, inputs: Any, output: Value, axes: Shape) -> tuple[Any]:
    """Equal shares to all elements that equal the result (all NaN ones where it is NaN)."""
    (x,) = inputs
    both_nan = logical_and(not_equal(x, x), not_equal(output, output))
    chosen = as_type(logical_or(equal(x, output), both_nan), x.dtype)
    count = apply(SUM, (chosen,), {"axes": axes})
    return (multiply(chosen, divide(grad_out, count)),)


def max_gradient(grad_out: Value, inputs: Any, output: Value, *, axes: Shape) -> tuple[Any]:
    """Equal shares to all largest elements."""
    return _extreme_gradient(grad_out, inputs, output, axes)


def min_gradient(grad_out: Value, inputs: Any, output: Value, *, axes: Shape) -> tuple[Any]:
    """Equal shares to all smallest elements."""
    return _extreme_gradient(grad_out, inputs, output, axes)


def least(dtype: DType) -> bool | int | float:
    """The least value of a dtype."""
    if dtype.kind == "b":
        return False
    return float("-inf") if dtype.is_float else int(np.iinfo(dtype.numpy).min)


def greatest(dtype: DType) -> bool | int | float:
    """The greatest value of a dtype."""
    if dtype.kind == "b":
        return True
    return float("inf") if dtype.is_float else int(np.iinfo(dtype.numpy).max)


MAX = register(
    Op(
        "max",
        "reduce",
        reduce_rule("max", NUMBERS, None, empty=False),
        reference=widened(lambda x, *, axes: np.max(x, axis=axes, keepdims=True)),
        gradient=max_gradient,
        initial=least,
        combine=lambda a, b: language.maximum(b, a),
        accumulate=accumulator,
        dtypes=NUMBERS,
        samples=_samples(integers((3, 5), axes=(1,))),
        doc="The largest element over `axes`; NaN if one is NaN.",
    )
)
MIN = register(
    Op(
        "min",
        "reduce",
        reduce_rule("min", NUMBERS, None, empty=False),
        reference=widened(lambda x, *, axes: np.min(x, axis=axes, keepdims=True)),
        gradient=min_gradient,
        initial=greatest,
        combine=lambda a, b: language.minimum(b, a),
        accumulate=accumulator,
        dtypes=NUMBERS,
        samples=_samples(integers((3, 5), axes=(1,))),
        doc="The smallest element over `axes`; NaN if one is NaN.",
    )
)
ALL = register(
    Op(
        "all",
        "reduce",
        reduce_rule("all", (bool_,), bool_, empty=True),
        reference=lambda x, *, axes: np.all(x, axis=axes, keepdims=True),
        gradient=NoGradient("its values are true or false"),
        initial=lambda dtype: True,
        combine=lambda a, b: a & b,
        accumulate=accumulator,
        dtypes=(bool_,),
        samples=(bools((3, 5), axes=(1,)), bools((0, 3), axes=(0,)), bools((4, 2), axes=(0, 1))),
        doc="Whether all elements over `axes` are true.",
    )
)
ANY = register(
    Op(
        "any",
        "reduce",
        reduce_rule("any", (bool_,), bool_, empty=True),
        reference=lambda x, *, axes: np.any(x, axis=axes, keepdims=True),
        gradient=NoGradient("its values are true or false"),
        initial=lambda dtype: False,
        combine=lambda a, b: a | b,
        accumulate=accumulator,
        dtypes=(bool_,),
        samples=(bools((3, 5), axes=(1,)), bools((0, 3), axes=(0,)), bools((4, 2), axes=(0, 1))),
        doc="Whether any element over `axes` is true.",
    )
)


def without(x: Value, axes: tuple[int, ...]) -> Value:
    """x without the given axes, which have size 1."""
    shape = tuple([size for axis, size in enumerate(x.shape) if axis not in axes])
    return apply(RESHAPE, (x,), {"shape": shape}) if axes else x._alias()


def reduced(op: Op, x: Value, axis: Axis, keepdims: bool) -> Value:
    """Apply a reduce op over `axis` and take the axes away unless `keepdims`."""
    axes = normalised_axes(op.name, axis, x)
    if not axes:
        return x._alias()
    result = apply(op, (x,), {"axes": axes})
    return result if keepdims else without(result, axes)


def summed_dtype(dtype: DType) -> DType:
    """The dtype of a sum or product: small integers and bools grow to 64 bits."""
    if dtype.kind == "b" or dtype.kind == "i":
        return int64
    return uint64 if dtype.kind == "u" else dtype


def summed(x: Value, axes: Shape, mode: str) -> Value:
    """The sum over axes, kept with size 1, in the dtype that it was accumulated in."""
    if mode == COMPENSATED:
        return total(x, axes, mode)
    return apply(SUM, (accumulating(x, mode),), {"axes": axes})


def sum_(
    x: Value,
    axis: Axis = None,
    keepdims: bool = False,
    dtype: Any = None,
    accumulate: Any = None,
) -> Value:
    """The sum over axes, y = x[0] + x[1] + ..., in a fixed order that depends on the shape alone.

    x           bools and integers are summed as 64-bit integers; float16 and bfloat16 in float32
    axis        one, several, or None for all; `dim` works too
    dtype       of the result; x is cast to it first
    accumulate  "float32", "float64" or "compensated": how floats are added up before the one
                rounding to the dtype of the result; None: as `config.accumulate` says
    keepdims    keep the axes, with size 1; `keepdim` works too
    returns     0 for an empty axis
    >>> import bedplate as bp
    >>> bp.sum(bp.tensor([[1, 2], [3, 4]]), axis=0).tolist()
    [4, 6]
    """
    wanted = summed_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    if wanted is not x.dtype:
        x = as_type(x, wanted)
    mode = accumulation("sum", accumulate, x)
    if not mode:
        return reduced(SUM, x, axis, keepdims)
    axes = normalised_axes("sum", axis, x)
    result = as_type(summed(x, axes, mode), x.dtype)
    return result if keepdims else without(result, axes)


def prod(x: Value, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Value:
    """The product over axes: y = x[0] x[1] ...; its gradient does not divide.

    x         bools and integers are multiplied as 64-bit integers
    axis      one, several, or None for all; `dim` works too
    dtype     of the result; x is cast to it first
    keepdims  keep the axes, with size 1; `keepdim` works too
    returns   1 for an empty axis; the gradient is right where elements are 0
    >>> import bedplate as bp
    >>> bp.prod(bp.tensor([2, 3, 4])).item()
    24
    """
    x = as_type(x, summed_dtype(x.dtype) if dtype is None else as_dtype(dtype))
    return reduced(PROD, x, axis, keepdims)


def max_(x: Value, axis: Axis = None, keepdims: bool = False) -> Value:
    """The largest element over axes; NaN if one is NaN.

    axis      one, several, or None for all; `dim` works too
    keepdims  keep the axes, with size 1; `keepdim` works too
    returns   where several are largest, each gets an equal share of the gradient
    raises    ShapeError for an empty axis
    >>> import bedplate as bp
    >>> bp.max(bp.tensor([[1, 5], [3, 4]]), axis=1).tolist()
    [5, 4]
    """
    return reduced(MAX, x, axis, keepdims)


def min_(x: Value, axis: Axis = None, keepdims: bool = False) -> Value:
    """The smallest element over axes; NaN if one is NaN.

    axis      one, several, or None for all; `dim` works too
    keepdims  keep the axes, with size 1; `keepdim` works too
    returns   where several are smallest, each gets an equal share of the gradient
    raises    ShapeError for an empty axis
    >>> import bedplate as bp
    >>> bp.min(bp.tensor([[1, 5], [3, 4]]), axis=1).tolist()
    [1, 3]
    """
    return reduced(MIN, x, axis, keepdims)


def all_(x: Value, axis: Axis = None, keepdims: bool = False) -> Value:
    """Whether all elements over axes are true (not 0); True for an empty axis.

    x         numbers are true where they are not 0 (NaN is)
    axis      one, several, or None for all; `dim` works too
    keepdims  keep the axes, with size 1; `keepdim` works too
    returns   bool; y = x[0] and x[1] and ...; True for an empty axis
    >>> import bedplate as bp
    >>> bp.all(bp.tensor([True, False])).item()
    False
    """
    return reduced(ALL, as_type(x, bool_), axis, keepdims)


def any_(x: Value, axis: Axis = None, keepdims: bool = False) -> Value:
    """Whether any element over axes is true (not 0); False for an empty axis.

    x         numbers are true where they are not 0 (NaN is)
    axis      one, several, or None for all; `dim` works too
    keepdims  keep the axes, with size 1; `keepdim` works too
    returns   bool; y = x[0] or x[1] or ...; False for an empty axis
    >>> import bedplate as bp
    >>> bp.any(bp.tensor([True, False])).item()
    True
    """
    return reduced(ANY, as_type(x, bool_), axis, keepdims)
