"""Connectionist temporal classification: the loss of all ways to stretch labels over time."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any

import numpy as np

from bedplate.dtypes import int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.ops.build import Value, as_type, is_index
from bedplate.ops.indexing.gather import take_along_axis
from bedplate.ops.losses.classes import check_reduction, reduced_loss
from bedplate.ops.losses.ctc_paths import ctc_paths
from bedplate.ops.pointwise.arithmetic import negative
from bedplate.ops.pointwise.comparison import equal, less, logical_and, logical_or, not_equal
from bedplate.ops.pointwise.convert import checked_index, where
from bedplate.ops.pointwise.extremes import maximum
from bedplate.ops.reduction.softmax import logsumexp
from bedplate.ops.reduction.statistics import wide
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.creation import full, index_along
from bedplate.ops.shape.regions import concat, pad, stack
from bedplate.ops.shape.views import broadcast_to, expand_dims, reshape


def ctc_loss(
    log_probs: Value,
    targets: Value,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Value:
    """How unlikely labels are, over all ways to stretch them over time with blanks between.

    y = -log of the sum, over all paths that give the labels, of the product of their steps

    log_probs       (T, N, C) or (T, C)  log-probabilities, as log_softmax gives
    targets         (N, S) or (S,)       integers in [0, C) but `blank`, padded at the end; or all
                    one after the other (the sum of the lengths,), for which the lengths are read
    input_lengths   (N,) or ()           how many of the T steps count: integers, also as a list
                    or one number
    target_lengths  (N,) or ()           how many labels there are
    blank           the class that stands for no label
    reduction       "mean": each loss over its number of labels, then their mean; "sum" or "none"
    zero_infinity   labels that do not fit into the time cost 0 and not infinity
    returns         () or (N,), float32 for float16 and bfloat16; of paths without probability the
                    gradient is 0, never NaN
    raises          ShapeError, DTypeError if the arguments do not fit; IndexError when the value
                    is computed, if a label is out of range
    cost            one pass over time, about 24 N T S flops, one core for each of the batch; as
                    much again and a pass back for the gradient
    source          Graves et al. 2006, ICML
    >>> import bedplate as bp
    >>> steps = bp.log(bp.tensor([[0.5, 0.5], [0.5, 0.5]]))
    >>> bp.nn.functional.ctc_loss(steps, bp.tensor([1]), 2, 1).item()
    0.28768208622932434
    """
    check_reduction("ctc_loss", reduction)
    batched = len(log_probs.shape) != 2
    if not batched:
        log_probs, targets = expand_dims(log_probs, 1), reshape(targets, (1, -1))
    loss = _losses(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    if reduction == "mean":
        return _mean(loss, _lengths(log_probs, target_lengths, log_probs.shape[1]))
    return reduced_loss(loss if batched else reshape(loss, ()), reduction)


def _mean(loss: Value, lengths: Value) -> Value:
    return reduced_loss(loss / as_type(maximum(lengths, 1), loss.dtype), "mean")


def _lengths(like: Value, lengths: Any, count: int) -> Value:
    """(count,) int64."""
    if is_index(lengths):
        lengths = [operator.index(lengths)] * count
    if not hasattr(lengths, "_apply"):
        lengths = like._lift(np.asarray(lengths, np.int64))
    if not lengths.dtype.is_integer or lengths.shape not in ((count,), (1,), ()):
        refuse(ShapeError, "ctc_loss", "the lengths do not fit", {"lengths": lengths},
               f"expected {count} integers, one for each of the batch")  # fmt: skip
    return as_type(reshape(lengths, (-1,)), int64)


def _losses(
    log_probs: Value,
    targets: Value,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    zero_infinity: bool,
) -> Value:
    """(N,): the loss of each of the batch."""
    if len(log_probs.shape) != 3 or not log_probs.dtype.is_float or not log_probs.shape[0]:
        refuse(DTypeError, "ctc_loss", "expected log-probabilities (T, N, C), T at least 1",
               {"log_probs": log_probs})  # fmt: skip
    steps = wide(log_probs)
    _, batch, n_classes = steps.shape
    if not 0 <= blank < n_classes:
        raise IndexError(f"ctc_loss: blank {blank} is out of range for size {n_classes}")
    counts = _lengths(steps, target_lengths, batch)
    ends = _lengths(steps, input_lengths, batch)
    labels = _padded(targets, counts, batch)
    checked = checked_index(labels, n_classes, "ctc_loss: label", wrap=False)
    ways = _forward(steps, _with_blanks(checked, counts, blank), ends, blank)
    last = expand_dims(counts * 2, -1)
    place = index_along(ways, 1, (1, ways.shape[1]))
    final = logical_or(equal(place, last), equal(place, last - 1))
    loss = negative(logsumexp(where(final, ways, -math.inf), axis=-1))
    return where(equal(loss, math.inf), 0.0, loss) if zero_infinity else loss


def _padded(targets: Value, counts: Value, batch: int) -> Value:
    """(N, S) labels; what lies beyond the lengths is 0."""
    if not targets.dtype.is_integer or len(targets.shape) not in (1, 2):
        refuse(DTypeError, "ctc_loss", "targets must be integers (N, S), or one after the other",
               {"targets": targets})  # fmt: skip
    if len(targets.shape) == 1:
        known = [int(n) for n in counts.numpy()]
        known = known * batch if len(known) == 1 else known
        ends = list(itertools.accumulate(known))
        longest = max([0, *known])
        rows = [
            pad(targets[end - count : end], ((0, longest - count),))
            for end, count in zip(ends, known, strict=True)
        ]
        targets = stack(rows)
    if targets.shape[0] != batch:
        refuse(ShapeError, "ctc_loss", f"targets are not those of a batch of {batch}",
               {"targets": targets})  # fmt: skip
    place = index_along(targets, 1, (1, targets.shape[1]))
    return where(less(place, expand_dims(counts, -1)), targets, 0)


def _with_blanks(labels: Value, counts: Value, blank: int) -> Value:
    """(N, 2 S + 1): a blank before, between and after the labels."""
    batch, size = labels.shape
    place = index_along(labels, 1, (1, size))
    labels = where(less(place, expand_dims(counts, -1)), labels, blank)
    blanks = full(labels, (batch, size, 1), blank, int64)
    pairs = reshape(concat([blanks, expand_dims(labels, -1)], axis=-1), (batch, 2 * size))
    return concat([pairs, full(labels, (batch, 1), blank, int64)], axis=-1)


def _forward(steps: Value, labels: Value, ends: Value, blank: int) -> Value:
    """(N, 2 S + 1): the logarithm of the probability of all paths that end at each label."""
    batch, size = labels.shape
    chances = take_along_axis(steps, expand_dims(labels, 0), axis=-1)  # (T, N, 2 S + 1)
    # two labels on at once, over the blank between, unless it keeps two like labels apart
    twice = concat([full(labels, (batch, 2), blank, int64), labels[:, :-2]], axis=-1)[:, :size]
    leaps = logical_and(not_equal(labels, blank), not_equal(labels, twice))
    return ctc_paths(chances, leaps, broadcast_to(ends, (batch,)))[-1]
