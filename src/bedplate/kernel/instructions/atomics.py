"""Atomic instructions. Addresses must be multiples of the element's size."""

from __future__ import annotations

from typing import Any

from bedplate.kernel.instructions.operation import define


def _emit_load(lowering: Any, instruction: Any) -> str:
    type_, order = instruction.type, instruction.attributes["order"]
    pointer = lowering.typed(instruction.operands[0])
    return lowering.new(f"load atomic {type_.llvm}, {pointer} {order}, align {type_.itemsize}")


def _emit_store(lowering: Any, instruction: Any) -> str:
    pointer, value = instruction.operands
    order = instruction.attributes["order"]
    lowering.line(f"store atomic {lowering.typed(value)}, {lowering.typed(pointer)} {order}, "
                  f"align {value.type.itemsize}")  # fmt: skip
    return ""


def _read_modify_write(op: str) -> Any:
    def emit(lowering: Any, instruction: Any) -> str:
        pointer, value = (lowering.typed(operand) for operand in instruction.operands)
        order = instruction.attributes["order"]
        size = instruction.type.itemsize
        return lowering.new(f"atomicrmw {op} {pointer}, {value} {order}, align {size}")

    return emit


_ON_FAILURE = {"release": "monotonic", "acq_rel": "acquire"}


def _emit_cas(lowering: Any, instruction: Any) -> str:
    texts = ", ".join(map(lowering.typed, instruction.operands))
    order = instruction.attributes["order"]
    failing = _ON_FAILURE.get(order, order)
    type_ = instruction.type
    both = lowering.new(f"cmpxchg {texts} {order} {failing}, align {type_.itemsize}")
    return lowering.new(f"extractvalue {{ {type_.llvm}, i1 }} {both}, 0")


def _emit_fence(lowering: Any, instruction: Any) -> str:
    lowering.line(f"fence {instruction.attributes['order']}")
    return ""


def _emit_pause(lowering: Any, instruction: Any) -> str:
    if lowering.target.triple.startswith("aarch64"):
        return lowering.intrinsic("llvm.aarch64.hint", "void", ["i32 1"])
    if lowering.target.triple.startswith("x86_64"):
        return lowering.intrinsic("llvm.x86.sse2.pause", "void", [])
    return ""


def _load(machine: Any, instruction: Any, pointer: Any) -> Any:
    return machine.read(instruction, pointer, 0)


def _store(machine: Any, instruction: Any, pointer: Any, value: Any) -> None:
    machine.write(instruction, pointer, 0, value)


def _add(machine: Any, instruction: Any, pointer: Any, value: Any) -> Any:
    before = machine.read(instruction, pointer, 0)
    machine.write(instruction, pointer, 0, before + value)
    return before


def _exchange(machine: Any, instruction: Any, pointer: Any, value: Any) -> Any:
    before = machine.read(instruction, pointer, 0)
    machine.write(instruction, pointer, 0, value)
    return before


def _cas(machine: Any, instruction: Any, pointer: Any, expected: Any, value: Any) -> Any:
    before = machine.read(instruction, pointer, 0)
    if before == expected:
        machine.write(instruction, pointer, 0, value)
    return before


def _nothing(machine: Any, instruction: Any) -> None:
    return None


define("atomic_load", _emit_load, _load)
define("atomic_store", _emit_store, _store)
define("atomic_add", _read_modify_write("add"), _add)
define("atomic_exchange", _read_modify_write("xchg"), _exchange)
define("atomic_cas", _emit_cas, _cas)
define("fence", _emit_fence, _nothing)
define("pause", _emit_pause, _nothing)
