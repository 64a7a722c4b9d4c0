"""rms_norm and layer_norm over the last axis, and what they are made of: records of two ops.

`rms_norm` divides rows by their root mean square; `standardise` gives any axes mean 0 and variance
1, and is behind every other normalisation (normalisation.py). Both are composed, with gradients of
their own. Everything runs in float32 (float64 for float64) and is narrowed once, after the weight.
The variance is the mean of squared deviations, in two passes: an offset changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value, as_float, as_type, sum_to
from bedplate.ops.elementwise import widened
from bedplate.ops.pointwise.arithmetic import add, multiply, subtract
from bedplate.ops.pointwise.exponential import rsqrt
from bedplate.ops.pointwise.extremes import maximum
from bedplate.ops.record import Op, apply, register
from bedplate.ops.reduction.reduce import SUM
from bedplate.ops.reduction.statistics import MEAN, count_of, wide
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import floats
from bedplate.ops.shape.creation import ones_like


def _named(inputs: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("x", "weight", "bias"), inputs, strict=False))


def _rule(name: str) -> Any:
    """x is a float with rows; weight and bias have the shape of a row."""

    def infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
        x, *rest = inputs
        if not all(value.dtype.is_float for value in inputs):
            refuse(DTypeError, name, "only floats can be normalised", _named(inputs))
        if not x.shape or any(value.shape != x.shape[-1:] for value in rest):
            refuse(
                ShapeError, name, "the weight does not match the last axis of x", _named(inputs),
                f"expected a weight of shape {tuple(x.shape[-1:])}",
            )  # fmt: skip
        return x.shape, x.dtype

    return infer


def _mean(x: Value, axes: Shape | None = None) -> Value:
    return apply(MEAN, (x,), {"axes": (len(x.shape) - 1,) if axes is None else axes})


def _inverse_root_rule(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (x,) = inputs
    if not x.dtype.is_float:
        refuse(DTypeError, "inverse_root", "only floats have one", {"x": x})
    return x.shape, x.dtype


def _inverse_root_gradient(
    grad_out: Value, inputs: Any, output: Value, *, eps: float
) -> tuple[Value]:
    """-g y^3 / 2"""
    y = wide(output)
    cube = multiply(multiply(y, y), y)
    return (as_type(multiply(multiply(wide(grad_out), cube), -0.5), output.dtype),)


INVERSE_ROOT = register(
    Op(
        "inverse_root",
        "composed",
        _inverse_root_rule,
        reference=widened(lambda x, *, eps: 1 / np.sqrt(x + eps)),
        gradient=_inverse_root_gradient,
        expand=lambda inputs, attributes: as_type(
            rsqrt(add(wide(inputs[0]), attributes["eps"])), inputs[0].dtype
        ),
        dtypes=FLOATS,
        samples=(floats((3, 5), low=0.0, eps=1e-2), floats((0, 3), low=0.0, eps=1e-2)),
        doc="1 / sqrt(x + eps). An attribute is the same number in a norm and in its gradient, so "
        "what both compute from it is computed once.",
    )
)


def _inverse_root(x: Value, eps: float) -> Value:
    return apply(INVERSE_ROOT, (x,), {"eps": float(eps)})


def _inverse_rms(x: Value, eps: float) -> Value:
    return _inverse_root(_mean(multiply(x, x)), eps)


def rms_norm_gradient(
    grad_out: Value, inputs: Any, output: Value, *, eps: float
) -> tuple[Any, ...]:
    """With r = 1/rms and h = g weight: dx = r (h - x r^2 mean(h x)), dweight = sum(g x r)"""
    x, *rest = inputs
    rows, grad = wide(x), wide(grad_out)
    r = _inverse_rms(rows, eps)
    scaled = multiply(grad, as_type(rest[0], grad.dtype)) if rest else grad
    unit = multiply(rows, r)
    to_x = multiply(r, subtract(scaled, multiply(unit, _mean(multiply(scaled, unit)))))
    to_weight = [as_type(sum_to(multiply(grad, unit), w.shape), w.dtype) for w in rest]
    return (as_type(to_x, x.dtype), *to_weight)


def _rms_norm_expand(inputs: tuple[Any, ...], attributes: Attributes) -> Any:
    x, *rest = inputs
    rows = wide(x)
    y = multiply(rows, _inverse_rms(rows, attributes["eps"]))
    for weight in rest:
        y = multiply(y, as_type(weight, y.dtype))
    return as_type(y, x.dtype)


def _mean_of(x: Any, axes: Any) -> Any:
    """NumPy's mean with its axes kept; of nothing it is 0, without a warning."""
    return np.mean(x, axis=axes, keepdims=True) if x.size else x.sum(axis=axes, keepdims=True)


