"""Interchange: how NumPy, other libraries and Python's buffers see a tensor.

What is given out without a copy is read only: values never alias, so nobody may change one from
outside. A copy can be written. What is shared keeps the memory alive and not the tensor, which may
be bound to another value meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bedplate.dtypes import bfloat16, rounded
from bedplate.tensor.dlpack import HOST, to_dlpack
from bedplate.tensor.values import array_of, compute


class Interchange:
    """The part of a tensor that others read."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's operators hand over to ours
    __array_priority__ = 1000

    def numpy(self, copy: bool = True) -> np.ndarray[Any, Any]:
        """The value as a NumPy array.

        copy     True: a copy, which may be written; False: the value itself, read only
        >>> import bedplate as bp
        >>> x = bp.tensor([1.0, 2.0])
        >>> x.numpy(copy=False).flags.writeable, np.shares_memory(x.numpy(copy=False), x)
        (False, True)
        """
        return array_of(self).copy() if copy else _shown(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy(copy=bool(copy))
        if dtype is None or np.dtype(dtype) == array.dtype:
            return array
        if copy is False:
            raise ValueError(
                f"__array__: {array.dtype} as {np.dtype(dtype)} takes a copy, and copy=False "
                "forbids it\n  leave one of them out, or convert first with .astype(...)"
            )
        return rounded(array, np.dtype(dtype))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The memory in NumPy's older words, for libraries that ask in these.

        raises  AttributeError for bfloat16, which they do not have: NumPy then asks `__array__`
        """
        array = _shown(self)
        if array.dtype == bfloat16.numpy:
            raise AttributeError("__array_interface__: there is no word for bfloat16")
        # an object as data, and not an address: whoever reads it holds it
        return {"shape": array.shape, "typestr": array.dtype.str, "data": array, "version": 3}

    def __array_function__(self, function: Any, types: Any, given: Any, named: Any) -> Any:
        if any(tensor.requires_grad for tensor in _tensors_in((given, named))):
            raise TypeError(
                f"numpy.{function.__name__}: a function of NumPy would lose the gradients of its "
                "arguments\n  use the function of the same purpose in bedplate, or pass "
                "x.detach() if no gradient is meant to pass"
            )
        return function(*_as_arrays(given), **_as_arrays(named))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if stream is not None:
            raise BufferError(f"__dlpack__: memory of the CPU has no stream, got {stream}")
        return to_dlpack(_shown(self), max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST

    def __buffer__(self, flags: int) -> memoryview:
        array = _shown(self)
        if array.dtype == bfloat16.numpy:
            raise BufferError(
                "memoryview: buffers have no letter for bfloat16\n"
                "  use memoryview(x.numpy(copy=False).view('uint16')), or convert to float32"
            )
        return array.data


def _shown(tensor: Any) -> np.ndarray[Any, Any]:
    """The value, computed if need be, as an array that nobody can write."""
    node = compute(tensor)
    return node.block.shown(node.dtype, node.shape)


def _tensors_in(value: Any) -> Iterator[Any]:
    """The tensors among arguments, also in lists and tables."""
    if isinstance(value, Interchange):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors_in(item)
    elif isinstance(value, dict):
        yield from _tensors_in(list(value.values()))


def _as_arrays(value: Any) -> Any:
    """The arguments with an array in the place of each tensor."""
    if isinstance(value, Interchange):
        return _shown(value)
    if isinstance(value, tuple | list):
        items = [_as_arrays(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {name: _as_arrays(item) for name, item in value.items()}
    return value
