"""Sorting: the elements of rows in order, and the places from which they come.

The records sort the rows of a matrix; the functions bring an axis there and back. Order is stable:
equal elements stay in their order, for either direction. NaN counts as the greatest, so it stands
last, or first if the greatest come first; negative zero equals zero.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from bedplate.dtypes import DType, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value, normalised_axis
from bedplate.ops.elementwise import ANY, NARROW_FLOATS
from bedplate.ops.indexing.gather import TAKE
from bedplate.ops.pointwise.arithmetic import add, multiply
from bedplate.ops.record import Cost, NoGradient, Op, Sample, apply, each_element, register
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import bools, floats, integers, mixed, rough
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.regions import narrow
from bedplate.ops.shape.views import moveaxis, reshape, squeeze
from bedplate.ops.sorting.kernel import lower_sort
from bedplate.ops.sorting.selection import lower_top_k

# rows of this length, up to this share of them: the first k elements are selected in less time
# than the row is sorted
LEAST_LENGTH = 512
SMALL_K = 32


def _rule(name: str, dtype: DType | None = None) -> Any:
    """Matrices of numbers that have an order; the result has their shape."""

    def infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
        (x,) = inputs
        if x.dtype not in ANY:
            refuse_inputs(
                DTypeError, name, "complex numbers have no order", inputs,
                "sort by a real number of them, for example their absolute value",
            )  # fmt: skip
        if len(x.shape) != 2:
            refuse_inputs(ShapeError, name, "expected (rows, length)", inputs)
        return x.shape, dtype or x.dtype

    return infer


def _order(x: Any, descending: bool) -> Any:
    """The stable order of rows by NumPy; reversed twice, so that equal elements keep theirs."""
    x = x.astype(np.float32) if x.dtype in NARROW_FLOATS else x
    if not descending:
        return np.argsort(x, axis=1, kind="stable")
    return x.shape[1] - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]


def _distinct(*shape: int, descending: bool = False) -> Sample:
    """Elements that differ in every dtype, so that the op has a derivative."""
    count = math.prod(shape)
    return mixed(
        lambda r: [(r.permutation(count) / 32 - 1).reshape(shape)], f"{shape} {descending}",
        descending=descending,
    )  # fmt: skip


_TIES = np.array([[1.0, 3, np.nan, -0.0, 0.0, 3, -np.inf, np.nan, 0.0, -0.0, np.inf, 1]])
_SAMPLES = (
    _distinct(3, 7),
    _distinct(2, 67, descending=True),
    _distinct(1, 1),
    floats((3, 0), descending=False),
    floats((0, 3), descending=True),
    integers((3, 61), descending=False),
    integers((2, 9), descending=True),
    bools((2, 21), descending=True),
    *(
        rough(lambda r: [_TIES], f"ties {descending}", descending=descending)
        for descending in (False, True)
    ),
)


def _places(order: Value, grad: Value) -> Value:
    """Elements of rows back at the places from which a sort took them."""
    return _from_rows(grad, apply(ARGSORT, (order,), {"descending": False}))


def _from_rows(x: Value, places: Value) -> Value:
    """y[row, i] = x[row, places[row, i]], for places in range."""
    rows, length = x.shape
    if length == 0:
        return x
    flat = add(places, multiply(index_along(places, 0, (rows, 1)), length))
    return apply(TAKE, (reshape(x, (rows * length,)), flat), {"axis": 0})


def sort_gradient(grad_out: Value, inputs: Any, output: Value, *, descending: bool) -> tuple[Any]:
    """Each gradient at the place of the element, by the inverse permutation."""
    order = apply(ARGSORT, inputs, {"descending": descending})
    return (_places(order, grad_out),)


def _lower_sort(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    indexed = node.op is ARGSORT
    lower_sort(builder, inputs[0], outputs[0], node.attributes["descending"], indexed)


def _placings(inputs: Any, output: Any, attributes: Attributes) -> float:
    return float(math.prod(inputs[0].shape) * inputs[0].dtype.itemsize)


SORT = register(
    Op(
        "sort",
        "kernel",
        _rule("sort"),
        reference=lambda x, *, descending: np.take_along_axis(x, _order(x, descending), 1),
        gradient=sort_gradient,
        cost=Cost("1 placing an element and 8 bits; each pass reads and writes the row", _placings),
        lower=_lower_sort,
        dtypes=ANY,
        samples=_SAMPLES,
        doc="The elements of each row in order, equal ones in their old order.",
    )
)

ARGSORT = register(
    Op(
        "argsort",
        "kernel",
        _rule("argsort", int64),
        reference=_order,
        gradient=NoGradient("places are integers"),
        cost=Cost("1 placing an element and 8 bits; each pass reads and writes the row", _placings),
        lower=_lower_sort,
        dtypes=ANY,
        samples=_SAMPLES,
        doc="The places of the elements of each row in order, equal ones in their old order.",
    )
)


def _top_k_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (rows, length), dtype = _rule("topk", int64)(inputs, attributes)
    if not 0 <= attributes["k"] <= length:
        refuse_inputs(ShapeError, "topk", f"k = {attributes['k']} of rows of {length}", inputs)
    return (rows, attributes["k"]), dtype


def _lower_top_k(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    lower_top_k(builder, inputs[0], outputs[0], node.attributes["descending"])


TOP_K = register(
    Op(
        "top_k",
        "kernel",
        _top_k_infer,
        reference=lambda x, *, k, descending: _order(x, descending)[:, :k],
        gradient=NoGradient("places are integers"),
        cost=each_element(1, "about 1 comparison an element, and a sort of what is chosen"),
        lower=_lower_top_k,
        dtypes=ANY,
        samples=(
            *(
                rough(lambda r: [_TIES], f"ties {k} {descending}", k=k, descending=descending)
                for descending in (False, True)
                for k in (0, 1, 5, 12)
            ),
            integers((3, 400), k=9, descending=True),
            floats((2, 3000), k=100, descending=False),
            floats((0, 3), k=2, descending=True),
        ),
        doc="The places of the first k elements of each row in order, equal ones as they stand.",
    )
)


def _rows(name: str, x: Value, axis: int | None) -> tuple[Value, int, Shape]:
    """x as a matrix with an axis last (None: flattened), that axis, and the shape with it last."""
    if axis is None or not x.shape:
        x, axis = reshape(x, (math.prod(x.shape),)), 0
    axis = normalised_axis(name, axis, len(x.shape), x)
    moved = moveaxis(x, axis, -1)
    return reshape(moved, (math.prod(moved.shape[:-1]), moved.shape[-1])), axis, moved.shape


def _along(op: Op, x: Value, axis: int, attributes: Attributes) -> Value:
    """Apply an op that keeps the shape along an axis."""
    rows, axis, moved = _rows(op.name, x, axis)
    result = reshape(apply(op, (rows,), attributes), moved)
    return moveaxis(result, -1, axis) if x.shape else reshape(result, ())


def sort(x: Value, axis: int = -1, descending: bool = False, stable: bool = True) -> Value:
    """The elements along an axis in order.

    x           bools or real numbers; NaN counts as the greatest; -0.0 equals 0.0
    axis        `dim` works too
    descending  greatest first, so that NaN comes first
    stable      equal elements stay in their order; they do so in any case
    returns     shape and dtype of x: always the same elements; the gradient goes to their places
    raises      ShapeError for an axis that does not exist; DTypeError for complex numbers
    cost        a read, and a read and a write for each 8 bits of the dtype
    >>> import bedplate as bp
    >>> bp.sort(bp.tensor([3.0, float("nan"), 1.0])).tolist()
    [1.0, 3.0, nan]
    """
    return _along(SORT, x, axis, {"descending": bool(descending)})


def argsort(x: Value, axis: int = -1, descending: bool = False, stable: bool = True) -> Value:
    """The places of the elements along an axis in order: x[argsort(x)] is sorted.

    x           bools or real numbers; NaN counts as the greatest; -0.0 equals 0.0
    axis        `dim` works too
    descending  greatest first, so that NaN comes first
    stable      equal elements stay in their order; they do so in any case
    returns     int64, shape of x; no gradient, since places are integers
    raises      ShapeError for an axis that does not exist; DTypeError for complex numbers
    >>> import bedplate as bp
    >>> bp.argsort(bp.tensor([float("nan"), 3.0, 1.0, float("nan")])).tolist()
    [2, 1, 0, 3]
    """
    return _along(ARGSORT, x, axis, {"descending": bool(descending)})


class Chosen(NamedTuple):
    """Elements along an axis, and the places from which they come (int64)."""

    values: Any
    indices: Any


def topk(x: Value, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> Chosen:
    """The k largest (or smallest) elements along an axis, and their places.

    x        bools or real numbers; NaN counts as the greatest
    k        from 0 to the size of the axis
    axis     `dim` works too
    largest  False: the smallest
    sorted   they come in order in any case; equal ones as they stand in x
    returns  (values, indices): shape of x with k on the axis; the gradient of the values goes to
             their places
    raises   ShapeError for an axis that does not exist or a k that does not fit
    cost     one read for small k (candidates are sorted), a sort if k is not small beside the size
    >>> import bedplate as bp
    >>> values, indices = bp.topk(bp.tensor([1.0, 5.0, 3.0]), 2)
    >>> values.tolist(), indices.tolist()
    ([5.0, 3.0], [1, 2])
    """
    rows, axis, moved = _rows("topk", x, axis)
    length = rows.shape[1]
    k = operator.index(k)
    if not 0 <= k <= length:
        refuse_inputs(
            ShapeError, "topk", f"k = {k} does not fit axis {axis} of size {length}", (x,),
            f"k may be 0 to {length}",
        )  # fmt: skip
    if length >= LEAST_LENGTH and k * SMALL_K <= length:
        places = apply(TOP_K, (rows,), {"k": k, "descending": bool(largest)})
    else:
        places = narrow(apply(ARGSORT, (rows,), {"descending": bool(largest)}), 1, 0, k)
    return _chosen(x, rows, places, (*moved[:-1], k), axis)


def _chosen(x: Value, rows: Value, places: Value, moved: Shape, axis: int) -> Chosen:
    """Values and places with the axis back where it was."""
    parts = (reshape(part, moved) for part in (_from_rows(rows, places), places))
    if not x.shape and moved == (1,):
        return Chosen(*(reshape(part, ()) for part in parts))
    return Chosen(*(moveaxis(part, -1, axis) for part in parts))


def kthvalue(x: Value, k: int, axis: int = -1, keepdims: bool = False) -> Chosen:
    """The k-th smallest element along an axis, counted from 1, and its place.

    x        bools or real numbers; NaN counts as the greatest
    k        from 1 to the size of the axis
    axis     `dim` and `keepdim` work too
    returns  (values, indices), without the axis or with size 1
    raises   ShapeError for an axis that does not exist or a k that does not fit
    >>> import bedplate as bp
    >>> bp.kthvalue(bp.tensor([1.0, 5.0, 3.0]), 2).values.item()
    3.0
    """
    axis = normalised_axis("kthvalue", axis, len(x.shape), x) if x.shape else 0
    length = x.shape[axis] if x.shape else 1
    if not 1 <= k <= length:
        refuse_inputs(
            ShapeError, "kthvalue", f"k = {k} does not fit axis {axis} of size {length}", (x,),
            f"k may be 1 to {length}",
        )  # fmt: skip
    found = topk(x, k, axis, largest=False)
    if not x.shape:
        return found
    last = (narrow(part, axis, k - 1, 1) for part in found)
    return Chosen(*(part if keepdims else squeeze(part, axis) for part in last))
