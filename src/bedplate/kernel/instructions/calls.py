"""Call instructions: another kernel of the module, an address, a symbol of the process."""

from __future__ import annotations

from typing import Any

from bedplate.kernel.instructions.operation import define
from bedplate.kernel.types import Type


def extension(type_: Type) -> str:
    """How the C calling convention widens a small integer, as an attribute with a space."""
    if type_.is_pointer or type_.lanes or type_.bits > 16:
        return ""
    if type_.is_float:
        return " zeroext"
    return " signext" if type_.is_signed else " zeroext"


def _call(lowering: Any, instruction: Any, target: str, arguments: Any, external: bool) -> str:
    result = instruction.type
    texts = ", ".join(
        f"{a.type.llvm}{extension(a.type) if external else ''} {lowering.text(a)}"
        for a in arguments
    )
    if result is None:
        lowering.line(f"call void {target}({texts})")
        return ""
    widened = extension(result).strip() if external else ""
    return lowering.new(f"call {widened} {result.llvm} {target}({texts})")


def _emit_call(lowering: Any, instruction: Any) -> str:
    callee = lowering.program.callees[instruction.attributes["callee"]]
    symbol = lowering.module.symbols[id(callee)]
    return _call(lowering, instruction, f"@{symbol}", instruction.operands, False)


def _emit_call_pointer(lowering: Any, instruction: Any) -> str:
    address, *arguments = instruction.operands
    target = lowering.text(address)
    if not address.type.is_pointer:
        target = lowering.new(f"inttoptr i64 {target} to ptr")
    return _call(lowering, instruction, target, arguments, True)


def _emit_extern(lowering: Any, instruction: Any) -> str:
    name = instruction.attributes["symbol"]
    types = ", ".join(a.type.llvm for a in instruction.operands)
    result = instruction.type.llvm if instruction.type else "void"
    lowering.declare(name, f"{result} @{name}({types})")
    return _call(lowering, instruction, f"@{name}", instruction.operands, True)


define("call", _emit_call,
       lambda machine, instruction, *values: machine.call(instruction, values))  # fmt: skip
define("call_pointer", _emit_call_pointer,
       lambda machine, instruction, address, *values: machine.call_native(
           instruction, address, values))  # fmt: skip
define("extern", _emit_extern,
       lambda machine, instruction, *values: machine.call_symbol(instruction, values))  # fmt: skip
