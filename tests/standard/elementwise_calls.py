"""The element-wise functions of the standard: operands of every dtype that each takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.standard.calls import Call, Property
from tests.standard.strategies import (
    ALL,
    BOOL,
    COMPLEX,
    FLOATS,
    INEXACT,
    INTEGERS,
    NUMBERS,
    REAL,
    SHAPES,
    arrays,
    elements,
    keywords,
    operands,
    two_arrays,
)

WHOLE = BOOL + INTEGERS


def one(dtypes: Any, roundings: float = 0.0, **bounds: Any) -> Property:
    return Property(arrays(dtypes, **bounds).map(lambda x: Call((x,))), roundings)


def two(dtypes: Any, roundings: float = 0.0, **bounds: Any) -> Property:
    return Property(operands(dtypes, **bounds).map(Call), roundings)


@st.composite
def shifts(draw: Any) -> Call:
    """Words and counts below their width: beyond it the standard says nothing."""
    a, b = draw(two_arrays(INTEGERS))
    bits = np.result_type(a, b).itemsize * 8
    b = np.asarray(np.abs(b.astype(np.float64)) % bits).astype(b.dtype)
    if draw(st.booleans()):
        return Call((a, draw(st.integers(0, a.itemsize * 8 - 1))))
    return Call((a, b))


@st.composite
def powers(draw: Any) -> Call:
    """Integers to powers that are not negative; floats to any."""
    if draw(st.booleans()):
        a, b = draw(two_arrays(INTEGERS, -9, 9))
        return Call((a, np.asarray(np.abs(b))))
    return Call(draw(operands(FLOATS, low=-8, high=8)))


@st.composite
def clips(draw: Any) -> Call:
    """Bounds in order, one or both or none of them, numbers or arrays that broadcast."""
    x = draw(arrays(REAL))
    dtype = x.dtype.name
    bound = elements(dtype, None, None, False)
    low, high = sorted([draw(bound), draw(bound)])
    shape = draw(st.sampled_from([(), x.shape, x.shape[1:]]))
    if draw(st.booleans()):
        low, high = np.full(shape, low, x.dtype), np.full(shape, high, x.dtype)
    bounds = {"min": low, "max": high}
    if draw(st.booleans()):
        return Call((x, low, high))
    return Call((x,), draw(keywords(**{name: st.just(value) for name, value in bounds.items()})))


CALLS = {
    "abs": one(REAL),
    "acos": one(FLOATS, 4, low=-1.5, high=1.5, special=True),
    "acosh": one(FLOATS, 4),
    "add": two(NUMBERS),
    "asin": one(FLOATS, 4, low=-1.5, high=1.5, special=True),
    "asinh": one(FLOATS, 4),
    "atan": one(FLOATS, 4),
    "atan2": two(FLOATS, 4),
    "atanh": one(FLOATS, 4, low=-1.5, high=1.5, special=True),
    "bitwise_and": two(WHOLE),
    "bitwise_invert": one(WHOLE),
    "bitwise_left_shift": Property(shifts()),
    "bitwise_or": two(WHOLE),
    "bitwise_right_shift": Property(shifts()),
    "bitwise_xor": two(WHOLE),
    "ceil": one(REAL),
    "clip": Property(clips()),
    "conj": one(NUMBERS),
    "copysign": two(FLOATS),
    "cos": one(FLOATS, 4),
    "cosh": one(FLOATS, 4),
    "divide": two(FLOATS),
    "equal": two(ALL),
    "exp": one(FLOATS, 4),
    "expm1": one(FLOATS, 4),
    "floor": one(REAL),
    "floor_divide": two(REAL, 2),
    "greater": two(REAL),
    "greater_equal": two(REAL),
    "hypot": two(FLOATS, 4),
    "imag": one(COMPLEX),
    "isfinite": one(NUMBERS),
    "isinf": one(NUMBERS),
    "isnan": one(NUMBERS),
    "less": two(REAL),
    "less_equal": two(REAL),
    "log": one(FLOATS, 4),
    "log10": one(FLOATS, 4),
    "log1p": one(FLOATS, 4),
    "log2": one(FLOATS, 4),
    "logaddexp": two(FLOATS, 8),
    "logical_and": two(BOOL),
    "logical_not": one(BOOL),
    "logical_or": two(BOOL),
    "logical_xor": two(BOOL),
    "maximum": two(REAL, 1),
    "minimum": two(REAL, 1),
    "multiply": two(REAL),
    "negative": one(NUMBERS),
    "nextafter": two(FLOATS, same=True),
    "not_equal": two(ALL),
    "positive": one(NUMBERS),
    "pow": Property(powers(), 8),
    "real": one(NUMBERS),
    "reciprocal": one(FLOATS),
    "remainder": two(REAL, 2),
    "round": one(NUMBERS),
    "sign": one(REAL, 1),
    "signbit": one(FLOATS),
    "sin": one(FLOATS, 4),
    "sinh": one(FLOATS, 4),
    "sqrt": one(FLOATS),
    "square": one(REAL),
    "subtract": two(NUMBERS),
    "tan": one(FLOATS, 4),
    "tanh": one(FLOATS, 4),
    "trunc": one(REAL),
}

# functions of complex numbers, away from their branch cuts, where NumPy is right to a few roundings
CIRCLES = arrays(COMPLEX, SHAPES, 0.25, 1.5)
COMPLEX_CALLS = {
    name: Property(CIRCLES.map(lambda x: Call((x,))), 16)
    for name in (
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1",
        "log", "log10", "log1p", "log2", "reciprocal", "sign", "sin", "sinh", "sqrt", "square",
        "tan", "tanh",
    )
} | {
    name: Property(operands(INEXACT, low=0.25, high=1.5).map(Call), 32)
    for name in ("divide", "multiply", "pow")
}  # fmt: skip
