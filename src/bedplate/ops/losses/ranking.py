"""Losses of pairs and triplets: cosines, distances and margins between them."""

from __future__ import annotations

import math
from typing import Any

from bedplate.ops.build import Value, broadcast_shapes, number
from bedplate.ops.elementwise import rounded_once
from bedplate.ops.losses.classes import check_reduction, reduced_loss
from bedplate.ops.pointwise.activations import relu
from bedplate.ops.pointwise.arithmetic import abs_, multiply, square
from bedplate.ops.pointwise.comparison import equal, greater, not_equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import pow_, sqrt
from bedplate.ops.pointwise.extremes import maximum, minimum
from bedplate.ops.reduction.reduce import axis_words, max_, sum_
from bedplate.ops.shape.views import broadcast_to

# added to squared lengths under the cosine of cosine_embedding_loss, as in PyTorch
EMBEDDING_EPS = 1e-12


@axis_words
def cosine_similarity(x: Value, other: Value, axis: int = 1, eps: float = 1e-8) -> Value:
    """The cosine of the angle between vectors: y = x . other / (|x| |other|).

    x, other  shapes broadcast
    axis      of their common shape, along which the vectors lie; `dim` works too
    eps       the least length: a zero vector has similarity 0 and a finite gradient
    returns   the common shape without the axis
    >>> import bedplate as bp
    >>> bp.nn.functional.cosine_similarity(bp.tensor([[3.0, 4.0]]), bp.tensor([[3.0, 0.0]])).item()
    0.6000000238418579
    """
    shape = broadcast_shapes("cosine_similarity", (x, other))
    return _cosine(broadcast_to(x, shape), broadcast_to(other, shape), axis, eps)


@rounded_once
def _cosine(x: Value, other: Value, axis: int, eps: float) -> Value:
    x, other = _unit(x, axis, eps), _unit(other, axis, eps)
    return sum_(multiply(x, other), axis=axis)


def _unit(x: Value, axis: int, eps: float) -> Value:
    """x over its length, or over eps if that is larger."""
    squared = sum_(square(x), axis=axis, keepdims=True)
    return x / sqrt(maximum(squared, eps * eps))


@rounded_once
def cosine_embedding_loss(
    x1: Value, x2: Value, target: Value, margin: float = 0.0, reduction: str = "mean"
) -> Value:
    """Vectors should agree or not: y = 1 - cos if target is 1, max(0, cos - margin) if it is -1.

    x1, x2     (N, D) or (D,)
    target     (N,) or ()  1 or -1
    reduction  "mean", "sum" or "none"
    >>> import bedplate as bp
    >>> x, y = bp.tensor([[1.0, 0.0]]), bp.tensor([[0.0, 1.0]])
    >>> bp.nn.functional.cosine_embedding_loss(x, y, bp.tensor([1])).item()
    1.0
    """
    check_reduction("cosine_embedding_loss", reduction)
    dot = sum_(multiply(x1, x2), axis=-1)
    squares = [sum_(square(x), axis=-1) + EMBEDDING_EPS for x in (x1, x2)]
    cosine = dot / sqrt(multiply(*squares))
    apart = where(equal(target, -1), relu(cosine - margin), 0.0)
    return reduced_loss(where(equal(target, 1), 1 - cosine, apart), reduction)


@axis_words
@rounded_once
def pairwise_distance(
    x1: Value, x2: Value, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False
) -> Value:
    """The length of the difference along the last axis: y = (sum |x1 - x2 + eps|^p)^(1 / p).

    x1, x2    (..., D), shapes broadcast
    p         0 counts what differs, inf takes the largest
    eps       added to the difference
    keepdims  keep the last axis with size 1; `keepdim` works too
    returns   (...); the gradient of a length of 0 is 0
    >>> import bedplate as bp
    >>> x, y = bp.tensor([3.0, 4.0]), bp.tensor([0.0, 0.0])
    >>> bp.nn.functional.pairwise_distance(x, y, eps=0.0).item()
    5.0
    """
    return _length(x1 - x2 + eps, p, keepdims)


