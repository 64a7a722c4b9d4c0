"""DLPack: arrays from other libraries, and to them.

NumPy speaks DLPack for every dtype that it has; bfloat16, which it has not, travels as a
capsule that is taken apart here.

source   https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

CPU = 1
BFLOAT = 4
NAME = b"dltensor"


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

_get = ctypes.pythonapi.PyCapsule_GetPointer
_get.restype, _get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def from_dlpack(source: Any) -> np.ndarray[Any, Any]:
    """The values of an object with `__dlpack__`, on the CPU.

    raises  what the object or NumPy raises: BufferError or RuntimeError, TypeError
    """
    try:
        return np.from_dlpack(source)
    except (BufferError, RuntimeError, TypeError):
        if not hasattr(source, "__dlpack_device__") or source.__dlpack_device__()[0] != CPU:
            raise
        found = _bfloat16(source.__dlpack__())
        if found is None:
            raise
        return found


def _bfloat16(capsule: Any) -> np.ndarray[Any, Any] | None:
    """A copy of a bfloat16 capsule; None if it holds something else.

    The capsule is not marked as used, so its own destructor frees what it owns.
    """
    managed = ctypes.cast(_get(capsule, NAME), ctypes.POINTER(_Managed)).contents
    tensor = managed.tensor
    if (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) != (BFLOAT, 16, 1):
        return None
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    if 0 in shape:
        return np.empty(shape, ml_dtypes.bfloat16)
    strides = _strides_bytes(tensor, shape)
    n_bytes = 2 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    start = tensor.data + tensor.byte_offset
    memory = memoryview((ctypes.c_uint8 * n_bytes).from_address(start))
    raw = np.frombuffer(memory, np.uint16)
    return np.lib.stride_tricks.as_strided(raw, shape, strides).copy().view(ml_dtypes.bfloat16)


def _strides_bytes(tensor: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    if tensor.strides:
        return tuple(tensor.strides[axis] * 2 for axis in range(tensor.ndim))
    strides = [2]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return tuple(strides[: len(shape)])
