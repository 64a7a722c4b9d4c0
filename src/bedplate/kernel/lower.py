"""Lowering: a structured program becomes LLVM text, statement by statement.

Loops become rotated (tested at the bottom) with the index in a phi; mutable locals become stack
slots, which LLVM turns back into registers; everything else is up to the records in
instructions/. No fast-math flag and no nsw on user arithmetic is ever written.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from bedplate.kernel.instructions import OPERATIONS
from bedplate.kernel.instructions.calls import extension
from bedplate.kernel.ir import (
    Block,
    Instruction,
    Loop,
    Program,
    When,
    While,
    all_instructions,
    all_programs,
)
from bedplate.kernel.target import Target
from bedplate.kernel.types import Type, bf16, f16, f32

# A called kernel of at most this many instructions becomes part of its caller.
INLINE_STATEMENTS = 300


def symbol_of(name: str) -> str:
    """The linker symbol of a kernel called `name`."""
    return "bedplate_" + re.sub(r"[^A-Za-z0-9_]", "_", name)


def lower(program: Program, target: Target) -> str:
    """The LLVM module of a program and all that it calls, as text."""
    module = Module(target)
    programs = all_programs(program)
    for index, each in enumerate(programs):
        entry = each is program
        # no kernel has a dot in its symbol
        symbol = symbol_of(each.name) if entry else f"{symbol_of(each.name)}.{index}"
        module.symbols[id(each)] = symbol
    for each in programs:
        FunctionLowering(module, each, each is not program).run()
    return module.text()


class Module:
    """The text of a module as it grows: declarations, functions, attributes."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.symbols: dict[int, str] = {}
        self.declared: dict[str, str] = {}
        self.functions: list[str] = []

    def text(self) -> str:
        target = self.target
        attributes = [
            "nounwind",
            f'"target-cpu"="{target.cpu}"',
            f'"target-features"="{target.features}"',
            f'"prefer-vector-width"="{target.vector_bits}"',
            f'"min-legal-vector-width"="{target.vector_bits}"',
        ]
        parts = [f'target triple = "{target.triple}"', *self.declared.values(), *self.functions]
        parts.append("attributes #0 = { " + " ".join(attributes) + " }")
        parts.append("attributes #1 = { alwaysinline " + " ".join(attributes) + " }\n")
        return "\n".join(parts)


