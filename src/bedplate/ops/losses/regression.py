"""Losses between numbers: squared, absolute and in between, and those of distributions.

The result has the dtype that holds all float arguments, in whichever order they come; float16 and
bfloat16 are computed in float32 and narrowed once, after the reduction.
"""

from __future__ import annotations

import math

from bedplate.errors import ShapeError
from bedplate.ops.build import Value, is_number, number
from bedplate.ops.elementwise import rounded_once
from bedplate.ops.losses.classes import (
    as_targets,
    check_reduction,
    reduced_loss,
    wanted,
    weighted,
)
from bedplate.ops.pointwise.arithmetic import abs_, square
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import exp, log
from bedplate.ops.pointwise.extremes import maximum, minimum
from bedplate.ops.reduction.reduce import sum_
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.views import expand_dims
from bedplate.ops.special.logarithmic import xlogy


@rounded_once
def mse_loss(x: Value, target: Value, reduction: str = "mean") -> Value:
    """The mean squared error: y = mean((x - target)^2).

    target     of the shape of x, or one number
    reduction  "mean", "sum" or "none"
    raises     ShapeError if the shapes differ
    also     bp.nn.functional.mse_loss(x, target, reduction)
    >>> import bedplate as bp
    >>> bp.mse_loss(bp.tensor([1.0, 3.0]), bp.tensor([1.0, 1.0])).item()
    2.0
    """
    check_reduction("mse_loss", reduction)
    target = as_targets("mse_loss", x, target)
    return reduced_loss(square(x - target), reduction)


@rounded_once
def l1_loss(x: Value, target: Value, reduction: str = "mean") -> Value:
    """The mean absolute error: y = mean(|x - target|); slope 0 where they are equal.

    target     of the shape of x, or one number
    reduction  "mean", "sum" or "none"
    raises     ShapeError if the shapes differ
    >>> import bedplate as bp
    >>> bp.nn.functional.l1_loss(bp.tensor([1.0, 3.0]), bp.tensor([1.0, 1.0])).item()
    1.0
    """
    check_reduction("l1_loss", reduction)
    target = as_targets("l1_loss", x, target)
    return reduced_loss(abs_(x - target), reduction)


@rounded_once
def huber_loss(x: Value, target: Value, reduction: str = "mean", delta: float = 1.0) -> Value:
    """Squared near 0, absolute far out: y = d^2 / 2 if d < delta else delta (d - delta / 2).

    d = |x - target|

    target     of the shape of x, or one number
    reduction  "mean", "sum" or "none"
    raises     ShapeError if the shapes differ; ValueError for a delta that is not positive
    source     Huber 1964, Annals of Mathematical Statistics 35
    >>> import bedplate as bp
    >>> bp.nn.functional.huber_loss(bp.tensor([1.0, 4.0]), bp.tensor([0.0, 0.0])).item()
    2.0
    """
    check_reduction("huber_loss", reduction)
    target = as_targets("huber_loss", x, target)
    if not delta > 0:
        raise ValueError(f"huber_loss: delta must be positive, got {delta}")
    distance = abs_(x - target)
    near = minimum(distance, delta)  # no square overflows, whatever the distance
    return reduced_loss(square(near) * 0.5 + (distance - near) * delta, reduction)


@rounded_once
def smooth_l1_loss(x: Value, target: Value, reduction: str = "mean", beta: float = 1.0) -> Value:
    """Absolute, but squared near 0: y = d^2 / (2 beta) if d < beta else d - beta / 2.

    d = |x - target|

    target     of the shape of x, or one number
    reduction  "mean", "sum" or "none"
    beta       0 gives `l1_loss`
    raises     ShapeError if the shapes differ; ValueError for a negative beta
    source     Girshick 2015, arXiv:1504.08083
    >>> import bedplate as bp
    >>> bp.nn.functional.smooth_l1_loss(bp.tensor([1.0, 4.0]), bp.tensor([0.0, 0.0])).item()
    2.0
    """
    check_reduction("smooth_l1_loss", reduction)
    target = as_targets("smooth_l1_loss", x, target)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    distance = abs_(x - target)
    if beta == 0:
        return reduced_loss(distance, reduction)
    near = minimum(distance, beta)
    return reduced_loss(square(near) * (0.5 / beta) + (distance - near), reduction)


