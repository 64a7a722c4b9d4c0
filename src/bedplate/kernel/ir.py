"""The program that a traced kernel leaves behind: a small structured intermediate representation.

    program     := "kernel" NAME "(" [ parameter { ", " parameter } ] ")" [ "->" TYPE ] ":" block
    parameter   := VALUE ":" TYPE NAME
    block       := { statement }                           one a line, two spaces deeper
    statement   := VALUE "=" OP TYPE { operand } [ attributes ]     an instruction with a result
                 | OP { operand } [ attributes ]                    one without: store, set, ...
                 | "loop" VALUE "=" operand "to" operand "step" operand  block
                 | "while" block "holds" operand "do" block
                 | "when" operand block [ "otherwise" block ]
    operand     := VALUE | literal
    literal     := NUMBER ":" TYPE                          of a vector type: in every lane
    attributes  := "{" KEY "=" PYTHON_LITERAL { ", " KEY "=" PYTHON_LITERAL } "}"
    VALUE       := "%" DIGITS            each is assigned once and seen in its own block and deeper
    TYPE        := "f32" | "ptr(f32)" | "vec(f32,16)" ...   see types.py
    OP          := the name of a record in instructions/, which says what it means, how the
                   interpreter computes it and what LLVM text it becomes

A `loop` counts i64 from the first operand while it is below (for a negative step: above) the
second; a step that is not positive at run time means no turn at all. Mutable locals are the
instructions `var`, `get` and `set`; `give_back` returns. Other programs are called through
`call`; its attribute `callee` counts the kernels of the text from 0 (in memory: the callees).
`print_program` writes this text and `read.read_program` reads it back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bedplate.kernel.types import Type

NO_ATTRIBUTES: dict[str, Any] = {}


class Instruction:
    """One instruction and the value that it gives.

    type      of the value, or None
    number    the value is written %number; 0 for a literal or an instruction without a value
    block     where it stands while its block is open, then CLOSED; None for a literal
    site      (code, instruction offset) of the user's line, or None
    """

    __slots__ = ("attributes", "block", "number", "op", "operands", "site", "type")

    def __init__(
        self, op: str, type_: Any, operands: tuple[Any, ...], attributes: dict[str, Any],
        number: int = 0, block: Block | None = None, site: Any = None,
    ) -> None:  # fmt: skip
        self.op = op
        self.type: Type = type_
        self.operands: tuple[Instruction, ...] = operands
        self.attributes = attributes
        self.number = number
        self.block = block
        self.site = site


class Block:
    """Statements in order; `owner` is the tracer while the block may still be used."""

    __slots__ = ("owner", "statements")

    def __init__(self, owner: Any = None) -> None:
        self.owner = owner
        self.statements: list[Any] = []


# Where instructions of a block stand once it is closed: they no longer refer to their own block,
# so that a program is free of reference cycles.
CLOSED = Block()


@dataclass(slots=True, eq=False)
class Loop:
    """A counted loop; `index` is the instruction that stands for the running i64."""

    index: Instruction
    start: Instruction
    stop: Instruction
    step: Instruction
    body: Block
    site: Any = None


@dataclass(slots=True, eq=False)
class While:
    """Run `test`, and as long as `condition` (made there) holds, `body` and `test` again."""

    test: Block
    condition: Instruction
    body: Block
    site: Any = None


@dataclass(slots=True, eq=False)
class When:
    """Run `body` if `condition` holds, else `otherwise` (which may be absent)."""

    condition: Instruction
    body: Block
    otherwise: Block | None = None
    site: Any = None


@dataclass(slots=True, eq=False)
class Program:
    """One traced kernel: parameters (instructions with op "parameter"), result type, body."""

    name: str
    parameters: list[Instruction]
    names: list[str]
    result: Type | None
    body: Block
    callees: list[Program] = field(default_factory=list)

    def __str__(self) -> str:
        return print_program(self)


def print_program(program: Program) -> str:
    """The text of a program, those that it calls first."""
    order = all_programs(program)
    places = {id(each): place for place, each in enumerate(order)}
    return "\n".join(_print_one(each, places) for each in order)


def all_programs(program: Program) -> list[Program]:
    """The program and all that it calls, callees first, each once."""
    order: list[Program] = []
    _visit(program, order)
    return order


def _visit(program: Program, order: list[Program]) -> None:
    for callee in program.callees:
        _visit(callee, order)
    if not any(program is other for other in order):
        order.append(program)


def all_instructions(block: Block) -> Iterator[Instruction]:
    """Every instruction of a block and of the blocks inside it."""
    for statement in block.statements:
        if isinstance(statement, Instruction):
            yield statement
        elif isinstance(statement, Loop):
            yield from all_instructions(statement.body)
        elif isinstance(statement, While):
            yield from all_instructions(statement.test)
            yield from all_instructions(statement.body)
        else:
            yield from all_instructions(statement.body)
            if statement.otherwise is not None:
                yield from all_instructions(statement.otherwise)


def _print_one(program: Program, places: dict[int, int]) -> str:
    callees = [places[id(callee)] for callee in program.callees]
    parameters = ", ".join(
        f"%{p.number}: {p.type} {name}"
        for p, name in zip(program.parameters, program.names, strict=True)
    )
    result = f" -> {program.result}" if program.result else ""
    lines = [f"kernel {program.name}({parameters}){result}:"]
    _print_block(program.body, "  ", lines, callees)
    return "\n".join(lines) + "\n"


def _print_block(block: Block, indent: str, lines: list[str], callees: list[int]) -> None:
    deeper = indent + "  "
    for statement in block.statements:
        if isinstance(statement, Instruction):
            lines.append(indent + _print_instruction(statement, callees))
        elif isinstance(statement, Loop):
            start, stop, step = map(operand_text, (statement.start, statement.stop, statement.step))
            index = operand_text(statement.index)
            lines.append(f"{indent}loop {index} = {start} to {stop} step {step}")
            _print_block(statement.body, deeper, lines, callees)
        elif isinstance(statement, While):
            lines.append(f"{indent}while")
            _print_block(statement.test, deeper, lines, callees)
            lines.append(f"{indent}holds {operand_text(statement.condition)} do")
            _print_block(statement.body, deeper, lines, callees)
        else:
            lines.append(f"{indent}when {operand_text(statement.condition)}")
            _print_block(statement.body, deeper, lines, callees)
            if statement.otherwise is not None:
                lines.append(f"{indent}otherwise")
                _print_block(statement.otherwise, deeper, lines, callees)


def _print_instruction(instruction: Instruction, callees: list[int]) -> str:
    head = f"%{instruction.number} = {instruction.op} {instruction.type}"
    words = [head if instruction.number else instruction.op]
    words.extend(map(operand_text, instruction.operands))
    attributes = instruction.attributes
    if instruction.op == "call":
        attributes = {"callee": callees[attributes["callee"]]}
    if attributes:
        pairs = ", ".join(f"{key}={value!r}" for key, value in attributes.items())
        words.append("{" + pairs + "}")
    return " ".join(words)


def operand_text(operand: Instruction) -> str:
    """How an operand is written: %7, or 1.5:f32 for a literal."""
    if operand.op == "literal":
        return f"{operand.attributes['value']!r}:{operand.type}"
    return f"%{operand.number}"
