"""Builder: appends instructions to the open block of a program that a pass rewrites."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bedplate.kernel.ir import NO_ATTRIBUTES, Block, Instruction, Loop, When
from bedplate.kernel.types import Type, boolean, i64


class Builder:
    """One program as it grows: the open block, the user's line, the number of the last value."""

    def __init__(self) -> None:
        self.block = Block()
        self.site: Any = None
        self.count = 0

    def fresh(self, op: str, type_: Type) -> Instruction:
        """A value that no instruction computes: a parameter or the index of a loop."""
        self.count += 1
        return Instruction(op, type_, (), NO_ATTRIBUTES, self.count, None, self.site)

    def emit(
        self, op: str, type_: Type | None, operands: tuple[Instruction, ...],
        attributes: dict[str, Any] = NO_ATTRIBUTES,
    ) -> Instruction:  # fmt: skip
        """Append an instruction; its value, if it has a type, is numbered."""
        number = 0
        if type_ is not None:
            self.count = number = self.count + 1
        made = Instruction(op, type_, operands, attributes, number, None, self.site)
        self.block.statements.append(made)
        return made

    @staticmethod
    def literal(type_: Type, value: Any) -> Instruction:
        """A number of a scalar type, or in every lane of a vector type."""
        return Instruction("literal", type_, (), {"value": value})

    # Short forms; a Python number takes the type of the other operand

    def __call__(self, op: str, a: Instruction, *rest: Any) -> Instruction:
        """An instruction whose result has the type of its first operand."""
        return self.emit(op, a.type, (a, *(self.like(a, x) for x in rest)))

    def compare(self, op: str, a: Instruction, b: Any) -> Instruction:
        return self.emit(op, boolean(a.type), (a, self.like(a, b)))

    def select(self, mask: Instruction, a: Instruction, b: Any) -> Instruction:
        return self.emit("select", a.type, (mask, a, self.like(a, b)))

    def to(self, op: str, type_: Type, a: Instruction) -> Instruction:
        """A `cast`, `bitcast` or reduction to another type."""
        return a if op == "cast" and type_ is a.type else self.emit(op, type_, (a,))

    def like(self, a: Instruction, b: Any) -> Instruction:
        return b if isinstance(b, Instruction) else self.literal(a.type, b)

    def extract(self, vector: Instruction, lane: Any) -> Instruction:
        lane = lane if isinstance(lane, Instruction) else self.literal(i64, lane)
        return self.emit("extract", vector.type.scalar, (vector, lane))

    def insert(self, vector: Instruction, lane: Any, value: Instruction) -> Instruction:
        lane = lane if isinstance(lane, Instruction) else self.literal(i64, lane)
        return self.emit("insert", vector.type, (vector, lane, value))

    def offset(self, pointer: Instruction, count: Any) -> Instruction:
        if count == 0:
            return pointer
        count = count if isinstance(count, Instruction) else self.literal(i64, count)
        return self.emit("offset", pointer.type, (pointer, count))

    # Statements

    @contextmanager
    def when(self, condition: Instruction) -> Iterator[When]:
        """A branch; the block behind it is filled by `otherwise`."""
        statement = When(condition, Block(), None, self.site)
        self.block.statements.append(statement)
        with self._inside(statement.body):
            yield statement

    @contextmanager
    def otherwise(self, statement: When) -> Iterator[None]:
        statement.otherwise = Block()
        with self._inside(statement.otherwise):
            yield

    @contextmanager
    def loop(self, count: int) -> Iterator[Instruction]:
        """Count from 0 to `count` at run time."""
        index = self.fresh("index", i64)
        start, stop, step = (self.literal(i64, x) for x in (0, count, 1))
        statement = Loop(index, start, stop, step, Block(), self.site)
        self.block.statements.append(statement)
        with self._inside(statement.body):
            yield index

    @contextmanager
    def lanes_of(self, mask: Instruction) -> Iterator[Instruction]:
        """Do something for each lane that a mask names, the lowest first."""
        with self.loop(mask.type.lanes) as lane, self.when(self.extract(mask, lane)):
            yield lane

    @contextmanager
    def _inside(self, block: Block) -> Iterator[None]:
        outer, self.block = self.block, block
        try:
            yield
        finally:
            self.block = outer
