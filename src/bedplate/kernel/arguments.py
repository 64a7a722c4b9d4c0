"""How Python values become the arguments of a native kernel, and its result a Python number."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from bedplate.dtypes import rounded
from bedplate.errors import KernelError
from bedplate.kernel.context import line_of, user_site
from bedplate.kernel.ir import Program
from bedplate.kernel.types import Type, bf16, element, f16, f32, f64, i1
from bedplate.kernel.values import as_float, integer_range

_NUMPY = {
    "i1": np.dtype(np.bool_), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32), "i64": np.dtype(np.int64), "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32), "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
}  # fmt: skip


def numpy_dtype(type_: Type) -> np.dtype[Any]:
    """The NumPy dtype of a scalar type or of a vector's elements."""
    return _NUMPY[type_.scalar.name]


def ctype_of(type_: Type | None) -> Any:
    """The ctypes type that carries a scalar or a pointer; None for no result."""
    if type_ is None:
        return None
    if type_.is_pointer:
        return ctypes.c_void_p
    if type_ is f32 or type_ is f64:
        return ctypes.c_float if type_ is f32 else ctypes.c_double
    if type_ is i1:
        return ctypes.c_uint8
    sign = "" if type_.is_signed and not type_.is_float else "u"
    return getattr(ctypes, f"c_{sign}int{type_.bits}")


def to_bits(type_: Type, number: float) -> int:
    """The 16 bits of f16 or bf16 nearest to a Python float."""
    with np.errstate(over="ignore"):
        return int(rounded(np.float64(number), _NUMPY[type_.name]).view(np.uint16))


def from_bits(type_: Type, word: int) -> float:
    return float(np.array(word, np.uint16).view(_NUMPY[type_.name]))


class Convention:
    """The parameters and the result of one kernel as Python passes them."""

    def __init__(self, name: str, program: Program) -> None:
        self.name = name
        self.types = [parameter.type for parameter in program.parameters]
        self.names = program.names
        self.result = program.result
        self.callable = not any(t.lanes for t in self.types) and not (
            self.result is not None and self.result.lanes
        )

    def native(self, address: int, hidden: Sequence[Any] = ()) -> Any:
        """A Python callable for the machine code at an address (the GIL is released inside).

        hidden  ctypes types of arguments after the kernel's own
        """
        if not self.callable:
            return None
        arguments = [ctype_of(type_) for type_ in self.types]
        return ctypes.CFUNCTYPE(ctype_of(self.result), *arguments, *hidden)(address)

    def convert(self, args: tuple[Any, ...]) -> list[Any]:
        """The arguments as words that ctypes takes; the caller keeps the arrays alive.

        raises KernelError naming the parameter that does not fit
        """
        if not self.callable:
            raise KernelError(
                f"kernel {self.name}: Python cannot pass vectors\n  at {line_of(user_site())}\n"
                "  legal: call(kernel, ...) from another kernel"
            )
        if len(args) != len(self.types):
            wanted = ", ".join(f"{n}: {t}" for n, t in zip(self.names, self.types, strict=True))
            raise KernelError(
                f"kernel {self.name}: {len(args)} arguments\n  at {line_of(user_site())}\n"
                f"  legal: {self.name}({wanted})"
            )
        return [self.word(i, arg) for i, arg in enumerate(args)]

    def word(self, index: int, value: Any) -> Any:
        type_ = self.types[index]
        if type_.is_pointer:
            return self.pointer(index, value)
        if isinstance(value, np.generic):
            value = value.item()
        if type_.is_float:
            if isinstance(value, int | float):
                number = as_float(value)
                return to_bits(type_, number) if type_ in (f16, bf16) else number
            raise self.mismatch(index, value, "a Python number")
        if not isinstance(value, int):
            raise self.mismatch(index, value, "a Python int")
        low, high = integer_range(type_)
        if not low <= value <= high:
            raise self.mismatch(index, value, f"{low} to {high}")
        return int(value)

    def pointer(self, index: int, value: Any) -> int:
        if isinstance(value, np.ndarray):
            pointee = element(self.types[index])
            wanted = np.dtype(np.uint64) if pointee.is_pointer else numpy_dtype(pointee)
            if not _fits(value.dtype, wanted, pointee):
                raise self.mismatch(index, value, f"an array of {wanted}")
            if not value.flags.c_contiguous:
                raise self.mismatch(index, value, "a contiguous array; np.ascontiguousarray(x)")
            if not value.flags.aligned:
                raise self.mismatch(index, value, "an aligned array; x.copy()")
            if not value.flags.writeable:
                raise self.mismatch(index, value, "an array that may be written; x.copy()")
            return value.ctypes.data
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64:
            return value
        if value is None:
            return 0
        raise self.mismatch(index, value, "a NumPy array, or an address as a Python int")

    def mismatch(self, index: int, value: Any, legal: str) -> KernelError:
        shown = f"{value!r} (Python {type(value).__name__})"
        if isinstance(value, np.ndarray):
            shown = f"array {value.shape} {value.dtype} strides {value.strides}"
        return KernelError(
            f"kernel {self.name}: argument {self.names[index]} does not fit {self.types[index]}\n"
            f"  {self.names[index]}  {shown}\n  at {line_of(user_site())}\n  legal: {legal}"
        )

    def give_back(self, result: Any) -> Any:
        type_ = self.result
        if type_ is None:
            return None
        if type_ is i1:
            return bool(result)
        if type_ is f16 or type_ is bf16:
            return from_bits(type_, result)
        return result or 0 if type_.is_pointer else result


def _fits(given: np.dtype[Any], wanted: np.dtype[Any], pointee: Type) -> bool:
    """Whether an array of a dtype may be passed: the same, or bytes for i1, addresses as i64."""
    if given == wanted:
        return True
    if pointee.is_pointer:
        return given == np.int64
    return given.itemsize == 1 and {given.kind, wanted.kind} == {"b", "u"}
