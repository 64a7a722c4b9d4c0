"""Comparisons, logic and classification of floats, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.dtypes import COMPLEX, bool_
from bedplate.ops.build import Value
from bedplate.ops.elementwise import ANY, INEXACT, NUMBERS, binary, unary
from bedplate.ops.record import NoGradient
from bedplate.ops.samples import bools, floats, integers, mixed

TRUTH = NoGradient("its values are true or false")
PAIRS = (
    mixed(lambda r: [r.integers(-2, 3, (3, 7)) / 2.0, r.integers(-2, 3, (3, 7)) / 2.0], "ties"),
    floats((4, 1), (6,)),
    integers((19,), (19,), low=-2, high=3),
)
TRUTHS = (bools((3, 5), (3, 5)), bools((4, 1), (6,)))


@binary(
    reference=np.equal,
    emit=lambda t, a, b: a == b,
    gradient=TRUTH,
    samples=PAIRS + TRUTHS,
    dtypes=ANY + COMPLEX,
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
    dtypes=ANY + COMPLEX,
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
    promote="truth",
    result=bool_,
)
def logical_and(a: Value, b: Value) -> Value:
    """True where both are: y = a and b.

    a, b     shapes broadcast; numbers are true where they are not 0 (NaN is)
    returns  bool
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
    promote="truth",
    result=bool_,
)
def logical_or(a: Value, b: Value) -> Value:
    """True where either is: y = a or b.

    a, b     shapes broadcast; numbers are true where they are not 0 (NaN is)
    returns  bool
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
    promote="truth",
    result=bool_,
)
def logical_xor(a: Value, b: Value) -> Value:
    """True where exactly one is: y = bool(a) != bool(b).

    a, b     shapes broadcast; numbers are true where they are not 0 (NaN is)
    returns  bool
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
    promote="truth",
    result=bool_,
)
def logical_not(x: Value) -> Value:
    """The other truth value: y = not x.

    x        numbers are true where they are not 0 (NaN is)
    returns  bool
    >>> import bedplate as bp
    >>> bp.logical_not(bp.tensor([True, False])).tolist()
    [False, True]
    """


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
    dtypes=INEXACT,
    result=bool_,
)
def isnan(x: Value) -> Value:
    """Where there is no number: y = x != x.

    >>> import bedplate as bp
    >>> bp.isnan(bp.tensor([1.0, float("nan")])).tolist()
    [False, True]
    """


@unary(
    reference=np.isinf,
    emit=lambda t, x: (x == float("inf")) | (x == float("-inf")),
    gradient=TRUTH,
    samples=_classify("isinf"),
    dtypes=INEXACT,
    result=bool_,
)
def isinf(x: Value) -> Value:
    """Where numbers are infinite: y = |x| == inf.

    >>> import bedplate as bp
    >>> bp.isinf(bp.tensor([1.0, float("inf")])).tolist()
    [False, True]
    """


@unary(
    reference=np.isfinite,
    emit=lambda t, x: (x < float("inf")) & (x > float("-inf")),
    gradient=TRUTH,
    samples=_classify("isfinite"),
    dtypes=INEXACT,
    result=bool_,
)
def isfinite(x: Value) -> Value:
    """Where numbers are finite: y = |x| < inf, false for NaN.

    >>> import bedplate as bp
    >>> bp.isfinite(bp.tensor([1.0, float("inf"), float("nan")])).tolist()
    [True, False, False]
    """
