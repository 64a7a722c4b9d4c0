"""Cumulative sums, products, extremes and log-sums along an axis, and the linear recurrence.

The records scan the rows of a matrix; the functions bring an axis there and back. A gradient that
runs backwards is a scan of reversed rows, which are views.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.dtypes import COMPLEX, FLOATS, DType, as_dtype
from bedplate.errors import ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.kernel import maths
from bedplate.ops.arithmetic import add, multiply, subtract
from bedplate.ops.build import Value, as_type, normalised_axis, number
from bedplate.ops.comparison import equal, logical_and, logical_not, not_equal
from bedplate.ops.complex_parts import conj
from bedplate.ops.convert import where
from bedplate.ops.creation import index_along
from bedplate.ops.cumulative_kernel import Scan, State, lower_scan
from bedplate.ops.elementwise import NARROW_FLOATS, NUMBERS, in_float32, refuse_dtype
from bedplate.ops.exponential import exp
from bedplate.ops.gather import sum_rows
from bedplate.ops.record import Op, Sample, apply, each_element, register
from bedplate.ops.reduce import axis_words, greatest, least, summed_dtype
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.regions import concat, flip, narrow
from bedplate.ops.samples import floats, integers, mixed, rough
from bedplate.ops.views import broadcast_to, moveaxis, reshape


def _rule(name: str, accepted: tuple[DType, ...]) -> Any:
    """Matrices of one shape and one of the accepted dtypes."""

    def infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
        first = inputs[0]
        if any(len(x.shape) != 2 or x.shape != first.shape for x in inputs):
            refuse_inputs(ShapeError, name, "expected (rows, length), the same for all", inputs)
        if first.dtype not in accepted or any(x.dtype is not first.dtype for x in inputs):
            refuse_dtype(name, inputs, accepted)
        return first.shape, first.dtype

    return infer


def _in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
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


def _lowering(scan: Scan) -> Callable[..., None]:
    def lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
        lower_scan(scan, inputs, outputs[0], builder)

    return lower


def _samples(*more: Sample) -> tuple[Sample, ...]:
    shapes = ((3, 7), (2, 37), (1, 1), (4, 8), (0, 3), (3, 0))
    return (*(floats(shape) for shape in shapes), *more)


def _backwards(op: Op, *values: Value) -> Value:
    """A scan from the end of the rows to their start."""
    return flip(apply(op, tuple(flip(value, 1) for value in values)), 1)


def _shifted(x: Value, first: bool | int | float) -> Value:
    """The rows moved on by one: `first`, x[0], x[1], ... without the last."""
    rows, length = x.shape
    if length == 0:
        return x
    head = broadcast_to(number(x, first), (rows, 1))
    return concat([head, narrow(x, 1, 0, length - 1)], 1) if length > 1 else head


def _next(x: Value) -> Value:
    """The rows moved back by one: x[1], x[2], ..., 0."""
    return flip(_shifted(flip(x, 1), 0), 1)


def _add_lanes(a: State, b: State) -> State:
    return (a[0] + b[0],)


def cumsum_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """The sum of the gradients from each element to the end."""
    return (_backwards(CUMSUM, grad_out),)


CUMSUM = register(
    Op(
        "cumsum",
        "kernel",
        _rule("cumsum", NUMBERS + COMPLEX),
        reference=_in_float64(lambda x: np.cumsum(x, axis=1, dtype=x.dtype)),
        gradient=cumsum_gradient,
        cost=each_element(1, "1 flop an element; input twice, output once"),
        # -0.0 changes no number that is added to it, 0.0 would change -0.0
        lower=_lowering(Scan("cumsum", lambda t: (-0.0 if t.is_float else 0,), _add_lanes)),
        by_parts=True,
        dtypes=NUMBERS + COMPLEX,
        samples=_samples(integers((3, 21))),
        doc="The sums of the beginnings of each row.",
    )
)


def linear_recurrence_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Value, Value]:
    """db[i] = g[i] + a[i + 1] db[i + 1], the recurrence backwards; da[i] = db[i] y[i - 1]"""
    to_b = _backwards(LINEAR_RECURRENCE, conj(_next(inputs[0])), grad_out)
    return multiply(to_b, conj(_shifted(output, 0))), to_b


def _recurrence_reference(a: Any, b: Any) -> Any:
    y = np.zeros_like(b)
    for i in range(b.shape[1]):
        y[:, i] = b[:, i] + (a[:, i] * y[:, i - 1] if i else 0)
    return y


# not cut into blocks: the product of the factors of a block may overflow where y does not
LINEAR_RECURRENCE = register(
    Op(
        "linear_recurrence",
        "kernel",
        _rule("linear_recurrence", NUMBERS + COMPLEX),
        reference=_in_float64(_recurrence_reference),
        gradient=linear_recurrence_gradient,
        cost=each_element(2, "2 flops an element; inputs twice, output once"),
        lower=_lowering(
            Scan(
                "linear_recurrence",
                lambda t: (1, 0),
                lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1]),
                blocked=False,
                flops=3.0,
            )
        ),
        dtypes=NUMBERS + COMPLEX,
        samples=tuple(
            floats(shape, shape, low=-1.2, high=1.2)
            for shape in ((3, 7), (2, 37), (1, 1), (4, 8), (0, 3), (3, 0))
        ),
        doc="y[i] = a[i] y[i - 1] + b[i] along each row, from y[-1] = 0.",
    )
)


@in_float32
def cumprod_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """(product before j) * s[j] with s[j] = g[j] + x[j + 1] s[j + 1]: no division, right at 0."""
    rest = _backwards(LINEAR_RECURRENCE, conj(_next(inputs[0])), grad_out)
    return (multiply(conj(_shifted(output, 1)), rest),)


CUMPROD = register(
    Op(
        "cumprod",
        "kernel",
        _rule("cumprod", NUMBERS + COMPLEX),
        reference=_in_float64(lambda x: np.cumprod(x, axis=1, dtype=x.dtype)),
        gradient=cumprod_gradient,
        cost=each_element(1, "1 flop an element; input twice, output once"),
        lower=_lowering(Scan("cumprod", lambda t: (1,), lambda a, b: (a[0] * b[0],))),
        dtypes=NUMBERS + COMPLEX,
        samples=_samples(
            integers((3, 5), low=-3, high=4),
            mixed(lambda r: [np.array([[2.0, 3, 0], [0, 2, 3], [0, 0, 3]])], "zeros"),
        ),
        doc="The products of the beginnings of each row.",
    )
)


def _extreme_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """To the place where the value was first seen."""
    (x,) = inputs
    rows, length = x.shape
    if rows * length == 0:
        return (multiply(x, 0),)
    before = _shifted(output, 0)
    both_nan = logical_and(not_equal(output, output), not_equal(before, before))
    column = index_along(x, 1, (rows, length))
    kept = logical_and(not_equal(column, 0), _either(equal(output, before), both_nan))
    place = apply(CUMMAX, (where(kept, number(column, 0), column),))
    place = add(place, multiply(index_along(x, 0, (rows, 1)), length))
    flat = reshape(grad_out, (rows * length, 1))
    return (reshape(sum_rows(reshape(place, (-1,)), flat, rows * length), x.shape),)


def _either(a: Value, b: Value) -> Value:
    return logical_not(logical_and(logical_not(a), logical_not(b)))


def cummax_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """All to the first of the elements that are the largest so far."""
    return _extreme_gradient(grad_out, inputs, output)


def cummin_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """All to the first of the elements that are the smallest so far."""
    return _extreme_gradient(grad_out, inputs, output)


def _distinct(*shape: int) -> Sample:
    """Elements that differ in every dtype, so that the op has a derivative."""
    count = math.prod(shape)
    return mixed(lambda r: [(r.permutation(count) / 32 - 1).reshape(shape)], f"{shape}")


_DISTINCT = (
    _distinct(3, 7),
    _distinct(2, 37),
    _distinct(1, 1),
    _distinct(0, 3),
    _distinct(3, 0),
    integers((3, 21)),
    rough(lambda r: [np.array([[1.0, 3, np.nan, 5, 4], [2, 2, 1, 3, 3]])], "nan and ties"),
)


def _extreme(name: str, scan: Scan, reference: Any, gradient: Any, doc: str) -> Op:
    return register(
        Op(
            name,
            "kernel",
            _rule(name, NUMBERS),
            reference=_in_float64(reference),
            gradient=gradient,
            cost=each_element(1, "1 comparison an element; input twice, output once"),
            lower=_lowering(scan),
            dtypes=NUMBERS,
            samples=_DISTINCT,
            doc=doc,
        )
    )


def _bound(type_: Any, function: Callable[[DType], Any]) -> Any:
    """The least or greatest value of a type of the kernel language."""
    if type_.is_float:
        return function(FLOATS[0])
    return function(as_dtype(f"{'' if type_.is_signed else 'u'}int{type_.bits}"))


CUMMAX = _extreme(
    "cummax",
    Scan(
        "cummax",
        lambda t: (_bound(t, least),),
        lambda a, b: (language.maximum(a[0], b[0]),),
        widen=False,
    ),
    lambda x: np.maximum.accumulate(x, axis=1),
    cummax_gradient,
    "The largest element so far along each row; NaN from the first NaN on.",
)
CUMMIN = _extreme(
    "cummin",
    Scan(
        "cummin",
        lambda t: (_bound(t, greatest),),
        lambda a, b: (language.minimum(a[0], b[0]),),
        widen=False,
    ),
    lambda x: np.minimum.accumulate(x, axis=1),
    cummin_gradient,
    "The smallest element so far along each row; NaN from the first NaN on.",
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
    rest = _backwards(LINEAR_RECURRENCE, exp(_difference(output, after)), grad_out)
    share = where(equal(output, -math.inf), number(x, 0), exp(_difference(x, output)))
    return (multiply(share, rest),)


def _difference(a: Value, b: Value) -> Value:
    """a - b, which is 0 for equal infinities."""
    return where(equal(a, b), number(a, 0), subtract(a, b))


LOGCUMSUMEXP = register(
    Op(
        "logcumsumexp",
        "kernel",
        _rule("logcumsumexp", FLOATS),
        reference=_in_float64(lambda x: np.logaddexp.accumulate(x, axis=1)),
        gradient=logcumsumexp_gradient,
        cost=each_element(60, "about 60 flops an element; input twice, output once"),
        lower=_lowering(Scan("logcumsumexp", lambda t: (-math.inf,), _log_add, flops=60.0)),
        dtypes=FLOATS,
        samples=_samples(
            rough(lambda r: [np.array([[-np.inf, -np.inf, 0, 1], [900, 1, -900, 900]])], "far")
        ),
        doc="The logarithm of the sums of the exponentials of the beginnings of each row.",
    )
)


def _along(op: Op, x: Value, axis: int | None) -> Value:
    """Apply a scan of rows along an axis; None: x flattened."""
    if axis is None:
        x, axis = reshape(x, (math.prod(x.shape),)), 0
    axis = normalised_axis(op.name, axis, len(x.shape), x)
    moved = moveaxis(x, axis, -1)
    length = moved.shape[-1]
    rows = reshape(moved, (math.prod(moved.shape[:-1]), length))
    return moveaxis(reshape(apply(op, (rows,)), moved.shape), -1, axis)


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
    result = _along(op, x, axis)
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


@axis_words
def cumsum(x: Value, axis: int | None = None, dtype: Any = None) -> Value:
    """The sums of all elements up to each along an axis, as in NumPy and PyTorch.

    axis     `dim` works too; None: x is flattened first
    dtype    of the result; see `cumulative_sum`
    >>> import bedplate as bp
    >>> bp.cumsum(bp.tensor([[1, 2], [3, 4]]), axis=0).tolist()
    [[1, 2], [4, 6]]
    """
    dtype = summed_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    return _along(CUMSUM, as_type(x, dtype), axis)


@axis_words
def cumprod(x: Value, axis: int | None = None, dtype: Any = None) -> Value:
    """The products of all elements up to each along an axis, as in NumPy and PyTorch.

    axis     `dim` works too; None: x is flattened first
    dtype    of the result; see `cumulative_prod`
    >>> import bedplate as bp
    >>> bp.cumprod(bp.tensor([[1, 2], [3, 4]]), axis=1).tolist()
    [[1, 2], [3, 12]]
    """
    dtype = summed_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    return _along(CUMPROD, as_type(x, dtype), axis)


@axis_words
def cummax(x: Value, axis: int | None = None) -> Value:
    """The largest element up to each along an axis; NaN from the first NaN on.

    axis     `dim` works too; None: x is flattened first
    returns  shape and dtype of x; the gradient goes to the first of equal elements
    >>> import bedplate as bp
    >>> bp.cummax(bp.tensor([1, 3, 2, 5]), axis=0).tolist()
    [1, 3, 3, 5]
    """
    return _along(CUMMAX, x, axis)


@axis_words
def cummin(x: Value, axis: int | None = None) -> Value:
    """The smallest element up to each along an axis; NaN from the first NaN on.

    axis     `dim` works too; None: x is flattened first
    returns  shape and dtype of x; the gradient goes to the first of equal elements
    >>> import bedplate as bp
    >>> bp.cummin(bp.tensor([3, 4, 1, 2]), axis=0).tolist()
    [3, 3, 1, 1]
    """
    return _along(CUMMIN, x, axis)


@axis_words
def logcumsumexp(x: Value, axis: int | None = None) -> Value:
    """The logarithm of the cumulative sum of exponentials: y[i] = log(exp(x[0]) + ... + exp(x[i])).

    x        floats; computed in float64, without overflow; -inf counts as nothing
    axis     `dim` works too; None: x is flattened first
    >>> import bedplate as bp
    >>> bp.logcumsumexp(bp.tensor([1000.0, 1000.0]), axis=0).tolist()
    [1000.0, 1000.6931762695312]
    """
    return _along(LOGCUMSUMEXP, x, axis)


@axis_words
def linear_recurrence(a: Value, b: Value, axis: int = -1) -> Value:
    """Solve y[i] = a[i] y[i - 1] + b[i] along an axis, from nothing: y[0] = b[0].

    a, b     one shape, one dtype; floats are computed in float64
    axis     `dim` works too
    returns  shape of b; its gradient is the same recurrence backwards
    raises   ShapeError, DTypeError if a and b differ
    source   Blelloch 1990, "Prefix sums and their applications", section 1.4
    >>> import bedplate as bp
    >>> bp.linear_recurrence(bp.full_like(bp.ones(4), 0.5), bp.ones(4)).tolist()
    [1.0, 1.5, 1.75, 1.875]
    """
    if a.shape != b.shape:
        refuse_inputs(ShapeError, "linear_recurrence", "the shapes differ", (a, b))
    axis = normalised_axis("linear_recurrence", axis, len(b.shape), b)
    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    rows = (math.prod(b.shape[:-1]), b.shape[-1])
    result = apply(LINEAR_RECURRENCE, (reshape(a, rows), reshape(b, rows)))
    return moveaxis(reshape(result, b.shape), -1, axis)
