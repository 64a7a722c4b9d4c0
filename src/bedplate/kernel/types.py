"""The types of the kernel language: integers, floats, pointers and vectors.

`ptr(T)` points at elements of T; `vec(T, lanes)` holds `lanes` elements of T in a register.
Types are interned: equal types are the same object, so `is` and `==` agree.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from bedplate import dtypes
from bedplate.dtypes import DType
from bedplate.errors import KernelError


@dataclass(frozen=True, eq=False, slots=True)
class Type:
    """One type of the kernel language.

    bits       width of one element in a register (1 for i1; 64 for a pointer)
    element    what a pointer points at or a vector holds; None for a scalar
    lanes      elements of a vector; 0 for a scalar or a pointer
    llvm       how LLVM spells it in a register (f16 and bf16 travel as their 16 bits)
    itemsize   bytes of one element in memory (1 for i1)
    """

    name: str
    bits: int
    is_float: bool
    is_signed: bool
    llvm: str
    itemsize: int
    element: Type | None = None
    lanes: int = 0

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return parse_type, (self.name,)

    @property
    def is_pointer(self) -> bool:
        return self.element is not None and not self.lanes

    @property
    def is_vector(self) -> bool:
        return self.lanes > 0

    @property
    def is_integer(self) -> bool:
        """Whether this is an integer or a vector of integers; i1 counts, a pointer does not."""
        return not self.is_float and not self.is_pointer

    @property
    def scalar(self) -> Type:
        """The type of one element: of a vector its element, else the type itself."""
        return self.element if self.lanes and self.element is not None else self

    @property
    def is_narrow_float(self) -> bool:
        """Whether arithmetic must widen this to f32 first (f16, bf16)."""
        return self.is_float and self.bits == 16


def _integer(name: str, bits: int, signed: bool) -> Type:
    return Type(name, bits, False, signed, f"i{bits}", max(bits // 8, 1))


i1 = _integer("i1", 1, False)
i8 = _integer("i8", 8, True)
i16 = _integer("i16", 16, True)
i32 = _integer("i32", 32, True)
i64 = _integer("i64", 64, True)
u8 = _integer("u8", 8, False)
u16 = _integer("u16", 16, False)
u32 = _integer("u32", 32, False)
u64 = _integer("u64", 64, False)
f16 = Type("f16", 16, True, True, "i16", 2)
bf16 = Type("bf16", 16, True, True, "i16", 2)
f32 = Type("f32", 32, True, True, "float", 4)
f64 = Type("f64", 64, True, True, "double", 8)

SCALARS = (i1, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)
INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)
FLOATS = (f16, bf16, f32, f64)
BY_NAME = {t.name: t for t in SCALARS}
MAX_LANES = 1024


@functools.cache
def ptr(element: Type) -> Type:
    """The type of a pointer to elements of `element`.

    raises KernelError if `element` is a vector: load(p, lanes) reads vectors from ptr(T)
    """
    if not isinstance(element, Type) or element.is_vector:
        raise KernelError(
            f"ptr: {element!r} cannot be pointed at\n"
            f"  legal: ptr of a scalar type ({', '.join(BY_NAME)}) or of a pointer; "
            "load(p, lanes) reads a vector"
        )
    return Type(f"ptr({element.name})", 64, False, False, "ptr", 8, element)


@functools.cache
def vec(element: Type, lanes: int) -> Type:
    """The type of a vector of `lanes` elements; `lanes` is a power of two up to 1024.

    raises KernelError if the element is not a scalar or lanes is not such a number
    """
    if not isinstance(element, Type) or element.name not in BY_NAME:
        raise KernelError(
            f"vec: {element!r} cannot be the element of a vector\n  legal: {', '.join(BY_NAME)}"
        )
    if not isinstance(lanes, int) or not 1 <= lanes <= MAX_LANES or lanes & (lanes - 1):
        raise KernelError(f"vec: {lanes!r} lanes\n  legal: a power of two from 1 to {MAX_LANES}")
    return Type(
        f"vec({element.name},{lanes})", element.bits, element.is_float, element.is_signed,
        f"<{lanes} x {element.llvm}>", element.itemsize, element, lanes,
    )  # fmt: skip


def element(type_: Type) -> Type:
    """What a pointer points at or a vector holds; a scalar type is its own element."""
    return type_ if type_.element is None else type_.element


def with_element(type_: Type, new: Type) -> Type:
    """`type_` with its element replaced: keeps the lanes of a vector."""
    return vec(new, type_.lanes) if type_.lanes else new


def boolean(type_: Type) -> Type:
    """The type of a comparison of two values of `type_`: i1, or a mask of as many lanes."""
    return vec(i1, type_.lanes) if type_.lanes else i1


def parse_type(text: str) -> Type:
    """The type that prints as `text`.

    >>> parse_type("vec(f32,16)"), parse_type("ptr(ptr(i8))")
    (vec(f32,16), ptr(ptr(i8)))
    """
    if text in BY_NAME:
        return BY_NAME[text]
    if text.startswith("ptr(") and text.endswith(")"):
        return ptr(parse_type(text[4:-1]))
    if text.startswith("vec(") and text.endswith(")"):
        inner, _, lanes = text[4:-1].rpartition(",")
        if lanes.strip().isdigit():
            return vec(parse_type(inner.strip()), int(lanes))
    raise KernelError(f"parse_type: {text!r} is not a type of the kernel language")


_FROM_DTYPE = {
    dtypes.bool_: u8, dtypes.int8: i8, dtypes.int16: i16, dtypes.int32: i32, dtypes.int64: i64,
    dtypes.uint8: u8, dtypes.uint16: u16, dtypes.uint32: u32, dtypes.uint64: u64,
    dtypes.bfloat16: bf16, dtypes.float16: f16, dtypes.float32: f32, dtypes.float64: f64,
}  # fmt: skip


def from_dtype(dtype: DType) -> Type:
    """The kernel type of a tensor's elements; a bool is a u8 in memory.

    raises KernelError for a complex dtype: kernels see its two parts
    """
    try:
        return _FROM_DTYPE[dtype]
    except KeyError:
        raise KernelError(
            f"from_dtype: {dtype} has no kernel type\n  legal: {', '.join(map(str, _FROM_DTYPE))}"
        ) from None
