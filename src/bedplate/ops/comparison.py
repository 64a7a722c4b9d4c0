"""Comparisons, logic, bits and classification of floats, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, INTEGERS, bool_
from bedplate.ops.build import Value, as_values, is_number
from bedplate.ops.convert import astype, checked_index, where
from bedplate.ops.elementwise import ANY, NOT_DIFFERENTIABLE, NUMBERS, binary, unary
from bedplate.ops.record import NoGradient
from bedplate.ops.samples import bools, floats, integers, mixed

TRUTH = NoGradient("its values are true or false")
PAIRS = (
    mixed(lambda r: [r.integers(-2, 3, (3, 7)) / 2.0, r.integers(-2, 3, (3, 7)) / 2.0], "ties"),
    floats((4, 1), (6,)),
    integers((19,), (19,), low=-2, high=3),
)
TRUTHS = (bools((3, 5), (3, 5)), bools((4, 1), (6,)))
WORDS = (integers((3, 7), (3, 7)), integers((4, 1), (6,)))


@binary(
    reference=np.equal,
    emit=lambda t, a, b: a == b,
    gradient=TRUTH,
    samples=PAIRS + TRUTHS,
    dtypes=ANY,
    result=bool_,
)
def equal(a: Value, b: Value) -> Value:
    """Compare: y = a == b; NaN equals nothing.

    a, b     shapes broadcast
    returns  bool
    >>> import bedplate as bp
    >>> bp.equal(bp.tensor([1, 2]), 2).tolist()
    [False, True]
    """


@binary(
    reference=np.not_equal,
    emit=lambda t, a, b: a != b,
    gradient=TRUTH,
    samples=PAIRS + TRUTHS,
    dtypes=ANY,
    result=bool_,
)
def not_equal(a: Value, b: Value) -> Value:
    """Compare: y = a != b; NaN differs from everything.

    a, b     shapes broadcast
    returns  bool
    >>> import bedplate as bp
    >>> bp.not_equal(bp.tensor([1, 2]), 2).tolist()
    [True, False]
    """


@binary(
    reference=np.less,
    emit=lambda t, a, b: a < b,
    gradient=TRUTH,
    samples=PAIRS,
    dtypes=NUMBERS,
    result=bool_,
)
def less(a: Value, b: Value) -> Value:
    """Compare: y = a < b; false for NaN.

    a, b     shapes broadcast
    returns  bool
    >>> import bedplate as bp
    >>> bp.less(bp.tensor([1, 2]), 2).tolist()
    [True, False]
    """


@binary(
    reference=np.less_equal,
    emit=lambda t, a, b: a <= b,
    gradient=TRUTH,
    samples=PAIRS,
    dtypes=NUMBERS,
    result=bool_,
)
def less_equal(a: Value, b: Value) -> Value:
    """Compare: y = a <= b; false for NaN.

    a, b     shapes broadcast
    returns  bool
    >>> import bedplate as bp
    >>> bp.less_equal(bp.tensor([1, 3]), 2).tolist()
    [True, False]
    """


@binary(
    reference=np.greater,
    emit=lambda t, a, b: a > b,
    gradient=TRUTH,
    samples=PAIRS,
    dtypes=NUMBERS,
    result=bool_,
)
def greater(a: Value, b: Value) -> Value:
    """Compare: y = a > b; false for NaN.

    a, b     shapes broadcast
    returns  bool
    >>> import bedplate as bp
    >>> bp.greater(bp.tensor([1, 3]), 2).tolist()
    [False, True]
    """


@binary(
    reference=np.greater_equal,
    emit=lambda t, a, b: a >= b,
    gradient=TRUTH,
    samples=PAIRS,
    dtypes=NUMBERS,
    result=bool_,
)
def greater_equal(a: Value, b: Value) -> Value:
    """Compare: y = a >= b; false for NaN.

    a, b     shapes broadcast
    returns  bool
    >>> import bedplate as bp
    >>> bp.greater_equal(bp.tensor([1, 2]), 2).tolist()
    [False, True]
    """


@binary(
    reference=np.logical_and,
    emit=lambda t, a, b: a & b,
    gradient=TRUTH,
    samples=TRUTHS,
    dtypes=(bool_,),
    result=bool_,
)
def logical_and(a: Value, b: Value) -> Value:
    """True where both are: y = a and b.

    a, b     bool; shapes broadcast
    returns  bool
    raises   DTypeError for other dtypes: compare first
    >>> import bedplate as bp
    >>> bp.logical_and(bp.tensor([True, False]), True).tolist()
    [True, False]
    """


@binary(
    reference=np.logical_or,
    emit=lambda t, a, b: a | b,
    gradient=TRUTH,
    samples=TRUTHS,
    dtypes=(bool_,),
    result=bool_,
)
def logical_or(a: Value, b: Value) -> Value:
    """True where either is: y = a or b.

    a, b     bool; shapes broadcast
    returns  bool
    raises   DTypeError for other dtypes: compare first
    >>> import bedplate as bp
    >>> bp.logical_or(bp.tensor([True, False]), False).tolist()
    [True, False]
    """


@binary(
    reference=np.logical_xor,
    emit=lambda t, a, b: a ^ b,
    gradient=TRUTH,
    samples=TRUTHS,
    dtypes=(bool_,),
    result=bool_,
)
def logical_xor(a: Value, b: Value) -> Value:
    """True where exactly one is.

    a, b     bool; shapes broadcast
    returns  bool
    raises   DTypeError for other dtypes: compare first
    >>> import bedplate as bp
    >>> bp.logical_xor(bp.tensor([True, False]), True).tolist()
    [False, True]
    """


@unary(
    reference=np.logical_not,
    emit=lambda t, x: ~x,
    gradient=TRUTH,
    samples=(bools((3, 5)), bools(())),
    dtypes=(bool_,),
    promote="common",
    result=bool_,
)
def logical_not(x: Value) -> Value:
    """The other truth value: y = not x.

    x        bool
    returns  bool
    raises   DTypeError for other dtypes: compare first
    >>> import bedplate as bp
    >>> bp.logical_not(bp.tensor([True, False])).tolist()
    [False, True]
    """


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
    """The shift count with negative ones refused: numbers at once, values when they are run."""
    if is_number(b):
        if b < 0:
            raise ValueError(f"{op}: the count {b} is negative")
        return min(int(b), 64)
    (b,) = as_values(op, (b,))
    if b.dtype.kind == "u" or not b.dtype.is_integer or is_number(a):
        return b
    bits = a.dtype.itemsize * 8
    count = checked_index(b, 2**31, f"{op}: the count", wrap=False)
    return astype(where(greater(count, bits), bits, count), a.dtype)


def left_shift(a: Value, b: Value) -> Value:
    """Shift bits towards the high end: y = a * 2**b, bits that fall out are lost.

    a, b     integers; shapes broadcast; a count of the width or more gives 0
    raises   ValueError for a negative number as the count; IndexError when run for a
             negative count in a tensor
    >>> import bedplate as bp
    >>> bp.left_shift(bp.tensor([1, 3]), 2).tolist()
    [4, 12]
    """
    return _left_shift(a, _count("left_shift", a, b))


def right_shift(a: Value, b: Value) -> Value:
    """Shift bits towards the low end: y = floor(a / 2**b).

    a, b     integers; shapes broadcast; a count of the width or more gives 0, or -1 for
             negative a
    raises   ValueError for a negative number as the count; IndexError when run for a
             negative count in a tensor
    >>> import bedplate as bp
    >>> bp.right_shift(bp.tensor([8, -8]), 2).tolist()
    [2, -2]
    """
    return _right_shift(a, _count("right_shift", a, b))


def _classify(name: str) -> Any:
    return (
        mixed(lambda r: [np.array([0.0, -1.5, np.inf, -np.inf, np.nan, 1e-40] * 3)], name),
        floats((3, 5)),
    )


@unary(
    reference=np.isnan,
    emit=lambda t, x: x != x,
    gradient=TRUTH,
    samples=_classify("isnan"),
    dtypes=FLOATS,
    result=bool_,
)
def isnan(x: Value) -> Value:
    """True where x is not a number.

    >>> import bedplate as bp
    >>> bp.isnan(bp.tensor([1.0, float("nan")])).tolist()
    [False, True]
    """


@unary(
    reference=np.isinf,
    emit=lambda t, x: (x == float("inf")) | (x == float("-inf")),
    gradient=TRUTH,
    samples=_classify("isinf"),
    dtypes=FLOATS,
    result=bool_,
)
def isinf(x: Value) -> Value:
    """True where x is plus or minus infinity.

    >>> import bedplate as bp
    >>> bp.isinf(bp.tensor([1.0, float("inf")])).tolist()
    [False, True]
    """


@unary(
    reference=np.isfinite,
    emit=lambda t, x: (x < float("inf")) & (x > float("-inf")),
    gradient=TRUTH,
    samples=_classify("isfinite"),
    dtypes=FLOATS,
    result=bool_,
)
def isfinite(x: Value) -> Value:
    """True where x is neither infinite nor NaN.

    >>> import bedplate as bp
    >>> bp.isfinite(bp.tensor([1.0, float("inf"), float("nan")])).tolist()
    [True, False, False]
    """
