"""Statements of the kernel language: loops, branches, mutable locals, return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from bedplate.kernel.context import failure, tracer, user_site
from bedplate.kernel.ir import CLOSED, Loop, When, While
from bedplate.kernel.types import Type, i1, i64
from bedplate.kernel.values import Value, as_value


def loop(start: Any, stop: Any = None, step: Any = 1) -> Iterator[Value]:
    """Count at run time: `for i in loop(n)`, `loop(start, stop)` or `loop(start, stop, step)`.

    start, stop  i64 values or Python numbers; half-open
    step         i64; a Python number may be negative; a run-time step that is not positive
                 means no turn at all
    returns      yields the index, an i64, once: the body is traced once
    """
    if stop is None:
        start, stop = 0, start
    here = tracer()
    bounds = [as_value(x, i64, f"the {what} of a loop") for x, what in
              ((start, "start"), (stop, "end"), (step, "step"))]  # fmt: skip
    if bounds[2].op == "literal" and bounds[2].attributes["value"] == 0:
        raise failure("a loop with step 0 never ends", "a step other than 0")
    for bound in bounds:
        if bound.block is not None and bound.block.owner is not here:
            raise here.escaped(bound)
    site = user_site(here.code)
    outer = here.block
    body = here.enter()
    index = here.fresh("index", i64, body)
    try:
        yield index
    except GeneratorExit:
        here.left_early(site)
        raise
    here.leave(body)
    index.block = CLOSED
    outer.statements.append(Loop(index, bounds[0], bounds[1], bounds[2], body, site))


def while_(condition: Callable[[], Any]) -> Iterator[None]:
    """Repeat while a condition holds: `for _ in while_(lambda: x.get() < n):`.

    condition  a function of no arguments that gives an i1; traced once, tested before each turn
    """
    here = tracer()
    site = user_site(here.code)
    outer = here.block
    test = here.enter()
    holds = as_value(condition(), i1, "the condition of while_")
    body = here.enter()
    try:
        yield None
    except GeneratorExit:
        here.left_early(site)
        raise
    here.leave(body)
    here.leave(test)
    outer.statements.append(While(test, holds, body, site))


class _Branch:
    """The context of `with when(...)` and `with otherwise()`."""

    __slots__ = ("body", "statement")

    def __init__(self, statement: When, is_otherwise: bool) -> None:
        self.statement = statement
        self.body = tracer().enter()
        if is_otherwise:
            statement.otherwise = self.body
        else:
            statement.body = self.body

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        if kind is None:
            tracer().leave(self.body)


def when(condition: Any) -> _Branch:
    """Run the block only if an i1 holds at run time: `with when(x < n):`."""
    here = tracer()
    holds = as_value(condition, i1, "the condition of when")
    if holds.block is not None and holds.block.owner is not here:
        raise here.escaped(holds)
    statement = When(holds, here.block, None, user_site(here.code))
    here.append(statement)
    return _Branch(statement, False)


def otherwise() -> _Branch:
    """The block for when the `when` right before did not hold: `with otherwise():`."""
    statements = tracer().block.statements
    last = statements[-1] if statements else None
    if not isinstance(last, When) or last.otherwise is not None:
        raise failure("otherwise() without a `when` right before it", "right after `with when():`")
    return _Branch(last, True)


class Variable:
    """A mutable local; `get` reads it as it is at that point of the program, `set` changes it."""

    __slots__ = ("_cell",)

    def __init__(self, cell: Value) -> None:
        self._cell = cell

    @property
    def type(self) -> Type:
        return self._cell.type

    def get(self) -> Value:
        return tracer().emit("get", self._cell.type, (self._cell,))

    def set(self, value: Any) -> None:
        new = as_value(value, self._cell.type, "the value set")
        tracer().emit("set", None, (self._cell, new))


def var(value: Any) -> Variable:
    """A mutable local that starts as `value`, a scalar, pointer or vector of any type."""
    if not isinstance(value, Value):
        raise failure(
            "var needs a value with a type", "var(constant(i64, 0)), var(zeros(f32, lanes))",
            value=value,
        )  # fmt: skip
    return Variable(tracer().emit("var", value.type, (value,)))


def give_back(value: Any = None) -> None:
    """Return from the kernel, with a value of the type after `->` if there is one."""
    here = tracer()
    result = here.program.result
    if (value is None) != (result is None):
        wanted = f"give_back(value of type {result})" if result else "give_back() without a value"
        raise failure("give_back does not fit the kernel's result", wanted, value=value)
    operands = () if result is None else (as_value(value, result, "the value given back"),)
    here.emit("give_back", None, operands)
