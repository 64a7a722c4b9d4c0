"""Sets: the values that occur, each once, with their places and counts.

How many there are depends on the values, so these functions compute their input at once; in a step
that jit captures they raise CaptureError. NaN differs from itself, so each NaN is a value of its
own; -0.0 equals 0.0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bedplate.dtypes import COMPLEX, bool_, int64
from bedplate.ops.build import Value, normalised_axis
from bedplate.ops.complex_numbers.form import Pair, complex_form
from bedplate.ops.complex_numbers.parts import imag, real
from bedplate.ops.elementwise import ANY, row
from bedplate.ops.indexing.gather import TAKE, sum_rows
from bedplate.ops.indexing.true_places import true_places
from bedplate.ops.pointwise.arithmetic import subtract
from bedplate.ops.pointwise.comparison import not_equal
from bedplate.ops.record import NoGradient, apply
from bedplate.ops.reduction.reduce import any_
from bedplate.ops.samples import bools, floats, integers
from bedplate.ops.scan.cumulative import cumsum
from bedplate.ops.shape.creation import full
from bedplate.ops.shape.regions import concat, narrow
from bedplate.ops.shape.views import moveaxis, reshape
from bedplate.ops.sorting.sorting import argsort, sort


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Any
    inverse_indices: Any


DISTINCT = row(
    name="distinct",
    doc="The same value; asking for its gradient says why there is none.",
    reference=lambda x: x,
    emit=lambda t, x: x,
    gradient=NoGradient("how many different values there are changes with the values"),
    dtypes=ANY + COMPLEX,
    samples=(floats((3, 5)), floats((0,)), bools((7,)), integers((9,))),
)


@complex_form(DISTINCT)
def _distinct_form(z: Pair) -> Pair:
    return Pair(apply(DISTINCT, (z.re,)), apply(DISTINCT, (z.im,)))


def _order(x: Value) -> Value:
    """The places that sort a vector; complex numbers by their real, then their imaginary part."""
    if x.dtype.kind != "c":
        return argsort(x)
    order = argsort(imag(x))
    return _taken(order, argsort(_taken(real(x), order)))


def _taken(x: Value, places: Value) -> Value:
    return apply(TAKE, (x, places), {"axis": 0})


def _starts(ordered: Value) -> Value:
    """Where in sorted elements (rows of them) a new value begins; computed now."""
    count = ordered.shape[0]
    if not count:
        return full(ordered, (0,), 0, int64)
    differs = not_equal(narrow(ordered, 0, 1, count - 1), narrow(ordered, 0, 0, count - 1))
    if len(ordered.shape) > 1:
        differs = any_(reshape(differs, (count - 1, math.prod(ordered.shape[1:]))), axis=1)
    return true_places(concat([full(ordered, (1,), True, bool_), differs]))


def _distinct_values(x: Value, places: Value) -> Value:
    return apply(DISTINCT, (_taken(x, places),))


def _counts(starts: Value, total: int) -> Value:
    """How many elements stand from each start to the next."""
    ends = concat([narrow(starts, 0, 1, starts.shape[0] - 1), starts._lift(np.array([total]))])
    return subtract(ends, starts)


def _inverse(order: Value, starts: Value) -> Value:
    """For each element the number of its value."""
    begins = sum_rows(starts, full(starts, (starts.shape[0], 1), 1, int64), order.shape[0])
    group = subtract(cumsum(reshape(begins, (-1,)), 0), 1)
    return _taken(group, argsort(order))


def _unique(x: Value, order: Value) -> UniqueAll:
    """All about the different elements (or rows) of x, whose places in order are given."""
    total = x.shape[0]
    if total == 0:
        return UniqueAll(_distinct_values(x, order), order, order, order)
    starts = _starts(_taken(x, order))
    first = _taken(order, starts)
    return UniqueAll(
        _distinct_values(x, first), first, _inverse(order, starts), _counts(starts, total)
    )


def unique_all(x: Value) -> UniqueAll:
    """The different elements in order, with where they are and how often; x is computed at once.

    returns  (values, indices, inverse_indices, counts): `indices` are the first places in the
             flattened x, and values[inverse_indices] is x; int64 but for the values; no gradient,
             since the number of values changes with the values
    raises   CaptureError within jit
    cost     two sorts
    >>> import bedplate as bp
    >>> bp.unique_all(bp.tensor([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    flat = reshape(x, (math.prod(x.shape),))
    found = _unique(flat, _order(flat))
    return found._replace(inverse_indices=reshape(found.inverse_indices, x.shape))


def unique_counts(x: Value) -> UniqueCounts:
    """The different elements in order, and how often each occurs; see `unique_all`.

    >>> import bedplate as bp
    >>> values, counts = bp.unique_counts(bp.tensor([3, 1, 3]))
    >>> values.tolist(), counts.tolist()
    ([1, 3], [1, 2])
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Value) -> UniqueInverse:
    """The different elements in order, and the number of its value for each; see `unique_all`.

    >>> import bedplate as bp
    >>> bp.unique_inverse(bp.tensor([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Value) -> Value:
    """The different elements in order; x is computed at once. See `unique_all`.

    cost     a sort
    >>> import bedplate as bp
    >>> bp.unique_values(bp.tensor([3, 1, 3])).tolist()
    [1, 3]
    """
    flat = reshape(x, (math.prod(x.shape),))
    if x.dtype.kind == "c":
        return unique_all(x).values
    ordered = sort(flat)
    return _distinct_values(ordered, _starts(ordered))


def unique(
    x: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, return_index: bool = False,
) -> Value:  # fmt: skip
    """The different elements, or the different slices along an axis; x is computed at once.

    sorted          they are in any case; slices by their elements, the first one first
    return_inverse  also the number of its value for each element
    return_counts   also how often each occurs
    axis            None: elements of the flattened x; `dim` works too
    return_index    also the first place of each
    returns         the values, or a tuple of them and of what was asked for in the order of NumPy:
                    index, inverse, counts; NaN differs from NaN; no gradient
    raises          CaptureError within jit
    cost            two sorts; along an axis a sort for each element of a slice
    >>> import bedplate as bp
    >>> bp.unique(bp.tensor([[1, 2], [1, 2], [0, 5]]), dim=0).tolist()
    [[0, 5], [1, 2]]
    """
    if axis is None:
        found = unique_all(x)
    else:
        axis = normalised_axis("unique", axis, len(x.shape), x)
        slices = moveaxis(x, axis, 0)
        found = _unique(slices, _order_of_slices(slices))
        found = found._replace(values=moveaxis(found.values, 0, axis))
    asked = (return_index, return_inverse, return_counts)
    more = tuple(part for part, wanted in zip(found[1:], asked, strict=True) if wanted)
    return (found.values, *more) if more else found.values


def _order_of_slices(slices: Value) -> Value:
    """The places that sort slices by their elements: by the last ones first, each sort stable."""
    count, width = slices.shape[0], math.prod(slices.shape[1:])
    columns = reshape(slices, (count, width))
    order = slices._lift(np.arange(count))
    for column in reversed(range(width)):
        keys = reshape(narrow(columns, 1, column, 1), (count,))
        order = _taken(order, _order(_taken(keys, order)))
    return order
