"""DLPack: memory shared with other libraries, both ways.

NumPy speaks DLPack for every dtype that it has. bfloat16, which it has not, travels as words of
16 bits: the code of the dtype is changed in the capsule, on its way out and on its way in, and
all else (who owns the memory, strides, versions, flags) stays NumPy's or the other library's.

source   https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from bedplate.dtypes import bfloat16
from bedplate.errors import DTypeError

HOST = (1, 0)  # the CPU's memory, where the values of all devices are
UNSIGNED, BFLOAT = 1, 4  # codes of dtypes
CODES = ("int", "uint", "float", "opaque", "bfloat", "complex", "bool")


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):  # before version 1.0 of the standard
    _fields_ = [("tensor", _Tensor)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


STRUCTURES = {b"dltensor": _Managed, b"dltensor_versioned": _ManagedVersioned}
_get = ctypes.pythonapi.PyCapsule_GetPointer
_get.restype, _get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_has_name = ctypes.pythonapi.PyCapsule_IsValid
_has_name.restype, _has_name.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def _dtype_of(capsule: Any) -> Any:
    """The dtype in a capsule, which may be changed there; None for what is no DLPack capsule."""
    for name, structure in STRUCTURES.items():
        if _has_name(capsule, name):
            pointer = ctypes.cast(_get(capsule, name), ctypes.POINTER(structure))
            return pointer.contents.tensor.dtype
    return None


class _Source:
    """An object with `__dlpack__`, as NumPy should see it."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.is_bfloat16 = False

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.source.__dlpack__(**options)
        dtype = _dtype_of(capsule)
        if dtype is not None and (dtype.code, dtype.bits, dtype.lanes) == (BFLOAT, 16, 1):
            dtype.code = UNSIGNED
            self.is_bfloat16 = True
        elif dtype is not None:
            _check(dtype)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.source.__dlpack_device__()


def _check(dtype: Any) -> None:
    """Refuse what no tensor holds, with its name."""
    widths = {0: (8, 16, 32, 64), 1: (8, 16, 32, 64), 2: (16, 32, 64), 5: (64, 128), 6: (8,)}
    if dtype.lanes != 1 or dtype.bits not in widths.get(dtype.code, ()):
        kind = CODES[dtype.code] if dtype.code < len(CODES) else f"DLPack code {dtype.code}, "
        lanes = f" in vectors of {dtype.lanes}" if dtype.lanes != 1 else ""
        raise DTypeError(
            f"from_dlpack: no tensor holds {kind}{dtype.bits}{lanes}\n"
            "  convert the data where it comes from, for example to float32"
        )


def from_dlpack(source: Any, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """The values of an object with `__dlpack__`: its own memory, unless a copy is asked for.

    copy    None: its memory if it gives it; False: refuse to take a copy
    raises  BufferError if it is elsewhere, or does not give its memory; DTypeError
    """
    source = _worked_out(source, copy)
    place = tuple(map(int, source.__dlpack_device__()))
    seen = _Source(source)
    try:
        array = np.from_dlpack(seen, copy=copy)
    except (BufferError, RuntimeError, ValueError) as error:
        advice = "" if place == HOST else "move it to the CPU's memory first, or "
        raise BufferError(
            f"from_dlpack: {type(source).__name__} on DLPack device {place}: {error}\n"
            f"  {advice}pass its values as a NumPy array"
        ) from None
    return array.view(bfloat16.numpy) if seen.is_bfloat16 else array


# PyTorch keeps some values as the conjugate or the negative of what their memory holds, and its
# `__dlpack__` gives away the memory: (does it?, the value itself)
DELAYED = (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg"))


def _worked_out(source: Any, copy: bool | None) -> Any:
    """`source` with its values in its memory; a copy of it where they were not."""
    for asked, worked_out in DELAYED:
        if callable(getattr(source, asked, None)) and getattr(source, asked)():
            if copy is False:
                raise BufferError(
                    f"from_dlpack: the memory of this {type(source).__name__} does not hold its "
                    f"values ({asked}() is true)\n  leave out copy=False, or call {worked_out}()"
                )
            source = getattr(source, worked_out)()
    return source


def to_dlpack(
    array: np.ndarray[Any, Any],
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """A capsule of a read-only array.

    Version 1.0 of the standard can say "read only"; whoever speaks an older one gets a copy.

    raises  BufferError for another device, or if it must not be a copy but has to
    """
    if dl_device is not None and tuple(map(int, dl_device)) != HOST:
        raise BufferError(
            f"__dlpack__: the values are in the CPU's memory {HOST}, not on {tuple(dl_device)}"
        )
    if max_version is None or max_version[0] < 1:
        if copy is False:
            raise BufferError(
                "__dlpack__: a tensor's memory is read only, which DLPack before version 1.0 "
                "cannot say\n  ask for max_version=(1, 0), or for a copy"
            )
        array, max_version, copy = array.copy(), None, None
    options = {"max_version": max_version, "copy": copy}
    if array.dtype != bfloat16.numpy:
        return array.__dlpack__(**options)
    capsule = array.view(np.uint16).__dlpack__(**options)
    _dtype_of(capsule).code = BFLOAT
    return capsule
