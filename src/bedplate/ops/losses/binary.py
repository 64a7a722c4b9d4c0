"""Losses of yes and no: binary cross-entropy of probabilities and logits, and of several labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.dtypes import FLOATS
from bedplate.errors import ShapeError
from bedplate.kernel import maths
from bedplate.ops.build import Value, as_type, normalised_axis, sum_to
from bedplate.ops.elementwise import binary, in_float32, rounded_once
from bedplate.ops.indexing.gather import take, take_along_axis
from bedplate.ops.losses.classes import as_targets, check_reduction, reduced_loss, weighted
from bedplate.ops.pointwise.activations import logsigmoid, softplus
from bedplate.ops.pointwise.arithmetic import multiply
from bedplate.ops.pointwise.comparison import equal, greater_equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import log, log1p, pow_
from bedplate.ops.pointwise.extremes import maximum
from bedplate.ops.reduction.reduce import any_, sum_
from bedplate.ops.reduction.statistics import mean
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import floats
from bedplate.ops.scan.cumulative import cumprod
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.views import expand_dims, reshape

# the least logarithm that counts, so that a probability of 0 costs 100 and not infinity
FLOOR = -100.0
# keeps the slope at a probability of 0 or 1 finite
LEAST_PRODUCT = 1e-12


@in_float32
def entropy_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """dx (x - t) / (x (1 - x)), the denominator at least 1e-12; dt (log(1 - x) - log(x))"""
    x, target = inputs
    slope = (x - target) / maximum(x * (1 - x), LEAST_PRODUCT)
    other = maximum(log1p(-x), FLOOR) - maximum(log(x), FLOOR)
    to_x, to_target = multiply(grad_out, slope), multiply(grad_out, other)
    return sum_to(to_x, x.shape), sum_to(to_target, target.shape)


def _entropy(x: Any, target: Any) -> Any:
    yes, no = np.maximum(np.log(x), FLOOR), np.maximum(np.log1p(-x), FLOOR)
    return target * -yes + (1 - target) * -no


def _entropy_emit(t: Any, x: Any, target: Any) -> Any:
    yes = language.maximum(maths.log(x), FLOOR)
    no = language.maximum(maths.log1p(-x), FLOOR)
    return target * -yes + (1 - target) * -no


@binary(
    reference=_entropy,
    emit=_entropy_emit,
    gradient=entropy_gradient,
    samples=(
        floats((3, 5), (3, 5), low=0.1, high=0.9),
        floats((4, 1), (6,), low=0.1, high=0.9),
        floats((0,), (0,)),
    ),
    dtypes=FLOATS,
    promote="float",
)
def binary_entropy(x: Value, target: Value) -> Value:
    """-(t log(x) + (1 - t) log(1 - x)), each logarithm at least -100."""


@rounded_once
def binary_cross_entropy(
    x: Value, target: Value, weight: Value | None = None, reduction: str = "mean"
) -> Value:
    """The loss of probabilities: y = -w (target log(x) + (1 - target) log(1 - x)).

    x          probabilities, in [0, 1]; outside the loss is NaN
    target     of the shape of x, in [0, 1]
    weight     broadcasts to x; None for ones
    reduction  "mean", "sum" or "none"
    returns    each logarithm is at least -100, so that the loss is finite; from logits,
               `binary_cross_entropy_with_logits` needs no such bound
    raises     ShapeError if the shapes differ
    >>> import bedplate as bp
    >>> x, target = bp.tensor([0.0, 1.0]), bp.tensor([1.0, 1.0])
    >>> bp.nn.functional.binary_cross_entropy(x, target, reduction="none").tolist()
    [100.0, 0.0]
    """
    check_reduction("binary_cross_entropy", reduction)
    target = as_targets("binary_cross_entropy", x, target)
    loss = binary_entropy(x, as_type(target, x.dtype))
    return reduced_loss(loss if weight is None else loss * weight, reduction)


@rounded_once
def binary_cross_entropy_with_logits(
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: str = "mean",
    pos_weight: Value | None = None,
) -> Value:
    """The loss of logits: y = -w (p target log(s) + (1 - target) log(1 - s)) with s = sigmoid(x).

    Computed as p target log(1 + exp(-x)) + (1 - target) log(1 + exp(x)): nothing overflows or
    cancels, and a logit may be infinite.

    x           logits
    target      of the shape of x, in [0, 1]
    weight      w, broadcasts to x; None for ones
    reduction   "mean", "sum" or "none"
    pos_weight  p, broadcasts to x, one for each class as a rule; None for ones
    raises      ShapeError if the shapes differ
    >>> import bedplate as bp
    >>> x, target = bp.tensor([-1000.0, 1000.0]), bp.tensor([1.0, 1.0])
    >>> bp.nn.functional.binary_cross_entropy_with_logits(x, target, reduction="none").tolist()
    [1000.0, 0.0]
    """
    check_reduction("binary_cross_entropy_with_logits", reduction)
    target = as_targets("binary_cross_entropy_with_logits", x, target)
    target = as_type(target, x.dtype)
    yes = target if pos_weight is None else pos_weight * target
    loss = weighted(yes, softplus(-x)) + weighted(1 - target, softplus(x))
    return reduced_loss(loss if weight is None else loss * weight, reduction)


@rounded_once
def soft_margin_loss(x: Value, target: Value, reduction: str = "mean") -> Value:
    """The logistic loss of signs: y = log(1 + exp(-target x)).

    target     of the shape of x, 1 or -1
    reduction  "mean", "sum" or "none"
    raises     ShapeError if the shapes differ
    >>> import bedplate as bp
    >>> bp.nn.functional.soft_margin_loss(bp.tensor([1000.0]), bp.tensor([-1.0])).item()
    1000.0
    """
    check_reduction("soft_margin_loss", reduction)
    target = as_targets("soft_margin_loss", x, target)
    return reduced_loss(softplus(-(x * target)), reduction)


@rounded_once
def multilabel_soft_margin_loss(
    x: Value, target: Value, weight: Value | None = None, reduction: str = "mean"
) -> Value:
    """The mean over the classes of binary cross-entropies of logits.

    x          (..., n_classes)  logits
    target     (..., n_classes)  0 or 1
    weight     (n_classes,), or None for ones
    reduction  "mean", "sum" or "none" over the other axes
    >>> import bedplate as bp
    >>> x, target = bp.tensor([[-1000.0, 1000.0]]), bp.tensor([[1.0, 1.0]])
    >>> bp.nn.functional.multilabel_soft_margin_loss(x, target).item()
    500.0
    """
    check_reduction("multilabel_soft_margin_loss", reduction)
    target = as_targets("multilabel_soft_margin_loss", x, target)
    target = as_type(target, x.dtype)
    loss = -(weighted(target, logsigmoid(x)) + weighted(1 - target, logsigmoid(-x)))
    return reduced_loss(mean(loss if weight is None else loss * weight, axis=-1), reduction)


@rounded_once
def multi_margin_loss(
    x: Value,
    target: Value,
    p: int = 1,
    margin: float = 1.0,
    weight: Value | None = None,
    reduction: str = "mean",
) -> Value:
    """The class of each row must win by a margin: y = sum w[t] max(0, margin - x[t] + x[i])^p / n.

    The sum is over the classes i other than t.

    x          (N, n) or (n,)
    target     (N,) or ()  integers in [0, n)
    p          1 or 2
    margin     by how much
    weight     (n,), or None for ones
    reduction  "mean", "sum" or "none"
    raises     ShapeError if the shapes do not match; ValueError for another p; IndexError when
               the value is computed, if a target is out of range
    >>> import bedplate as bp
    >>> bp.nn.functional.multi_margin_loss(bp.tensor([[0.0, 0.5]]), bp.tensor([1])).item()
    0.25
    """
    check_reduction("multi_margin_loss", reduction)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    normalised_axis("multi_margin_loss", -1, len(x.shape), x)
    if target.shape == (1,) and len(x.shape) == 1:
        target = reshape(target, ())
    if target.shape != x.shape[:-1]:
        refuse(ShapeError, "multi_margin_loss", "the shapes do not match",
               {"x": x, "target": target}, "expected x (N, n) and target (N,)")  # fmt: skip
    place = expand_dims(target, -1)
    shape = (1,) * (len(x.shape) - 1) + x.shape[-1:]
    own = equal(index_along(x, len(shape) - 1, shape), place)
    short = maximum(x - take_along_axis(x, place, -1) + margin, 0.0)
    loss = where(own, 0.0, pow_(short, p))
    if weight is not None:
        loss = loss * expand_dims(take(weight, target), -1)
    return reduced_loss(mean(loss, axis=-1), reduction)


@rounded_once
def multilabel_margin_loss(x: Value, target: Value, reduction: str = "mean") -> Value:
    """Each class of a row must beat each other class by 1: y = sum max(0, 1 - x[t] + x[i]) / n.

    The sum is over the classes t that the targets list and the classes i that they do not.

    x          (N, n) or (n,)
    target     of the shape of x, integers: the classes, up to the first -1
    reduction  "mean", "sum" or "none"
    raises     ShapeError if the shapes differ; IndexError when the value is computed, if a class
               is out of range
    cost       n^2 a row
    >>> import bedplate as bp
    >>> x, target = bp.tensor([0.0, 0.5, 2.0]), bp.tensor([1, -1, 0])
    >>> bp.nn.functional.multilabel_margin_loss(x, target).item()
    1.0
    """
    check_reduction("multilabel_margin_loss", reduction)
    target = as_targets("multilabel_margin_loss", x, target)
    normalised_axis("multilabel_margin_loss", -1, len(x.shape), x)
    n_classes = x.shape[-1]
    listed = equal(cumprod(as_type(greater_equal(target, 0), target.dtype), axis=-1), 1)
    wanted = where(listed, target, 0)
    index = index_along(x, len(x.shape), (1,) * len(x.shape) + (n_classes,))
    named = equal(expand_dims(wanted, -1), index) & expand_dims(listed, -1)  # (..., t, i)
    short = maximum(1 - expand_dims(take_along_axis(x, wanted, -1), -1) + expand_dims(x, -2), 0.0)
    counts = expand_dims(listed, -1) & ~any_(named, axis=-2, keepdims=True)
    loss = sum_(where(counts, short, 0.0), axis=(-2, -1)) / n_classes
    return reduced_loss(loss, reduction)
