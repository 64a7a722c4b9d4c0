"""The normalisations of networks, with PyTorch's names and arguments: batch, group, instance,
layer, RMS, local response, and vectors of length 1.

All but the last two are `standardise` or `rms_norm` of norms.py over some axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Shape
from bedplate.graph.pending import LOCAL
from bedplate.ops.build import Value, as_float, as_type, number, several, without_gradient
from bedplate.ops.linalg.norms import vector_norm
from bedplate.ops.normalisation import norms
from bedplate.ops.normalisation.norms import moments, standardise
from bedplate.ops.pointwise.arithmetic import add, divide, multiply, square, subtract
from bedplate.ops.pointwise.exponential import pow_, rsqrt
from bedplate.ops.pointwise.extremes import maximum
from bedplate.ops.pooling.pooling import window_sum
from bedplate.ops.reduction.statistics import mean, wide
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.views import reshape

Rows = int | Sequence[int]


def _check(op: str, x: Value, least: int, expected: str, **rest: Value | None) -> None:
    """Refuse what is no float, has too few axes, or does not have one number a channel."""
    named = {"x": x, **{name: value for name, value in rest.items() if value is not None}}
    if not all(value.dtype.is_float for value in named.values()):
        refuse(DTypeError, op, "only floats can be normalised", named)
    if len(x.shape) < least:
        refuse(ShapeError, op, "x has too few axes", {"x": x}, f"expected {expected}")
    for name, value in named.items():
        if name != "x" and value.shape != x.shape[1:2]:
            refuse(ShapeError, op, f"the {name} does not fit", {"x": x, name: value},
                   f"expected shape ({x.shape[1]},): one number a channel")  # fmt: skip


def _beside(value: Value | None, ndim: int) -> Value | None:
    """One number a channel, under a shape that broadcasts to (N, C, ...)."""
    return None if value is None else reshape(value, (*value.shape, *(1,) * (ndim - 2)))


def _require_several(op: str, x: Value, axes: Shape) -> int:
    """How many elements a mean joins.

    raises ShapeError for a single one
    """
    count = math.prod(x.shape[axis] for axis in axes)
    if count == 1:
        refuse(ShapeError, op, "a channel has a single element", {"x": x},
               "its variance is 0: give more, or use running statistics")  # fmt: skip
    return count


def _update(running: Value | None, found: Value, momentum: Any) -> None:
    """running = (1 - momentum) running + momentum found, in the dtype of `running`."""
    if running is None or LOCAL.state.repeating:
        return
    old = wide(running)
    running.assign(add(multiply(old, subtract(number(old, 1.0), momentum)), multiply(
        as_type(reshape(found, running.shape), old.dtype), momentum)))  # fmt: skip


def _batch_statistics(x: Value, axes: Shape) -> tuple[Value, Value]:
    """(mean, variance with n - 1), without history."""
    rows = wide(without_gradient(x))
    centre, variance = moments(rows, axes)
    count = math.prod(x.shape[axis] for axis in axes)
    return centre, multiply(variance, count / max(count - 1, 1))


def _with_running(
    x: Value, running_mean: Value, running_var: Value, weight: Value | None, bias: Value | None,
    eps: float,
) -> Value:  # fmt: skip
    """x shifted and scaled by the running statistics: one factor and one shift a channel."""
    ndim, rows = len(x.shape), wide(x)
    centre, variance = (
        as_type(_beside(value, ndim), rows.dtype) for value in (running_mean, running_var)
    )
    y = multiply(subtract(rows, centre), rsqrt(add(variance, eps)))
    if weight is not None:
        y = multiply(y, as_type(_beside(weight, ndim), y.dtype))
    if bias is not None:
        y = add(y, as_type(_beside(bias, ndim), y.dtype))
    return as_type(y, x.dtype)


def batch_norm(
    x: Value, running_mean: Value | None, running_var: Value | None, weight: Value | None = None,
    bias: Value | None = None, training: bool = False, momentum: Any = 0.1, eps: float = 1e-5,
) -> Value:  # fmt: skip
    """Give each channel of a batch mean 0 and variance 1, then scale and shift it.

    y = (x - mean) / sqrt(var + eps) weight + bias

    x             (N, C, ...)  floats; computed in float32 or better, narrowed once
    running_mean  (C,)         or None, as running_var: what is used where not training
    running_var   (C,)
    weight, bias  (C,)         or None
    training      mean and var are those of the batch, over all axes but the second, and the
                  running ones are bound to (1 - momentum) old + momentum new, where the new
                  variance has n - 1 below
    momentum      a number, or a value of shape () (as 1 / count for a plain average)
    eps           added to the variance, which has n below
    returns       shape and dtype of x
    gradient      of a batch: weight / sqrt(var + eps) (g - mean(g) - u mean(g u)), u the
                  standardised x; finite for constant channels
    raises        ShapeError for values that do not fit, for a single element a channel in
                  training; ValueError without statistics
    cost          2 passes over x in training, 1 else; the gradient is 2 over x and g
    source        Ioffe and Szegedy 2015, arXiv:1502.03167
    >>> import bedplate as bp
    >>> x = bp.tensor([[1.0], [3.0]])
    >>> bp.nn.functional.batch_norm(x, None, None, training=True, eps=0.0).tolist()
    [[-1.0], [1.0]]
    """
    _check("batch_norm", x, 2, "(N, C) or (N, C, ...)", weight=weight, bias=bias,
           running_mean=running_mean, running_var=running_var)  # fmt: skip
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm: without training both running statistics are needed")
        return _with_running(x, running_mean, running_var, weight, bias, eps)
    ndim = len(x.shape)
    axes = (0, *range(2, ndim))
    _require_several("batch_norm", x, axes)
    if running_mean is not None or running_var is not None:
        centre, variance = _batch_statistics(x, axes)
        _update(running_mean, centre, momentum)
        _update(running_var, variance, momentum)
    return standardise(x, axes, eps, _beside(weight, ndim), _beside(bias, ndim))


def instance_norm(
    x: Value, running_mean: Value | None = None, running_var: Value | None = None,
    weight: Value | None = None, bias: Value | None = None, use_input_stats: bool = True,
    momentum: Any = 0.1, eps: float = 1e-5,
) -> Value:  # fmt: skip
    """Give each channel of each image mean 0 and variance 1, then scale and shift it.

    y[n, c] = (x[n, c] - mean(x[n, c])) / sqrt(var(x[n, c]) + eps) weight[c] + bias[c]

    x                (N, C, ...)  floats with at least one axis of space
    running_mean     (C,)         or None, as running_var: bound to a moving average of the mean
                     over the batch, and used instead where `use_input_stats` is off
    weight, bias     (C,)         or None
    use_input_stats  off: as `batch_norm` in evaluation
    momentum, eps    as for `batch_norm`
    returns          shape and dtype of x
    gradient         as for `batch_norm`, each image on its own
    raises           ShapeError for values that do not fit, for a single element of space;
                     ValueError without any statistics
    cost             1 read and 1 write of x (rows stay in the cache)
    source           Ulyanov, Vedaldi and Lempitsky 2016, arXiv:1607.08022
    >>> import bedplate as bp
    >>> bp.nn.functional.instance_norm(bp.tensor([[[1.0, 3.0], [0.0, 4.0]]]), eps=0.0).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """
    _check("instance_norm", x, 3, "(N, C, ...) with axes of space", weight=weight, bias=bias,
           running_mean=running_mean, running_var=running_var)  # fmt: skip
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ValueError(
                "instance_norm: without statistics of the input both running ones are needed"
            )
        return _with_running(x, running_mean, running_var, weight, bias, eps)
    ndim = len(x.shape)
    axes = tuple(range(2, ndim))
    _require_several("instance_norm", x, axes)
    if running_mean is not None or running_var is not None:
        centre, variance = _batch_statistics(x, axes)
        _update(running_mean, mean(centre, axis=0), momentum)
        _update(running_var, mean(variance, axis=0), momentum)
    return standardise(x, axes, eps, _beside(weight, ndim), _beside(bias, ndim))


def group_norm(
    x: Value, num_groups: int, weight: Value | None = None, bias: Value | None = None,
    eps: float = 1e-5,
) -> Value:  # fmt: skip
    """Give each group of channels of each image mean 0 and variance 1, then scale and shift.

    y = (x - mean) / sqrt(var + eps) weight + bias, mean and var over C / num_groups channels
    that follow each other and all axes of space

    x             (N, C, ...)  floats; computed in float32 or better, narrowed once
    num_groups    divides C; 1 is layer normalisation over all of an image, C instance
                  normalisation
    weight, bias  (C,)         or None
    eps           added to the variance
    returns       shape and dtype of x; does not depend on the rest of the batch
    gradient      as for `batch_norm`, each group on its own
    raises        ShapeError for values that do not fit
    cost          1 read and 1 write of x (rows stay in the cache)
    source        Wu and He 2018, arXiv:1803.08494
    >>> import bedplate as bp
    >>> bp.nn.functional.group_norm(bp.tensor([[1.0, 3.0, 5.0, 9.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    _check("group_norm", x, 2, "(N, C) or (N, C, ...)", weight=weight, bias=bias)
    n, channels, *space = x.shape
    if num_groups < 1 or channels % num_groups:
        refuse(ShapeError, "group_norm", f"{num_groups} groups do not divide the channels",
               {"x": x})  # fmt: skip
    ndim = len(x.shape) + 1
    split = (num_groups, channels // num_groups)
    inside = [
        None if value is None else reshape(value, (1, *split, *(1,) * len(space)))
        for value in (weight, bias)
    ]
    y = standardise(reshape(x, (n, *split, *space)), tuple(range(2, ndim)), eps, *inside)
    return reshape(y, x.shape)


def _as_rows(op: str, x: Value, normalized_shape: Rows, **rest: Value | None) -> list[Any]:
    """x with its last axes joined to one, and the others likewise; all are checked."""
    sizes = several(normalized_shape)
    if not sizes or tuple(x.shape[len(x.shape) - len(sizes) :]) != sizes:
        refuse(ShapeError, op, f"normalized_shape {sizes} does not fit", {"x": x},
               "expected the last sizes of x")  # fmt: skip
    for name, value in rest.items():
        if value is not None and tuple(value.shape) != sizes:
            refuse(ShapeError, op, f"the {name} does not fit", {"x": x, name: value},
                   f"expected shape {sizes}")  # fmt: skip
    if len(sizes) == 1:
        return [x, *rest.values()]
    width = math.prod(sizes)
    rows = reshape(x, (*x.shape[: len(x.shape) - len(sizes)], width))
    return [rows, *(None if v is None else reshape(v, (width,)) for v in rest.values())]


def layer_norm(
    x: Value, normalized_shape: Rows, weight: Value | None = None, bias: Value | None = None,
    eps: float = 1e-5,
) -> Value:  # fmt: skip
    """Give the elements of the last axes mean 0 and variance 1, then scale and shift.

    y = (x - mean) / sqrt(var + eps) weight + bias

    x                 (..., *normalized_shape)  floats; computed in float32 or better
    normalized_shape  the sizes of the last axes, over which mean and var are taken
    weight, bias      normalized_shape, or None
    eps               added to the variance
    returns           shape and dtype of x
    gradient          weight / sqrt(var + eps) (g - mean(g) - u mean(g u)), u the standardised x
    raises            ShapeError for values that do not fit; DTypeError for what is no float
    cost              1 read and 1 write of x; `bp.layer_norm` is the same for
                      one axis
    source            Ba, Kiros and Hinton 2016, arXiv:1607.06450
    >>> import bedplate as bp
    >>> bp.nn.functional.layer_norm(bp.tensor([[1.0, 3.0]]), (2,), eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    x = as_float(x)
    rows, weight, bias = _as_rows("layer_norm", x, normalized_shape, weight=weight, bias=bias)
    if not x.dtype.is_float:
        refuse(DTypeError, "layer_norm", "only floats can be normalised", {"x": x})
    return reshape(standardise(rows, (len(rows.shape) - 1,), eps, weight, bias), x.shape)


def rms_norm(
    x: Value, normalized_shape: Rows, weight: Value | None = None, eps: float | None = None
) -> Value:
    """Divide the elements of the last axes by their root mean square, then scale.

    y = x weight / sqrt(mean(x^2) + eps)

    x                 (..., *normalized_shape)  floats; computed in float32 or better
    normalized_shape  the sizes of the last axes, over which the mean is taken
    weight            normalized_shape, or None
    eps               added to the mean square; None: the distance from 1 to the next number of
                      the dtype of x
    returns           shape and dtype of x
    gradient          r (h - x r^2 mean(h x)), with r = 1 / rms and h = g weight
    raises            ShapeError for values that do not fit
    cost              1 read and 1 write of x; `bp.rms_norm` is the same for one axis
    source            Zhang and Sennrich 2019, arXiv:1910.07467
    >>> import bedplate as bp
    >>> bp.nn.functional.rms_norm(bp.tensor([[3.0, -3.0]]), 2, eps=0.0).tolist()
    [[1.0, -1.0]]
    """
    x = as_float(x)
    rows, weight = _as_rows("rms_norm", x, normalized_shape, weight=weight)
    if eps is None:
        eps = _EPSILON[x.dtype.name] if x.dtype.is_float else 0.0
    return reshape(norms.rms_norm(rows, weight, eps), x.shape)


_EPSILON = {
    "bfloat16": 2.0**-7,
    **{name: float(np.finfo(name).eps) for name in ("float16", "float32", "float64")},
}


def local_response_norm(
    x: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Value:
    """Divide each element by a power of the energy of its channel and the neighbours of that.

    y[n, c] = x[n, c] / (k + alpha / size sum of x[n, c']^2)^beta, c' from c - size // 2 on, `size`
    of them, those that there are

    x         (N, C, ...)  floats; computed in float32 or better
    size      how many channels are neighbours, itself included
    k         what a channel without energy is divided by, to the power of beta
    returns   shape and dtype of x
    gradient  of the formula
    raises    ShapeError for fewer than 3 axes (as PyTorch), or a size below 1
    cost      `size` additions and one power an element
    source    Krizhevsky, Sutskever and Hinton 2012
    >>> import bedplate as bp
    >>> bp.nn.functional.local_response_norm(bp.full((1, 2, 1), 2.0), 1, alpha=1.0, beta=0.5,
    ...     k=0.0).tolist()
    [[[1.0], [1.0]]]
    """
    _check("local_response_norm", x, 3, "(N, C, ...) with axes of space")
    if size < 1:
        raise ShapeError(f"local_response_norm: size {size} is not positive")
    rows = wide(x)
    n, channels, *space = x.shape
    if 0 in x.shape:
        return x
    flat = reshape(square(rows), (n, 1, channels, math.prod(space)))
    energy = window_sum(flat, {
        "window": (size, 1), "stride": (1, 1), "before": (size // 2, 0), "dilation": (1, 1),
        "out": (channels, math.prod(space)),
    })  # fmt: skip
    divisor = pow_(add(multiply(reshape(energy, x.shape), alpha / size), k), beta)
    return as_type(divide(rows, divisor), x.dtype)


def normalize(x: Value, p: float = 2.0, axis: Any = 1, eps: float = 1e-12) -> Value:
    """Scale vectors to length 1.

    y = x / max(norm(x, p), eps)

    x         floats, computed in float32 or better; integers are taken as float32
    p         which norm: (sum of abs(x)^p)^(1/p); inf for the greatest magnitude
    axis      along which the vectors lie; one or several; `dim` works too
    eps       a vector shorter than this is divided by it: zeros stay zeros
    returns   shape and dtype of x
    gradient  of the formula; g / eps for zeros
    raises    ShapeError for an axis that is not there; DTypeError for complex x
    cost      2 passes over x
    >>> import bedplate as bp
    >>> bp.nn.functional.normalize(bp.tensor([[3.0, 4.0], [0.0, 0.0]]), p=1).tolist()
    [[0.4285714328289032, 0.5714285969734192], [0.0, 0.0]]
    """
    x = as_float(x)
    if not x.dtype.is_float:
        refuse(DTypeError, "normalize", "only floats can be normalised", {"x": x})
    rows = wide(x)
    length = vector_norm(rows, axis=axis, keepdims=True, ord=p)
    return as_type(divide(rows, maximum(length, eps)), x.dtype)
