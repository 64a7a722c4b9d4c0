"""Losses of pairs and triplets: cosines, distances and margins between them."""

from __future__ import annotations

from typing import Any

from bedplate.ops.build import Value, as_type, broadcast_shapes, normalised_axis, require
from bedplate.ops.elementwise import ANY, rounded_once
from bedplate.ops.linalg.norms import vector_norm
from bedplate.ops.losses.classes import as_targets, check_reduction, reduced_loss
from bedplate.ops.pointwise.activations import relu
from bedplate.ops.pointwise.arithmetic import multiply
from bedplate.ops.pointwise.comparison import equal, not_equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.extremes import maximum, minimum
from bedplate.ops.reduction.reduce import sum_
from bedplate.ops.shape.creation import full
from bedplate.ops.shape.regions import concat
from bedplate.ops.shape.views import broadcast_to

# its square is added to squared lengths under the cosine of cosine_embedding_loss, as in PyTorch
EMBEDDING_EDGE = 1e-6


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
    require("cosine_similarity", x, ANY)
    shape = broadcast_shapes("cosine_similarity", (x, other))
    axis = normalised_axis("cosine_similarity", axis, len(shape), x)
    return _cosine(broadcast_to(x, shape), broadcast_to(other, shape), axis, eps)


@rounded_once
def _cosine(x: Value, other: Value, axis: int, eps: float) -> Value:
    return sum_(multiply(_unit(x, axis, eps), _unit(other, axis, eps)), axis=axis)


def _unit(x: Value, axis: int, eps: float) -> Value:
    """x over its length, or over eps if that is larger."""
    return x / maximum(vector_norm(x, axis=axis, keepdims=True), eps)


@rounded_once
def cosine_embedding_loss(
    x1: Value, x2: Value, target: Value, margin: float = 0.0, reduction: str = "mean"
) -> Value:
    """Vectors should agree or not: y = 1 - cos if target is 1, max(0, cos - margin) if it is -1.

    x1, x2     (N, D) or (D,)
    target     (N,) or ()  1 or -1
    reduction  "mean", "sum" or "none"
    raises     ShapeError if the shapes differ
    >>> import bedplate as bp
    >>> x, y = bp.tensor([[1.0, 0.0]]), bp.tensor([[0.0, 1.0]])
    >>> bp.nn.functional.cosine_embedding_loss(x, y, bp.tensor([1])).item()
    1.0
    """
    check_reduction("cosine_embedding_loss", reduction)
    normalised_axis("cosine_embedding_loss", -1, len(x1.shape), x1)
    x2 = as_type(as_targets("cosine_embedding_loss", x1, x2, "x2"), x1.dtype)
    target = as_targets("cosine_embedding_loss", x1, target, shape=x1.shape[:-1])
    cosine = sum_(multiply(_direction(x1), _direction(x2)), axis=-1)
    apart = where(equal(target, -1), relu(cosine - margin), 0.0)
    return reduced_loss(where(equal(target, 1), 1 - cosine, apart), reduction)


def _direction(x: Value) -> Value:
    """x over its length, to which a short edge is added, so that it is not 0."""
    edge = full(x, (*x.shape[:-1], 1), EMBEDDING_EDGE, x.dtype)
    return x / vector_norm(concat([x, edge], axis=-1), axis=-1, keepdims=True)


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
    difference = x1 - x2 + eps
    axis = normalised_axis("pairwise_distance", -1, len(difference.shape), difference)
    return vector_norm(difference, axis=axis, ord=p, keepdims=keepdims)


@rounded_once
def margin_ranking_loss(
    x1: Value, x2: Value, target: Value, margin: float = 0.0, reduction: str = "mean"
) -> Value:
    """One should rank above the other: y = max(0, margin - target (x1 - x2)).

    x1, x2     of one shape
    target     of the same: 1 if x1 should be larger, -1 if x2
    reduction  "mean", "sum" or "none"
    raises     ShapeError if the shapes differ
    >>> import bedplate as bp
    >>> x, y = bp.tensor([1.0]), bp.tensor([3.0])
    >>> bp.nn.functional.margin_ranking_loss(x, y, bp.tensor([1.0])).item()
    2.0
    """
    check_reduction("margin_ranking_loss", reduction)
    x2 = as_targets("margin_ranking_loss", x1, x2, "x2")
    target = as_targets("margin_ranking_loss", x1, target)
    return reduced_loss(relu(margin - target * (x1 - x2)), reduction)


@rounded_once
def hinge_embedding_loss(
    x: Value, target: Value, margin: float = 1.0, reduction: str = "mean"
) -> Value:
    """A distance should be small or large: y = x if target is 1, max(0, margin - x) if it is -1.

    target     of the shape of x, 1 or -1
    reduction  "mean", "sum" or "none"
    raises     ShapeError if the shapes differ
    >>> import bedplate as bp
    >>> bp.nn.functional.hinge_embedding_loss(bp.tensor([0.25]), bp.tensor([-1])).item()
    0.75
    """
    check_reduction("hinge_embedding_loss", reduction)
    target = as_targets("hinge_embedding_loss", x, target)
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
    check_reduction("triplet_margin_loss", reduction)

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
    check_reduction("triplet_margin_with_distance_loss", reduction)
    near, far = distance_function(anchor, positive), distance_function(anchor, negative)
    if swap:
        far = minimum(far, distance_function(positive, negative))
    return reduced_loss(relu(near - far + margin), reduction)
