"""What hypothesis draws for the standard's functions: dtypes, shapes, arrays, axes, numbers.

Arrays are NumPy's: the tests make tensors of one library and of the other of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import array_api_strict as strict
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

BOOL = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
REAL = INTEGERS + FLOATS
INEXACT = FLOATS + COMPLEX
NUMBERS = REAL + COMPLEX
ALL = BOOL + NUMBERS

# up to three axes, empty ones too; or one that fills vectors of a kernel and leaves a tail
SHAPES = st.one_of(
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    st.tuples(st.sampled_from([17, 37, 70])),
)
FULL_SHAPES = st.one_of(  # of at least one element
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4),
    st.tuples(st.sampled_from([17, 37, 70])),
)
SPECIAL = (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"))


def kinds_of(dtypes: Sequence[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(list(dtypes))


def elements(dtype: str, low: float | None, high: float | None, special: bool) -> Any:
    """Numbers of a dtype: all there are, or those in [low, high] with some special ones."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return st.booleans()
    if kind.kind in "iu":
        info = np.iinfo(kind)
        least = int(info.min) if low is None else max(int(low), int(info.min))
        most = int(info.max) if high is None else min(int(high), int(info.max))
        return st.integers(least, most)
    if kind.kind == "c":
        part = elements("float32" if kind.itemsize == 8 else "float64", low, high, special)
        return st.builds(complex, part, part)
    width = kind.itemsize * 8
    if low is None or high is None:
        return st.floats(width=width)
    plain = st.floats(low, high, width=width)
    return st.one_of(plain, plain, st.sampled_from(SPECIAL)) if special else plain


def arrays(
    dtypes: Sequence[str] = NUMBERS,
    shapes: Any = SHAPES,
    low: float | None = None,
    high: float | None = None,
    special: bool = False,
) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """An array of one of the dtypes.

    low, high  bounds of its numbers; without them any, NaN and infinities included
    special    zeros of both signs, ones, infinities and NaN beside those between the bounds
    """
    return kinds_of(dtypes).flatmap(
        lambda dtype: hnp.arrays(dtype, shapes, elements=elements(dtype, low, high, special))
    )


def tame(dtypes: Sequence[str] = NUMBERS, shapes: Any = SHAPES, special: bool = False) -> Any:
    """Arrays of moderate numbers, whose sums and products do not overflow."""
    return arrays(dtypes, shapes, -100, 100, special)


def promotable(dtypes: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of dtypes that the standard promotes."""
    found = []
    for a in dtypes:
        for b in dtypes:
            try:
                strict.result_type(getattr(strict, a), getattr(strict, b))
            except TypeError:
                continue
            found.append((a, b))
    return found


@st.composite
def two_arrays(
    draw: Any,
    dtypes: Sequence[str] = NUMBERS,
    low: float | None = None,
    high: float | None = None,
    same: bool = False,
) -> tuple[Any, Any]:
    """Two arrays whose dtypes promote and whose shapes broadcast."""
    pairs = [(d, d) for d in dtypes] if same else promotable(dtypes)
    kinds = draw(st.sampled_from(pairs))
    shapes = draw(
        st.one_of(
            hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4).map(
                lambda found: found.input_shapes
            ),
            st.sampled_from([((37,), (37,)), ((3, 37), (37,)), ((70,), ())]),
        )
    )
    return tuple(
        draw(hnp.arrays(kind, shape, elements=elements(kind, low, high, False)))
        for kind, shape in zip(kinds, shapes, strict=True)
    )


def scalars_for(dtype: str, low: float | None = None, high: float | None = None) -> Any:
    """Python numbers that an array of the dtype takes on the other side of an operator."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return st.booleans()
    if kind in "iu":
        return elements(dtype, low, high, False)
    small = st.integers(-9 if low is None else int(np.ceil(low)), 9 if high is None else int(high))
    real = st.floats(width=32) if low is None or high is None else st.floats(low, high, width=32)
    return st.one_of(small, real) if kind == "f" else st.one_of(small, real, st.just(1 + 2j))


@st.composite
def operands(
    draw: Any,
    dtypes: Sequence[str] = NUMBERS,
    low: float | None = None,
    high: float | None = None,
    same: bool = False,
) -> tuple[Any, Any]:
    """Two arrays, or an array and a Python number on either side of it."""
    form = draw(st.sampled_from(["arrays", "arrays", "right", "left"]))
    if form == "arrays":
        return draw(two_arrays(dtypes, low, high, same))
    array = draw(arrays(dtypes, low=low, high=high))
    number = draw(scalars_for(array.dtype.name, low, high))
    return (array, number) if form == "right" else (number, array)


def axes_of(ndim: int) -> st.SearchStrategy[int]:
    """One axis, counted from the front or from the end."""
    return st.integers(-ndim, ndim - 1)


@st.composite
def several_axes(draw: Any, ndim: int, least: int = 0) -> tuple[int, ...]:
    """Different axes, in any order, counted from either end."""
    order = draw(st.permutations(range(ndim)))
    chosen = order[: draw(st.integers(min(least, ndim), ndim))]
    return tuple(a - ndim if draw(st.booleans()) else a for a in chosen)


def reduced_axes(ndim: int) -> st.SearchStrategy[Any]:
    """What `axis` of a reduction may be: None, one, or several."""
    choices = [st.none(), several_axes(ndim)]
    return st.one_of(*choices, axes_of(ndim)) if ndim else st.one_of(*choices)


@st.composite
def keywords(draw: Any, **choices: Any) -> dict[str, Any]:
    """Some of the keywords, each with one of its values: what is left out has its default."""
    return {name: draw(values) for name, values in choices.items() if draw(st.booleans())}