def _rms_norm_reference(x: Any, *rest: Any, eps: float) -> Any:
    y = x / np.sqrt(_mean_of(x * x, -1) + eps)
    return y * rest[0] if rest else y


RMS_NORM = register(
    Op(
        "rms_norm",
        "composed",
        _rule("rms_norm"),
        reference=widened(_rms_norm_reference),
        gradient=rms_norm_gradient,
        expand=_rms_norm_expand,
        dtypes=FLOATS,
        samples=(
            floats((3, 7), (7,), eps=1e-5),
            floats((2, 3, 5), (5,), eps=1e-6),
            floats((4, 6), eps=1e-5),
            floats((0, 3), (3,), eps=1e-5),
        ),
        doc="x / rms(x) times a weight, over the last axis.",
    )
)


def rms_norm(x: Value, weight: Value | None = None, eps: float = 1e-6) -> Value:
    """Divide each row by its root mean square, then scale.

    y[i] = x[i] weight[i] / sqrt(mean(x^2) + eps)

    x        (..., d_model)  floats; sums run in float32 or better
    weight   (d_model,)      or None; multiplied before the result is narrowed
    eps      added to the mean square
    returns  (..., d_model)  dtype of x
    raises   ShapeError if the weight does not match the last axis of x
    cost     1 read and 1 write of x (rows stay in cache), 4 flops an element
    source   Zhang and Sennrich 2019, arXiv:1910.07467
    >>> import bedplate as bp
    >>> bp.rms_norm(bp.tensor([3.0, -3.0]), eps=0.0).tolist()
    [1.0, -1.0]
    """
    x = as_float(x)
    inputs = (x,) if weight is None else (x, weight)
    return apply(RMS_NORM, inputs, {"eps": float(eps)})