@rounded_once
def kl_div(x: Value, target: Value, reduction: str = "mean", log_target: bool = False) -> Value:
    """The divergence of Kullback and Leibler: y = target (log(target) - x).

    A probability of 0 costs nothing, though the logarithm that it multiplies be infinite.

    x           log-probabilities
    target      of the shape of x: probabilities
    log_target  the target is given by its logarithms
    reduction   "batchmean": the sum over the size of the first axis, which is the divergence as
                it is defined; "mean" over all elements, "sum" or "none"
    >>> import bedplate as bp
    >>> x = bp.log(bp.tensor([[0.5, 0.5]]))
    >>> bp.nn.functional.kl_div(x, bp.tensor([[1.0, 0.0]]), reduction="batchmean").item()
    0.6931471824645996
    """
    check_reduction("kl_div", reduction, "batchmean")
    target = as_targets("kl_div", x, target)
    if log_target:
        share = exp(target)
        loss = share * (wanted(share, target) - wanted(share, x))
    else:
        loss = xlogy(target, target) - weighted(target, x)
    if reduction == "batchmean":
        return sum_(loss) / (x.shape[0] if x.shape else 1)
    return reduced_loss(loss, reduction)


@rounded_once
def poisson_nll_loss(
    x: Value,
    target: Value,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Value:
    """The negative log likelihood of counts: y = rate - target log(rate).

    x          the logarithm of the rate
    log_input  off: x is the rate itself
    target     of the shape of x, or one number
    full       add what depends on the target alone, by Stirling's formula for targets above 1
    eps        added to a rate before its logarithm
    reduction  "mean", "sum" or "none"
    >>> import bedplate as bp
    >>> bp.nn.functional.poisson_nll_loss(bp.tensor([0.0]), bp.tensor([3.0])).item()
    1.0
    """
    check_reduction("poisson_nll_loss", reduction)
    target = as_targets("poisson_nll_loss", x, target)
    loss = exp(x) - target * x if log_input else x - target * log(x + eps)
    if full:
        safe = where(target > 1, target, 1.0)
        rest = safe * log(safe) - safe + log(safe * (2 * math.pi)) * 0.5
        loss = loss + where(target > 1, rest, 0.0)
    return reduced_loss(loss, reduction)


@rounded_once
def gaussian_nll_loss(
    x: Value,
    target: Value,
    var: Value,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Value:
    """The negative log likelihood of normal numbers: y = (log(var) + (x - target)^2 / var) / 2.

    x          the expected values
    target     of the shape of x, or one number
    var        the variances: of the shape of x, without its last axis, or 1 long there; or one
               number
    full       add log(2 pi) / 2
    eps        variances below it count as eps, and have no gradient
    reduction  "mean", "sum" or "none"
    raises     ShapeError if the variances do not fit; ValueError for one negative number
    >>> import bedplate as bp
    >>> x, target, var = bp.tensor([1.0]), bp.tensor([3.0]), bp.tensor([1.0])
    >>> bp.nn.functional.gaussian_nll_loss(x, target, var).item()
    2.0
    """
    check_reduction("gaussian_nll_loss", reduction)
    target = as_targets("gaussian_nll_loss", x, target)
    if is_number(var):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss: a variance is not negative, got {var}")
        var = number(x, var)
    elif var.shape == x.shape[:-1] and var.shape != x.shape:
        var = expand_dims(var, -1)
    elif var.shape not in (x.shape, (*x.shape[:-1], 1)):
        refuse(
            ShapeError, "gaussian_nll_loss", "the variances do not fit", {"x": x, "var": var},
            "expected the shape of x, the same without its last axis, or 1 long there",
        )  # fmt: skip
    var = maximum(var, eps)
    loss = (log(var) + square(x - target) / var) * 0.5
    return reduced_loss(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)
