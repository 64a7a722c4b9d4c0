"""Conversions: cast between all types, bitcast, splat, iota; the rounding to f16 and bf16.

f16 and bf16 travel as their 16 bits. f32 to bf16 is integer arithmetic, since the instruction
some processors have flushes subnormals; f64 goes through f32 rounded to odd, so that the two
roundings together round once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import bfloat16, rounded
from bedplate.kernel.instructions.operation import define
from bedplate.kernel.types import Type, bf16, boolean, f16, f32, f64, i32, i64, with_element


def _splat(type_: Type, text: str) -> str:
    return f"splat ({type_.scalar.llvm} {text})" if type_.lanes else text


def _half(type_: Type) -> str:
    return f"<{type_.lanes} x half>" if type_.lanes else "half"


def widen(lowering: Any, type_: Type, text: str) -> str:
    """A value of f16 or bf16 (or a vector) as f32, exactly."""
    wide, bits = with_element(type_, f32).llvm, with_element(type_, i32)
    if type_.scalar is f16:
        half = lowering.new(f"bitcast {type_.llvm} {text} to {_half(type_)}")
        return lowering.new(f"fpext {_half(type_)} {half} to {wide}")
    word = lowering.new(f"zext {type_.llvm} {text} to {bits.llvm}")
    upper = lowering.new(f"shl {bits.llvm} {word}, {_splat(bits, '16')}")
    return lowering.new(f"bitcast {bits.llvm} {upper} to {wide}")


def narrow(lowering: Any, type_: Type, text: str) -> str:
    """An f32 (or a vector) rounded to nearest even as f16 or bf16; NaN stays NaN."""
    wide, bits = with_element(type_, f32).llvm, with_element(type_, i32)
    if type_.scalar is f16:
        half = lowering.new(f"fptrunc {wide} {text} to {_half(type_)}")
        return lowering.new(f"bitcast {_half(type_)} {half} to {type_.llvm}")
    t = bits.llvm
    word = lowering.new(f"bitcast {wide} {text} to {t}")
    upper = lowering.new(f"lshr {t} {word}, {_splat(bits, '16')}")
    odd = lowering.new(f"and {t} {upper}, {_splat(bits, '1')}")
    half_unit = lowering.new(f"add {t} {odd}, {_splat(bits, '32767')}")
    rounded = lowering.new(f"add {t} {word}, {half_unit}")
    rounded = lowering.new(f"lshr {t} {rounded}, {_splat(bits, '16')}")
    quiet = lowering.new(f"or {t} {upper}, {_splat(bits, '64')}")
    is_nan = lowering.new(f"fcmp uno {wide} {text}, {text}")
    mask = boolean(type_).llvm
    chosen = lowering.new(f"select {mask} {is_nan}, {t} {quiet}, {t} {rounded}")
    return lowering.new(f"trunc {t} {chosen} to {type_.llvm}")


def _round_to_odd(lowering: Any, type_: Type, text: str) -> str:
    """An f64 as the f32 towards zero, its last bit set if anything was lost."""
    double, single = with_element(type_, f64).llvm, with_element(type_, f32).llvm
    bits, mask = with_element(type_, i32), boolean(type_).llvm
    t = bits.llvm
    near = lowering.new(f"fptrunc {double} {text} to {single}")
    back = lowering.new(f"fpext {single} {near} to {double}")
    lost = lowering.new(f"fcmp one {double} {back}, {text}")
    suffix = f"v{type_.lanes}f64" if type_.lanes else "f64"
    sizes = [
        lowering.intrinsic(f"llvm.fabs.{suffix}", double, [f"{double} {x}"]) for x in (back, text)
    ]
    beyond = lowering.new(f"fcmp ogt {double} {sizes[0]}, {sizes[1]}")
    word = lowering.new(f"bitcast {single} {near} to {t}")
    towards = lowering.new(f"sub {t} {word}, {_splat(bits, '1')}")
    word = lowering.new(f"select {mask} {beyond}, {t} {towards}, {t} {word}")
    odd = lowering.new(f"or {t} {word}, {_splat(bits, '1')}")
    word = lowering.new(f"select {mask} {lost}, {t} {odd}, {t} {word}")
    return lowering.new(f"bitcast {t} {word} to {single}")


def _emit_cast(lowering: Any, instruction: Any) -> str:
    source, target = instruction.operands[0].type, instruction.type
    text = lowering.text(instruction.operands[0])
    if source.is_pointer or target.is_pointer:
        return _cast_pointer(lowering, source, target, text)
    if target.bits == 1:
        return _cast_to_bit(lowering, source, text)
    if source.is_integer:
        if target.is_integer:
            return _cast_integer(lowering, source, target, text)
        return _integer_to_float(lowering, source, target, text)
    if target.is_integer:
        return _float_to_integer(lowering, source, target, text)
    return _cast_float(lowering, source, target, text)


def _cast_pointer(lowering: Any, source: Type, target: Type, text: str) -> str:
    if source.is_pointer and target.is_pointer:
        return text
    if source.is_pointer:
        return lowering.new(f"ptrtoint ptr {text} to {target.llvm}")
    if source.bits != 64:
        text = _cast_integer(lowering, source, i64, text)
    return lowering.new(f"inttoptr i64 {text} to ptr")


def _cast_to_bit(lowering: Any, source: Type, text: str) -> str:
    if source.is_narrow_float:
        text, source = widen(lowering, source, text), with_element(source, f32)
    zero = "zeroinitializer" if source.lanes else ("0.0" if source.is_float else "0")
    op = "fcmp une" if source.is_float else "icmp ne"
    return lowering.new(f"{op} {source.llvm} {text}, {zero}")


def _cast_integer(lowering: Any, source: Type, target: Type, text: str) -> str:
    if source.bits == target.bits:
        return text
    op = "trunc" if source.bits > target.bits else "sext" if source.is_signed else "zext"
    return lowering.new(f"{op} {source.llvm} {text} to {target.llvm}")


def _integer_to_float(lowering: Any, source: Type, target: Type, text: str) -> str:
    wide = with_element(target, f32) if target.is_narrow_float else target
    if source.bits == 1:
        # one masked move, where a conversion first makes integers of the mask
        one = _splat(wide, "1.0") if wide.lanes else "1.0"
        zero = "zeroinitializer" if wide.lanes else "0.0"
        kind = wide.llvm
        result = lowering.new(f"select {source.llvm} {text}, {kind} {one}, {kind} {zero}")
    else:
        op = "sitofp" if source.is_signed else "uitofp"
        result = lowering.new(f"{op} {source.llvm} {text} to {wide.llvm}")
    return narrow(lowering, target, result) if target.is_narrow_float else result


def _float_to_integer(lowering: Any, source: Type, target: Type, text: str) -> str:
    if source.is_narrow_float:
        text, source = widen(lowering, source, text), with_element(source, f32)
    name = "fptosi" if target.is_signed else "fptoui"
    lanes = f"v{source.lanes}" if source.lanes else ""
    name = f"llvm.{name}.sat.{lanes}i{target.bits}.{lanes}f{source.bits}"
    return lowering.intrinsic(name, target.llvm, [f"{source.llvm} {text}"])


def _cast_float(lowering: Any, source: Type, target: Type, text: str) -> str:
    if source.is_narrow_float:
        text, source = widen(lowering, source, text), with_element(source, f32)
    if target.is_narrow_float:
        if source.bits == 64:
            text = _round_to_odd(lowering, source, text)
        return narrow(lowering, target, text)
    if source.bits == target.bits:
        return text
    op = "fpext" if target.bits > source.bits else "fptrunc"
    return lowering.new(f"{op} {source.llvm} {text} to {target.llvm}")


def _saturate(value: Any, target: Type) -> Any:
    low = -(1 << (target.bits - 1)) if target.is_signed else 0
    high = (1 << (target.bits - target.is_signed)) - 1

    def one(x: float) -> int:
        if math.isnan(x):
            return 0
        if math.isinf(x):
            return high if x > 0 else low
        return min(max(int(x), low), high)

    return [one(float(x)) for x in np.ravel(value)]


def _cast_meaning(machine: Any, instruction: Any, value: Any) -> Any:
    source, target = instruction.operands[0].type, instruction.type
    if source.is_pointer or target.is_pointer:
        return machine.cast_pointer(value, source, target)
    dtype = machine.dtype(target)
    if target.bits == 1:
        return value != 0
    if source.is_float and target.is_integer:
        return np.array(_saturate(value, target), dtype).reshape(np.shape(value))
    if target.is_narrow_float and source.scalar is f64 and target.scalar is bf16:
        return rounded(value, dtype)
    if target.is_narrow_float and source.scalar is not f64:
        return value.astype(np.float32).astype(dtype)
    return value.astype(dtype)


define("cast", _emit_cast, _cast_meaning)


def _emit_bitcast(lowering: Any, instruction: Any) -> str:
    operand = instruction.operands[0]
    if operand.type.llvm == instruction.type.llvm:
        return lowering.text(operand)
    return lowering.new(f"bitcast {lowering.typed(operand)} to {instruction.type.llvm}")


def _bitcast_meaning(machine: Any, instruction: Any, value: Any) -> Any:
    lanes = np.atleast_1d(value).view(machine.dtype(instruction.type))
    return lanes if instruction.type.lanes else lanes[0]


define("bitcast", _emit_bitcast, _bitcast_meaning)


def splat_text(lowering: Any, type_: Type, text: str) -> str:
    """A scalar's text as the text of a vector with it in every lane."""
    t, n = type_.llvm, type_.lanes
    first = lowering.new(f"insertelement {t} poison, {type_.scalar.llvm} {text}, i64 0")
    return lowering.new(f"shufflevector {t} {first}, {t} poison, <{n} x i32> zeroinitializer")


def _emit_splat(lowering: Any, instruction: Any) -> str:
    return splat_text(lowering, instruction.type, lowering.text(instruction.operands[0]))


def _splat_meaning(machine: Any, instruction: Any, value: Any) -> Any:
    return np.full(instruction.type.lanes, value, machine.dtype(instruction.type))


define("splat", _emit_splat, _splat_meaning)


def _emit_iota(lowering: Any, instruction: Any) -> str:
    type_ = instruction.type
    scalar = type_.scalar
    # from 257 on bfloat16 does not hold every number
    numbers = (
        rounded(np.arange(type_.lanes), bfloat16.numpy) if scalar is bf16 else range(type_.lanes)
    )
    texts = (f"{scalar.llvm} {lowering.constant(scalar, i)}" for i in numbers)
    return f"<{', '.join(texts)}>"


def _iota_meaning(machine: Any, instruction: Any) -> Any:
    return np.arange(instruction.type.lanes).astype(machine.dtype(instruction.type))


define("iota", _emit_iota, _iota_meaning)