def _standardise_rule(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    x, *rest = inputs
    if not all(value.dtype.is_float for value in inputs):
        refuse(DTypeError, "standardise", "only floats can be normalised", _named(inputs))
    for value in rest:
        if len(value.shape) > len(x.shape) or any(
            size not in (1, whole)
            for size, whole in zip(reversed(value.shape), reversed(x.shape), strict=False)
        ):
            refuse(ShapeError, "standardise", "the weight does not match x", _named(inputs),
                   f"expected sizes of 1, or those of {x.shape}")  # fmt: skip
    return x.shape, x.dtype


def moments(x: Value, axes: Shape) -> tuple[Value, Value]:
    """(mean, variance) over the axes, which stay with size 1."""
    mean, rest, variance = _moments(x, axes)
    return add(mean, rest), variance


def _moments(x: Value, axes: Shape) -> tuple[Value, Value, Value]:
    """(mean, what it is off by, variance).

    The first mean is rounded: half a unit of a large offset is much beside a small deviation. What
    it is off by is the mean of the deviations, found in the pass that squares them.
    """
    inner = _trailing(x, axes)
    if inner and inner != axes:
        return _moments_of_rows(x, inner, tuple(axis for axis in axes if axis not in inner))
    mean = _mean(x, axes)
    rough = subtract(x, mean)
    rest = _mean(rough, axes)
    variance = subtract(_mean(multiply(rough, rough), axes), multiply(rest, rest))
    return mean, rest, maximum(variance, 0)


def _trailing(x: Value, axes: Shape) -> Shape:
    """Those of the axes that are the last ones of x, with nothing between."""
    ndim = len(x.shape)
    return tuple(axis for axis in axes if all(a in axes for a in range(axis, ndim)))


def _moments_of_rows(x: Value, inner: Shape, outer: Shape) -> tuple[Value, Value, Value]:
    """`_moments` over inner and outer axes, from those over the inner ones alone.

    A row of the inner axes stays in the caches for its second pass, so x is read from memory once:
    the variance is the mean of the variances of rows, plus the variance of their means.
    """
    means, rests, variances = _moments(x, inner)
    mean = _mean(means, outer)
    apart = add(subtract(means, mean), rests)
    rest = _mean(apart, outer)
    between = subtract(_mean(multiply(apart, apart), outer), multiply(rest, rest))
    return mean, rest, add(_mean(variances, outer), maximum(between, 0))


def _standardised(x: Value, axes: Shape, eps: float) -> tuple[Value, Value]:
    """x with mean 0 and variance 1 over the axes, and the factor that made the variance 1."""
    mean, rest, variance = _moments(x, axes)
    r = _inverse_root(variance, eps)
    return multiply(subtract(subtract(x, mean), rest), r), r


def _shared_axes(x: Value, axes: Shape, weight: Value | None) -> Shape:
    """Those of the axes along which one weight serves all elements."""
    if weight is None:
        return axes
    missing = len(x.shape) - len(weight.shape)
    return tuple(a for a in axes if a < missing or weight.shape[a - missing] == 1)


def _summed(x: Value, axes: Shape) -> Value:
    return apply(SUM, (x,), {"axes": axes}) if axes else x


def standardise_gradient(
    grad_out: Value, inputs: Any, output: Value, *, axes: Shape, eps: float
) -> tuple[Any, ...]:
    """With u the standardised x and h = g weight: dx = r (h - mean(h) - u mean(h u))

    g and g u are first summed over the axes that share a weight: these small sums give both means
    and the gradients of weight and bias, so that g and x are read once for all four.
    """
    x, *rest = inputs
    grad, weight = wide(grad_out), (rest[0] if rest else None)
    unit, r = _standardised(wide(x), axes, eps)
    shared = _shared_axes(x, axes, weight)
    sums = (_summed(multiply(grad, unit), shared), _summed(grad, shared))
    factor = None if weight is None else as_type(weight, grad.dtype)
    share = 1 / max(count_of(x, axes), 1)
    others = tuple(axis for axis in axes if axis not in shared)
    slope, mean = (
        multiply(_summed(part if factor is None else multiply(part, factor), others), share)
        for part in sums
    )
    scaled = grad if factor is None else multiply(grad, factor)
    to_x = multiply(r, subtract(scaled, add(mean, multiply(unit, slope))))
    to_rest = [as_type(sum_to(part, w.shape), w.dtype) for part, w in zip(sums, rest, strict=False)]
    return (as_type(to_x, x.dtype), *to_rest)


def _standardise_expand(inputs: tuple[Any, ...], attributes: Attributes) -> Any:
    x, *rest = inputs
    y, _ = _standardised(wide(x), attributes["axes"], attributes["eps"])
    if rest:
        y = multiply(y, as_type(rest[0], y.dtype))
    if len(rest) > 1:
        y = add(y, as_type(rest[1], y.dtype))
    return as_type(y, x.dtype)


def _standardise_reference(x: Any, *rest: Any, axes: Shape, eps: float) -> Any:
    wide = x.astype(np.float64)
    centred = wide - _mean_of(wide, axes)
    y = centred / np.sqrt(_mean_of(centred * centred, axes) + eps)
    y = y * rest[0] if rest else y
    return y + rest[1] if len(rest) > 1 else y


STANDARDISE = register(
    Op(
        "standardise",
        "composed",
        _standardise_rule,
        reference=widened(_standardise_reference),
        gradient=standardise_gradient,
        expand=_standardise_expand,
        dtypes=FLOATS,
        samples=(
            floats((3, 7), (7,), (7,), axes=(1,), eps=1e-5),
            floats((2, 3, 5), (5,), axes=(2,), eps=1e-5),
            floats((4, 6), axes=(1,), eps=1e-5),
            floats((2, 3, 5), (3, 1), (3, 1), axes=(0, 2), eps=1e-3),
            floats((2, 4, 3, 5), (4, 1, 1), (4, 1, 1), axes=(2, 3), eps=1e-5),
            floats((0, 3), (3,), (3,), axes=(1,), eps=1e-5),
        ),
        doc="(x - mean(x)) / std(x) over `axes`, times a weight plus a bias that broadcast to x.",
    )
)


def standardise(
    x: Value, axes: Shape, eps: float, weight: Value | None = None, bias: Value | None = None
) -> Value:
    """(x - mean(x)) / sqrt(var(x) + eps) over the axes, times weight, plus bias.

    weight, bias  broadcast to x; None: 1 and 0
    """
    if weight is None and bias is not None:
        weight = ones_like(bias)
    inputs = tuple(value for value in (x, weight, bias) if value is not None)
    return apply(STANDARDISE, inputs, {"axes": axes, "eps": float(eps)})


def layer_norm(
    x: Value, weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5
) -> Value:
    """Shift and scale each row to mean 0 and variance 1, then scale and shift.

    y = (x - mean(x)) / sqrt(var(x) + eps) weight + bias

    x             (..., d_model)  floats; sums run in float32 or better, in two passes
    weight, bias  (d_model,)      or None; a bias needs a weight
    eps           added to the variance
    returns       (..., d_model)  dtype of x
    raises        ShapeError if they do not match the last axis of x; ValueError for a bias alone
    source        Ba, Kiros and Hinton 2016, arXiv:1607.06450
    >>> import bedplate as bp
    >>> bp.layer_norm(bp.tensor([1.0, 3.0]), eps=0.0).tolist()
    [-1.0, 1.0]
    """
    if weight is None and bias is not None:
        raise ValueError("layer_norm: a bias needs a weight; pass ones")
    x = as_float(x)
    inputs = tuple(value for value in (x, weight, bias) if value is not None)
    _rule("layer_norm")(inputs, {})
    return standardise(x, (len(x.shape) - 1,), eps, weight, bias)
