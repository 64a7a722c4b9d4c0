"""Instructions behind statements: mutable locals and return."""

from __future__ import annotations

from typing import Any

from bedplate.kernel.instructions.operation import define


def _emit_var(lowering: Any, instruction: Any) -> str:
    type_ = instruction.type
    slot = lowering.slot(type_.llvm, max(type_.itemsize * max(type_.lanes, 1), 1))
    lowering.line(f"store {lowering.typed(instruction.operands[0])}, ptr {slot}")
    return slot


def _emit_get(lowering: Any, instruction: Any) -> str:
    slot = lowering.text(instruction.operands[0])
    return lowering.new(f"load {instruction.type.llvm}, ptr {slot}")


def _emit_set(lowering: Any, instruction: Any) -> str:
    cell, value = instruction.operands
    lowering.line(f"store {lowering.typed(value)}, ptr {lowering.text(cell)}")
    return ""


def _emit_give_back(lowering: Any, instruction: Any) -> str:
    operands = instruction.operands
    lowering.give_back(lowering.text(operands[0]) if operands else "")
    lowering.unreachable_rest()
    return ""


def _set_meaning(machine: Any, instruction: Any, cell: Any, value: Any) -> None:
    cell[0] = value


define("var", _emit_var, lambda machine, instruction, value: [value])
define("get", _emit_get, lambda machine, instruction, cell: cell[0])
define("set", _emit_set, _set_meaning)
define("give_back", _emit_give_back,
       lambda machine, instruction, *values: machine.give_back(*values))  # fmt: skip
