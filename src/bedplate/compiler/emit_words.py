"""The argument words of a fused kernel, read in the order in which `lower_fused` writes them."""

from __future__ import annotations

from typing import Any

from bedplate.compiler.cost import register_type
from bedplate.compiler.program import (
    FULL,
    ROW,
    STRIDED,
    Apply,
    Load,
    Number,
    Program,
    Reduce,
)
from bedplate.errors import InternalError
from bedplate.kernel import cast, constant, select
from bedplate.kernel.task import word_float, word_int, word_pointer


class Words:
    """Reads argument words one after the other."""

    def __init__(self, args: Any) -> None:
        self.args = args
        self.position = 0

    def integer(self) -> Any:
        self.position += 1
        return word_int(self.args, self.position - 1)

    def pointer(self, type_: Any) -> Any:
        self.position += 1
        return word_pointer(self.args, self.position - 1, type_)

    def floating(self) -> Any:
        self.position += 1
        return word_float(self.args, self.position - 1)


class AccessWords:
    """The words of one access: its start (a pointer, or a number for a position) and strides."""

    def __init__(self, words: Words, program: Program, index: int, dtype: Any, extra: int) -> None:
        self.pattern = program.patterns[index]
        self.start = words.integer() if dtype is None else words.pointer(register_type(dtype))
        rows = program.n_row_dims if self.pattern.level >= ROW else 0
        columns = program.n_col_dims - 1 if self.pattern.level == FULL else 0
        self.row_strides = [words.integer() for _ in range(rows)]
        self.col_strides = [words.integer() for _ in range(columns)]
        general = self.pattern.level == FULL and self.pattern.inner in STRIDED
        self.inner = words.integer() if general else None
        self.extra = [words.integer() for _ in range(extra)]


def access_kinds(program: Program) -> list[tuple[Any, int]]:
    """For each access: its dtype (None for a position) and how many extra words it has."""
    kinds: list[tuple[Any, int]] = [(None, 0)] * len(program.patterns)
    for value in program.values:
        if isinstance(value, Load):
            kinds[value.access] = (value.dtype, 0 if value.index is None else 1)
    for entry in program.stores:
        value = program.values[entry.value]
        partial = isinstance(value, Reduce) and value.kind == "column"
        kinds[entry.access] = (entry.dtype, 1 if partial else 0)
    return kinds


def read_number(value: Number, words: Words) -> Any:
    """A constant of the kernel, or the next word."""
    type_ = register_type(value.dtype)
    if value.baked is not None:
        return constant(type_, value.number)
    if value.dtype.kind == "f":
        return cast(words.floating(), type_)
    word = words.integer()
    return word != 0 if value.dtype.kind == "b" else cast(word, type_)


def apply_op(value: Apply, inputs: list[Any]) -> Any:
    emit = value.op.emit
    if emit is None:
        raise InternalError(f"{value.op.name} has no emit")
    return emit(register_type(value.dtype), tuple(inputs), value.attributes.attributes)


def least(a: Any, b: Any) -> Any:
    return select(a < b, a, b)


def moved(start: Any, strides: list[Any], index: list[Any]) -> Any:
    """The start of an access moved along some axes; one without strides stays where it is."""
    for stride, i in zip(strides, index, strict=False):
        start = start + i * stride
    return start
