"""Legalise a program for processors that have fewer instructions than a CPU: the same values from
what they have.

Needs a traced program. Leaves one in which
- vectors have 2 to `WIDEST` lanes: wider ones are several, one lane is a scalar;
- vectors are loaded and stored whole: what a mask leaves out is stepped over element by element;
- no product is wider than 64 bits, and no instruction is a hint.

The meaning of each instruction stays that of its record, so the interpreter gives the same for
both programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bedplate.errors import KernelError
from bedplate.kernel.context import line_of
from bedplate.kernel.device.builder import Builder
from bedplate.kernel.device.expand import EXPANSIONS
from bedplate.kernel.device.split import SPLITS, WIDEST, narrowed, parts_of, split_literal
from bedplate.kernel.ir import Block, Instruction, Loop, Program, When, While
from bedplate.kernel.types import Type

Parts = tuple[Instruction, ...]

HINTS = ("prefetch", "pause")
REFUSED = {
    "call_pointer": "a device cannot call machine code of this process",
    "extern": "a device cannot call functions of this process",
}


def legalise(program: Program) -> Program:
    """The program and all that it calls in legal instructions.

    raises KernelError for an instruction that no device has, with its line
    """
    return _Legaliser({}).program(program)


class _Legaliser:
    """Rewrites one program; `made` holds those it calls, by identity."""

    def __init__(self, made: dict[int, Program]) -> None:
        self.made = made
        self.values: dict[int, Parts] = {}
        self.source: Program
        self.build: Builder

    def program(self, source: Program) -> Program:
        callees = [self.callee(each) for each in source.callees]
        self.source, self.build = source, Builder()
        parameters: list[Instruction] = []
        names: list[str] = []
        for parameter, name in zip(source.parameters, source.names, strict=True):
            parts = tuple(self.build.fresh("parameter", t) for t in parts_of(parameter.type))
            self.values[parameter.number] = parts
            parameters += parts
            names += [name] if len(parts) == 1 else [f"{name}_{i}" for i in range(len(parts))]
        result = self.result(source)
        body = self.block(source.body)
        return Program(source.name, parameters, names, result, body, callees)

    def callee(self, source: Program) -> Program:
        found = self.made.get(id(source))
        if found is None:
            found = self.made[id(source)] = _Legaliser(self.made).program(source)
        return found

    def result(self, source: Program) -> Type | None:
        if source.result is None:
            return None
        if source.result.lanes > WIDEST:
            raise KernelError(
                f"kernel {source.name}: gives back {source.result.lanes} lanes, devices have "
                f"{WIDEST}\n  legal: store the vector through a pointer"
            )
        return narrowed(source.result)

    # Statements

    def block(self, source: Block) -> Block:
        block, outer = Block(), self.build.block
        self.build.block = block
        for statement in source.statements:
            if isinstance(statement, Instruction):
                self.instruction(statement)
            elif isinstance(statement, Loop):
                block.statements.append(self.loop(statement))
            elif isinstance(statement, While):
                test = self.block(statement.test)
                condition = self.one(statement.condition)
                body = self.block(statement.body)
                block.statements.append(While(test, condition, body, statement.site))
            else:
                block.statements.append(self.when(statement))
        self.build.block = outer
        return block

    def loop(self, source: Loop) -> Loop:
        index = self.build.fresh("index", source.index.type)
        self.values[source.index.number] = (index,)
        start, stop, step = map(self.one, (source.start, source.stop, source.step))
        return Loop(index, start, stop, step, self.block(source.body), source.site)

    def when(self, source: When) -> When:
        other = self.block(source.otherwise) if source.otherwise is not None else None
        return When(self.one(source.condition), self.block(source.body), other, source.site)

    # Instructions

    def one(self, operand: Instruction) -> Instruction:
        (part,) = self.parts(operand)
        return part

    def parts(self, operand: Instruction) -> Parts:
        if operand.op == "literal":
            return split_literal(operand)
        return self.values[operand.number]

    def instruction(self, instruction: Instruction) -> None:
        self.build.site = instruction.site
        op = instruction.op
        if op in REFUSED:
            raise KernelError(
                f"kernel {self.source.name}: {op}: {REFUSED[op]}\n"
                f"  at {line_of(instruction.site)}\n  legal: kernels called by call(kernel, ...)"
            )
        if op in HINTS:
            return
        operands = [self.parts(operand) for operand in instruction.operands]
        split = SPLITS.get(op, _each_part)
        given = split(self.build, instruction, operands, self.expanded)
        if instruction.number:
            self.values[instruction.number] = given

    def expanded(self, op: str, type_: Type | None, operands: Parts, attributes: Any) -> Any:
        """One legal-sized instruction, or what stands for it."""
        expansion = EXPANSIONS.get(op)
        if expansion is not None:
            given = expansion(self.build, type_, operands, attributes)
            if given is not None:
                return given
        return self.build.emit(op, type_, operands, attributes)


Make = Callable[[str, "Type | None", Parts, Any], Any]


def _each_part(
    build: Builder, instruction: Instruction, operands: list[Parts], make: Make
) -> Parts:
    """An instruction that does the same to every lane: one for each part."""
    types = parts_of(instruction.type) if instruction.type is not None else (None,)
    n_parts = max([len(types), *map(len, operands)])
    given = []
    for place in range(n_parts):
        picked = tuple(parts[place if len(parts) > 1 else 0] for parts in operands)
        type_ = types[place] if instruction.type is not None else None
        given.append(make(instruction.op, type_, picked, instruction.attributes))
    return tuple(given)