def _length(x: Value, p: float, keepdims: bool) -> Value:
    """The p-norm along the last axis; where all is 0 its gradient is 0."""
    if x.dtype.kind == "c":
        x = abs_(x)
    if p == math.inf:
        return max_(abs_(x), axis=-1, keepdims=keepdims)
    if p == 0:
        differs = where(not_equal(x, 0), number(x, 1.0), number(x, 0.0))
        return sum_(differs, axis=-1, keepdims=keepdims)
    if p == 1:
        return sum_(abs_(x), axis=-1, keepdims=keepdims)
    power = square(x) if p == 2 else pow_(abs_(x), p)
    total = sum_(power, axis=-1, keepdims=keepdims)
    some = greater(total, 0)
    safe = where(some, total, 1.0)
    root = sqrt(safe) if p == 2 else pow_(safe, 1 / p)
    return where(some, root, where(equal(total, 0), 0.0, total))


@rounded_once
def margin_ranking_loss(
    x1: Value, x2: Value, target: Value, margin: float = 0.0, reduction: str = "mean"
) -> Value:
    """One should rank above the other: y = max(0, margin - target (x1 - x2)).

    target     1 if x1 should be larger, -1 if x2
    reduction  "mean", "sum" or "none"
    >>> import bedplate as bp
    >>> x, y = bp.tensor([1.0]), bp.tensor([3.0])
    >>> bp.nn.functional.margin_ranking_loss(x, y, bp.tensor([1.0])).item()
    2.0
    """
    check_reduction("margin_ranking_loss", reduction)
    return reduced_loss(relu(margin - target * (x1 - x2)), reduction)


@rounded_once
def hinge_embedding_loss(
    x: Value, target: Value, margin: float = 1.0, reduction: str = "mean"
) -> Value:
    """A distance should be small or large: y = x if target is 1, max(0, margin - x) if it is -1.

    target     1 or -1
    reduction  "mean", "sum" or "none"
    >>> import bedplate as bp
    >>> bp.nn.functional.hinge_embedding_loss(bp.tensor([0.25]), bp.tensor([-1])).item()
    0.75
    """
    check_reduction("hinge_embedding_loss", reduction)
    far = where(not_equal(target, 1), relu(margin - x), 0.0)
    return reduced_loss(far + where(not_equal(target, -1), x, 0.0), reduction)


@rounded_once
def triplet_margin_loss(
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Value:
    """The positive should be nearer by a margin: y = max(0, d(a, p) - d(a, n) + margin).

    anchor, positive, negative  (..., D)
    p, eps     of the distance, see `pairwise_distance`
    swap       take d(p, n) for d(a, n) where it is smaller
    reduction  "mean", "sum" or "none"
    source     Balntas et al. 2016, BMVC
    >>> import bedplate as bp
    >>> a, p, n = bp.tensor([0.0]), bp.tensor([3.0]), bp.tensor([1.0])
    >>> bp.nn.functional.triplet_margin_loss(a, p, n, eps=0.0).item()
    3.0
    """

    def distance(x: Value, y: Value) -> Value:
        return pairwise_distance(x, y, p, eps)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance, margin, swap, reduction
    )


def triplet_margin_with_distance_loss(
    anchor: Value,
    positive: Value,
    negative: Value,
    distance_function: Any = pairwise_distance,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Value:
    """The positive should be nearer by a margin, by a distance of one's own.

    y = max(0, d(a, p) - d(a, n) + margin)

    anchor, positive, negative  as for `triplet_margin_loss`
    distance_function  of two values, gives their distances
    swap               take d(p, n) for d(a, n) where it is smaller
    reduction          "mean", "sum" or "none"
    >>> import bedplate as bp
    >>> a, p, n = bp.tensor([0.0]), bp.tensor([3.0]), bp.tensor([1.0])
    >>> bp.nn.functional.triplet_margin_with_distance_loss(a, p, n, lambda x, y: abs(x - y)).item()
    3.0
    """
    check_reduction("triplet_margin_loss", reduction)
    near, far = distance_function(anchor, positive), distance_function(anchor, negative)
    if swap:
        far = minimum(far, distance_function(positive, negative))
    return reduced_loss(relu(near - far + margin), reduction)
