"""Bit instructions: logic, guarded shifts, counts, the upper half of a product."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.kernel.instructions.arithmetic import constant, meaning, numeric, suffix
from bedplate.kernel.instructions.operation import define
from bedplate.kernel.types import Type, boolean


def _logic(op: str) -> Any:
    def build(lowering: Any, type_: Type, a: str, b: str) -> str:
        return lowering.new(f"{op} {type_.llvm} {a}, {b}")

    return numeric(build)


def _not(lowering: Any, type_: Type, a: str) -> str:
    ones = "true" if type_.bits == 1 else "-1"
    if type_.lanes:
        ones = f"splat ({type_.scalar.llvm} {ones})"
    return lowering.new(f"xor {type_.llvm} {a}, {ones}")


define("and", _logic("and"), meaning(lambda a, b: a & b))
define("or", _logic("or"), meaning(lambda a, b: a | b))
define("xor", _logic("xor"), meaning(lambda a, b: a ^ b))
define("not", numeric(_not), meaning(lambda a: ~a))


def _in_range_literal(instruction: Any) -> bool:
    amount = instruction.operands[1]
    return amount.op == "literal" and 0 <= amount.attributes["value"] < amount.type.bits


def _shift_left(lowering: Any, instruction: Any) -> str:
    type_ = instruction.type
    a, amount = (lowering.text(operand) for operand in instruction.operands)
    shifted = lowering.new(f"shl {type_.llvm} {a}, {amount}")
    if _in_range_literal(instruction):
        return shifted
    return _zero_beyond_width(lowering, type_, shifted, amount)


def _zero_beyond_width(lowering: Any, type_: Type, shifted: str, amount: str) -> str:
    t = type_.llvm
    fits = lowering.new(f"icmp ult {t} {amount}, {constant(type_, type_.bits)}")
    zero = constant(type_, 0)
    return lowering.new(f"select {boolean(type_).llvm} {fits}, {t} {shifted}, {t} {zero}")


def _shift_right(lowering: Any, instruction: Any) -> str:
    type_ = instruction.type
    t = type_.llvm
    a, amount = (lowering.text(operand) for operand in instruction.operands)
    op = "ashr" if type_.is_signed else "lshr"
    if _in_range_literal(instruction):
        return lowering.new(f"{op} {t} {a}, {amount}")
    if not type_.is_signed:
        return _zero_beyond_width(lowering, type_, lowering.new(f"lshr {t} {a}, {amount}"), amount)
    operands = [f"{t} {amount}", f"{t} {constant(type_, type_.bits - 1)}"]
    clamped = lowering.intrinsic(f"llvm.umin.{suffix(type_)}", t, operands)
    return lowering.new(f"ashr {t} {a}, {clamped}")


def _unsigned(a: Any) -> Any:
    return a.view(f"u{a.dtype.itemsize}")


def _left(a: Any, amount: Any) -> Any:
    bits = a.dtype.itemsize * 8
    fits = _unsigned(amount) < bits
    return np.where(fits, np.left_shift(a, np.where(fits, amount, 0).astype(a.dtype)), 0)


def _right(a: Any, amount: Any) -> Any:
    bits = a.dtype.itemsize * 8
    fits = _unsigned(amount) < bits
    shifted = np.right_shift(a, np.where(fits, amount, bits - 1).astype(a.dtype))
    return shifted if a.dtype.kind == "i" else np.where(fits, shifted, 0)


define("shift_left", _shift_left, meaning(_left))
define("shift_right", _shift_right, meaning(_right))


def _count(name: str, flag: bool) -> Any:
    def build(lowering: Any, type_: Type, a: str) -> str:
        operands = [f"{type_.llvm} {a}"] + (["i1 false"] if flag else [])
        return lowering.intrinsic(f"llvm.{name}.{suffix(type_)}", type_.llvm, operands)

    return numeric(build)


def _each_bits(function: Any) -> Any:
    def run(a: Any) -> Any:
        bits = a.dtype.itemsize * 8
        counts = [function(int(x), bits) for x in np.ravel(_unsigned(a))]
        return np.array(counts).astype(a.dtype).reshape(np.shape(a))

    return meaning(run)


define("popcount", _count("ctpop", False), _each_bits(lambda x, bits: x.bit_count()))
define("ctlz", _count("ctlz", True), _each_bits(lambda x, bits: bits - x.bit_length()))
define("cttz", _count("cttz", True),
       _each_bits(lambda x, bits: (x & -x).bit_length() - 1 if x else bits))  # fmt: skip


def _mul_high(lowering: Any, type_: Type, a: str, b: str) -> str:
    wide = f"i{type_.bits * 2}"
    shift = str(type_.bits)
    if type_.lanes:
        shift = f"splat ({wide} {shift})"
        wide = f"<{type_.lanes} x {wide}>"
    extend = "sext" if type_.is_signed else "zext"
    a = lowering.new(f"{extend} {type_.llvm} {a} to {wide}")
    b = lowering.new(f"{extend} {type_.llvm} {b} to {wide}")
    product = lowering.new(f"mul {wide} {a}, {b}")
    upper = lowering.new(f"lshr {wide} {product}, {shift}")
    return lowering.new(f"trunc {wide} {upper} to {type_.llvm}")


def _high_product(a: Any, b: Any) -> Any:
    bits = a.dtype.itemsize * 8
    pairs = zip(np.ravel(a), np.ravel(b), strict=True)
    highs = [(int(x) * int(y) >> bits) % (1 << bits) for x, y in pairs]
    return np.array(highs, f"u{a.dtype.itemsize}").view(a.dtype).reshape(np.shape(a))


define("mul_high", numeric(_mul_high), meaning(_high_product))
