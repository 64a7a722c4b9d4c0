"""Value: what a kernel's Python computes with while it is traced; operators and coercion.

A Value is an instruction that remembers its type; operators on it append instructions to the
block that is open. A Python number takes the type of the other operand.
"""

from __future__ import annotations

import ctypes
from typing import Any, NoReturn

import numpy as np

from bedplate.dtypes import bfloat16, float16, rounded
from bedplate.kernel.context import failure, tracer
from bedplate.kernel.ir import NO_ATTRIBUTES, Instruction
from bedplate.kernel.types import Type, bf16, boolean, f16, f32, i1, i64, vec


class Value(Instruction):
    """A typed value of a kernel under trace; see docs/kernel-language.md for its operators."""

    __slots__ = ()
    __hash__ = Instruction.__hash__

    def __repr__(self) -> str:
        return f"<Value %{self.number} {self.type} {self.op}>"

    def __add__(self, other: Any) -> Value:
        return offset(self, other) if self.type.is_pointer else arithmetic("add", self, other)

    def __radd__(self, other: Any) -> Value:
        return offset(self, other) if self.type.is_pointer else arithmetic("add", other, self)

    def __sub__(self, other: Any) -> Value:
        if self.type.is_pointer:
            return offset(self, _negative(other))
        return arithmetic("sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return arithmetic("sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return arithmetic("mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return arithmetic("mul", other, self)

    def __truediv__(self, other: Any) -> Value:
        return divide(self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return divide(other, self)

    def __floordiv__(self, other: Any) -> Value:
        return arithmetic("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Value:
        return arithmetic("floor_divide", other, self)

    def __mod__(self, other: Any) -> Value:
        return arithmetic("modulo", self, other)

    def __rmod__(self, other: Any) -> Value:
        return arithmetic("modulo", other, self)

    def __and__(self, other: Any) -> Value:
        return bitwise("and", self, other)

    def __rand__(self, other: Any) -> Value:
        return bitwise("and", other, self)

    def __or__(self, other: Any) -> Value:
        return bitwise("or", self, other)

    def __ror__(self, other: Any) -> Value:
        return bitwise("or", other, self)

    def __xor__(self, other: Any) -> Value:
        return bitwise("xor", self, other)

    def __rxor__(self, other: Any) -> Value:
        return bitwise("xor", other, self)

    def __lshift__(self, other: Any) -> Value:
        return bitwise("shift_left", self, other)

    def __rlshift__(self, other: Any) -> Value:
        return bitwise("shift_left", other, self)

    def __rshift__(self, other: Any) -> Value:
        return bitwise("shift_right", self, other)

    def __rrshift__(self, other: Any) -> Value:
        return bitwise("shift_right", other, self)

    def __invert__(self) -> Value:
        if not self.type.is_integer:
            raise failure("~ needs an integer or a mask", "integers and i1", value=self)
        return tracer().emit("not", self.type, (self,))

    def __neg__(self) -> Value:
        return unary_arithmetic("negate", self)

    def __pos__(self) -> Value:
        return self

    def __abs__(self) -> Value:
        return unary_arithmetic("absolute", self)

    def __lt__(self, other: Any) -> Value:
        return compare("less", self, other)

    def __le__(self, other: Any) -> Value:
        return compare("less_equal", self, other)

    def __gt__(self, other: Any) -> Value:
        return compare("greater", self, other)

    def __ge__(self, other: Any) -> Value:
        return compare("greater_equal", self, other)

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]
        return compare("equal", self, other)

    def __ne__(self, other: Any) -> Value:  # type: ignore[override]
        return compare("not_equal", self, other)

    def __bool__(self) -> NoReturn:
        raise failure(
            "Python asked for the truth of a value that is known only at run time",
            "`with when(condition):`, `for _ in while_(lambda: condition):`, select(c, a, b), "
            "& | ~ instead of if, while, and, or, not",
            value=self,
        )

    def __index__(self) -> NoReturn:
        raise failure(
            "Python asked for a number that is known only at run time",
            "`for i in loop(n):` instead of range(n); Python numbers where Python must count",
            value=self,
        )

    __int__ = __index__
    __float__ = __index__

    def __iter__(self) -> NoReturn:
        raise failure("a value cannot be iterated over", "extract(v, i), loop(n)", value=self)

    def __getitem__(self, index: Any) -> NoReturn:
        raise failure(
            "a value cannot be indexed with [ ]",
            "load(pointer + index), store(pointer + index, value), extract(vector, lane)",
            value=self,
        )

    __setitem__ = __getitem__  # type: ignore[assignment]


def as_float(number: float) -> float:
    """A Python number as a float; infinity for an int beyond all floats."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def round_float(type_: Type, value: float) -> float:
    """`value` rounded to the nearest number of a float type, as a Python float."""
    if type_ is f32:
        return ctypes.c_float(value).value
    if type_ is f16 or type_ is bf16:
        narrow = float16 if type_ is f16 else bfloat16
        with np.errstate(over="ignore"):
            return float(rounded(value, narrow.numpy))
    return value


def literal(type_: Type, value: Any) -> Value:
    """A Python number as a value of `type_`; in every lane if that is a vector type.

    raises KernelError if the type cannot hold the number
    """
    scalar = type_.scalar
    if isinstance(value, np.generic):
        value = value.item()
    if scalar.is_float and isinstance(value, int | float):
        return Value("literal", type_, (), {"value": round_float(scalar, as_float(value))})
    if scalar.is_integer and isinstance(value, int):
        low, high = integer_range(scalar)
        if low <= value <= high:
            return Value("literal", type_, (), {"value": int(value)})
        raise failure(
            f"the number {value} does not fit {scalar}", f"{low} to {high}, or a wider type"
        )
    raise failure(
        f"{value!r} (Python {type(value).__name__}) cannot become {type_}",
        "int for integers, int or float for floats, bool for i1; cast(x, T) between values",
    )


def integer_range(scalar: Type) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    if scalar.is_signed:
        return -(1 << (scalar.bits - 1)), (1 << (scalar.bits - 1)) - 1
    return 0, (1 << scalar.bits) - 1


def as_value(value: Any, type_: Type, what: str) -> Value:
    """`value` as a value of exactly `type_`: numbers are coerced, scalars splat over lanes.

    raises KernelError if it has another type
    """
    if not isinstance(value, Value):
        return literal(type_, value)
    if value.type is type_:
        return value
    if type_.lanes and value.type is type_.element:
        return splat_to(value, type_)
    raise failure(f"{what} has the wrong type", f"{type_}; cast(x, T) converts", value=value)


def splat_to(value: Value, type_: Type) -> Value:
    """`value`, a scalar, in every lane of a vector of `type_`."""
    if value.op == "literal":
        return Value("literal", type_, (), value.attributes)
    return tracer().emit("splat", type_, (value,))


def pair(what: str, left: Any, right: Any) -> tuple[Value, Value]:
    """Both operands as values of one type; see the head of this file for what is coerced."""
    if not isinstance(left, Value):
        if not isinstance(right, Value):
            raise failure(f"{what}: neither is a value", "one value", left=left, right=right)
        return literal(right.type, left), right
    if not isinstance(right, Value):
        return left, literal(left.type, right)
    a, b = left.type, right.type
    if a is b:
        return left, right
    if a.lanes and a.element is b:
        return left, splat_to(right, a)
    if b.lanes and b.element is a:
        return splat_to(left, b), right
    raise failure(
        f"{what} mixes {a} and {b}", "two values of one type; cast(x, T) converts",
        left=left, right=right,
    )  # fmt: skip


def arithmetic(op: str, left: Any, right: Any) -> Value:
    """An arithmetic instruction on two numbers of one type."""
    a, b = pair(op, left, right)
    type_ = a.type
    if type_.is_pointer or type_.bits == 1:
        raise failure(f"{op} needs numbers", "integers and floats", left=left, right=right)
    return tracer().emit(op, type_, (a, b))


def divide(left: Any, right: Any) -> Value:
    a, b = pair("/", left, right)
    if not a.type.is_float:
        raise failure(
            "/ divides floats", "// (floor) or quotient(a, b) for integers; cast(x, f32) first",
            left=left, right=right,
        )  # fmt: skip
    return tracer().emit("divide", a.type, (a, b))


def bitwise(op: str, left: Any, right: Any) -> Value:
    a, b = pair(op, left, right)
    if not a.type.is_integer or (a.type.bits == 1 and op.startswith("shift")):
        legal = "integers" if op.startswith("shift") else "integers and i1; bitcast floats first"
        raise failure(f"{op} needs integers", legal, left=left, right=right)
    return tracer().emit(op, a.type, (a, b))


def compare(op: str, left: Any, right: Any) -> Value:
    a, b = pair(op, left, right)
    return tracer().emit(op, boolean(a.type), (a, b))


def unary_arithmetic(op: str, value: Value) -> Value:
    if value.type.is_pointer or value.type.bits == 1:
        raise failure(f"{op} needs a number", "integers and floats", value=value)
    return tracer().emit(op, value.type, (value,))


def _negative(count: Any) -> Any:
    """How far a pointer moves back: negated as an i64, which holds what narrower types do not."""
    if isinstance(count, Value) and count.type.is_integer and not count.type.lanes:
        wide = count if count.type is i64 else tracer().emit("cast", i64, (count,))
        return unary_arithmetic("negate", wide)
    return -count if isinstance(count, int) and not isinstance(count, bool) else count


def offset(pointer: Value, count: Any) -> Value:
    """The pointer `count` elements further; count is an integer of any type."""
    if isinstance(count, int) and not isinstance(count, bool):
        if count == 0:
            return pointer
        count = literal(i64, count)
    if not isinstance(count, Value) or not count.type.is_integer or count.type.lanes:
        raise failure(
            "a pointer moves by a whole number of elements", "pointer + integer",
            pointer=pointer, offset=count,
        )  # fmt: skip
    if count.type is not i64:
        count = tracer().emit("cast", i64, (count,))
    return tracer().emit("offset", pointer.type, (pointer, count))


def mask_for(mask: Any, lanes: int) -> Value:
    """A mask as vec(i1, lanes): an i1 or a Python bool covers all lanes."""
    return as_value(mask, vec(i1, lanes) if lanes else i1, "the mask")


__all__ = [
    "NO_ATTRIBUTES", "Value", "arithmetic", "as_value", "compare", "integer_range", "literal",
    "mask_for", "offset", "pair", "round_float", "splat_to", "unary_arithmetic",
]  # fmt: skip
