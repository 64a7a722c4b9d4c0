"""Reads the text of a program back: the inverse of ir.print_program, by the grammar of ir.py."""

from __future__ import annotations

import ast
import re
from typing import Any

from bedplate.errors import KernelError
from bedplate.kernel.instructions import OPERATIONS
from bedplate.kernel.ir import (
    NO_ATTRIBUTES,
    Block,
    Instruction,
    Loop,
    Program,
    When,
    While,
)
from bedplate.kernel.types import parse_type

_HEAD = re.compile(r"kernel (\S+?)\((.*?)\)(?: -> (\S+))?:$")
_PARAMETER = re.compile(r"%(\d+): (\S+) (\w+)$")
_NUMBERS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def read_program(text: str) -> Program:
    """The program that `print_program` wrote as `text`; the last kernel, with those it calls.

    raises KernelError naming the line that does not follow the grammar
    """
    programs: list[Program] = []
    lines = text.splitlines()
    position = 0
    while position < len(lines):
        if not lines[position].strip():
            position += 1
            continue
        reader = _Reader(lines, position, programs)
        programs.append(reader.program())
        position = reader.position
    if not programs:
        raise KernelError("read_program: there is no kernel in the text")
    return programs[-1]


class _Reader:
    """Reads one program; `position` is the line to read next."""

    def __init__(self, lines: list[str], position: int, earlier: list[Program]) -> None:
        self.lines = lines
        self.position = position
        self.earlier = earlier
        self.values: dict[int, Instruction] = {}
        self.callees: list[Program] = []

    def fail(self, what: str) -> KernelError:
        line = self.lines[self.position] if self.position < len(self.lines) else "end of text"
        return KernelError(
            f"read_program: {what}\n  line {self.position + 1}: {line.strip()}\n"
            "  legal: the grammar at the head of kernel/ir.py"
        )

    def program(self) -> Program:
        head = _HEAD.match(self.lines[self.position])
        if head is None:
            raise self.fail("expected `kernel name(parameters):`")
        name, inner, result = head.groups()
        body = Block()
        parameters, names = [], []
        for part in inner.split(", ") if inner else []:
            found = _PARAMETER.match(part)
            if found is None:
                raise self.fail(f"the parameter {part!r}")
            number, type_, parameter_name = found.groups()
            parameters.append(self.define(int(number), "parameter", parse_type(type_), body))
            names.append(parameter_name)
        self.position += 1
        self.block(body, 1)
        result_type = parse_type(result) if result else None
        return Program(name, parameters, names, result_type, body, self.callees)

    def define(self, number: int, op: str, type_: Any, block: Block) -> Instruction:
        value = Instruction(op, type_, (), NO_ATTRIBUTES, number, block, self.site())
        self.values[number] = value
        return value

    def site(self) -> tuple[str, int]:
        return "<program text>", self.position + 1

    def depth(self) -> int:
        """How deep the line to read next stands; -1 at the end or at the next kernel."""
        if self.position >= len(self.lines):
            return -1
        line = self.lines[self.position]
        stripped = line.lstrip(" ")
        return (len(line) - len(stripped)) // 2 if stripped else -1

    def block(self, block: Block, depth: int) -> None:
        while self.depth() == depth:
            words = self.lines[self.position].strip()
            if words.split(" ")[0] in ("holds", "otherwise"):
                return
            block.statements.append(self.statement(words, block, depth))
        if self.depth() > depth:
            raise self.fail("a line is deeper than its block")

    def statement(self, text: str, block: Block, depth: int) -> Any:
        first = text.split(" ", 1)[0]
        if first == "loop":
            return self.loop(text, depth)
        if first == "while":
            return self.while_loop(depth)
        if first == "when":
            return self.when(text, depth)
        return self.instruction(text, block)

    def loop(self, text: str, depth: int) -> Loop:
        found = re.match(r"loop %(\d+) = (\S+) to (\S+) step (\S+)$", text)
        if found is None:
            raise self.fail("expected `loop %i = a to b step c`")
        number, *bounds = found.groups()
        start, stop, step = map(self.operand, bounds)
        body, site = Block(), self.site()
        index = self.define(int(number), "index", parse_type("i64"), body)
        self.position += 1
        self.block(body, depth + 1)
        return Loop(index, start, stop, step, body, site)

    def while_loop(self, depth: int) -> While:
        test, body, site = Block(), Block(), self.site()
        self.position += 1
        self.block(test, depth + 1)
        found = re.match(r"\s*holds (\S+) do$", self.lines[self.position])
        if found is None:
            raise self.fail("expected `holds %c do`")
        condition = self.operand(found.group(1))
        self.position += 1
        self.block(body, depth + 1)
        return While(test, condition, body, site)

    def when(self, text: str, depth: int) -> When:
        statement = When(self.operand(text.split(" ", 1)[1]), Block(), None, self.site())
        self.position += 1
        self.block(statement.body, depth + 1)
        if self.depth() == depth and self.lines[self.position].strip() == "otherwise":
            statement.otherwise = Block()
            self.position += 1
            self.block(statement.otherwise, depth + 1)
        return statement

    def instruction(self, text: str, block: Block) -> Instruction:
        attributes: dict[str, Any] = NO_ATTRIBUTES
        if text.endswith("}"):
            text, _, inner = text[:-1].partition(" {")
            attributes = self.attributes(inner)
        words = text.split(" ")
        number, type_ = 0, None
        if words[0].startswith("%"):
            if len(words) < 4 or words[1] != "=":
                raise self.fail("expected `%n = op type operands`")
            number, type_ = int(words[0][1:]), parse_type(words[3])
            words = [words[2], *words[4:]]
        if words[0] not in OPERATIONS:
            raise self.fail(f"there is no instruction {words[0]!r}")
        operands = tuple(self.operand(word) for word in words[1:])
        if words[0] == "call":
            attributes = {"callee": self.callee(attributes.get("callee", -1))}
        value = Instruction(words[0], type_, operands, attributes, number, block, self.site())
        if number:
            self.values[number] = value
        self.position += 1
        return value

    def callee(self, place: int) -> int:
        """The number among this program's callees of the kernel at a place of the text."""
        if not 0 <= place < len(self.earlier):
            raise self.fail("the kernel called does not stand before this one")
        called = self.earlier[place]
        if not any(called is each for each in self.callees):
            self.callees.append(called)
        return [called is each for each in self.callees].index(True)

    def attributes(self, inner: str) -> dict[str, Any]:
        try:
            call = ast.parse(f"f({inner})", mode="eval").body
            keywords = call.keywords if isinstance(call, ast.Call) else []
            return {str(k.arg): ast.literal_eval(k.value) for k in keywords}
        except (SyntaxError, ValueError) as error:
            raise self.fail("attributes are Python literals") from error

    def operand(self, word: str) -> Instruction:
        if word.startswith("%"):
            try:
                return self.values[int(word[1:])]
            except (KeyError, ValueError):
                raise self.fail(f"{word} is used before it is defined") from None
        number, _, type_text = word.partition(":")
        type_ = parse_type(type_text)
        value = _NUMBERS[number] if number in _NUMBERS else ast.literal_eval(number)
        return Instruction("literal", type_, (), {"value": value})
