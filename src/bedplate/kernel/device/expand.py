"""What stands for an instruction that devices do not have.

An expansion gives the value that its instruction would give, or None where the instruction is
legal as it is (a masked load of a scalar, a high product of 32 bits).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.kernel.device.builder import Builder
from bedplate.kernel.ir import Instruction
from bedplate.kernel.types import Type, f32, i1, i64, u32, u64, with_element

Parts = tuple[Instruction, ...]


# Masks: the whole vector where all lanes are named, else lane by lane


def _is_full(mask: Instruction) -> bool:
    return mask.op == "literal" and bool(mask.attributes["value"])


def _all(build: Builder, mask: Instruction) -> Instruction:
    return build.emit("reduce_and", i1, (mask,))


def _load_masked(build: Builder, type_: Type, operands: Parts, attributes: Any) -> Any:
    pointer, mask, other = operands
    if _is_full(mask):
        return build.emit("load", type_, (pointer,), attributes)
    if not type_.lanes:
        return None
    cell = build.emit("var", type_, (other,))
    with build.when(_all(build, mask)) as branch:
        build.emit("set", None, (cell, build.emit("load", type_, (pointer,), attributes)))
    with build.otherwise(branch), build.lanes_of(mask) as lane:
        _put(build, cell, lane, build.offset(pointer, lane))
    return build.to("get", type_, cell)


def _put(build: Builder, cell: Instruction, lane: Any, pointer: Instruction) -> None:
    """One element from memory into a lane of a mutable vector."""
    loaded = build.emit("load", cell.type.scalar, (pointer,))
    vector = build.to("get", cell.type, cell)
    build.emit("set", None, (cell, build.insert(vector, lane, loaded)))


def _store_masked(build: Builder, type_: Type | None, operands: Parts, attributes: Any) -> Any:
    pointer, value, mask = operands
    if _is_full(mask):
        return build.emit("store", None, (pointer, value), attributes)
    if not value.type.lanes:
        return None
    with build.when(_all(build, mask)) as branch:
        build.emit("store", None, (pointer, value), attributes)
    with build.otherwise(branch), build.lanes_of(mask) as lane:
        at = build.offset(pointer, lane)
        build.emit("store", None, (at, build.extract(value, lane)))
    return ()


def _element(build: Builder, pointer: Instruction, indices: Instruction, lane: Any) -> Instruction:
    index = build.extract(indices, lane) if indices.type.lanes else indices
    return build.offset(pointer, build.to("cast", i64, index))


def _gather(build: Builder, type_: Type, operands: Parts, attributes: Any) -> Any:
    pointer, indices, mask, other = operands
    if not type_.lanes:
        at = _element(build, pointer, indices, 0)
        if _is_full(mask):
            return build.emit("load", type_, (at,))
        return build.emit("load_masked", type_, (at, mask, other))
    if _is_full(mask):
        return _gather_all(build, type_, pointer, indices)
    cell = build.emit("var", type_, (other,))
    with build.when(_all(build, mask)) as branch:
        build.emit("set", None, (cell, _gather_all(build, type_, pointer, indices)))
    with build.otherwise(branch), build.lanes_of(mask) as lane:
        _put(build, cell, lane, _element(build, pointer, indices, lane))
    return build.to("get", type_, cell)


def _gather_all(
    build: Builder, type_: Type, pointer: Instruction, indices: Instruction
) -> Instruction:
    result = build.literal(type_, 0)
    for lane in range(type_.lanes):
        loaded = build.emit("load", type_.scalar, (_element(build, pointer, indices, lane),))
        result = build.insert(result, lane, loaded)
    return result


def _scatter(build: Builder, type_: Type | None, operands: Parts, attributes: Any) -> Any:
    pointer, indices, value, mask = operands
    if not value.type.lanes:
        at = _element(build, pointer, indices, 0)
        build.emit("store_masked", None, (at, value, mask))
        return ()
    with build.lanes_of(mask) as lane:
        at = _element(build, pointer, indices, lane)
        build.emit("store", None, (at, build.extract(value, lane)))
    return ()


# Arithmetic


def _mul_high(build: Builder, type_: Type, operands: Parts, attributes: Any) -> Any:
    """The upper half of a product of 64 bits, from four products of halves.

    source  Warren, Hacker's Delight, 2nd edition, 8-2
    """
    if type_.bits < 64:
        return None
    words = with_element(type_, u64)
    a, b = (x if x.type is words else build.to("bitcast", words, x) for x in operands)
    (a_low, a_high), (b_low, b_high) = (_halves(build, x) for x in (a, b))
    low = build("mul", a_low, b_low)
    first = build("add", build("mul", a_high, b_low), build("shift_right", low, 32))
    second = build("add", build("mul", a_low, b_high), build("and", first, 0xFFFFFFFF))
    high = build("add", build("mul", a_high, b_high), build("shift_right", first, 32))
    high = build("add", high, build("shift_right", second, 32))
    if not type_.is_signed:
        return high
    result = build.to("bitcast", type_, high)
    x, y = (build.like(operands[0], each) for each in operands)
    for factor, other in ((x, y), (y, x)):  # a negative factor counted 2**64 too much
        negative = build.compare("less", factor, 0)
        result = build("sub", result, build.select(negative, other, 0))
    return result


def _halves(build: Builder, x: Instruction) -> tuple[Instruction, Instruction]:
    return build("and", x, 0xFFFFFFFF), build("shift_right", x, 32)


def _cast(build: Builder, type_: Type, operands: Parts, attributes: Any) -> Any:
    """A float as an integer: NaN is 0 in the language, and what the driver likes in OpenCL."""
    (x,) = operands
    if not x.type.is_float or not type_.is_integer or type_.bits == 1:
        return None
    if x.type.is_narrow_float:
        x = build.to("cast", with_element(x.type, f32), x)
    number = build.select(build.compare("equal", x, x), x, 0.0)
    return build.emit("cast", type_, (number,))


_TINY = float(np.finfo(np.float32).tiny)


def _flushed(build: Builder, x: Instruction) -> Instruction:
    """Subnormals as zeros of their sign."""
    small = build.compare("less", build("absolute", x), _TINY)
    return build.select(small, build("copysign", build.literal(x.type, 0.0), x), x)


def _bfloat16_dot(build: Builder, type_: Type, operands: Parts, attributes: Any) -> Any:
    """As the processors that have it: see the meaning of its record."""
    *pairs, total = operands
    words = with_element(type_, u32)
    a, b = (x if x.type is words else build.to("bitcast", words, x) for x in pairs)
    total = _flushed(build, total)
    for part in (lambda x: build("and", x, 0xFFFF0000), lambda x: build("shift_left", x, 16)):
        x, y = (
            _flushed(build, build.to("bitcast", with_element(type_, f32), part(word)))
            for word in (a, b)
        )
        total = _flushed(build, build("fma", x, y, total))
    return total


EXPANSIONS: dict[str, Callable[..., Any]] = {
    "load_masked": _load_masked, "store_masked": _store_masked, "gather": _gather,
    "scatter": _scatter, "mul_high": _mul_high, "cast": _cast, "bfloat16_dot": _bfloat16_dot,
}  # fmt: skip
