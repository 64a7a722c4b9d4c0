"""Arithmetic, comparison and bit instructions, with the guards that LLVM's own lack.

Integers wrap. x // 0 and x % 0 are 0, the least number // -1 wraps, a shift by the width or more
gives 0 or the sign. f16 and bf16 are widened to f32, computed there and rounded back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.kernel.instructions.convert import narrow, widen
from bedplate.kernel.instructions.operation import define
from bedplate.kernel.types import Type, boolean, f32, with_element

Build = Callable[..., str]


def suffix(type_: Type) -> str:
    """How LLVM's intrinsics spell a type in their names: f32, v16i32."""
    scalar = type_.scalar
    letter = "f" if scalar.is_float and scalar.bits > 16 else "i"
    return f"v{type_.lanes}{letter}{scalar.bits}" if type_.lanes else f"{letter}{scalar.bits}"


def constant(type_: Type, value: int) -> str:
    """An integer constant of a type, in every lane of a vector."""
    return f"splat ({type_.scalar.llvm} {value})" if type_.lanes else str(value)


def numeric(build: Build, narrows: bool = True) -> Callable[[Any, Any], str]:
    """An emission that computes f16 and bf16 in f32; build(lowering, type, *texts)."""

    def emit(lowering: Any, instruction: Any) -> str:
        type_ = instruction.operands[0].type
        texts = [lowering.text(operand) for operand in instruction.operands]
        if not type_.is_narrow_float:
            return build(lowering, type_, *texts)
        wide = with_element(type_, f32)
        texts = [widen(lowering, type_, text) for text in texts]
        result = build(lowering, wide, *texts)
        return narrow(lowering, instruction.type, result) if narrows else result

    return emit


def _wide(value: Any) -> Any:
    """f16 and bf16 as float32, everything else as it is."""
    dtype = getattr(value, "dtype", None)  # a pointer has none
    is_narrow = dtype is not None and dtype.itemsize == 2 and dtype.kind in "fV"
    return value.astype(np.float32) if is_narrow else value


def meaning(function: Callable[..., Any]) -> Callable[..., Any]:
    """A meaning that widens f16 and bf16 first; the interpreter rounds the result back."""

    def run(machine: Any, instruction: Any, *values: Any) -> Any:
        return function(*map(_wide, values))

    return run


# Addition and its like


def _simple(float_op: str, integer_op: str) -> Build:
    def build(lowering: Any, type_: Type, a: str, b: str) -> str:
        op = float_op if type_.is_float else integer_op
        return lowering.new(f"{op} {type_.llvm} {a}, {b}")

    return build


define("add", numeric(_simple("fadd", "add")), meaning(np.add))
define("sub", numeric(_simple("fsub", "sub")), meaning(np.subtract))
define("mul", numeric(_simple("fmul", "mul")), meaning(np.multiply))
define("divide", numeric(_simple("fdiv", "")), meaning(np.divide))


def _negate(lowering: Any, type_: Type, a: str) -> str:
    if type_.is_float:
        return lowering.new(f"fneg {type_.llvm} {a}")
    return lowering.new(f"sub {type_.llvm} {constant(type_, 0)}, {a}")


def _absolute(lowering: Any, type_: Type, a: str) -> str:
    operand = f"{type_.llvm} {a}"
    if type_.is_float:
        return lowering.intrinsic(f"llvm.fabs.{suffix(type_)}", type_.llvm, [operand])
    if not type_.is_signed:
        return a
    return lowering.intrinsic(f"llvm.abs.{suffix(type_)}", type_.llvm, [operand, "i1 false"])


define("negate", numeric(_negate), meaning(lambda a: np.negative(a)))
define("absolute", numeric(_absolute), meaning(lambda a: np.abs(a)))


# Division. A safe divisor takes the place of 0, and of -1 under the least number.


