"""Slices repeated by counts of their own: which slice stands where, told by sums on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.dtypes import int64
from bedplate.ops.build import Value, as_type
from bedplate.ops.indexing.gather import TAKE, sum_rows
from bedplate.ops.pointwise.arithmetic import subtract
from bedplate.ops.record import apply
from bedplate.ops.reduction.reduce import min_, sum_
from bedplate.ops.scan.cumulative import cumsum
from bedplate.ops.shape.creation import full
from bedplate.ops.shape.regions import narrow, stack
from bedplate.ops.shape.views import reshape


def repeated_by_counts(x: Value, counts: Any, axis: int) -> Value:
    """Slice i of x along an axis counts[i] times in a row.

    counts   one for each slice: a NumPy array, or integers on the device, of which the least and
             the sum are read
    raises   ValueError for a negative one
    """
    if isinstance(counts, np.ndarray):
        refuse_negative(int(counts.min(initial=0)))
        places = x._lift(np.repeat(np.arange(x.shape[axis]), counts))
    else:
        places = _places(as_type(counts, int64))
    return apply(TAKE, (x, places), {"axis": axis})


def refuse_negative(least: int) -> None:
    """raises ValueError if the least count is below 0"""
    if least < 0:
        raise ValueError(f"repeat: a count must not be negative, got {least}")


def _places(counts: Value) -> Value:
    """How many slices begin up to each place, less one: the last of them stands there."""
    least, total = stack([min_(counts), sum_(counts)]).tolist()
    refuse_negative(least)
    begins = subtract(cumsum(counts, 0), counts)
    ones = full(counts, (counts.shape[0], 1), 1, int64)
    begun = reshape(sum_rows(begins, ones, total + 1), (total + 1,))
    return subtract(cumsum(narrow(begun, 0, 0, total), 0), 1)
