"""Numbers of the kernel language: fma, minimum, roots, rounding, bits, guarded division."""

from __future__ import annotations

from typing import Any

from bedplate.kernel.context import failure, tracer
from bedplate.kernel.types import f32, i32, i64, u32, u64, with_element
from bedplate.kernel.values import Value, arithmetic, as_value, pair


def _floats(what: str, value: Any) -> Value:
    if not isinstance(value, Value) or not value.type.is_float:
        raise failure(f"{what} needs a float", "f16, bf16, f32, f64 and vectors", value=value)
    return value


def _integers(what: str, value: Any) -> Value:
    if not isinstance(value, Value) or not value.type.is_integer or value.type.bits == 1:
        raise failure(f"{what} needs an integer", "i8 to u64 and vectors of them", value=value)
    return value


def fma(a: Any, b: Any, c: Any) -> Value:
    """a * b + c, rounded once."""
    values = [x for x in (a, b, c) if isinstance(x, Value)]
    if not values:
        raise failure("fma needs a value", "one value among its operands", a=a, b=b, c=c)
    widest = max(values, key=lambda v: v.type.lanes)
    _floats("fma", widest)
    operands = tuple(as_value(x, widest.type, "an operand of fma") for x in (a, b, c))
    return tracer().emit("fma", widest.type, operands)


def bfloat16_dot(a: Value, b: Value, c: Value) -> Value:
    """c + upper(a) * upper(b) + lower(a) * lower(b) in float32; each word holds two bfloat16.

    Each product is added with one rounding, the upper halves first. Where the processor has an
    instruction for it, subnormal numbers count as zeros.

    a, b    vectors of u32
    c       a vector of f32 with as many lanes
    """
    a, b = pair("bfloat16_dot", a, b)
    if a.type.scalar is not u32 or not isinstance(c, Value) or c.type != with_element(a.type, f32):
        raise failure("bfloat16_dot needs pairs", "u32, u32 and f32, equal lanes", a=a, b=b, c=c)
    return tracer().emit("bfloat16_dot", c.type, (a, b, c))


def byte_dot(a: Value, b: Value, c: Value) -> Value:
    """c + the sum of a's unsigned bytes times b's signed ones, modulo 2**32; four in each word.

    a, b    vectors of u32
    c       a vector of i32 with as many lanes
    """
    a, b = pair("byte_dot", a, b)
    if a.type.scalar is not u32 or not isinstance(c, Value) or c.type != with_element(a.type, i32):
        raise failure(
            "byte_dot needs words of bytes", "u32, u32 and i32, equal lanes", a=a, b=b, c=c
        )
    return tracer().emit("byte_dot", c.type, (a, b, c))


def minimum(a: Any, b: Any) -> Value:
    """The smaller; NaN if either is NaN."""
    return arithmetic("minimum", a, b)


def maximum(a: Any, b: Any) -> Value:
    """The greater; NaN if either is NaN."""
    return arithmetic("maximum", a, b)


def raw_min(a: Any, b: Any) -> Value:
    """a if a < b else b: one instruction; b if either is NaN."""
    return arithmetic("raw_min", a, b)


def raw_max(a: Any, b: Any) -> Value:
    """a if a > b else b: one instruction; b if either is NaN."""
    return arithmetic("raw_max", a, b)


def quotient(a: Any, b: Any) -> Value:
    """Integer division that truncates; x / 0 is 0, the least number / -1 wraps."""
    a, b = pair("quotient", a, b)
    return tracer().emit("quotient", _integers("quotient", a).type, (a, b))


def remainder(a: Any, b: Any) -> Value:
    """The rest of a truncating division, with the sign of a; x rem 0 is 0; floats as C's fmod."""
    return arithmetic("remainder", a, b)


def mul_high(a: Any, b: Any) -> Value:
    """The upper half of the double-width product of i32, u32, i64 or u64."""
    a, b = pair("mul_high", a, b)
    if a.type.scalar not in (i32, u32, i64, u64):
        raise failure("mul_high needs wide integers", "i32, u32, i64, u64", a=a, b=b)
    return tracer().emit("mul_high", a.type, (a, b))


def scale(x: Value, n: Value) -> Value:
    """x times 2 to the power n, rounded once.

    x    not subnormal
    n    a whole number as a float of x's type, no larger than twice the largest exponent
    """
    x, n = pair("scale", x, n)
    return tracer().emit("scale", _floats("scale", x).type, (x, n))


def sqrt(x: Value) -> Value:
    """The square root, correctly rounded; NaN below zero."""
    return tracer().emit("sqrt", _floats("sqrt", x).type, (x,))


def floor(x: Value) -> Value:
    """The greatest whole number not above x."""
    return tracer().emit("floor", _floats("floor", x).type, (x,))


def ceil(x: Value) -> Value:
    """The least whole number not below x."""
    return tracer().emit("ceil", _floats("ceil", x).type, (x,))


def trunc(x: Value) -> Value:
    """x without its fraction."""
    return tracer().emit("trunc", _floats("trunc", x).type, (x,))


def round_even(x: Value) -> Value:
    """The nearest whole number; halves go to the even one."""
    return tracer().emit("round_even", _floats("round_even", x).type, (x,))


def copysign(x: Value, sign: Any) -> Value:
    """x with the sign of `sign`."""
    x, sign = pair("copysign", x, sign)
    return tracer().emit("copysign", _floats("copysign", x).type, (x, sign))


def popcount(x: Value) -> Value:
    """How many bits of an integer are set."""
    return tracer().emit("popcount", _integers("popcount", x).type, (x,))


def ctlz(x: Value) -> Value:
    """How many leading bits are zero; the width for 0."""
    return tracer().emit("ctlz", _integers("ctlz", x).type, (x,))


def cttz(x: Value) -> Value:
    """How many trailing bits are zero; the width for 0."""
    return tracer().emit("cttz", _integers("cttz", x).type, (x,))
