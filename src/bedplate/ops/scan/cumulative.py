"""Cumulative sums, products and log-sums along an axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.dtypes import COMPLEX, FLOATS, as_dtype
from bedplate.errors import ShapeError
from bedplate.kernel import maths
from bedplate.ops.build import Value, as_float, as_type, normalised_axis, number, without_gradient
from bedplate.ops.complex_numbers.parts import conj, real
from bedplate.ops.elementwise import NUMBERS, in_float32
from bedplate.ops.pointwise.arithmetic import add, multiply, subtract
from bedplate.ops.pointwise.comparison import equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import exp, log
from bedplate.ops.pointwise.extremes import minimum
from bedplate.ops.record import Op, each_element, register
from bedplate.ops.reduction.reduce import summed_dtype
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import integers, mixed, rough
from bedplate.ops.scan.extremes import CUMMAX
from bedplate.ops.scan.kernel import Scan, State
from bedplate.ops.scan.records import (
    along,
    backwards,
    following,
    in_float64,
    lowering,
    scan_rule,
    scan_samples,
    shifted,
)
from bedplate.ops.scan.recurrence import LINEAR_RECURRENCE, linear_recurrence
from bedplate.ops.shape.regions import concat, narrow
from bedplate.ops.shape.views import broadcast_to, moveaxis, reshape


def _add_lanes(a: State, b: State) -> State:
    return (a[0] + b[0],)


def cumsum_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """The sum of the gradients from each element to the end."""
    return (backwards(CUMSUM, grad_out),)


CUMSUM = register(
    Op(
        "cumsum",
        "kernel",
        scan_rule("cumsum", NUMBERS + COMPLEX),
        reference=in_float64(lambda x: np.cumsum(x, axis=1, dtype=x.dtype)),
        gradient=cumsum_gradient,
        cost=each_element(1, "1 flop an element; input twice, output once"),
        # -0.0 changes no number that is added to it, 0.0 would change -0.0
        lower=lowering(Scan("cumsum", lambda t: (-0.0 if t.is_float else 0,), _add_lanes)),
        by_parts=True,
        dtypes=NUMBERS + COMPLEX,
        samples=scan_samples(integers((3, 21))),
        doc="The sums of the beginnings of each row.",
    )
)


@in_float32
def cumprod_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """(product before j) * s[j] with s[j] = g[j] + x[j + 1] s[j + 1]: no division, right at 0."""
    rest = backwards(LINEAR_RECURRENCE, conj(following(inputs[0])), grad_out)
    return (multiply(conj(shifted(output, 1)), rest),)


CUMPROD = register(
    Op(
        "cumprod",
        "kernel",
        scan_rule("cumprod", NUMBERS + COMPLEX),
        reference=in_float64(lambda x: np.cumprod(x, axis=1, dtype=x.dtype)),
        gradient=cumprod_gradient,
        cost=each_element(1, "1 flop an element; input twice, output once"),
        lower=lowering(Scan("cumprod", lambda t: (1,), lambda a, b: (a[0] * b[0],))),
        dtypes=NUMBERS + COMPLEX,
        samples=scan_samples(
            integers((3, 5), low=-3, high=4),
            mixed(lambda r: [np.array([[2.0, 3, 0], [0, 2, 3], [0, 0, 3]])], "zeros"),
        ),
        doc="The products of the beginnings of each row.",
    )
)


def _log_add(a: State, b: State) -> State:
    """max + log(1 + exp(-|a - b|)); infinities are the maximum itself."""
    most = language.maximum(a[0], b[0])
    total = most + maths.log1p(maths.exp(-abs(a[0] - b[0])))
    return (language.select(abs(most) == math.inf, most, total),)


@in_float32
def logcumsumexp_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """exp(x[j] - y[j]) t[j] with t[j] = g[j] + exp(y[j] - y[j + 1]) t[j + 1]; no factor above 1."""
    (x,) = inputs
    length = x.shape[1]
    if length == 0:
        return (grad_out,)
    after = concat([narrow(output, 1, 1, length - 1), narrow(output, 1, length - 1, 1)], 1)
    rest = backwards(LINEAR_RECURRENCE, exp(_difference(output, after)), grad_out)
    share = where(equal(output, -math.inf), number(x, 0), exp(_difference(x, output)))
    return (multiply(share, rest),)


def _difference(a: Value, b: Value) -> Value:
    """a - b, which is 0 for equal infinities."""
    return where(equal(a, b), number(a, 0), subtract(a, b))


LOGCUMSUMEXP = register(
    Op(
        "logcumsumexp",
        "kernel",
        scan_rule("logcumsumexp", FLOATS),
        reference=in_float64(lambda x: np.logaddexp.accumulate(x, axis=1)),
        gradient=logcumsumexp_gradient,
        cost=each_element(60, "about 60 flops an element; input twice, output once"),
        lower=lowering(
            Scan("logcumsumexp", lambda t: (-math.inf,), _log_add, flops=60.0, lane_ns=15.0)
        ),
        dtypes=FLOATS,
        samples=scan_samples(
            rough(lambda r: [np.array([[-np.inf, -np.inf, 0, 1], [900, 1, -900, 900]])], "far")
        ),
        doc="The logarithm of the sums of the exponentials of the beginnings of each row.",
    )
)


def _standard(op: Op, x: Value, axis: int | None, dtype: Any, initial: int | None) -> Value:
    """A cumulative sum or product by the words of the Array API; `initial` is put in front."""
    if axis is None and len(x.shape) != 1:
        name = {"cumsum": "cumulative_sum", "cumprod": "cumulative_prod"}[op.name]
        refuse_inputs(
            ShapeError, name, "an axis is needed unless there is exactly one", (x,),
            "give axis=, or flatten first",
        )  # fmt: skip
    x = as_type(x, summed_dtype(x.dtype) if dtype is None else as_dtype(dtype))
    axis = normalised_axis(op.name, 0 if axis is None else axis, len(x.shape), x)
    result = along(op, x, axis)
    if initial is None:
        return result
    shape = tuple(1 if i == axis else size for i, size in enumerate(x.shape))
    return concat([broadcast_to(number(x, initial), shape), result], axis)


def cumulative_sum(
    x: Value, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Value:
    """The sums of all elements up to each along an axis: y[i] = x[0] + ... + x[i].

    x                bools and integers are summed as 64-bit integers; floats in float64
    axis             may be left out if x has exactly one
    dtype            of the result; x is cast to it first
    include_initial  put a 0 in front: the axis is one longer
    returns          shape of x; gradient: the sums from each element to the end
    raises           ShapeError for an axis that does not exist, or is needed
    cost             an addition and two accesses an element; long rows are read twice
    >>> import bedplate as bp
    >>> bp.cumulative_sum(bp.tensor([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _standard(CUMSUM, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Value, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Value:
    """The products of all elements up to each along an axis: y[i] = x[0] * ... * x[i].

    x                bools and integers are multiplied as 64-bit integers; floats in float64
    axis             may be left out if x has exactly one
    dtype            of the result; x is cast to it first
    include_initial  put a 1 in front: the axis is one longer
    returns          shape of x; the gradient does not divide and is right where elements are 0
    raises           ShapeError for an axis that does not exist, or is needed
    >>> import bedplate as bp
    >>> bp.cumulative_prod(bp.tensor([2, 3, 4])).tolist()
    [2, 6, 24]
    """
    return _standard(CUMPROD, x, axis, dtype, 1 if include_initial else None)


def cumsum(x: Value, axis: int | None = None, dtype: Any = None) -> Value:
    """The sums of all elements up to each along an axis: y[i] = x[0] + ... + x[i].

    axis     `dim` works too; None: x is flattened first
    dtype    of the result; see `cumulative_sum`
    returns  shape of x
    >>> import bedplate as bp
    >>> bp.cumsum(bp.tensor([[1, 2], [3, 4]]), axis=0).tolist()
    [[1, 2], [4, 6]]
    """
    dtype = summed_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    return along(CUMSUM, as_type(x, dtype), axis)


def cumprod(x: Value, axis: int | None = None, dtype: Any = None) -> Value:
    """The products of all elements up to each along an axis: y[i] = x[0] * ... * x[i].

    axis     `dim` works too; None: x is flattened first
    dtype    of the result; see `cumulative_prod`
    returns  shape of x
    >>> import bedplate as bp
    >>> bp.cumprod(bp.tensor([[1, 2], [3, 4]]), axis=1).tolist()
    [[1, 2], [3, 12]]
    """
    dtype = summed_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    return along(CUMPROD, as_type(x, dtype), axis)


def _complex_log_sums(x: Value, axis: int | None) -> Value:
    """log(s) + m, where m is the largest real part so far and s the sum of exp(x - m).

    The sum is a linear recurrence, s[i] = exp(m[i - 1] - m[i]) s[i - 1] + exp(x[i] - m[i]), whose
    factors are at most 1. No gradient goes through m, since y does not depend on it.
    """
    if axis is None:
        x, axis = reshape(x, (math.prod(x.shape),)), 0
    most = along(CUMMAX, real(without_gradient(x)), axis)
    most = where(equal(most, -math.inf), number(most, 0), most)
    moved = moveaxis(most, axis, -1)
    rows = reshape(moved, (math.prod(moved.shape[:-1]), moved.shape[-1]))
    falls = reshape(minimum(subtract(shifted(rows, 0), rows), 0), moved.shape)
    factors = as_type(exp(moveaxis(falls, -1, axis)), x.dtype)
    sums = linear_recurrence(factors, exp(subtract(x, as_type(most, x.dtype))), axis)
    return add(log(sums), as_type(most, x.dtype))


def logcumsumexp(x: Value, axis: int | None = None) -> Value:
    """The logarithm of the cumulative sum of exponentials: y[i] = log(exp(x[0]) + ... + exp(x[i])).

    x        floats, computed in float64 without overflow, where -inf counts as nothing; or complex
    axis     `dim` works too; None: x is flattened first
    returns  shape of x
    >>> import bedplate as bp
    >>> bp.logcumsumexp(bp.tensor([1000.0, 1000.0]), axis=0).tolist()
    [1000.0, 1000.6931762695312]
    """
    if x.dtype.kind == "c":
        return _complex_log_sums(x, axis)
    return along(LOGCUMSUMEXP, as_float(x), axis)
