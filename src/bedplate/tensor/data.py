"""From what people hold to arrays: numbers, nested lists, NumPy, DLPack, other tensors.

| given                        | dtype                                        |
|------------------------------|----------------------------------------------|
| Python bool, int             | bool, int64                                  |
| Python float, complex        | float32, complex64                           |
| NumPy arrays and scalars     | theirs                                       |
| `__dlpack__`, `__array__`    | theirs                                       |
| lists of any of these        | what holds all; Python numbers weigh less    |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.dtypes import DType, as_dtype, complex64, float32, promote
from bedplate.errors import DTypeError, ShapeError
from bedplate.tensor.dlpack import from_dlpack

Array = np.ndarray[Any, Any]
NUMBERS = (bool, int, float, complex)
NUMPY = (np.ndarray, np.generic)
MAX_DEPTH = 64  # as many axes as NumPy has


def to_array(data: Any, dtype: DType | None = None) -> Array:
    """The values of `data` as a NumPy array, perhaps sharing its memory.

    dtype   what the values will become: Python floats are then not rounded to float32 first
    raises  ShapeError for a ragged list, DTypeError or TypeError for what is no number
    """
    if isinstance(data, NUMPY):
        return _supported(np.asarray(_unmasked(data)))
    if isinstance(data, NUMBERS):
        return _from_numbers(data, {type(data)}, dtype)
    if isinstance(data, range):
        return np.arange(data.start, data.stop, data.step, dtype=np.int64)
    if isinstance(data, list | tuple):
        return _from_list(data, dtype)
    if hasattr(data, "__dlpack__"):
        return _supported(from_dlpack(data))
    if hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        return _supported(np.asarray(data))
    if isinstance(data, bytes | bytearray | memoryview) or hasattr(data, "typecode"):
        return _supported(np.asarray(memoryview(data)))
    raise TypeError(
        f"tensor: cannot make a tensor of {type(data).__name__}; "
        "give numbers, nested lists, a NumPy array or anything with __array__ or __dlpack__"
    )


def _unmasked(data: Any) -> Any:
    """An array of NumPy whose elements are all there."""
    if isinstance(data, np.ma.MaskedArray):
        if np.ma.is_masked(data):
            raise TypeError(
                "tensor: elements of this array are masked, which a tensor would forget\n"
                "  give them a value with .filled(value), or leave them out with .compressed()"
            )
        return data.data
    return data


def _supported(array: Array) -> Array:
    as_dtype(array.dtype if array.dtype.isnative else array.dtype.newbyteorder("="))
    return array


def _from_list(data: Any, dtype: DType | None) -> Array:
    types: set[type] = set()
    _scan(data, types, (), [])
    if all(issubclass(kind, NUMBERS) and not issubclass(kind, np.generic) for kind in types):
        return _from_numbers(data, types, dtype)
    return _from_mixed(data, dtype)


def _scan(data: Any, types: set[type], place: tuple[int, ...], shape: list[int | None]) -> None:
    """Collect the types of the elements; `shape` has the length seen first at each depth.

    raises ShapeError where a length differs, or for a list without end
    """
    depth = len(place)
    if depth > MAX_DEPTH:
        raise ShapeError(f"tensor: the list is nested more than {MAX_DEPTH} deep; is it in itself?")
    if depth == len(shape):
        shape.append(len(data))
    elif shape[depth] != len(data):
        raise ShapeError(_ragged(place, f"has length {len(data)}", shape[depth]))
    kinds = set(map(type, data))
    nested = {kind for kind in kinds if issubclass(kind, list | tuple)}
    if not nested:
        if depth + 1 < len(shape) and data and not kinds & {np.ndarray}:
            raise ShapeError(_ragged((*place, 0), "is a number", shape[depth + 1]))
        types |= kinds
        return
    if nested != kinds:
        odd = next(i for i, element in enumerate(data) if not isinstance(element, list | tuple))
        raise ShapeError(_ragged((*place, odd), "is not a list", None))
    if depth + 1 == len(shape) and types:
        raise ShapeError(_ragged((*place, 0), "is a list", None))
    for index, element in enumerate(data):
        _scan(element, types, (*place, index), shape)


def _ragged(place: tuple[int, ...], found: str, wanted: int | None) -> str:
    where = "".join(f"[{index}]" for index in place)
    others = "its neighbours differ" if wanted is None else f"its neighbours have length {wanted}"
    return f"tensor: the list is ragged: data{where} {found}, {others}"


def _from_numbers(data: Any, types: set[type], dtype: DType | None) -> Array:
    """Python numbers: float64 and complex128 stand for "not yet rounded"."""
    try:
        # a type of its own for each kind: NumPy makes an empty list a float64 array
        array = np.array(data, _widest(types) if dtype is None else _exact(dtype, types))
    except OverflowError:
        wanted = dtype or "int64"
        raise DTypeError(
            f"tensor: a Python integer does not fit {wanted}; give a wider dtype, such as float64"
        ) from None
    if dtype is not None:
        return array
    narrow = {"f": float32.numpy, "c": complex64.numpy}.get(array.dtype.kind)
    return array if narrow is None else array.astype(narrow)


def _widest(types: set[type]) -> type:
    for kind, numpy_type in ((complex, np.complex128), (float, np.float64), (int, np.int64)):
        if any(issubclass(t, kind) and not (kind is int and t is bool) for t in types):
            return numpy_type
    return np.bool_ if types else np.float64


def _exact(dtype: DType, types: set[type]) -> Any:
    """The dtype in which Python numbers keep their value until they become `dtype`."""
    if dtype.kind in "iu" and _widest(types) is np.int64:
        return dtype.numpy
    return _widest(types)


def _from_mixed(data: Any, dtype: DType | None) -> Array:
    """A list that holds arrays, tensors or NumPy scalars."""
    parts = [to_array(element, dtype) for element in data]
    if len({part.shape for part in parts}) > 1:
        odd = next(i for i, part in enumerate(parts) if part.shape != parts[0].shape)
        raise ShapeError(
            f"tensor: the list is ragged: data[{odd}] has shape {parts[odd].shape}, "
            f"data[0] has shape {parts[0].shape}"
        )
    known = [
        as_dtype(part.dtype)
        for part, element in zip(parts, data, strict=True)
        if not _is_weak(element)
    ]
    result = known[0]
    for other in known[1:]:
        result = promote(result, other)
    return np.stack([part.astype(result.numpy) for part in parts])


def _is_weak(element: Any) -> bool:
    """Whether it holds nothing but Python numbers, which take the dtype of the others."""
    if isinstance(element, list | tuple):
        return all(_is_weak(inner) for inner in element)
    return isinstance(element, NUMBERS) and not isinstance(element, np.generic)
