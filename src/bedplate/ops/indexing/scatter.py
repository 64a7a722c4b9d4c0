"""Rows joined by index: scatter_reduce (product, largest, smallest) and last_writer.

With `sum_rows` of gather.py these two are what all updates by index are made of, see indexed.py.
All join in the order of the rows, so the bits do not depend on the number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import DType, as_dtype, float32, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value, as_type, number
from bedplate.ops.elementwise import NARROW_FLOATS
from bedplate.ops.indexing.gather import TAKE, sum_rows
from bedplate.ops.indexing.scatter_kernel import lower_last_writer, lower_scatter_reduce
from bedplate.ops.pointwise.arithmetic import divide, multiply
from bedplate.ops.pointwise.comparison import equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.record import Cost, NoGradient, Op, apply, register
from bedplate.ops.reduction.reduce import greatest, least
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed, rough

UFUNCS = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    indices, rows = inputs
    named = {"indices": indices, "rows": rows}
    if len(indices.shape) != 1 or len(rows.shape) != 2 or rows.shape[0] != indices.shape[0]:
        refuse(
            ShapeError, "scatter_reduce", "the shapes do not match", named,
            "expected indices (n,) and rows (n, width)",
        )  # fmt: skip
    if indices.dtype is not int64 or rows.dtype.kind not in "iuf":
        refuse(DTypeError, "scatter_reduce", "expected int64 indices and rows of numbers", named)
    return (attributes["n_rows"], rows.shape[1]), rows.dtype


def start(reduce: str, dtype: DType) -> bool | int | float:
    """What a row has that nothing is joined into."""
    if reduce == "prod":
        return 1
    return least(dtype) if reduce == "amax" else greatest(dtype)


def _reference(indices: Any, rows: Any, *, n_rows: int, reduce: str) -> Any:
    wide = np.dtype(np.float32) if rows.dtype in NARROW_FLOATS else rows.dtype
    first = start(reduce, as_dtype(wide))
    total = np.full((n_rows, rows.shape[1]), first, wide)
    UFUNCS[reduce].at(total, indices, rows.astype(wide))
    return total.astype(rows.dtype)


def scatter_reduce_gradient(
    grad_out: Value, inputs: Any, output: Value, *, n_rows: int, reduce: str
) -> tuple[None, Any]:
    """The largest or smallest share it equally; a factor gets the product of the others."""
    indices, rows = inputs
    if rows.dtype.is_float and rows.dtype.itemsize == 2:
        wide = (indices, as_type(rows, float32))
        grads = (as_type(grad_out, float32), as_type(output, float32))
        _, grad = scatter_reduce_gradient(grads[0], wide, grads[1], n_rows=n_rows, reduce=reduce)
        return None, as_type(grad, rows.dtype)
    back = apply(TAKE, (grad_out, indices), {"axis": 0})
    if reduce == "prod":
        return None, multiply(back, _others(indices, rows, n_rows))
    chosen = as_type(equal(rows, apply(TAKE, (output, indices), {"axis": 0})), rows.dtype)
    count = apply(TAKE, (sum_rows(indices, chosen, n_rows), indices), {"axis": 0})
    return None, multiply(chosen, divide(back, count))


def _others(indices: Value, rows: Value, n_rows: int) -> Value:
    """For each factor the product of the others of its row, right where factors are 0.

    What is not 0 is divided out. Where a factor is 0 the others are those that are not, times
    the other zeros: one (written as the sum of all less itself, so that it has a slope), or more.
    """
    is_zero = equal(rows, 0)
    zero, one = number(rows, 0), number(rows, 1)

    def back(total: Value) -> Value:
        return apply(TAKE, (total, indices), {"axis": 0})

    plain = where(is_zero, one, rows)
    zeros = where(is_zero, rows, zero)
    count = back(sum_rows(indices, as_type(is_zero, rows.dtype), n_rows))
    product = back(_product(indices, plain, n_rows))
    all_zeros = back(_product(indices, where(is_zero, rows, one), n_rows))
    other_zero = back(sum_rows(indices, zeros, n_rows)) - rows
    rest = where(equal(count, 1), one, where(equal(count, 2), other_zero, zero))
    return where(is_zero, product * rest, divide(product, plain) * all_zeros)


def _product(indices: Value, rows: Value, n_rows: int) -> Value:
    return apply(SCATTER_REDUCE, (indices, rows), {"n_rows": n_rows, "reduce": "prod"})


def _zeros_among(rng: np.random.Generator) -> Any:
    rows = rng.uniform(0.5, 2, (9, 3))
    rows[[0, 4, 6]] = 0
    return [np.array([0, 1, 0, 2, 1, 2, 1, 3, 0]), rows]


def _n_written(inputs: Any, output: Any, attributes: Attributes) -> float:
    return math.prod(inputs[1].shape)


SCATTER_REDUCE = register(
    Op(
        "scatter_reduce",
        "kernel",
        _infer,
        reference=_reference,
        gradient=scatter_reduce_gradient,
        cost=Cost("1 flop an element", _n_written),
        lower=lower_scatter_reduce,
        infinities=lambda n_rows, reduce: reduce in ("amax", "amin"),  # of nothing
        dtypes=(int64,),
        samples=(
            *(
                mixed(
                    lambda r: [np.array([0, 1, 4, 1, 2, 0, 3, 1, 4]), r.uniform(0.5, 2, (9, 3))],
                    f"repeated {reduce}", n_rows=5, reduce=reduce,
                )
                for reduce in UFUNCS
            ),
            mixed(
                lambda r: [r.integers(0, 11, (64,)), r.uniform(0.5, 2, (64, 37))],
                "wide", n_rows=11, reduce="prod",
            ),
            mixed(_zeros_among, "zeros", n_rows=5, reduce="prod"),
            rough(
                lambda r: [r.integers(0, 4, (19,)), r.integers(-2, 3, (19, 2)) / 2.0],
                "ties", n_rows=4, reduce="amin",
            ),
            mixed(
                lambda r: [np.zeros((0,), np.int64), r.random((0, 3))],
                "none", n_rows=2, reduce="amax",
            ),
        ),
        doc="Rows joined into row indices[i] by `reduce`, from 1 or from the end of the dtype.",
    )
)  # fmt: skip


def joined_rows(indices: Value, rows: Value, n_rows: int, reduce: str) -> Value:
    """Join rows[i] into row indices[i], in the order of i.

    indices  (n,)           int64 in [0, n_rows), checked before
    rows     (n, width)     float16 and bfloat16 are joined in float32
    reduce   "sum", "prod", "amax" or "amin"
    returns  (n_rows, width); where nothing was joined: 0, 1, or the end of the dtype's range
    """
    if reduce == "sum":
        return sum_rows(indices, rows, n_rows)
    return apply(SCATTER_REDUCE, (indices, rows), {"n_rows": n_rows, "reduce": reduce})


def _last_writer_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (indices,) = inputs
    if len(indices.shape) != 1 or indices.dtype is not int64:
        refuse(
            ShapeError, "last_writer", "expected one axis of int64", {"indices": indices}
        )  # fmt: skip
    return (attributes["n_rows"],), int64


def _last_writer_reference(indices: Any, *, n_rows: int) -> Any:
    result = np.full(n_rows, -1, np.int64)
    np.maximum.at(result, indices, np.arange(indices.size))
    return result


LAST_WRITER = register(
    Op(
        "last_writer",
        "kernel",
        _last_writer_infer,
        reference=_last_writer_reference,
        gradient=NoGradient("its values are positions"),
        cost=Cost("no arithmetic", lambda inputs, output, attributes: 0.0),
        lower=lower_last_writer,
        dtypes=(int64,),
        samples=(
            mixed(lambda r: [r.integers(0, 5, (9,))], "repeated", n_rows=7),
            mixed(lambda r: [np.zeros((0,), np.int64)], "none", n_rows=2),
        ),
        doc="For each row the last i with indices[i] = row, or -1.",
    )
)


def last_writer(indices: Value, n_rows: int) -> Value:
    """For each row the last i with indices[i] = row, or -1: who wins when several assign.

    indices  (n,) int64 in [0, n_rows), checked before
    returns  (n_rows,) int64
    """
    return apply(LAST_WRITER, (indices,), {"n_rows": n_rows})


def replaced_rows(rows: Value, indices: Value, values: Value) -> Value:
    """`rows` with row indices[i] replaced by values[i]; the last one counts, and gets the gradient.

    rows     (n_rows, ...)
    indices  (n,)      int64 in [0, n_rows), checked before
    values   (n, ...)  of the dtype of rows
    """
    if 0 in indices.shape or 0 in rows.shape:
        return rows._alias()
    winner = last_writer(indices, rows.shape[0])
    taken = apply(TAKE, (values, where(winner < 0, 0, winner)), {"axis": 0})
    written = (winner >= 0).reshape((rows.shape[0], *(1 for _ in rows.shape[1:])))
    return where(written, taken, rows)
