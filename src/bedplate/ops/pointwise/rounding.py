"""Rounding to integers, element by element; integers stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.dtypes import COMPLEX
from bedplate.ops.build import Value
from bedplate.ops.elementwise import NUMBERS, flat_gradient, unary
from bedplate.ops.samples import floats, integers, rough

HALVES = (
    rough(lambda r: [np.arange(-8, 9) / 2.0], "halves"),
    floats((3, 5), low=-9, high=9),
    integers((4,)),
)


def _rounding(function: Any) -> Any:
    return lambda x: function(x) if x.dtype.kind in "fc" else x


@unary(
    reference=_rounding(np.floor),
    emit=lambda t, x: language.floor(x) if t.is_float else x,
    gradient=flat_gradient,
    samples=HALVES,
    dtypes=NUMBERS,
    promote="common",
)
def floor(x: Value) -> Value:
    """Round down: y is the greatest integer that is not above x.

    >>> import bedplate as bp
    >>> bp.floor(bp.tensor([1.5, -1.5])).tolist()
    [1.0, -2.0]
    """


@unary(
    reference=_rounding(np.ceil),
    emit=lambda t, x: language.ceil(x) if t.is_float else x,
    gradient=flat_gradient,
    samples=HALVES,
    dtypes=NUMBERS,
    promote="common",
)
def ceil(x: Value) -> Value:
    """Round up: y is the least integer that is not below x.

    >>> import bedplate as bp
    >>> bp.ceil(bp.tensor([1.5, -1.5])).tolist()
    [2.0, -1.0]
    """


@unary(
    reference=_rounding(np.trunc),
    emit=lambda t, x: language.trunc(x) if t.is_float else x,
    gradient=flat_gradient,
    samples=HALVES,
    dtypes=NUMBERS,
    promote="common",
)
def trunc(x: Value) -> Value:
    """Round towards zero: y = sign(x) floor(|x|).

    >>> import bedplate as bp
    >>> bp.trunc(bp.tensor([1.5, -1.5])).tolist()
    [1.0, -1.0]
    """


@unary(
    reference=_rounding(np.round),
    emit=lambda t, x: language.round_even(x) if t.is_float else x,
    gradient=flat_gradient,
    samples=HALVES,
    dtypes=NUMBERS + COMPLEX,
    promote="common",
)
def round_(x: Value) -> Value:
    """Round to the nearest integer, halves to the even one; each part of a complex number.

    returns  y = floor(x + 1/2), or the even one of the two nearest
    >>> import bedplate as bp
    >>> bp.round(bp.tensor([0.5, 1.5, 2.5])).tolist()
    [0.0, 2.0, 2.0]
    """
