"""The statistical and utility functions of the standard: over axes, with every keyword."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.standard.calls import Call, Dtype, Property
from tests.standard.strategies import (
    ALL,
    COMPLEX,
    FLOATS,
    FULL_SHAPES,
    INEXACT,
    INTEGERS,
    NUMBERS,
    REAL,
    SHAPES,
    arrays,
    axes_of,
    keywords,
    reduced_axes,
    tame,
)

ROUNDINGS = 32
WIDER = {
    "b": ("int64",),
    "i": ("int64", "float64"),
    "u": ("uint64", "float64"),
    "f": FLOATS,
    "c": COMPLEX,
}


def size_of(x: np.ndarray[Any, Any]) -> float:
    """What the roundings of a sum are relative to: the sum of the magnitudes that are finite."""
    magnitudes = np.abs(np.where(np.isfinite(x), x, 0).astype(np.complex128))
    return float(magnitudes.sum())


@st.composite
def reductions(draw: Any, values: Any, **more: Any) -> Call:
    x = draw(values)
    named = draw(keywords(axis=reduced_axes(x.ndim), keepdims=st.booleans(), **more))
    return Call((x,), named, size_of(x))


@st.composite
def totals(draw: Any, values: Any) -> Call:
    """With the dtype of the result, perhaps."""
    call = draw(reductions(values))
    kind = call.arguments[0].dtype.kind
    if draw(st.booleans()):
        call.keywords["dtype"] = Dtype(draw(st.sampled_from(WIDER[kind])))
    return call


@st.composite
def products(draw: Any) -> Call:
    x = draw(arrays(NUMBERS, SHAPES, -2, 2))
    call = draw(totals(st.just(x)))
    return call._replace(scale=0.0 if x.dtype.kind != "c" else float(3.0 ** min(x.size, 60)))


@st.composite
def spreads(draw: Any) -> Call:
    """Variances: the largest square is what roundings are relative to."""
    x = draw(tame(FLOATS, FULL_SHAPES))
    call = draw(reductions(st.just(x), correction=st.sampled_from([0, 1, 0.5])))
    return call._replace(scale=float(np.max(np.abs(x))) ** 2)


@st.composite
def deviations(draw: Any) -> Call:
    """Square roots: those of a variance that is all rounding may differ by its root."""
    call = draw(spreads())
    return call._replace(scale=float(np.max(np.abs(call.arguments[0]))) * 2.0**10)


@st.composite
def scans(draw: Any, values: Any) -> Call:
    x = draw(values)
    choices = {"include_initial": st.booleans()}
    if x.dtype.kind in "fc":
        choices["dtype"] = st.sampled_from([Dtype(x.dtype.name)])
    else:
        choices["dtype"] = st.sampled_from([Dtype("int64" if x.dtype.kind == "i" else "uint64")])
    named = draw(keywords(**choices))
    if x.ndim > 1 or draw(st.booleans()):
        named["axis"] = draw(axes_of(x.ndim))
    return Call((x,), named, size_of(x))


VECTORS = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5) | st.just((70,))


@st.composite
def differences(draw: Any) -> Call:
    x = draw(arrays(NUMBERS, hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5)))
    axis = draw(axes_of(x.ndim))
    named = {"axis": axis} if axis != -1 or draw(st.booleans()) else {}
    for name in ("prepend", "append"):
        if draw(st.booleans()):
            shape = list(x.shape)
            shape[axis] = draw(st.integers(0, 2))
            named[name] = draw(arrays((x.dtype.name,), st.just(tuple(shape))))
    return Call((x,), named | draw(keywords(n=st.integers(0, 3))))


CALLS = {
    "all": Property(reductions(arrays(ALL, SHAPES, -1, 1))),
    "any": Property(reductions(arrays(ALL, SHAPES, -1, 1))),
    "cumulative_prod": Property(scans(arrays(REAL, VECTORS, -2, 2)), ROUNDINGS),
    "cumulative_sum": Property(scans(tame(REAL, VECTORS)), ROUNDINGS),
    "diff": Property(differences()),
    "max": Property(reductions(tame(REAL, FULL_SHAPES, special=True)), 1),
    "mean": Property(reductions(tame(INEXACT, FULL_SHAPES, special=False)), ROUNDINGS),
    "min": Property(reductions(tame(REAL, FULL_SHAPES, special=True)), 1),
    "prod": Property(products(), ROUNDINGS),
    "std": Property(deviations(), ROUNDINGS),
    "sum": Property(totals(tame(NUMBERS)), ROUNDINGS),
    "var": Property(spreads(), ROUNDINGS),
}
SPECIAL = {
    "mean": Property(reductions(tame(FLOATS, FULL_SHAPES, special=True)), ROUNDINGS),
    "sum": Property(totals(tame(FLOATS, special=True) | arrays(INTEGERS)), ROUNDINGS),
}
