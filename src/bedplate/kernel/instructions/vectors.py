"""Vector instructions: lanes, shuffles, tail masks, reductions over a fixed tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.kernel.instructions import floats
from bedplate.kernel.instructions.convert import narrow, splat_text, widen
from bedplate.kernel.instructions.operation import define
from bedplate.kernel.types import Type, f32, i32, vec, with_element


def _lane(lowering: Any, lane: Any, lanes: int) -> str:
    """A lane number that is always in range."""
    if lane.op == "literal":
        return str(lane.attributes["value"] % lanes)
    return lowering.new(f"and i64 {lowering.text(lane)}, {lanes - 1}")


def _emit_extract(lowering: Any, instruction: Any) -> str:
    vector, lane = instruction.operands
    index = _lane(lowering, lane, vector.type.lanes)
    return lowering.new(f"extractelement {lowering.typed(vector)}, i64 {index}")


def _emit_insert(lowering: Any, instruction: Any) -> str:
    vector, lane, value = instruction.operands
    index = _lane(lowering, lane, vector.type.lanes)
    return lowering.new(
        f"insertelement {lowering.typed(vector)}, {lowering.typed(value)}, i64 {index}"
    )


def _extract(machine: Any, instruction: Any, vector: Any, lane: Any) -> Any:
    return vector[int(lane) % len(vector)]


def _insert(machine: Any, instruction: Any, vector: Any, lane: Any, value: Any) -> Any:
    result = vector.copy()
    result[int(lane) % len(vector)] = value
    return result


define("extract", _emit_extract, _extract)
define("insert", _emit_insert, _insert)


def _shuffle_text(lowering: Any, type_: Type, a: str, b: str, indices: Any) -> str:
    t = type_.llvm
    picked = ", ".join(f"i32 {i}" for i in indices)
    return lowering.new(f"shufflevector {t} {a}, {t} {b}, <{len(indices)} x i32> <{picked}>")


def _emit_shuffle(lowering: Any, instruction: Any) -> str:
    a, b = instruction.operands
    indices = instruction.attributes["indices"]
    return _shuffle_text(lowering, a.type, lowering.text(a), lowering.text(b), indices)


def _shuffle(machine: Any, instruction: Any, a: Any, b: Any) -> Any:
    return np.concatenate([a, b])[list(instruction.attributes["indices"])]


define("shuffle", _emit_shuffle, _shuffle)


def _emit_tail_mask(lowering: Any, instruction: Any) -> str:
    lanes = instruction.type.lanes
    count = lowering.text(instruction.operands[0])
    count = lowering.intrinsic("llvm.smax.i64", "i64", [f"i64 {count}", "i64 0"])
    count = lowering.intrinsic("llvm.smin.i64", "i64", [f"i64 {count}", f"i64 {lanes}"])
    count = lowering.new(f"trunc i64 {count} to i32")
    counts = vec(i32, lanes)
    every = splat_text(lowering, counts, count)
    numbers = ", ".join(f"i32 {i}" for i in range(lanes))
    return lowering.new(f"icmp slt {counts.llvm} <{numbers}>, {every}")


def _tail_mask(machine: Any, instruction: Any, count: Any) -> Any:
    return np.arange(instruction.type.lanes) < int(count)


define("tail_mask", _emit_tail_mask, _tail_mask)


# Reductions: the upper half of the lanes is combined with the lower half until one is left.


def _combine(lowering: Any, op: str, type_: Type, a: str, b: str) -> str:
    if op == "reduce_min":
        return floats.minimum(lowering, type_, a, b)
    if op == "reduce_max":
        return floats.maximum(lowering, type_, a, b)
    words = {"reduce_add": "add", "reduce_mul": "mul", "reduce_and": "and", "reduce_or": "or"}
    prefix = "f" if type_.is_float else ""
    return lowering.new(f"{prefix}{words[op]} {type_.llvm} {a}, {b}")


def _emit_reduce(lowering: Any, instruction: Any) -> str:
    vector = instruction.operands[0]
    type_, text = vector.type, lowering.text(vector)
    narrow_type = instruction.type
    if type_.is_narrow_float:
        text, type_ = widen(lowering, type_, text), with_element(type_, f32)
    while type_.lanes > 1:
        half = type_.lanes // 2
        smaller = vec(type_.scalar, half)
        low = _shuffle_text(lowering, type_, text, "poison", range(half))
        high = _shuffle_text(lowering, type_, text, "poison", range(half, type_.lanes))
        text = _combine(lowering, instruction.op, smaller, low, high)
        type_ = smaller
    text = lowering.new(f"extractelement {type_.llvm} {text}, i64 0")
    return narrow(lowering, narrow_type, text) if narrow_type.is_narrow_float else text


def _tree(function: Any) -> Any:
    def run(machine: Any, instruction: Any, vector: Any) -> Any:
        if instruction.type.is_narrow_float:
            vector = vector.astype(np.float32)
        while len(vector) > 1:
            half = len(vector) // 2
            vector = function(vector[:half], vector[half:]).astype(vector.dtype)
        return vector[0]

    return run


define("reduce_add", _emit_reduce, _tree(np.add))
define("reduce_mul", _emit_reduce, _tree(np.multiply))
define("reduce_min", _emit_reduce, _tree(lambda a, b: np.where((a < b) | (a != a), a, b)))
define("reduce_max", _emit_reduce, _tree(lambda a, b: np.where((a > b) | (a != a), a, b)))
define("reduce_and", _emit_reduce, _tree(np.bitwise_and))
define("reduce_or", _emit_reduce, _tree(np.bitwise_or))
