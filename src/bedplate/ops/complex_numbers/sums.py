"""Products of many complex numbers: the forms of prod, cumprod, linear_recurrence and matmul.

Sums need none: they are taken of each part. A product along an axis has no kernel of its own: it
is built of products of whole slices, in log2(n) steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bedplate.graph.node import Shape
from bedplate.ops.build import number
from bedplate.ops.complex_numbers.arithmetic import add_, product
from bedplate.ops.complex_numbers.form import Pair, complex_form
from bedplate.ops.matmul import matmul as matrices
from bedplate.ops.pointwise.arithmetic import add, subtract
from bedplate.ops.record import Op, apply
from bedplate.ops.reduction.reduce import PROD
from bedplate.ops.scan.cumulative import CUMPROD
from bedplate.ops.scan.recurrence import LINEAR_RECURRENCE
from bedplate.ops.shape.regions import concat, narrow
from bedplate.ops.shape.views import broadcast_to, moveaxis, reshape


def _each(z: Pair, change: Callable[[Any], Any]) -> Pair:
    return Pair(change(z.re), change(z.im))


def _piece(z: Pair, start: int, stop: int) -> Pair:
    """Some columns of rows."""
    return _each(z, lambda part: narrow(part, 1, start, stop - start))


def _joined(a: Pair, b: Pair) -> Pair:
    """Columns beside columns."""
    return Pair(concat([a.re, b.re], 1), concat([a.im, b.im], 1))


def _constant(like: Pair, shape: Shape, value: float) -> Pair:
    return Pair(
        broadcast_to(number(like.re, value), shape), broadcast_to(number(like.re, 0.0), shape)
    )


@complex_form(PROD)
def prod(z: Pair, axes: Shape) -> Pair:
    """One half of the elements times the other, until one is left."""
    shape = z.re.shape
    kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
    length = math.prod(shape[axis] for axis in axes)
    sizes = (math.prod(shape[axis] for axis in kept), length)
    last = tuple(range(len(kept), len(shape)))
    rows = _each(z, lambda part: reshape(moveaxis(part, axes, last), sizes))
    if length == 0:
        rows = _constant(z, (sizes[0], 1), 1.0)
    while length > 1:
        half = length // 2
        rest = _piece(rows, 2 * half, length)
        rows = product(_piece(rows, 0, half), _piece(rows, half, 2 * half))
        rows = _joined(rows, rest) if length % 2 else rows
        length -= half
    result = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return _each(rows, lambda part: reshape(part, result))


@complex_form(CUMPROD)
def cumprod(z: Pair) -> Pair:
    """y[i] times y[i - 1], y[i - 2], y[i - 4], ..., each step for all i at once."""
    length, reach = z.re.shape[1], 1
    while reach < length:
        grown = product(_piece(z, reach, length), _piece(z, 0, length - reach))
        z = _joined(_piece(z, 0, reach), grown)
        reach *= 2
    return z


@complex_form(LINEAR_RECURRENCE)
def linear_recurrence(a: Pair, b: Pair) -> Pair:
    """As `cumprod`, with the maps y -> a y + b in the place of numbers.

    A product of factors may overflow here although no y does.
    """
    length, reach = b.re.shape[1], 1
    while reach < length:
        factor = _piece(a, reach, length)
        grown = add_(product(factor, _piece(b, 0, length - reach)), _piece(b, reach, length))
        b = _joined(_piece(b, 0, reach), grown)
        a = _joined(_piece(a, 0, reach), product(factor, _piece(a, 0, length - reach)))
        reach *= 2
    return b


def _four_products(op: Op) -> Callable[..., Pair]:
    """Three products would do, but lose digits where the parts differ in size."""

    def form(a: Pair, b: Pair) -> Pair:
        def times(x: Any, y: Any) -> Any:
            return apply(op, (x, y))

        re = subtract(times(a.re, b.re), times(a.im, b.im))
        return Pair(re, add(times(a.re, b.im), times(a.im, b.re)))

    return form


for _op in (matrices.MATMUL, matrices.COMPENSATED_MATMUL):
    complex_form(_op)(_four_products(_op))
