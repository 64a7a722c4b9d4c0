"""Which places of an axis make up a resampled one, and with what weights: tables for each mode.

Coordinates: output i lies at the input coordinate

    align_corners    i (size - 1) / (count - 1)
    else             (i + 1/2) step - 1/2, with step = size / count or 1 / factor

and takes the neighbours of that coordinate by a filter. Nothing here touches a tensor.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Resampling:
    """How one axis is resampled.

    mode        "nearest", "nearest-exact", "linear" or "cubic"
    size        of the axis before, `count` after
    factor      outputs an input; None: count / size
    align       the corners of both are the same points
    antialias   a filter as wide as outputs are apart, where they are further apart than inputs
    transposed  the gradient: from `count` places back to `size`
    """

    mode: str
    size: int
    count: int
    factor: float | None = None
    align: bool = False
    antialias: bool = False
    transposed: bool = False

    @property
    def sizes(self) -> tuple[int, int]:
        """(places before, places after)."""
        return (self.count, self.size) if self.transposed else (self.size, self.count)


@functools.lru_cache(maxsize=32)
def table(how: Resampling) -> Array:
    """(2 taps, outputs) int64, an input of `resample`: rows of places, one a tap, and as many rows
    of weights, which stand as the bits of float64. So it is one array, and one that nobody
    differentiates.
    """
    places, weights = tables(how)
    rows = [places.T.astype(np.int64), np.ascontiguousarray(weights.T, np.float64).view(np.int64)]
    result = np.concatenate(rows)
    result.flags.writeable = False  # it is kept
    return result


def untabled(rows: Array) -> tuple[Array, Array]:
    """What `tables` gave, of the rows that `table` made of it."""
    places, weights = np.split(np.ascontiguousarray(rows), 2)
    return places.T, weights.view(np.float64).T


@functools.lru_cache(maxsize=32)
def tables(how: Resampling) -> tuple[Array, Array]:
    """(places, weights), each (outputs, most taps of one); the place -1 is no tap."""
    if how.transposed:
        return _transposed(how)
    step = how.size / how.count if how.factor is None else 1 / how.factor
    if how.mode.startswith("nearest"):
        return _nearest(how)
    if how.align:
        step = (how.size - 1) / (how.count - 1) if how.count > 1 else 0.0
        points = np.arange(how.count) * step
    else:
        points = (np.arange(how.count) + 0.5) * step - 0.5
    if how.antialias:
        return _smoothed(how, points, max(step, 1.0))
    if how.mode == "linear":
        return _linear(points, how.size)
    return _cubic(points, how.size)


def _nearest(how: Resampling) -> tuple[Array, Array]:
    shift = 0.5 if how.mode == "nearest-exact" else 0.0
    if how.factor is None:  # exact: no rounding puts a place on the wrong side
        doubled = np.arange(how.count) * 2 + int(2 * shift)
        places = doubled * how.size // (2 * how.count)
    else:
        places = np.floor((np.arange(how.count) + shift) / how.factor).astype(np.int64)
    return np.clip(places, 0, how.size - 1)[:, None], np.ones((how.count, 1))


def _linear(points: Array, size: int) -> tuple[Array, Array]:
    points = np.clip(points, 0, size - 1)
    low = np.floor(points).astype(np.int64)
    part = points - low
    places = np.stack([low, np.where(part > 0, low + 1, -1)], 1)
    return places, np.stack([1 - part, part], 1)


def keys(x: Any, a: float = -0.75) -> tuple[Any, Any]:
    """Keys' cubic filter at distances x: what holds below 1, and what holds from 1 to 2.

    x        an array, or a tensor
    source   Keys 1981, IEEE Transactions on Acoustics, Speech, and Signal Processing 29
    """
    return ((a + 2) * x - (a + 3)) * x * x + 1, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def cubic_weights(part: Array) -> Array:
    """The weights of the four neighbours of a point that lies `part` behind the second."""
    near = [keys(x)[0] for x in (part, 1 - part)]
    far = [keys(x)[1] for x in (part + 1, 2 - part)]
    return np.stack([far[0], near[0], near[1], far[1]], -1)


def _cubic(points: Array, size: int) -> tuple[Array, Array]:
    low = np.floor(points).astype(np.int64)
    places = np.clip(low[:, None] + np.arange(-1, 3), 0, size - 1)
    return places, cubic_weights(points - low)


def _smoothed(how: Resampling, points: Array, spread: float) -> tuple[Array, Array]:
    """Filters stretched to the distance of the outputs, cut at the ends, weights adding up to 1."""
    reach = (1.0 if how.mode == "linear" else 2.0) * spread
    first = np.maximum(np.floor(points + 0.5 - reach + 0.5), 0).astype(np.int64)
    last = np.minimum(np.floor(points + 0.5 + reach + 0.5), how.size).astype(np.int64)
    taps = np.arange(max(int((last - first).max()), 1))
    places = first[:, None] + taps
    inside = places < last[:, None]
    distance = np.abs(places - points[:, None]) / spread
    weights = np.where(inside, _filter(how.mode, distance), 0.0)
    weights = weights / weights.sum(1, keepdims=True)
    return np.where(inside & (weights != 0), places, -1), weights


def _filter(mode: str, x: Array) -> Array:
    if mode == "linear":
        return np.maximum(1 - x, 0)
    near, far = keys(x, -0.5)
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _transposed(how: Resampling) -> tuple[Array, Array]:
    """For each input the outputs that it is in."""
    places, weights = tables(replace(how, transposed=False))
    outputs = np.broadcast_to(np.arange(how.count)[:, None], places.shape)
    known = places >= 0
    inputs, outputs, weights = places[known], outputs[known], weights[known]
    order = np.argsort(inputs, kind="stable")  # outputs ascend already
    inputs, outputs, weights = inputs[order], outputs[order], weights[order]
    counts = np.bincount(inputs, minlength=how.size)
    rank = np.arange(len(inputs)) - np.repeat(np.cumsum(counts) - counts, counts)
    most = max(int(counts.max(initial=0)), 1)
    found, shares = np.full((how.size, most), -1), np.zeros((how.size, most))
    found[inputs, rank], shares[inputs, rank] = outputs, weights
    return found, shares


def counts_of(sizes: Any, factors: Any) -> tuple[int, ...]:
    """How many places axes have that are scaled by factors."""
    return tuple(math.floor(size * factor) for size, factor in zip(sizes, factors, strict=True))
