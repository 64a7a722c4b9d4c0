"""Losses: cross_entropy (composed, with its own gradient) and mse_loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.arithmetic import add, divide, multiply, square, subtract
from bedplate.ops.build import Value, as_type, number
from bedplate.ops.comparison import equal, not_equal
from bedplate.ops.convert import checked_index, where
from bedplate.ops.creation import index_along
from bedplate.ops.elementwise import NARROW_FLOATS
from bedplate.ops.exponential import exp
from bedplate.ops.record import Op, apply, register
from bedplate.ops.reduce import SUM, accumulator, sum_
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed
from bedplate.ops.softmax import LOGSUMEXP
from bedplate.ops.statistics import mean, wide
from bedplate.ops.views import expand_dims, squeeze

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
    log_total = _logsumexp(rows)
    shares = exp(subtract(rows, log_total))
    if z_loss:
        shares = multiply(shares, add(multiply(log_total, 2 * z_loss), 1))
    grad = expand_dims(grad_out, -1) if reduction == "none" else grad_out
    if reduction == "mean":
        grad = divide(grad, sum_(as_type(counts, rows.dtype)))
    scale = where(counts, grad, number(grad, 0))
    slope = subtract(shares, as_type(at_target, rows.dtype))
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


def cross_entropy(
    logits: Value,
    targets: Value,
    ignore_index: int = -100,
    reduction: str = "mean",
    z_loss: float = 0.0,
) -> Value:
    """The negative log likelihood of each target: y = lse - logits[target] + z_loss lse^2.

    lse = log(sum(exp(logits)))

    logits        (..., n_classes)  floats; computed in float32 or better
    targets       (...)             integers in [0, n_classes), or ignore_index
    ignore_index  rows with this target count for nothing
    reduction     "mean" over the rows that count (NaN if there are none), "sum" or "none"
    z_loss        weight of the squared log-normaliser
    returns       () or (...), float32 for float16 and bfloat16 logits
    raises        ShapeError if the shapes do not match; IndexError when the value is computed,
                  if a target is out of range
    cost          1 read of the logits, about 15 flops an element
    source        z-loss: Chowdhery et al. 2022, arXiv:2204.02311, section 5
    >>> import bedplate as bp
    >>> bp.cross_entropy(bp.zeros((2, 8)), bp.tensor([1, -100])).item()
    2.079441547393799
    """
    _check_reduction("cross_entropy", reduction)
    attributes = {
        "ignore_index": int(ignore_index),
        "reduction": reduction,
        "z_loss": float(z_loss),
    }
    return apply(CROSS_ENTROPY, (logits, targets), attributes)


def _check_reduction(op: str, reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"{op}: reduction must be one of {REDUCTIONS}, got {reduction!r}")


def mse_loss(x: Value, target: Value, reduction: str = "mean") -> Value:
    """The mean squared error: y = mean((x - target)^2).

    reduction  "mean", "sum" or "none"
    >>> import bedplate as bp
    >>> bp.mse_loss(bp.tensor([1.0, 3.0]), bp.tensor([1.0, 1.0])).item()
    2.0
    """
    _check_reduction("mse_loss", reduction)
    loss = square(subtract(x, target))
    if reduction == "none":
        return loss
    return mean(loss) if reduction == "mean" else sum_(loss)
