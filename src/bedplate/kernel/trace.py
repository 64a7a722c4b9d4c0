"""Tracer: records the instructions of one kernel while its Python function runs once."""

from __future__ import annotations

import sys
from typing import Any

from bedplate.errors import KernelError
from bedplate.kernel import context
from bedplate.kernel.context import failure, line_of, user_site
from bedplate.kernel.ir import CLOSED, NO_ATTRIBUTES, Block, Instruction, Program
from bedplate.kernel.types import Type
from bedplate.kernel.values import Value


class Tracer:
    """One kernel under trace: the program so far and the blocks that are open, innermost last."""

    def __init__(self, name: str, code: Any, result: Type | None) -> None:
        self.name = name
        self.code = code
        self.count = 0
        self.block = Block(self)
        self.open = [self.block]
        self.broken: KernelError | None = None
        self.local_bytes = 0
        self.shared_bytes = 0
        self.callees: dict[int, tuple[Any, int]] = {}
        self.program = Program(name, [], [], result, self.block)

    def emit(
        self, op: str, type_: Type | None, operands: tuple[Value, ...],
        attributes: dict[str, Any] = NO_ATTRIBUTES,
    ) -> Value:  # fmt: skip
        """Append an instruction to the open block; its value, if it has one, is numbered."""
        for operand in operands:
            if operand.block is not None and operand.block.owner is not self:
                raise self.escaped(operand)
        block = self.block
        number = 0
        if type_ is not None:
            self.count = number = self.count + 1
        frame: Any = sys._getframe(2)
        code = self.code
        while frame.f_code is not code and frame.f_code.co_filename.startswith(context._PACKAGE):
            frame = frame.f_back
        site = (frame.f_code, frame.f_lasti)
        value = Value(op, type_, operands, attributes, number, block, site)
        block.statements.append(value)
        return value

    def escaped(self, value: Instruction) -> KernelError:
        owner = value.block.owner if value.block is not None else None
        if owner is not None:
            return failure(
                f"a value of kernel {owner.name} is used in another kernel",
                "pass it as an argument of call(kernel, ...)",
                value=value,
            )
        return failure(
            "a value is used outside the loop or branch that made it",
            "v = var(x) before the block, v.set(y) inside it, v.get() after it",
            value=value,
        )

    def fresh(self, op: str, type_: Type, block: Block) -> Value:
        """A value that no instruction computes: a parameter or the index of a loop."""
        self.count += 1
        return Value(op, type_, (), NO_ATTRIBUTES, self.count, block, user_site(self.code))

    def parameter(self, name: str, type_: Type) -> Value:
        value = self.fresh("parameter", type_, self.block)
        self.program.parameters.append(value)
        self.program.names.append(name)
        return value

    def enter(self) -> Block:
        """Open a block inside the current one."""
        self.block = Block(self)
        self.open.append(self.block)
        return self.block

    def leave(self, block: Block) -> None:
        """Close the innermost block, which must be this one."""
        if self.block is not block:
            raise failure(
                "a loop or branch was left before the one inside it",
                "loops and branches that nest, without break and return",
            )
        self.close(self.open.pop())
        self.block = self.open[-1]

    def close(self, block: Block) -> None:
        """Values of a closed block can no longer be used."""
        block.owner = None
        for statement in block.statements:
            if isinstance(statement, Instruction):
                statement.block = CLOSED

    def append(self, statement: Any) -> None:
        self.block.statements.append(statement)

    def finish(self) -> Program:
        """Close the body and give the program.

        raises KernelError if a loop was left by break or return
        """
        if self.broken is not None:
            raise self.broken
        if self.block is not self.program.body:
            raise failure("a loop or branch was never closed", "loops that run to their end")
        self.close(self.program.body)
        for parameter in self.program.parameters:
            parameter.block = CLOSED
        return self.program

    def left_early(self, site: Any) -> None:
        """Remember that Python left a loop by break, return or an exception."""
        if self.broken is None:
            self.broken = KernelError(
                f"kernel {self.name}: Python left a loop by break or return\n"
                f"  loop  opened at {line_of(site)}\n"
                "  legal: a loop runs its body once under trace; give_back(x) inside it returns "
                "at run time, while_(lambda: go.get()) ends when a condition says so"
            )
