"""softmax, log_softmax, logsumexp: composed of reductions along one axis, each with its own
gradient, so that forward and backward come out as one kernel a row each.

float16 and bfloat16 are computed in float32 throughout and narrowed once at the end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType, as_dtype
from bedplate.errors import DTypeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import (
    Value,
    as_float,
    as_type,
    normalised_axes,
    normalised_axis,
    number,
    promoted,
    without_gradient,
)
from bedplate.ops.complex_numbers.parts import conj, real
from bedplate.ops.elementwise import INEXACT, widened
from bedplate.ops.pointwise.arithmetic import add, divide, multiply, negative, reciprocal, subtract
from bedplate.ops.pointwise.comparison import equal, isfinite, isinf
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import exp, log
from bedplate.ops.record import Op, apply, register
from bedplate.ops.reduction.reduce import MAX, SUM, Axis, without
from bedplate.ops.reduction.statistics import kept_rule, wide
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import floats, mixed, rough
from bedplate.ops.shape.creation import full


def _row_rule(name: str) -> Any:
    def infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
        (x,) = inputs
        if not x.dtype.is_float:
            refuse_inputs(
                DTypeError, name, "only floats have one", inputs, "cast first: x.astype(bp.float32)"
            )
        return x.shape, x.dtype

    return infer


ROWS = (
    floats((3, 7), axis=1),
    floats((5, 6), axis=0),
    floats((2, 3, 4), axis=1),
    floats((37,), low=-50, high=50, axis=0),
    floats((0, 3), axis=1),
)


def softmax_gradient(grad_out: Value, inputs: Any, output: Value, *, axis: int) -> tuple[Any]:
    """y (g - sum(g y))"""
    y, grad = wide(output), wide(grad_out)
    product = multiply(grad, y)
    total = apply(SUM, (product,), {"axes": (axis,)})
    return (as_type(subtract(product, multiply(y, total)), inputs[0].dtype),)


def _softmax_expand(inputs: tuple[Any, ...], attributes: Attributes) -> Any:
    (x,) = inputs
    axes = {"axes": (attributes["axis"],)}
    rows = wide(x)
    e = exp(subtract(rows, apply(MAX, (rows,), axes)))
    return as_type(multiply(e, reciprocal(apply(SUM, (e,), axes))), x.dtype)


def _softmax_reference(x: Any, *, axis: int) -> Any:
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


SOFTMAX = register(
    Op(
        "softmax",
        "composed",
        _row_rule("softmax"),
        reference=widened(_softmax_reference),
        gradient=softmax_gradient,
        expand=_softmax_expand,
        dtypes=FLOATS,
        samples=ROWS,
        doc="exp(x) / sum(exp(x)) along `axis`.",
    )
)


def softmax(x: Value, axis: int = -1, dtype: Any = None) -> Value:
    """Positive shares that add up to 1: y = exp(x) / sum(exp(x)).

    x        floats; sums run in float32 or better; integers are taken as float32
    axis     along which the shares add up; `dim` works too
    dtype    of the result; x is cast to it first
    returns  shape and dtype of x; NaN for a row of -inf alone
    cost     2 reads and 1 write of x, about 15 flops an element
    also     bp.nn.functional.softmax(x, axis)
    also     bp.special.softmax(x, axis)
    >>> import bedplate as bp
    >>> bp.softmax(bp.tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    x = as_float(x) if dtype is None else as_type(x, as_dtype(dtype))
    axis = normalised_axis("softmax", axis, len(x.shape), x)
    return x._alias() if 0 in x.shape else apply(SOFTMAX, (x,), {"axis": axis})


def softmin(x: Value, axis: int = -1, dtype: Any = None) -> Value:
    """Shares that are largest where x is smallest: y = softmax(-x).

    axis     along which the shares add up; `dim` works too
    dtype    of the result; x is cast to it first
    x        as in `softmax`
    returns  shape and dtype of x
    >>> import bedplate as bp
    >>> bp.nn.functional.softmin(bp.tensor([0.0, 1000.0])).tolist()
    [1.0, 0.0]
    """
    return softmax(negative(as_float(x)), axis, dtype)


def log_softmax_gradient(grad_out: Value, inputs: Any, output: Value, *, axis: int) -> tuple[Any]:
    """g - exp(y) sum(g)"""
    grad = wide(grad_out)
    total = apply(SUM, (grad,), {"axes": (axis,)})
    shares = multiply(exp(wide(output)), total)
    return (as_type(subtract(grad, shares), inputs[0].dtype),)


def _log_softmax_expand(inputs: tuple[Any, ...], attributes: Attributes) -> Any:
    (x,) = inputs
    axes = {"axes": (attributes["axis"],)}
    rows = wide(x)
    shifted = subtract(rows, apply(MAX, (rows,), axes))
    total = apply(SUM, (exp(shifted),), axes)
    return as_type(subtract(shifted, log(total)), x.dtype)


def _log_softmax_reference(x: Any, *, axis: int) -> Any:
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


LOG_SOFTMAX = register(
    Op(
        "log_softmax",
        "composed",
        _row_rule("log_softmax"),
        reference=widened(_log_softmax_reference),
        gradient=log_softmax_gradient,
        expand=_log_softmax_expand,
        dtypes=FLOATS,
        samples=ROWS,
        doc="x - log(sum(exp(x))) along `axis`.",
    )
)


def log_softmax(x: Value, axis: int = -1, dtype: Any = None) -> Value:
    """The logarithm of `softmax`, without its loss of precision: y = x - log(sum(exp(x))).

    x        floats; sums run in float32 or better; integers are taken as float32
    axis     along which the shares add up; `dim` works too
    dtype    of the result; x is cast to it first
    returns  shape and dtype of x
    also     bp.nn.functional.log_softmax(x, axis)
    also     bp.special.log_softmax(x, axis)
    >>> import bedplate as bp
    >>> bp.log_softmax(bp.tensor([0.0, -1000.0])).tolist()
    [0.0, -1000.0]
    """
    x = as_float(x) if dtype is None else as_type(x, as_dtype(dtype))
    axis = normalised_axis("log_softmax", axis, len(x.shape), x)
    return x._alias() if 0 in x.shape else apply(LOG_SOFTMAX, (x,), {"axis": axis})


def _finite(x: Value) -> Value:
    """x, with 0 for what is infinite or NaN: a shift that is safe to subtract."""
    return where(isfinite(x), x, number(x, 0))


def logsumexp_gradient(grad_out: Value, inputs: Any, output: Value, *, axes: Shape) -> tuple[Any]:
    """g exp(x - y); of an infinite y equal shares for each +inf in x, 0 for all else

    The shares are divided by their sum, since that of 1e10 and 1e10 rounds to 1e10.
    """
    (x,) = inputs
    rows, y = wide(x), without_gradient(wide(output))
    endless = isinf(y)
    top = as_type(equal(real(rows), math.inf), rows.dtype)
    distance = where(endless, number(rows, 0.0), subtract(rows, y))
    shares = where(endless, top, exp(distance))
    total = apply(SUM, (shares,), {"axes": axes})
    total = where(equal(total, 0.0), number(total, 1.0), total)
    return (as_type(multiply(wide(grad_out), conj(divide(shares, total))), x.dtype),)


def _logsumexp_expand(inputs: tuple[Any, ...], attributes: Attributes) -> Any:
    (x,) = inputs
    axes = attributes["axes"]
    if 0 in [x.shape[axis] for axis in axes]:
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
        return full(x, kept, float("-inf"), x.dtype)
    rows = wide(x)
    shift = _finite(apply(MAX, (real(rows),), attributes))
    total = apply(SUM, (exp(subtract(rows, shift)),), attributes)
    return as_type(add(log(total), shift), x.dtype)


def shares(x: Value, axes: Shape) -> Value:
    """exp(x - logsumexp(x)) by way of the same exponentials, which are then computed once."""
    rows = wide(x)
    shift = _finite(apply(MAX, (rows,), {"axes": axes}))
    e = exp(subtract(rows, shift))
    return multiply(e, reciprocal(apply(SUM, (e,), {"axes": axes})))


def _logsumexp_reference(x: Any, *, axes: Shape) -> Any:
    top = np.max(x.real, axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0).astype(x.dtype)
    return np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top


LOGSUMEXP = register(
    Op(
        "logsumexp",
        "composed",
        kept_rule("logsumexp", complex_too=True),
        reference=widened(_logsumexp_reference),
        gradient=logsumexp_gradient,
        expand=_logsumexp_expand,
        dtypes=INEXACT,
        samples=(
            floats((3, 7), axes=(1,)),
            floats((2, 3, 4), axes=(0, 2)),
            floats((37,), low=-900, high=900, axes=(0,)),
            floats((2, 0), axes=(1,)),
            mixed(lambda r: [np.array([[-np.inf, 0.0, 1.0]])], "-inf in the row", axes=(1,)),
            rough(lambda r: [np.array([[np.inf, 1.0, np.inf]])], "inf in the row", axes=(1,)),
        ),
        doc="log(sum(exp(x))) over `axes`.",
    )
)


def logsumexp(x: Value, axis: Axis = None, keepdims: bool = False) -> Value:
    """The logarithm of a sum of exponentials: y = log(sum(exp(x))), without overflow.

    x         floats, where sums run in float32 or better, or complex; integers become float32
    axis      one, several, or None for all; `dim` works too
    keepdims  keep the axes, with size 1; `keepdim` works too
    returns   -inf where all of x is -inf (its gradient there is zeros) or the axis is empty, inf
              where some x is inf (the gradient is then shared equally among those)
    also      bp.nn.functional.logsumexp(x, axis)
    also      bp.special.logsumexp(x, axis)
    >>> import bedplate as bp
    >>> bp.logsumexp(bp.tensor([1000.0, float("-inf")])).item()
    1000.0
    """
    (x,) = promoted("logsumexp", (x,), to_float=True)
    axes = normalised_axes("logsumexp", axis, x)
    result = apply(LOGSUMEXP, (x,), {"axes": axes})
    return result if keepdims else without(result, axes)
