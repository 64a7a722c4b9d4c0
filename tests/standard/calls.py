"""Calls of the standard's functions: what is drawn for each, and how close the results must be.

`CALLS` of the modules beside this one are tables {name: Property}; a property draws a call, and
says how the result is compared with that of array_api_strict.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import array_api_strict as strict
import numpy as np
from hypothesis import strategies as st

import bedplate as bp

Array = np.ndarray[Any, Any]
TINY = {"float32": 1.5e-45, "float64": 5e-324}  # one step of the smallest numbers


class Call(NamedTuple):
    """Arguments as NumPy arrays, dtypes as names, and the rest as they are."""

    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = {}
    scale: float | None = None  # what roundings are relative to; None: each element


class Property(NamedTuple):
    """What is drawn, and how many roundings the result may be off; 0: the same bits."""

    calls: st.SearchStrategy[Call]
    roundings: float = 0.0
    compare: Callable[..., None] | None = None  # (got, wanted, call) instead of element by element


class Dtype(str):
    """The name of a dtype, which is an argument itself."""


def lowered(value: Any, library: Any) -> Any:
    """An argument as the library has it: arrays and names of dtypes are made its own."""
    if isinstance(value, np.ndarray):
        return library.asarray(value)
    if isinstance(value, Dtype):
        return getattr(library, value)
    if isinstance(value, list | tuple) and any(
        isinstance(item, np.ndarray | Dtype) for item in value
    ):
        return type(value)(lowered(item, library) for item in value)
    return value


def run(library: Any, name: str, call: Call) -> Any:
    """The function called in a library; NumPy's warnings of overflow and the like are not ours."""
    function: Any = library
    for part in name.split("."):
        function = getattr(function, part)
    arguments = [lowered(value, library) for value in call.arguments]
    named = {key: lowered(value, library) for key, value in call.keywords.items()}
    if library is bp:
        return function(*arguments, **named)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        return function(*arguments, **named)


def array_of(value: Any) -> Array:
    """The values of either library's array."""
    if isinstance(value, bp.Tensor):
        return value.numpy()
    return np.asarray(value._array)


def check(name: str, call: Call, found: Property) -> None:
    """The results of both libraries agree."""
    wanted = run(strict, name, call)
    got = run(bp, name, call)
    if found.compare is not None:
        found.compare(got, wanted, call)
    else:
        agree(got, wanted, found.roundings, call.scale)


def agree(got: Any, wanted: Any, roundings: float, scale: float | None = None) -> None:
    """Equal structure, dtypes, shapes and values, up to so many roundings."""
    if isinstance(wanted, tuple | list):
        assert isinstance(got, tuple), type(got)
        assert len(got) == len(wanted)
        assert getattr(got, "_fields", None) == getattr(wanted, "_fields", None)
        for one, other in zip(got, wanted, strict=True):
            agree(one, other, roundings, scale)
        return
    if not isinstance(wanted, strict._array_object.Array):
        assert got == wanted and type(got) is type(wanted)
        return
    assert isinstance(got, bp.Tensor)
    assert got.dtype.name == wanted.dtype._np_dtype.name, (got.dtype, wanted.dtype)
    assert got.shape == wanted.shape
    close(array_of(got), array_of(wanted), roundings, scale)


def close(got: Array, wanted: Array, roundings: float, scale: float | None = None) -> None:
    """Equal, or for floats off by at most so many roundings of each element or of `scale`."""
    assert got.shape == wanted.shape
    if wanted.dtype.kind == "c":
        if scale is None and wanted.size:
            finite = np.abs(wanted[np.isfinite(wanted)])
            scale = float(finite.max()) if finite.size else None
        close(got.real, wanted.real, roundings, scale)
        close(got.imag, wanted.imag, roundings, scale)
    elif wanted.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted)
    elif not roundings:
        np.testing.assert_array_equal(got, wanted)
        zeros = wanted == 0
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(wanted[zeros]))
    else:
        epsilon = float(np.finfo(wanted.dtype).eps) * roundings
        floor = TINY[wanted.dtype.name] * roundings
        np.testing.assert_allclose(
            got.astype(np.float64), wanted.astype(np.float64),
            rtol=epsilon, atol=floor + (0.0 if scale is None else epsilon * scale),
        )  # fmt: skip
