"""Data types of tensors, their promotion, and their NumPy twins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from bedplate.errors import DTypeError


@dataclass(frozen=True, eq=False)
class DType:
    """One data type: `kind` is 'b' bool, 'i' signed, 'u' unsigned, 'f' float, 'c' complex."""

    name: str
    kind: str
    itemsize: int
    numpy: np.dtype[Any]

    def __repr__(self) -> str:
        return f"bedplate.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"


def _make(name: str, kind: str, numpy_type: Any) -> DType:
    numpy_dtype = np.dtype(numpy_type)
    return DType(name, kind, numpy_dtype.itemsize, numpy_dtype)


bool_ = _make("bool", "b", np.bool_)
int8 = _make("int8", "i", np.int8)
int16 = _make("int16", "i", np.int16)
int32 = _make("int32", "i", np.int32)
int64 = _make("int64", "i", np.int64)
uint8 = _make("uint8", "u", np.uint8)
uint16 = _make("uint16", "u", np.uint16)
uint32 = _make("uint32", "u", np.uint32)
uint64 = _make("uint64", "u", np.uint64)
bfloat16 = _make("bfloat16", "f", ml_dtypes.bfloat16)
float16 = _make("float16", "f", np.float16)
float32 = _make("float32", "f", np.float32)
float64 = _make("float64", "f", np.float64)
complex64 = _make("complex64", "c", np.complex64)
complex128 = _make("complex128", "c", np.complex128)

ALL = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    bfloat16, float16, float32, float64, complex64, complex128,
)  # fmt: skip
FLOATS = tuple(d for d in ALL if d.kind == "f")
INTEGERS = tuple(d for d in ALL if d.kind in "iu")
COMPLEX = (complex64, complex128)
BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {d.numpy: d for d in ALL}


def rounded(values: Any, numpy_dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array (or a number) converted by NumPy, but rounded once.

    ml_dtypes takes float64 to bfloat16 by way of float32, which rounds twice; by way of a float32
    rounded towards zero, whose last bit says whether anything was lost, it rounds once.

    >>> rounded(1 + 2**-8 + 2**-30, bfloat16.numpy).item()
    1.0078125
    """
    array = np.asarray(values)
    if numpy_dtype == bfloat16.numpy and array.dtype == np.float64:
        array = _to_odd(array)
    return array.astype(numpy_dtype)


def _to_odd(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        near = array.astype(np.float32)
    back = near.astype(np.float64)
    word = near.view(np.int32)
    word = np.where(np.abs(back) > np.abs(array), word - 1, word)
    word = np.where((back != array) & ~np.isnan(array), word | 1, word)
    return word.astype(np.int32).view(np.float32)


def as_dtype(value: Any) -> DType:
    """The `DType` for a `DType`, a name, a NumPy dtype or one of Python's bool, int, float.

    raises DTypeError if there is none
    >>> as_dtype("float32"), as_dtype(np.int8), as_dtype(float)
    (bedplate.float32, bedplate.int8, bedplate.float32)
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in BY_NAME:
        return BY_NAME[value]
    if value is float:
        return float32
    if value is int:
        return int64
    if value is bool:
        return bool_
    if value is complex:
        return complex64
    try:
        if value is None:  # float64 for NumPy: whoever passes it on by mistake would not see why
            raise TypeError
        return _BY_NUMPY[np.dtype(value)]
    except (KeyError, TypeError, ValueError):
        # a tensor, say, would be shown with all that it holds
        shown = (
            repr(value) if isinstance(value, str | type | np.dtype | None) else type(value).__name__
        )
        names = ", ".join(BY_NAME)
        raise DTypeError(f"unknown dtype {shown}; there are {names}") from None


def _promote(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if a.kind == "b":
        return b
    if b.kind == "b":
        return a
    order = "iufc"
    if order.index(a.kind) > order.index(b.kind):
        a, b = b, a
    if a.kind == b.kind:
        if {a, b} == {bfloat16, float16}:
            return float32
        return a if a.itemsize > b.itemsize else b
    if b.kind == "u":
        if b.itemsize < a.itemsize:
            return a
        if b is uint64:
            raise DTypeError(f"no integer dtype holds both {a} and {b}; cast one of them first")
        return {1: int16, 2: int32, 4: int64}[b.itemsize]
    if a.kind in "iu":
        return b
    # a float and a complex
    return complex128 if float64 in (a, b) or complex128 in (a, b) else complex64


def real_dtype(dtype: DType) -> DType:
    """The dtype of the parts of a complex number; what is not complex stays.

    >>> real_dtype(complex64), real_dtype(complex128), real_dtype(float16)
    (bedplate.float32, bedplate.float64, bedplate.float16)
    """
    if dtype.kind != "c":
        return dtype
    return float64 if dtype is complex128 else float32


_TABLE: dict[tuple[DType, DType], DType] = {}


def promote(a: DType, b: DType) -> DType:
    """The dtype that holds values of both, by the Array API's table.

    Integers with floats give the float (as PyTorch and JAX do); bfloat16 with float16
    gives float32.
    raises   DTypeError for a signed integer with uint64, and for what is no dtype
    >>> promote(int8, uint8), promote(int64, float16)
    (bedplate.int16, bedplate.float16)
    """
    found = _TABLE.get((a, b))
    if found is None:
        for given in (a, b):
            if not isinstance(given, DType):
                raise DTypeError(f"promote: expected a dtype, got {type(given).__name__}")
        found = _TABLE[a, b] = _promote(a, b)
    return found


def scalar_dtype(value: bool | int | float | complex, other: DType) -> DType:
    """The dtype of `tensor of dtype other` combined with a Python scalar (weakly typed).

    raises DTypeError if an integer scalar does not fit
    """
    if isinstance(value, bool):
        return other
    if isinstance(value, int):
        if other.kind == "b":
            return int64
        if other.kind in "iu":
            info = np.iinfo(other.numpy)
            if not info.min <= value <= info.max:
                raise DTypeError(
                    f"the Python integer {value} does not fit {other} "
                    f"({info.min} to {info.max}); cast the tensor first"
                )
        return other
    if isinstance(value, float):
        return other if other.kind in "fc" else float32
    return other if other.kind == "c" else (complex128 if other is float64 else complex64)