def _select(lowering: Any, type_: Type, mask: str, a: str, b: str) -> str:
    bits = boolean(type_).llvm
    return lowering.new(f"select {bits} {mask}, {type_.llvm} {a}, {type_.llvm} {b}")


def _safe_divisor(lowering: Any, type_: Type, a: str, b: str) -> tuple[str, str]:
    """(divisor that cannot trap, whether b is zero)."""
    t, bits = type_.llvm, boolean(type_).llvm
    zero = lowering.new(f"icmp eq {t} {b}, {constant(type_, 0)}")
    bad = zero
    if type_.is_signed:
        lowest = constant(type_, -(1 << (type_.bits - 1)))
        least = lowering.new(f"icmp eq {t} {a}, {lowest}")
        minus = lowering.new(f"icmp eq {t} {b}, {constant(type_, -1)}")
        both = lowering.new(f"and {bits} {least}, {minus}")
        bad = lowering.new(f"or {bits} {zero}, {both}")
    return _select(lowering, type_, bad, constant(type_, 1), b), zero


def _quotient(lowering: Any, type_: Type, a: str, b: str) -> str:
    divisor, zero = _safe_divisor(lowering, type_, a, b)
    op = "sdiv" if type_.is_signed else "udiv"
    result = lowering.new(f"{op} {type_.llvm} {a}, {divisor}")
    return _select(lowering, type_, zero, constant(type_, 0), result)


def _remainder(lowering: Any, type_: Type, a: str, b: str) -> str:
    if type_.is_float:
        return lowering.new(f"frem {type_.llvm} {a}, {b}")
    divisor, _ = _safe_divisor(lowering, type_, a, b)
    op = "srem" if type_.is_signed else "urem"
    return lowering.new(f"{op} {type_.llvm} {a}, {divisor}")


def _signs_differ(lowering: Any, type_: Type, rest: str, b: str) -> str:
    """Whether a truncating division with this rest must be corrected to floor."""
    t, bits = type_.llvm, boolean(type_).llvm
    mixed = lowering.new(f"xor {t} {rest}, {b}")
    negative = lowering.new(f"icmp slt {t} {mixed}, {constant(type_, 0)}")
    some = lowering.new(f"icmp ne {t} {rest}, {constant(type_, 0)}")
    return lowering.new(f"and {bits} {some}, {negative}")


def _floor_divide_integers(lowering: Any, type_: Type, a: str, b: str) -> str:
    result = _quotient(lowering, type_, a, b)
    if not type_.is_signed:
        return result
    wrong = _signs_differ(lowering, type_, _remainder(lowering, type_, a, b), b)
    less = lowering.new(f"sub {type_.llvm} {result}, {constant(type_, 1)}")
    return _select(lowering, type_, wrong, less, result)


def _modulo_integers(lowering: Any, type_: Type, a: str, b: str) -> str:
    rest = _remainder(lowering, type_, a, b)
    if not type_.is_signed:
        return rest
    wrong = _signs_differ(lowering, type_, rest, b)
    more = lowering.new(f"add {type_.llvm} {rest}, {b}")
    return _select(lowering, type_, wrong, more, rest)


def _zero(type_: Type) -> str:
    return "zeroinitializer" if type_.lanes else "0.0"


def _modulo_floats(lowering: Any, type_: Type, a: str, b: str) -> str:
    """Python's %: the exact rest, moved to the sign of b; a zero takes the sign of b."""
    t, bits = type_.llvm, boolean(type_).llvm
    rest = lowering.new(f"frem {t} {a}, {b}")
    negative_rest = lowering.new(f"fcmp olt {t} {rest}, {_zero(type_)}")
    negative_b = lowering.new(f"fcmp olt {t} {b}, {_zero(type_)}")
    wrong = lowering.new(f"xor {bits} {negative_rest}, {negative_b}")
    moved = _select(lowering, type_, wrong, lowering.new(f"fadd {t} {rest}, {b}"), rest)
    zero = lowering.new(f"fcmp oeq {t} {rest}, {_zero(type_)}")
    operands = [f"{t} {_zero(type_)}", f"{t} {b}"]
    signed_zero = lowering.intrinsic(f"llvm.copysign.{suffix(type_)}", t, operands)
    return _select(lowering, type_, zero, signed_zero, moved)


