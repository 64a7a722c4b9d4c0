"""Counting: how often each integer occurs, and how many numbers fall into each bin.

    out[index[i]] += 1                          index  (n,)     int64 in [0, n_bins)
                                                out    (n_bins,)  int64

The counts of blocks of the indices are made side by side and then added up; they are integers, so
the order does not matter. Weights are added up by `sum_rows`, in the order of the indices, so
the bits never depend on threads.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from bedplate.dtypes import DType, float64, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.kernel import (
    i64,
    kernel,
    load,
    loop,
    minimum,
    ptr,
    store,
    tail_mask,
    var,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.build import Value, as_type, as_values, is_index, is_number, promoted
from bedplate.ops.indexing.gather import sum_rows
from bedplate.ops.pointwise.arithmetic import divide, multiply, subtract
from bedplate.ops.pointwise.comparison import (
    equal,
    greater,
    less,
    less_equal,
    logical_or,
    not_equal,
)
from bedplate.ops.pointwise.convert import where
from bedplate.ops.record import NoGradient, Op, apply, each_element, register
from bedplate.ops.reduction.reduce import all_, max_, min_, sum_
from bedplate.ops.refusal import refuse, refuse_inputs
from bedplate.ops.samples import mixed
from bedplate.ops.shape.regions import narrow
from bedplate.ops.shape.views import reshape
from bedplate.ops.sorting.searchsorted import searchsorted

BLOCK = 65536
MOST_COUNTERS = 1 << 20  # of all blocks: beyond it they cost more than they save
LANES = 8
# an index, measured on one core of an AMD EPYC with AVX-512: 1.5 ns for 100 bins, 3.4 for 100 000
COUNT_NS = 2.0


def _infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (index,) = inputs
    if index.dtype is not int64 or len(index.shape) != 1:
        refuse_inputs(DTypeError, "counts", "expected (n,) int64", inputs)
    return (attributes["n_bins"],), int64


def _lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    (index,), (out,) = inputs, outputs
    count, n_bins = index.shape[0], out.shape[0]
    if not n_bins:
        return
    blocks = max(1, min(-(-count // BLOCK), MOST_COUNTERS // n_bins))
    size = -(-count // blocks)
    parts = builder.temp(blocks * n_bins * 8, "counts")
    builder.launch(
        count_block, [index, index.strides[0], count, size, n_bins, parts], blocks,
        reads=[index.buffer], writes=[parts], nbytes=8.0 * count, flops=float(count),
        name="count_block", weight_ns=COUNT_NS * count,
    )  # fmt: skip
    builder.launch(
        add_counts, [parts, blocks, n_bins, out], -(-n_bins // LANES),
        reads=[parts], writes=[out.buffer], nbytes=8.0 * blocks * n_bins, name="add_counts",
    )  # fmt: skip


@kernel
def count_block(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """How often each index occurs in a block."""
    index, step = word_pointer(args, 0, i64), word_int(args, 1)
    count, size, n_bins = (word_int(args, i) for i in (2, 3, 4))
    for item in loop(begin, end):
        counts = word_pointer(args, 5, i64) + item * n_bins
        for i in loop(n_bins):
            store(counts + i, 0)
        for i in loop(item * size, minimum((item + 1) * size, count)):
            counter = counts + load(index + i * step)
            store(counter, load(counter) + 1)


@kernel
def add_counts(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """The sums over the blocks of LANES counters an item."""
    blocks, n_bins, out = word_int(args, 1), word_int(args, 2), word_pointer(args, 3, i64)
    for item in loop(begin, end):
        first = item * LANES
        mask = tail_mask(n_bins - first, LANES)
        total = var(zeros(i64, LANES))
        for block in loop(blocks):
            place = word_pointer(args, 0, i64) + block * n_bins + first
            total.set(total.get() + load(place, LANES, mask=mask))
        store(out + first, total.get(), mask)


COUNTS = register(
    Op(
        "counts",
        "kernel",
        _infer,
        reference=lambda index, *, n_bins: np.bincount(index, minlength=n_bins),
        gradient=NoGradient("counts are integers"),
        cost=each_element(1, "1 addition an element; input once, counts once a worker"),
        lower=_lower,
        dtypes=(int64,),
        samples=(
            mixed(lambda r: [r.integers(0, 5, (40,))], "few", n_bins=5),
            mixed(lambda r: [r.integers(0, 37, (9,))], "many bins", n_bins=37),
            mixed(lambda r: [np.zeros((0,), np.int64)], "none", n_bins=3),
        ),
        doc="How often each integer in [0, n_bins) occurs; all are in range.",
    )
)


def _counted(index: Value, n_bins: int, weights: Value | None) -> Value:
    """Counts, or sums of weights, of indices that are in range."""
    if weights is None:
        return apply(COUNTS, (index,), {"n_bins": n_bins})
    return reshape(sum_rows(index, reshape(weights, (-1, 1)), n_bins), (n_bins,))


def _weights(name: str, x: Value, weights: Value | None) -> Value | None:
    """Weights as floats in the shape of x."""
    if weights is None:
        return None
    (given,) = as_values(name, (x, weights))[1:]
    if given.shape != x.shape:
        refuse(ShapeError, name, "the shapes differ", {"x": x, "weights": given})
    return given if given.dtype.is_float else as_type(given, float64)


def bincount(x: Value, weights: Value | None = None, minlength: int = 0) -> Value:
    """How often each integer from 0 on occurs, or the sum of its weights; x is computed at once.

    x          (n,) integers, none negative
    weights    (n,); integers are added up in float64
    minlength  the result is at least so long
    returns    (max(x) + 1,): int64, or the dtype of the weights; the gradient of a weight is that
               of its sum
    raises     ValueError for a negative element; ShapeError for more than one axis; DTypeError for
               what is no integer; CaptureError within jit
    >>> import bedplate as bp
    >>> bp.bincount(bp.tensor([0, 3, 3])).tolist()
    [1, 0, 0, 2]
    """
    if len(x.shape) != 1:
        refuse_inputs(ShapeError, "bincount", "x must have one axis", (x,))
    if not x.dtype.is_integer:
        refuse_inputs(DTypeError, "bincount", "x must be integers", (x,))
    if minlength < 0:
        raise ValueError(f"bincount: minlength must not be negative, got {minlength}")
    weights = _weights("bincount", x, weights)
    most = -1
    if x.shape[0]:
        least, most = int(min_(x)), int(max_(x))
        if least < 0:
            refuse_inputs(ValueError, "bincount", f"x has the negative element {least}", (x,))
    return _counted(as_type(x, int64), max(most + 1, minlength), weights)


def _edges(name: str, x: Value, bins: Any, limits: Any) -> Value:
    """The edges of the bins, as floats."""
    dtype = x.dtype if x.dtype.is_float else float64
    if not is_index(bins):
        if is_number(bins):
            raise TypeError(f"{name}: the number of bins is an integer, got {bins!r}")
        edges = bins if hasattr(bins, "_apply") else x._lift(np.asarray(bins))
        return _checked_edges(name, edges)
    bins = operator.index(bins)
    if bins < 1:
        raise ValueError(f"{name}: the number of bins must be positive, got {bins}")
    low, high = _limits(name, x, limits)
    return x._lift(np.linspace(low, high, bins + 1).astype(dtype.numpy))


def _checked_edges(name: str, edges: Value) -> Value:
    if len(edges.shape) != 1 or edges.shape[0] < 2:
        refuse(ShapeError, name, "edges are a vector of at least two", {"bins": edges})
    below, above = narrow(edges, 0, 0, edges.shape[0] - 1), narrow(edges, 0, 1, edges.shape[0] - 1)
    if not bool(all_(less_equal(below, above))):
        refuse(ValueError, name, "the edges must rise", {"bins": edges})
    return edges


def _limits(name: str, x: Value, limits: Any) -> tuple[float, float]:
    """The ends of the first and the last bin."""
    if limits is not None:
        if np.shape(limits) != (2,):
            raise ValueError(f"{name}: the range is a pair (low, high), got {limits!r}")
        low, high = (float(limit) for limit in limits)
        if low > high:
            raise ValueError(f"{name}: the range {limits} falls")
    elif math.prod(x.shape) == 0:
        low, high = 0.0, 1.0
    else:
        low, high = float(min_(x)), float(max_(x))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"{name}: the range [{low}, {high}] is not finite")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _binned(x: Value, edges: Value, weights: Value | None) -> Value:
    """Counts or sums of weights between edges; the last bin holds its upper edge too."""
    n_bins = edges.shape[0] - 1
    flat = reshape(x, (math.prod(x.shape),))
    a, b = promoted("histogram", (edges, flat))
    place = subtract(searchsorted(a, b, side="right"), 1)
    last = narrow(a, 0, n_bins, 1)
    place = where(equal(b, last), n_bins - 1, place)
    place = where(greater(b, last), n_bins, place)
    # what lies in no bin is counted behind them
    place = where(logical_or(less(place, 0), not_equal(b, b)), n_bins, place)
    flat_weights = None if weights is None else reshape(weights, flat.shape)
    return narrow(_counted(place, n_bins + 1, flat_weights), 0, 0, n_bins)


def histogram(
    x: Value, bins: Any = 10, range: Any = None, weights: Value | None = None,
    density: bool = False,
) -> tuple[Value, Value]:  # fmt: skip
    """How many elements fall into each bin [edges[i], edges[i + 1]); the last one has both ends.

    x        real numbers, any shape; NaN and what lies outside fall into no bin
    bins     the number of bins of equal width, or a vector of rising edges
    range    (low, high), where equal bins begin and end; None: at the least and greatest element,
             which are computed at once
    weights  shape of x: they are added up instead of ones
    density  divide by the sum and by the widths: the integral is 1
    returns  (counts, edges): counts are int64, or of the dtype of the weights (which have a
             gradient), a density floats; edges have the dtype of x, float64 for integers
    raises   ValueError for no bins, or ends that are not finite or fall; ShapeError
    cost     log2(bins) gathers an element
    source   the meaning is that of NumPy
    >>> import bedplate as bp
    >>> counts, edges = bp.histogram(bp.tensor([1.0, 2.0, 1.0, 4.0]), bins=3)
    >>> counts.tolist(), edges.tolist()
    ([2, 1, 1], [1.0, 2.0, 3.0, 4.0])
    """
    weights = _weights("histogram", x, weights)
    edges = _edges("histogram", x, bins, range)
    counts = _binned(x, edges, weights)
    if density:
        n_bins = counts.shape[0]
        widths = subtract(narrow(edges, 0, 1, n_bins), narrow(edges, 0, 0, n_bins))
        counts = divide(counts, multiply(widths, as_type(sum_(counts), widths.dtype)))
    return counts, edges


def histc(x: Value, bins: int = 100, min: float = 0, max: float = 0) -> Value:
    """How many elements fall into each of `bins` equal bins from min to max, as in PyTorch.

    min, max  both 0: the least and greatest element, which are computed at once
    returns   (bins,) dtype of x; see `histogram`
    >>> import bedplate as bp
    >>> bp.histc(bp.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3).tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    limits = None if min == max == 0 else (min, max)
    return as_type(_binned(x, _edges("histc", x, bins, limits), None), x.dtype)
