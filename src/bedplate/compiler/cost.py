"""What an elementwise op costs: the instructions that its emission leaves behind.

The answer is measured, by tracing the op once, so no list of expensive ops needs to be kept.
"""

from __future__ import annotations

import functools
from typing import Any

from bedplate.compiler.passes.cse import attributes_key
from bedplate.dtypes import DType
from bedplate.kernel import cast, from_dtype, i64, kernel, load, ptr
from bedplate.kernel import types as kernel_types
from bedplate.kernel.ir import Loop, Program, When, While, all_programs
from bedplate.ops.record import Op


class Exact:
    """An op's attributes as a key: equal only if the same to the bit."""

    __slots__ = ("attributes", "key")

    def __init__(self, attributes: dict[str, Any]) -> None:
        self.attributes = attributes
        self.key = attributes_key(attributes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.attributes.items())


def register_type(dtype: DType) -> Any:
    """The kernel type of a value in a register, which is also how memory is addressed."""
    return kernel_types.i1 if dtype.kind == "b" else from_dtype(dtype)


@functools.lru_cache(4096)  # ops with their attributes; a model needs a few dozen
def emission_size(op: Op, attributes: Exact, inputs: tuple[DType, ...], dtype: DType) -> int:
    """Instructions of one application of an op, on scalars."""
    emit = op.emit
    if emit is None:
        return 1

    def probe(words: ptr(i64)) -> None:
        values = [load(cast(words, ptr(register_type(each)))) for each in inputs]
        emit(register_type(dtype), tuple(values), attributes.attributes)

    probe.__annotations__ = {"words": ptr(i64)}
    return max(_instructions(kernel(probe).ir) - 2 * len(inputs), 1)


def _instructions(program: Program) -> int:
    return sum(_in_block(each.body) for each in all_programs(program))


def _in_block(block: Any) -> int:
    count = 0
    for statement in block.statements:
        count += 1
        if isinstance(statement, Loop):
            count += _in_block(statement.body)
        elif isinstance(statement, While):
            count += _in_block(statement.test) + _in_block(statement.body)
        elif isinstance(statement, When):
            count += _in_block(statement.body)
            if statement.otherwise is not None:
                count += _in_block(statement.otherwise)
    return count
