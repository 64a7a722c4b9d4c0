"""epilogue: an element-wise chain that an op applies to each value before it stores it.

A fused group that reads the result of a matmul or a convolution (and nobody else does), in place,
without reductions, becomes the op's epilogue: bias, activation, residual and cast cost no pass over
memory of their own. Its other inputs are read at (batch, row, column) with one stride each.
"""

from __future__ import annotations

from typing import Any

from bedplate.compiler.access import Access, Dims, merged, split
from bedplate.compiler.builder import Epilogue
from bedplate.compiler.cost import register_type
from bedplate.compiler.groups import Group
from bedplate.compiler.program import (
    BROADCAST,
    UNIT,
    Apply,
    Given,
    Load,
    Number,
    Position,
    Value,
)
from bedplate.compiler.program_builder import ProgramBuilder
from bedplate.compiler.uses import AccessUse, Context, inner_pattern
from bedplate.errors import InternalError
from bedplate.graph.node import Node
from bedplate.kernel import cast, constant, gather, i1, i64, iota, load, splat, u8
from bedplate.kernel.task import word_float, word_int, word_pointer

Strides = tuple[int, int, int]  # of batch, row, column


def finished_shape(product: Node) -> tuple[int, ...] | None:
    """The shape by whose batch, row and column an op applies an epilogue; None if it does not."""
    takes = product.op.epilogue
    if isinstance(takes, bool):
        return product.shape if takes else None
    return takes(product)


def matrix_strides(access: Access, shape: tuple[int, ...]) -> Strides | None:
    """The strides of an access along batch, row and column of a product, if it has one for each."""
    columns = shape[-1]
    rows = shape[-2] if len(shape) > 1 else 1
    inner = split(access.dims, columns)
    outer = split(inner[0], rows) if inner is not None else None
    if inner is None or outer is None:
        return None
    parts = (outer[0], outer[1], inner[1])
    strides = [_single(part) for part in parts]
    if None in strides:
        return None
    batch, row, column = strides
    return (batch or 0, row or 0, column or 0)


def _single(dims: Dims) -> int | None:
    dims = merged(dims)
    if not dims:
        return 0
    return dims[0][1] if len(dims) == 1 else None


class EpilogueBuilder(ProgramBuilder):
    """The values of a group that takes the result of `product` from a register."""

    def __init__(self, group: Group, product: Node, context: Context) -> None:
        super().__init__(group, context)
        self.product = product
        self.known[id(product)] = self._add(Given(product.dtype))

    def _read(self, source: Node, size: int) -> int:
        if self.context.access_of(source).base is self.product:
            return self.known[id(self.product)]
        return super()._read(source, size)

    def epilogue(self) -> Epilogue:
        """The epilogue; its key holds all that its code depends on."""
        self._members()
        strides = [self._strides(use) for use in self.uses]
        inner = tuple([inner_pattern(s[2]) for s in strides])
        values = tuple(self.values)
        result = self.ids[self.group.stored[0]]
        words: list[Any] = []
        for use, stride in zip(self.uses, strides, strict=True):
            words += [self._start(use), *stride]
        for i, value in enumerate(values):
            if isinstance(value, Number):
                words += self.words[i]
        reads = tuple([self._buffer(use) for use in self.uses if use.base is not None])
        emit = EmitEpilogue(values, inner, result)
        return Epilogue((values, inner, result), tuple(words), emit, reads)

    def _strides(self, use: AccessUse) -> Strides:
        access = Access(self.product, use.dims, use.offset)
        shape = finished_shape(self.product)
        found = matrix_strides(access, shape) if shape is not None else None
        if found is None:
            raise InternalError("an epilogue reads by one stride along rows and columns")
        return found


class EmitEpilogue:
    """Emits the chain on one vector of a product (or one scalar if lanes is None)."""

    def __init__(self, values: tuple[Value, ...], inner: tuple[int, ...], result: int) -> None:
        self.values = values
        self.inner = inner
        self.result = result

    def __call__(
        self, value: Any, batch: Any, row: Any, column: Any, lanes: Any, mask: Any, args: Any,
        first_word: int,
    ) -> Any:  # fmt: skip
        position = first_word + 4 * len(self.inner)
        env: list[Any] = []
        for each in self.values:
            if isinstance(each, Given):
                made = cast(value, register_type(each.dtype))
            elif isinstance(each, Number):
                made, position = self._number(each, args, position, lanes)
            elif isinstance(each, Apply):
                made = self._apply(each, env)
            elif isinstance(each, Load | Position):
                made = self._read(each, args, first_word, (batch, row, column), lanes, mask)
            else:
                raise InternalError(f"{each} cannot be part of an epilogue")
            env.append(made)
        result = env[self.result]
        return cast(result, u8) if result.type.scalar is i1 else result  # bools lie as bytes

    def _apply(self, value: Apply, env: list[Any]) -> Any:
        emit = value.op.emit
        if emit is None:
            raise InternalError(f"{value.op.name} has no emit")
        inputs = tuple([env[i] for i in value.inputs])
        return emit(register_type(value.dtype), inputs, value.attributes.attributes)

    def _number(self, value: Number, args: Any, position: int, lanes: Any) -> tuple[Any, int]:
        type_ = register_type(value.dtype)
        if value.baked is not None:
            return constant(type_, value.number, lanes), position
        if value.dtype.kind == "f":
            scalar = cast(word_float(args, position), type_)
        else:
            word = word_int(args, position)
            scalar = word != 0 if value.dtype.kind == "b" else cast(word, type_)
        return splat(scalar, lanes), position + 1

    def _read(
        self, value: Load | Position, args: Any, first_word: int, place: Any, lanes: Any, mask: Any
    ) -> Any:
        word = first_word + 4 * value.access
        inner = self.inner[value.access]
        strides = [word_int(args, word + 1 + axis) for axis in range(3)]
        outer = place[0] * strides[0] + place[1] * strides[1]
        if isinstance(value, Position):
            start = word_int(args, word) + outer
            return cast(self._lanes(start, place[2], strides[2], lanes), register_type(value.dtype))
        pointer = word_pointer(args, word, register_type(value.dtype)) + outer
        if inner == UNIT:
            return load(pointer + place[2], lanes, mask)
        if inner == BROADCAST:
            return splat(load(pointer), lanes)
        if lanes is None:
            return load(pointer + place[2] * strides[2])
        return gather(pointer, self._lanes(constant(i64, 0), place[2], strides[2], lanes), mask)

    def _lanes(self, start: Any, column: Any, stride: Any, lanes: Any) -> Any:
        """start + (column + lane) * stride for each lane."""
        if lanes is None:
            return start + column * stride
        first = splat(start + column * stride, lanes)
        return first + iota(i64, lanes) * splat(stride, lanes)
