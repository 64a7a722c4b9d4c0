"""Operation: what the language knows about one instruction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Operation:
    """One instruction: its name, its LLVM text and its meaning.

    emit     (lowering, instruction) -> the text of the value, "" if there is none
    meaning  (machine, instruction, *operand values) -> the value, computed with NumPy scalars
             and arrays of the element's type; this is what the interpreter runs
    """

    name: str
    emit: Callable[[Any, Any], str]
    meaning: Callable[..., Any]


OPERATIONS: dict[str, Operation] = {}


def define(name: str, emit: Callable[[Any, Any], str], meaning: Callable[..., Any]) -> None:
    """Enter one instruction into the table."""
    OPERATIONS[name] = Operation(name, emit, meaning)
