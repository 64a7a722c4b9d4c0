"""Bits of integers and bools, element by element: and, or, exclusive or, not, shifts."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from bedplate.dtypes import INTEGERS, bool_
from bedplate.ops.build import Value, as_values, common_dtype, is_number
from bedplate.ops.elementwise import NOT_DIFFERENTIABLE, binary, unary
from bedplate.ops.pointwise.comparison import TRUTHS, greater
from bedplate.ops.pointwise.convert import astype, checked_index, where
from bedplate.ops.samples import bools, integers, mixed

WORDS = (integers((3, 7), (3, 7)), integers((4, 1), (6,)))


@binary(
    reference=np.bitwise_and,
    emit=lambda t, a, b: a & b,
    gradient=NOT_DIFFERENTIABLE,
    samples=WORDS + TRUTHS,
    dtypes=(bool_, *INTEGERS),
)
def bitwise_and(a: Value, b: Value) -> Value:
    """And, bit by bit: y = a & b.

    a, b     bool or integers; shapes broadcast
    >>> import bedplate as bp
    >>> bp.bitwise_and(bp.tensor([6, 3]), 5).tolist()
    [4, 1]
    """


@binary(
    reference=np.bitwise_or,
    emit=lambda t, a, b: a | b,
    gradient=NOT_DIFFERENTIABLE,
    samples=WORDS + TRUTHS,
    dtypes=(bool_, *INTEGERS),
)
def bitwise_or(a: Value, b: Value) -> Value:
    """Or, bit by bit: y = a | b.

    a, b     bool or integers; shapes broadcast
    >>> import bedplate as bp
    >>> bp.bitwise_or(bp.tensor([6, 3]), 5).tolist()
    [7, 7]
    """


@binary(
    reference=np.bitwise_xor,
    emit=lambda t, a, b: a ^ b,
    gradient=NOT_DIFFERENTIABLE,
    samples=WORDS + TRUTHS,
    dtypes=(bool_, *INTEGERS),
)
def bitwise_xor(a: Value, b: Value) -> Value:
    """Exclusive or, bit by bit: y = a ^ b.

    a, b     bool or integers; shapes broadcast
    >>> import bedplate as bp
    >>> bp.bitwise_xor(bp.tensor([6, 3]), 5).tolist()
    [3, 6]
    """


@unary(
    reference=np.bitwise_not,
    emit=lambda t, x: ~x,
    gradient=NOT_DIFFERENTIABLE,
    samples=(integers((3, 5)), bools((3,))),
    dtypes=(bool_, *INTEGERS),
    promote="common",
)
def bitwise_invert(x: Value) -> Value:
    """All bits the other way: y = ~x; for bools the other truth value.

    x        bool or integers
    >>> import bedplate as bp
    >>> bp.bitwise_invert(bp.tensor([0, 5])).tolist()
    [-1, -6]
    """


def _bits(x: Any) -> int:
    return x.dtype.itemsize * 8


def _left_shift_reference(a: Any, b: Any) -> Any:
    count = np.minimum(b, _bits(a) - 1).astype(a.dtype)
    return np.where(b >= _bits(a), a.dtype.type(0), np.left_shift(a, count))


def _right_shift_reference(a: Any, b: Any) -> Any:
    beyond = np.where(a < 0, a.dtype.type(-1 if a.dtype.kind == "i" else 0), a.dtype.type(0))
    count = np.minimum(b, _bits(a) - 1).astype(a.dtype)
    return np.where(b >= _bits(a), beyond, np.right_shift(a, count))


SHIFTS = (
    mixed(lambda r: [r.integers(-99, 99, (3, 7)), r.integers(0, 70, (3, 7))], "counts"),
    mixed(lambda r: [r.integers(-99, 99, (3, 7)), r.integers(0, 9, (7,))], "broadcast"),
)


@binary(
    reference=_left_shift_reference,
    emit=lambda t, a, b: a << b,
    gradient=NOT_DIFFERENTIABLE,
    samples=SHIFTS,
    dtypes=INTEGERS,
)
def _left_shift(a: Value, b: Value) -> Value:
    """Shift bits towards the high end; the counts are not negative."""


@binary(
    reference=_right_shift_reference,
    emit=lambda t, a, b: a >> b,
    gradient=NOT_DIFFERENTIABLE,
    samples=SHIFTS,
    dtypes=INTEGERS,
)
def _right_shift(a: Value, b: Value) -> Value:
    """Shift bits towards the low end; the counts are not negative."""


def _count(op: str, a: Value, b: Value) -> Value:
    """The shift count with negative ones refused: numbers at once, values when they are run.

    raises   TypeError for a number that is no integer
    """
    if is_number(b):
        if b < 0:
            raise ValueError(f"{op}: the count {b} is negative")
        return min(operator.index(b), 64)
    a, b = as_values(op, (a, b))
    if b.dtype.kind == "u" or not b.dtype.is_integer or is_number(a):
        return b
    dtype = common_dtype(op, as_values(op, (a, b)))
    bits = dtype.itemsize * 8
    count = checked_index(b, 2**31, f"{op}: the count", wrap=False)
    return astype(where(greater(count, bits), bits, count), dtype)


def bitwise_left_shift(a: Value, b: Value) -> Value:
    """Shift bits towards the high end: y = a * 2**b, bits that fall out are lost.

    a, b     integers; shapes broadcast; a count of the width or more gives 0
    raises   ValueError for a negative number as the count, TypeError for one that is no integer;
             IndexError when run for a negative count in a tensor
    >>> import bedplate as bp
    >>> bp.bitwise_left_shift(bp.tensor([1, 3]), 2).tolist()
    [4, 12]
    """
    return _left_shift(a, _count("bitwise_left_shift", a, b))


def bitwise_right_shift(a: Value, b: Value) -> Value:
    """Shift bits towards the low end: y = floor(a / 2**b).

    a, b     integers; shapes broadcast; a count of the width or more gives 0, or -1 for
             negative a
    raises   ValueError for a negative number as the count, TypeError for one that is no integer;
             IndexError when run for a negative count in a tensor
    >>> import bedplate as bp
    >>> bp.bitwise_right_shift(bp.tensor([8, -8]), 2).tolist()
    [2, -2]
    """
    return _right_shift(a, _count("bitwise_right_shift", a, b))