class FunctionLowering:
    """Writes one function; the emission of an instruction calls `new`, `line` and `typed`."""

    trusts_alignment = True

    def __init__(self, module: Module, program: Program, internal: bool) -> None:
        self.module = module
        self.target = module.target
        self.program = program
        self.internal = internal
        self.names: dict[int, str] = {}
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.temporaries = 0
        self.label = "entry"
        self.streams = any(
            instruction.op == "store" and instruction.attributes.get("nontemporal")
            for instruction in all_instructions(program.body)
        )

    def run(self) -> None:
        program = self.program
        parameters = []
        for parameter in program.parameters:
            name = self.names[parameter.number] = f"%p{parameter.number}"
            widened = "" if self.internal else extension(parameter.type)
            parameters.append(f"{parameter.type.llvm}{widened} {name}")
        parameters += self.hidden_parameters()
        self.block(program.body)
        self.give_back(constant_text(program.result, 0) if program.result else "")
        result = program.result.llvm if program.result else "void"
        if program.result and not self.internal:
            result = extension(program.result).strip() + " " + result
        linkage = "internal " if self.internal else ""
        head = f"define {linkage}{result} @{self.module.symbols[id(program)]}"
        small = (
            self.internal and sum(1 for _ in all_instructions(program.body)) <= INLINE_STATEMENTS
        )
        head += f"({', '.join(parameters)}) #{1 if small else 0} {{"
        text = [head, "entry:", *self.slots, *self.lines, "}\n"]
        self.module.functions.append("\n".join(text))

    def give_back(self, text: str) -> None:
        """Return a value; stores that went around the cache are ordered before what follows."""
        if self.streams and self.target.triple.startswith("x86_64"):
            self.intrinsic("llvm.x86.sse.sfence", "void", [])
        result = self.program.result
        self.line(f"ret {result.llvm} {text}" if result else "ret void")

    # What emissions use

    @staticmethod
    def constant(type_: Type, value: Any) -> str:
        return constant_text(type_, value)

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def new(self, expression: str) -> str:
        """Write `%tN = expression` and give %tN."""
        self.temporaries += 1
        name = f"%t{self.temporaries}"
        self.lines.append(f"  {name} = {expression}")
        return name

    def text(self, operand: Instruction) -> str:
        """An operand without its type."""
        if operand.op == "literal":
            return constant_text(operand.type, operand.attributes["value"])
        return self.names[operand.number]

    def typed(self, operand: Instruction) -> str:
        """An operand with its type before it."""
        return f"{operand.type.llvm} {self.text(operand)}"

    def slot(self, llvm_type: str, alignment: int, count: int = 1) -> str:
        """A stack slot, made once at the function's entry."""
        self.temporaries += 1
        name = f"%s{self.temporaries}"
        array = f", i64 {count}" if count != 1 else ""
        self.slots.append(f"  {name} = alloca {llvm_type}{array}, align {alignment}")
        return name

    def declare(self, name: str, signature: str) -> None:
        """Declare a function once: `result @name(types)` is the signature."""
        self.module.declared.setdefault(name, f"declare {signature}")

    def intrinsic(self, name: str, result: str, operands: list[str]) -> str:
        """Call an LLVM intrinsic on typed operands; `name` carries its type suffix."""
        types = ", ".join(_type_of(operand) for operand in operands)
        self.declare(name, f"{result} @{name}({types})")
        call = f"call {result} @{name}({', '.join(operands)})"
        if result == "void":
            self.line(call)
            return ""
        return self.new(call)

    def open_label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.label = name

    def new_label(self, stem: str) -> str:
        self.temporaries += 1
        return f"{stem}{self.temporaries}"

    def unreachable_rest(self) -> None:
        """After a terminator inside a block: what follows stands in a block nobody enters."""
        self.open_label(self.new_label("dead"))

    # Statements

    def block(self, block: Block) -> None:
        for statement in block.statements:
            if isinstance(statement, Instruction):
                result = self.instruction(statement)
                if statement.number:
                    self.names[statement.number] = result
            elif isinstance(statement, Loop):
                self.loop(statement)
            elif isinstance(statement, While):
                self.while_loop(statement)
            else:
                self.when(statement)

    def instruction(self, instruction: Instruction) -> str:
        return OPERATIONS[instruction.op].emit(self, instruction)

    def hidden_parameters(self) -> list[str]:
        """Parameters that the program does not know of; check mode adds some."""
        return []

    def while_condition(self, statement: While) -> str:
        return self.text(statement.condition)

    def loop(self, loop: Loop) -> None:
        pre, head, end = (self.new_label(stem) for stem in ("pre", "head", "end"))
        start, stop, step = map(self.text, (loop.start, loop.stop, loop.step))
        fixed = loop.step.attributes["value"] if loop.step.op == "literal" else None
        order = "sgt" if fixed is not None and fixed < 0 else "slt"
        enter = self.new(f"icmp {order} i64 {start}, {stop}")
        if fixed is None:
            positive = self.new(f"icmp sgt i64 {step}, 0")
            enter = self.new(f"and i1 {enter}, {positive}")
        self.line(f"br i1 {enter}, label %{pre}, label %{end}")
        self.open_label(pre)
        past = self.past_last(start, stop, step, fixed)
        self.line(f"br label %{head}")
        self.open_label(head)
        index = self.names[loop.index.number] = f"%i{loop.index.number}"
        hole = len(self.lines)
        self.lines.append("")
        self.block(loop.body)
        following = self.new(f"add i64 {index}, {step}")
        done = self.new(f"icmp eq i64 {following}, {past}")
        self.line(f"br i1 {done}, label %{end}, label %{head}")
        self.lines[hole] = (
            f"  {index} = phi i64 [ {start}, %{pre} ], [ {following}, %{self.label} ]"
        )
        self.open_label(end)

    def past_last(self, start: str, stop: str, step: str, fixed: int | None) -> str:
        """start + turns * step, where the loop ends: exact modulo 2**64, whatever the bounds."""
        if fixed in (1, -1):
            return stop
        down = fixed is not None and fixed < 0
        distance = self.new(f"sub i64 {start}, {stop}" if down else f"sub i64 {stop}, {start}")
        less = self.new(f"sub i64 {distance}, 1")
        size = step if fixed is None else str(abs(fixed))
        if fixed is not None and abs(fixed) & (abs(fixed) - 1) == 0:
            whole = self.new(f"or i64 {less}, {abs(fixed) - 1}")
            length = self.new(f"add i64 {whole}, 1")
        else:
            turns = self.new(f"udiv i64 {less}, {size}")
            whole = self.new(f"mul i64 {turns}, {size}")
            length = self.new(f"add i64 {whole}, {size}")
        return self.new(f"{'sub' if down else 'add'} i64 {start}, {length}")

    def while_loop(self, statement: While) -> None:
        test, body, end = (self.new_label(stem) for stem in ("test", "body", "end"))
        self.line(f"br label %{test}")
        self.open_label(test)
        self.block(statement.test)
        self.line(f"br i1 {self.while_condition(statement)}, label %{body}, label %{end}")
        self.open_label(body)
        self.block(statement.body)
        self.line(f"br label %{test}")
        self.open_label(end)

    def when(self, statement: When) -> None:
        then, other, end = (self.new_label(stem) for stem in ("then", "other", "end"))
        has_other = statement.otherwise is not None
        condition = self.text(statement.condition)
        self.line(f"br i1 {condition}, label %{then}, label %{other if has_other else end}")
        self.open_label(then)
        self.block(statement.body)
        self.line(f"br label %{end}")
        if statement.otherwise is not None:
            self.open_label(other)
            self.block(statement.otherwise)
            self.line(f"br label %{end}")
        self.open_label(end)


def _type_of(operand: str) -> str:
    """The type at the head of a typed operand."""
    if operand.startswith("<"):
        return operand[: operand.index(">") + 1]
    return operand.split(" ", 1)[0]


def float_bits(type_: Type, value: float) -> int:
    """The bit pattern of a float that `type_` holds exactly."""
    if type_ is f16:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    bits = struct.unpack("<I", struct.pack("<f", value))[0] if type_ is not bf16 else 0
    if type_ is bf16:
        return struct.unpack("<I", struct.pack("<f", value))[0] >> 16
    if type_ is f32:
        return bits
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def constant_text(type_: Type, value: Any) -> str:
    """A literal as LLVM writes it, without the type."""
    scalar = type_.scalar
    if scalar.is_pointer:
        return "null"
    if scalar.is_narrow_float:
        text = str(float_bits(scalar, float(value)))
    elif scalar.is_float:
        text = f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
    elif scalar.bits == 1:
        text = "true" if value else "false"
    else:
        text = str(int(value))
    if not type_.lanes:
        return text
    if value == 0 and text in ("0", "false", "0x0000000000000000"):
        return "zeroinitializer"
    return f"splat ({scalar.llvm} {text})"
