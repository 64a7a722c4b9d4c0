"""Random choices: of categories by their weights, of orders, of elements.

As in random.py, every function takes the state of a generator; what it gives are integers, or
elements of its input, so no gradient goes to the weights.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, float32, float64, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value, as_type, normalised_axis, require, without_gradient
from bedplate.ops.indexing.gather import take
from bedplate.ops.pointwise.arithmetic import add, multiply
from bedplate.ops.pointwise.exponential import log
from bedplate.ops.random.draws import gumbel, randint, uniform
from bedplate.ops.random.philox import drawn
from bedplate.ops.reduction.positions import argmax
from bedplate.ops.refusal import refuse
from bedplate.ops.scan.cumulative import cumsum
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.regions import narrow
from bedplate.ops.shape.views import broadcast_to, moveaxis, reshape
from bedplate.ops.sorting.searchsorted import searchsorted
from bedplate.ops.sorting.sorting import argsort, topk

# how far from 1 the sum of given probabilities may be, as in NumPy
SUM_TOLERANCE = 1e-8


def categorical(state: Value, logits: Value, shape: Shape = (), axis: int = -1) -> Value:
    """Indices, each with probability softmax(logits): the largest of logits + Gumbel numbers.

    source   Gumbel 1954; Maddison, Tarlow and Minka 2014, "A* sampling", section 2
    """
    require("categorical", logits, FLOATS, "logits")
    axis = normalised_axis("categorical", axis, len(logits.shape), logits)
    rows = moveaxis(without_gradient(logits), axis, -1)
    if rows.shape[-1] == 0:
        refuse(ShapeError, "categorical", "there are no categories", {"logits": logits})
    dtype = float64 if rows.dtype is float64 else float32
    noise = gumbel(state, (*shape, *rows.shape), dtype=dtype)
    return argmax(add(noise, as_type(rows, dtype)), axis=-1)


def _checked_weights(op: str, weights: Value) -> Any:
    """Weights as a float64 array, read now.

    raises   ShapeError, DTypeError, ValueError if they are no weights
    """
    named = {"weights": weights}
    if not weights.shape or weights.shape[-1] == 0:
        refuse(ShapeError, op, "there are no categories", named)
    if weights.dtype.kind not in "fiu":
        refuse(DTypeError, op, "weights are real numbers", named)
    array = weights.numpy(copy=False).astype(np.float64)
    if not np.isfinite(array).all() or (array < 0).any():
        refuse(ValueError, op, "weights must be finite and not negative", named)
    if not array.sum(-1).all():
        refuse(ValueError, op, "all weights of a row are 0", named)
    return array


def multinomial(state: Value, weights: Value, num_samples: int, replacement: bool = False) -> Value:
    """Indices of the last axis, each with a probability in proportion to its weight.

    With replacement by the inverse of the cumulative weights; without by the largest of log weight
    plus Gumbel numbers, in the order in which they would be drawn one after the other.

    source   Efraimidis and Spirakis 2006, "Weighted random sampling with a reservoir"
    """
    array = _checked_weights("multinomial", weights)
    count = operator.index(num_samples)
    fewest = int((array > 0).sum(-1).min()) if array.size else weights.shape[-1]
    if count < 0 or (not replacement and count > fewest):
        refuse(
            ValueError, "multinomial", f"{count} samples of {fewest} categories that may occur",
            {"weights": weights}, "draw fewer, or with replacement=True",
        )  # fmt: skip
    known = as_type(without_gradient(weights), float64)
    if not replacement:
        noise = gumbel(state, known.shape, dtype=float64)
        return topk(add(noise, log(known)), count).indices
    total = cumsum(known, -1)
    size = weights.shape[-1]
    place = uniform(state, (*weights.shape[:-1], count), dtype=float64)
    place = multiply(place, narrow(total, len(weights.shape) - 1, size - 1, 1))
    return searchsorted(total, place, side="right")


def order(state: Value, count: int) -> Value:
    """The numbers 0 to count - 1 in random order: the places that sort 64 random bits each."""
    return argsort(drawn(state, (count,), pair=True))


def permutation(state: Value, x: Any, axis: int = 0) -> Value:
    """The numbers below x, or the slices of x along an axis, in random order."""
    if not hasattr(x, "_apply"):
        count = operator.index(x)
        if count < 0:
            raise ValueError(f"permutation: a count must not be negative, got {count}")
        return order(state, count)
    axis = normalised_axis("permutation", axis, len(x.shape), x)
    return take(x, order(state, x.shape[axis]), axis)


def choice(
    state: Value, x: Any, shape: Shape = (), replace: bool = True, p: Value | None = None
) -> Value:
    """Elements of a vector (or of the numbers below x), with or without putting them back."""
    is_values = hasattr(x, "_apply")
    if is_values and len(x.shape) != 1:
        refuse(ShapeError, "choice", "x must have one axis", {"x": x})
    size = x.shape[0] if is_values else operator.index(x)
    count = math.prod(shape)
    if (size <= 0 and count) or (not replace and count > size):
        raise ValueError(f"choice: {count} elements of {max(size, 0)}, replace={replace}")
    if count == 0:
        places = broadcast_to(index_along(state, 0, (1,), int64), (0,))
    elif p is not None:
        _require_probabilities(p, size)
        places = multinomial(state, p, count, replace)
    elif replace:
        places = randint(state, (count,), 0, size)
    else:
        places = narrow(order(state, size), 0, 0, count)
    places = reshape(places, shape)
    return take(x, places, 0) if is_values else places


def _require_probabilities(p: Value, size: int) -> None:
    if p.shape != (size,):
        refuse(ShapeError, "choice", f"expected one probability for each of {size}", {"p": p})
    total = float(p.numpy(copy=False).astype(np.float64).sum())
    if not abs(total - 1) <= max(SUM_TOLERANCE, size * np.finfo(np.float32).eps):
        refuse(ValueError, "choice", f"the probabilities add up to {total}, not to 1", {"p": p})