def _floor_divide_floats(lowering: Any, type_: Type, a: str, b: str) -> str:
    return _floor_of(lowering, type_, lowering.new(f"fdiv {type_.llvm} {a}, {b}"))


def _floor_of(lowering: Any, type_: Type, a: str) -> str:
    return lowering.intrinsic(f"llvm.floor.{suffix(type_)}", type_.llvm, [f"{type_.llvm} {a}"])


def _power_of_two(instruction: Any) -> int:
    """log2 of a literal divisor that is a positive power of two, else -1."""
    divisor = instruction.operands[1]
    if divisor.op != "literal" or not divisor.type.is_integer:
        return -1
    number = divisor.attributes["value"]
    return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else -1


def _emit_floor_divide(lowering: Any, instruction: Any) -> str:
    shift = _power_of_two(instruction)
    type_ = instruction.type
    if shift >= 0:
        op = "ashr" if type_.is_signed else "lshr"
        return lowering.new(f"{op} {lowering.typed(instruction.operands[0])}, "
                            f"{constant(type_, shift)}")  # fmt: skip
    build = _floor_divide_floats if type_.is_float else _floor_divide_integers
    return numeric(build)(lowering, instruction)


def _emit_modulo(lowering: Any, instruction: Any) -> str:
    shift = _power_of_two(instruction)
    type_ = instruction.type
    if shift >= 0:
        return lowering.new(f"and {lowering.typed(instruction.operands[0])}, "
                            f"{constant(type_, (1 << shift) - 1)}")  # fmt: skip
    build = _modulo_floats if type_.is_float else _modulo_integers
    return numeric(build)(lowering, instruction)


def _truncating(a: Any, b: Any) -> tuple[Any, Any]:
    """Exact (quotient, rest) of Python integers, with this language's guards."""
    if b == 0:
        return 0, 0
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient, a - quotient * b


def _each(function: Callable[[int, int], int]) -> Callable[..., Any]:
    """Lift a function of Python integers over lanes; the result wraps to the type."""

    def run(a: Any, b: Any) -> Any:
        bits = a.dtype.itemsize * 8
        flat = [function(int(x), int(y)) % (1 << bits) for x, y in
                zip(np.ravel(a), np.ravel(b), strict=True)]  # fmt: skip
        unsigned = np.array(flat, dtype=f"u{a.dtype.itemsize}")
        return unsigned.view(a.dtype).reshape(np.shape(a))

    return run


def _divide_meaning(integers: Callable[[int, int], int], floats: Any) -> Callable[..., Any]:
    lifted = _each(integers)
    return meaning(lambda a, b: lifted(a, b) if a.dtype.kind in "iu" else floats(a, b))


def _python_floor(a: int, b: int) -> int:
    return a // b if b else 0


def _python_modulo(a: int, b: int) -> int:
    return a % b if b else 0


def _float_modulo(a: Any, b: Any) -> Any:
    rest = np.fmod(a, b)
    moved = np.where((rest < 0) != (b < 0), rest + b, rest)
    return np.where(rest == 0, np.copysign(np.zeros_like(b), b), moved)


define("quotient", numeric(_quotient), _divide_meaning(lambda a, b: _truncating(a, b)[0], None))
define("remainder", numeric(_remainder),
       _divide_meaning(lambda a, b: _truncating(a, b)[1], np.fmod))  # fmt: skip
define("floor_divide", _emit_floor_divide,
       _divide_meaning(_python_floor, lambda a, b: np.floor(a / b)))  # fmt: skip
define("modulo", _emit_modulo, _divide_meaning(_python_modulo, _float_modulo))
