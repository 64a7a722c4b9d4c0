"""Losses against classes: cross_entropy (an op with its own gradient) and nll_loss.

Without class weights, smoothing and shares as targets, cross_entropy is one op whose forward and
backward are a kernel each. With them it is composed of log_softmax and the functions below.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value, as_type, as_values, is_number, normalised_axis, number
from bedplate.ops.elementwise import NARROW_FLOATS
from bedplate.ops.pointwise.arithmetic import add, divide, multiply, square, subtract
from bedplate.ops.pointwise.comparison import equal, isinf, logical_and, not_equal
from bedplate.ops.pointwise.convert import checked_index, where
from bedplate.ops.record import Op, apply, register
from bedplate.ops.reduction.reduce import SUM, accumulator, sum_
from bedplate.ops.reduction.softmax import LOGSUMEXP, log_softmax, shares
from bedplate.ops.reduction.statistics import mean, wide
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed
from bedplate.ops.shape.creation import full, index_along
from bedplate.ops.shape.views import expand_dims, moveaxis, squeeze

REDUCTIONS = ("mean", "sum", "none")


def _infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    logits, targets = inputs
    named = {"logits": logits, "targets": targets}
    if logits.shape[:-1] != targets.shape or not logits.shape:
        refuse(
            ShapeError, "cross_entropy", "the shapes do not match", named,
            "expected logits (..., n_classes) and one target for each row (...)",
        )  # fmt: skip
    if not logits.dtype.is_float or not targets.dtype.is_integer:
        refuse(DTypeError, "cross_entropy", "expected float logits, integer targets", named)
    shape = targets.shape if attributes["reduction"] == "none" else ()
    return shape, accumulator(logits.dtype)


def _columns(logits: Value, targets: Value, ignore_index: int) -> tuple[Value, Value]:
    """(..., n_classes) true at the target, and (..., 1) true where a row counts."""
    n_classes = logits.shape[-1]
    targets = expand_dims(as_type(targets, int64), -1)
    counts = not_equal(targets, ignore_index)
    chosen = where(counts, targets, number(targets, 0))
    chosen = checked_index(chosen, n_classes, "cross_entropy: target", wrap=False)
    shape = (1,) * (len(logits.shape) - 1) + (n_classes,)
    return equal(index_along(logits, len(shape) - 1, shape), chosen), counts


def _logsumexp(rows: Value) -> Value:
    return apply(LOGSUMEXP, (rows,), {"axes": (len(rows.shape) - 1,)})


def _expand(inputs: tuple[Any, ...], attributes: Attributes) -> Any:
    logits, targets = inputs
    rows = wide(logits)
    zero = number(rows, 0)
    at_target, counts = _columns(logits, targets, attributes["ignore_index"])
    last = {"axes": (len(rows.shape) - 1,)}
    log_total = _logsumexp(rows)
    loss = subtract(log_total, apply(SUM, (where(at_target, rows, zero),), last))
    if attributes["z_loss"]:
        loss = add(loss, multiply(square(log_total), attributes["z_loss"]))
    loss = where(counts, loss, zero)
    if attributes["reduction"] == "none":
        return squeeze(loss, -1)
    total = sum_(loss)
    if attributes["reduction"] == "sum":
        return total
    return divide(total, sum_(as_type(counts, rows.dtype)))


def cross_entropy_gradient(
    grad_out: Value,
    inputs: Any,
    output: Value,
    *,
    ignore_index: int,
    reduction: str,
    z_loss: float,
) -> tuple[Any, None]:
    """(softmax (1 + 2 z lse) - one_hot) g for each row that counts"""
    logits, targets = inputs
    rows = wide(logits)
    at_target, counts = _columns(logits, targets, ignore_index)
    share = shares(rows, (len(rows.shape) - 1,))
    if z_loss:
        share = multiply(share, add(multiply(_logsumexp(rows), 2 * z_loss), 1))
    grad = expand_dims(grad_out, -1) if reduction == "none" else grad_out
    if reduction == "mean":
        grad = divide(grad, sum_(as_type(counts, rows.dtype)))
    scale = where(counts, grad, number(grad, 0))
    slope = subtract(share, as_type(at_target, rows.dtype))
    return as_type(multiply(slope, scale), logits.dtype), None


def _reference(
    logits: Any, targets: Any, *, ignore_index: int, reduction: str, z_loss: float
) -> Any:
    if logits.dtype in NARROW_FLOATS:
        logits = logits.astype(np.float32)
    counts = targets != ignore_index
    chosen = np.where(counts, targets, 0)
    wrong = (chosen < 0) | (chosen >= logits.shape[-1])
    if wrong.any():
        index, size = chosen[wrong][0], logits.shape[-1]
        raise IndexError(f"cross_entropy: target: index {index} is out of range for size {size}")
    with np.errstate(all="ignore"):
        top = np.max(logits, axis=-1, keepdims=True)
        log_total = np.log(np.sum(np.exp(logits - top), axis=-1, keepdims=True)) + top
        picked = np.take_along_axis(logits, chosen[..., None], -1)
        loss = np.where(counts[..., None], log_total - picked + z_loss * log_total**2, 0)[..., 0]
        if reduction == "mean":
            loss = np.sum(loss) / logits.dtype.type(np.sum(counts))
        elif reduction == "sum":
            loss = np.sum(loss)
    return np.asarray(loss, logits.dtype)


def _sample(reduction: str, z_loss: float, shape: tuple[int, ...], n_classes: int) -> Any:
    def make(rng: np.random.Generator) -> Any:
        targets = rng.integers(0, n_classes, shape)
        targets[rng.random(shape) < 0.2] = -100
        return [rng.normal(size=(*shape, n_classes)), targets]

    return mixed(
        make,
        f"{reduction} {shape} {n_classes}",
        ignore_index=-100,
        reduction=reduction,
        z_loss=z_loss,
    )


CROSS_ENTROPY = register(
    Op(
        "cross_entropy",
        "composed",
        _infer,
        reference=_reference,
        gradient=cross_entropy_gradient,
        expand=_expand,
        dtypes=FLOATS,
        samples=(
            _sample("mean", 0.0, (6,), 5),
            _sample("sum", 1e-2, (2, 3), 7),
            _sample("none", 0.0, (4,), 37),
            _sample("mean", 1e-4, (9,), 3),
        ),
        doc="-log(softmax(logits)[target]), with an index to leave out and z-loss.",
    )
)


def check_reduction(op: str, reduction: str, *more: str) -> None:
    """Refuse a word that names no reduction of losses."""
    known = (*REDUCTIONS, *more)
    if reduction not in known:
        raise ValueError(f"{op}: reduction must be one of {known}, got {reduction!r}")


def reduced_loss(loss: Value, reduction: str) -> Value:
    """The losses as they are, their sum, or their mean (NaN if there are none)."""
    if reduction == "none":
        return loss
    return mean(loss) if reduction == "mean" else sum_(loss)


def as_targets(
    op: str, x: Value, target: Value, what: str = "target", shape: Shape | None = None
) -> Value:
    """Targets as a value, refused unless they have the shape of x; a number is one for all of x.

    what    how the function calls them
    shape   that they have instead of that of x
    """
    wanted_shape: Shape = x.shape if shape is None else shape
    if is_number(target):
        return full(x, wanted_shape, target, x.dtype)
    target = as_values(op, (x, target))[1]
    if target.shape != wanted_shape:
        refuse(
            ShapeError, op, "the shapes differ", {"x": x, what: target},
            f"expected {wanted_shape}: a loss does not broadcast; bp.broadcast_to does",
        )  # fmt: skip
    return target


def wanted(share: Value, x: Value) -> Value:
    """x, with 0 for an infinity whose share is 0: what nobody asks for costs nothing."""
    return where(logical_and(equal(share, 0), isinf(x)), number(x, 0.0), x)


def weighted(share: Value, x: Value) -> Value:
    """share x, which is 0 where the share is 0, though x be infinite."""
    return multiply(share, wanted(share, x))


def cross_entropy(
    logits: Value,
    targets: Value,
    weight: Value | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    axis: int | None = None,
) -> Value:
    """The negative log likelihood of each target: y = w[t] (lse - logits[t]) + z_loss lse^2.

    lse = log(sum(exp(logits))); a target of shares p gives y = sum(w p (lse - logits)).

    logits           (N, n_classes, ...)  floats; computed in float32 or better
    targets          (N, ...)             integers in [0, n_classes), or ignore_index; or floats
                     of the shape of logits, the share of each class
    weight           (n_classes,), or None for ones
    ignore_index     places with this target count for nothing
    reduction        "mean" over the places that count, by their weights (NaN if there are none);
                     "sum" or "none". With shares it is the mean over all places.
    label_smoothing  the part of a target, in [0, 1], that is spread over all classes
    z_loss           weight of the squared log-normaliser
    axis             of the classes: 1 unless given, as in PyTorch, or 0 if there is one axis; -1
                     for logits of tokens (batch, time, vocabulary)
    returns          () or (N, ...), float32 for float16 and bfloat16 logits
    raises           ShapeError if the shapes do not match; ValueError for a smoothing outside
                     [0, 1]; IndexError when the value is computed, if a target is out of range
    cost             1 read of the logits, about 15 flops an element
    source           z-loss: Chowdhery et al. 2022, arXiv:2204.02311, section 5; smoothing:
                     Szegedy et al. 2015, arXiv:1512.00567, section 7
    also     bp.nn.functional.cross_entropy(logits, targets, ...)
    >>> import bedplate as bp
    >>> bp.cross_entropy(bp.zeros((2, 8)), bp.tensor([1, -100])).item()
    2.079441547393799
    """
    check_reduction("cross_entropy", reduction)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing = {label_smoothing} is not in [0, 1]")
    logits = _classes_last("cross_entropy", logits, targets, axis, shares=True)
    if targets.dtype.is_float:
        targets = _moved(targets, axis)
        return _shares_loss(logits, targets, weight, reduction, label_smoothing, z_loss)
    if weight is None and not label_smoothing:
        attributes = {
            "ignore_index": int(ignore_index),
            "reduction": reduction,
            "z_loss": float(z_loss),
        }
        return apply(CROSS_ENTROPY, (logits, targets), attributes)
    rows = wide(logits)
    loss, weights = _picked(log_softmax(rows), targets, weight, ignore_index, label_smoothing)
    if z_loss:
        counts = as_type(not_equal(targets, ignore_index), rows.dtype)
        loss = loss + square(squeeze(_logsumexp(rows), -1)) * z_loss * counts
    return _by_weight(loss, weights, reduction)


def _class_axis(x: Value, axis: int | None) -> int:
    return min(1, len(x.shape) - 1) if axis is None else axis


def _moved(x: Value, axis: int | None) -> Value:
    """x with its axis of classes last."""
    place = _class_axis(x, axis)
    return x if place in (-1, len(x.shape) - 1) else moveaxis(x, place, -1)


def _classes_last(
    op: str, x: Value, targets: Value, axis: int | None, shares: bool = False
) -> Value:
    """x with its axis of classes last, once the shapes are found to match.

    shares   the targets may be floats of the shape of x
    """
    named = {"logits": x, "targets": targets}
    if not x.shape:
        refuse(ShapeError, op, "the logits have no axis of classes", named)
    place = normalised_axis(op, _class_axis(x, axis), len(x.shape), x)
    others = (*x.shape[:place], *x.shape[place + 1 :])
    as_shares = shares and targets.dtype.is_float and targets.shape == x.shape
    if not as_shares and targets.shape != others:
        advice = [f"classes lie along axis {place}; expected one target for each row {others}"]
        if targets.shape == x.shape[:-1]:
            advice.append("try axis=-1 if the classes are the last axis of the logits")
        refuse(ShapeError, op, "the shapes do not match", named, *advice)
    if not (x.dtype.is_float and (as_shares or targets.dtype.is_integer)):
        refuse(DTypeError, op, "expected float logits, integer targets", named)
    return _moved(x, place)


def _picked(
    rows: Value, targets: Value, weight: Value | None, ignore_index: int, smoothing: float
) -> tuple[Value, Value]:
    """(loss, weight) of each place from log-probabilities, classes last."""
    if weight is not None:
        _check_weight(rows, weight)
        weight = as_type(weight, rows.dtype)
    at_target, counts = _columns(rows, targets, ignore_index)
    share = as_type(at_target, rows.dtype)
    scale = share if weight is None else share * weight
    if smoothing:
        spread = number(rows, 1.0) if weight is None else weight
        share = scale * (1 - smoothing) + spread * (smoothing / rows.shape[-1])
    else:
        share = scale
    zero = number(rows, 0)
    lost = -sum_(weighted(share, rows), axis=-1, keepdims=True)
    weights = where(counts, sum_(scale, axis=-1, keepdims=True), zero)
    return squeeze(where(counts, lost, zero), -1), squeeze(weights, -1)


def _check_weight(rows: Value, weight: Value) -> None:
    if weight.shape != rows.shape[-1:]:
        refuse(
            ShapeError, "cross_entropy", "the class weights do not fit",
            {"logits": rows, "weight": weight}, f"expected {rows.shape[-1:]}, one for each class",
        )  # fmt: skip


def _by_weight(loss: Value, weights: Value, reduction: str) -> Value:
    if reduction == "mean":
        return divide(sum_(loss), sum_(weights))
    return reduced_loss(loss, reduction)


def _shares_loss(
    logits: Value,
    shares: Value,
    weight: Value | None,
    reduction: str,
    smoothing: float,
    z_loss: float,
) -> Value:
    """The loss against the share of each class, classes last."""
    rows = wide(logits)
    shares = as_type(shares, rows.dtype)
    if smoothing:
        shares = shares * (1 - smoothing) + smoothing / rows.shape[-1]
    if weight is not None:
        _check_weight(rows, weight)
        shares = shares * as_type(weight, rows.dtype)
    loss = -sum_(weighted(shares, log_softmax(rows)), axis=-1)
    if z_loss:
        loss = loss + square(squeeze(_logsumexp(rows), -1)) * z_loss
    return reduced_loss(loss, reduction)


def nll_loss(
    x: Value,
    target: Value,
    weight: Value | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Value:
    """The negative log likelihood of each target: y = -w[target] x[target].

    x             (N, n_classes, ...) or (n_classes,)  log-probabilities, as log_softmax gives
    target        (N, ...)                             integers in [0, n_classes), or ignore_index
    weight        (n_classes,), or None for ones
    ignore_index  a target that does not count
    reduction     "mean" over the places that count, by their weights; "sum" or "none"
    returns       () or (N, ...), float32 for float16 and bfloat16
    raises        ShapeError if the shapes do not match; IndexError when the value is computed,
                  if a target is out of range
    >>> import bedplate as bp
    >>> bp.nn.functional.nll_loss(bp.tensor([[-1.0, -2.0]]), bp.tensor([1])).item()
    2.0
    """
    check_reduction("nll_loss", reduction)
    rows = wide(_classes_last("nll_loss", x, target, None))
    loss, weights = _picked(rows, target, weight, ignore_index, 0.0)
    return _by_weight(loss, weights, reduction)
