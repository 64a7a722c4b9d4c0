"""Access: how the elements of a node are found in the memory of the node behind its views.

An access lists (size, stride) pairs, outermost first, that enumerate the elements in
row-major order of the node, whatever its shape. So a reshape changes nothing, and permute,
expand and slice change the pairs of the axes that they name. Pairs that can be one are
one: the access of a contiguous value is ((n, 1),), of a broadcast scalar ((n, 0),).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bedplate.errors import InternalError
from bedplate.graph.node import Node

Dims = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Access:
    """Element k (row-major) of a value is base.memory[offset + sum(index_i * stride_i)]."""

    base: Node
    dims: Dims
    offset: int = 0

    @property
    def size(self) -> int:
        return math.prod(size for size, _ in self.dims)

    @property
    def identity(self) -> bool:
        """Whether this is the whole of the base, in its order."""
        return self.offset == 0 and self.dims == merged(((numel(self.base), 1),))

    @property
    def scalar(self) -> bool:
        """Whether all elements are the same one."""
        return all(stride == 0 for _, stride in self.dims)


def numel(node: Any) -> int:
    """How many elements a node has; all its values together if it gives several."""
    if node.op.n_outputs > 1:
        return sum(math.prod(shape) for shape in node.shape)
    return math.prod(node.shape)


def merged(dims: Sequence[tuple[int, int]]) -> Dims:
    """The same enumeration with as few pairs as possible."""
    result: list[tuple[int, int]] = []
    for size, stride in dims:
        if size == 0:
            return ((0, 1),)
        if size == 1:
            continue
        if result and result[-1][1] == stride * size:
            result[-1] = (result[-1][0] * size, stride)
        else:
            result.append((size, stride))
    return tuple(result)


def split(dims: Sequence[tuple[int, int]], inner: int) -> tuple[Dims, Dims] | None:
    """The pairs cut in two so that the second part counts `inner` elements, if that is possible."""
    taken, position = 1, len(dims)
    tail: list[tuple[int, int]] = []
    while taken < inner:
        if position == 0 or inner % taken:
            return None
        size, stride = dims[position - 1]
        need = inner // taken
        position -= 1
        if size <= need:
            if need % size:
                return None
            tail.insert(0, (size, stride))
            taken *= size
        elif size % need:
            return None
        else:
            tail.insert(0, (need, stride))
            return (*dims[:position], (size // need, stride * need)), tuple(tail)
    return tuple(dims[:position]), tuple(tail)


def by_axes(dims: Dims, shape: Sequence[int]) -> list[Dims] | None:
    """The pairs that belong to each axis of a value of this shape, if no pair straddles two."""
    result: list[Dims] = []
    rest = dims
    for length in reversed(shape):
        parts = split(rest, length)
        if parts is None:
            return None
        rest, axis = parts
        result.append(axis)
    result.reverse()
    return result


def identity(node: Node) -> Access:
    """A value read as it lies in memory. An iota counts along its axis as if that were memory."""
    if node.op.name == "iota":
        axis = node.attributes["axis"]
        dims = [(size, 1 if i == axis else 0) for i, size in enumerate(node.shape)]
        return Access(node, merged(dims))
    return Access(node, merged(((numel(node), 1),)))


def through(view: Node, source: Access) -> Access | None:
    """The access of `view`, given that of its input; None if it has no such form."""
    name = view.op.name
    if name == "reshape":
        return source
    if 0 in view.shape:
        return Access(source.base, ((0, 1),), 0)
    axes = by_axes(source.dims, view.inputs[0].shape)
    if axes is None:
        return None
    if name == "permute":
        order = view.attributes["axes"]
        return Access(source.base, _joined([axes[axis] for axis in order]), source.offset)
    if name == "expand":
        return _expanded(view, source, axes)
    if name == "slice":
        return _sliced(view, source, axes)
    raise InternalError(f"{name} is not a view that the compiler knows")


def _joined(axes: Sequence[Dims]) -> Dims:
    return merged([pair for axis in axes for pair in axis])


def _expanded(view: Node, source: Access, axes: list[Dims]) -> Access:
    extra = len(view.shape) - len(axes)
    result: list[Dims] = [((size, 0),) for size in view.shape[:extra]]
    for axis, before, after in zip(axes, view.inputs[0].shape, view.shape[extra:], strict=True):
        result.append(axis if before == after else ((after, 0),))
    return Access(source.base, _joined(result), source.offset)


def _sliced(view: Node, source: Access, axes: list[Dims]) -> Access | None:
    attributes = view.attributes
    offset = source.offset
    result: list[Dims] = []
    starts, steps = attributes["starts"], attributes["steps"]
    for axis, before, after, start, step in zip(
        axes, view.inputs[0].shape, view.shape, starts, steps, strict=True
    ):
        if before == after and step == 1:
            result.append(axis)
            continue
        axis = merged(axis)
        if len(axis) > 1:
            return None
        stride = axis[0][1] if axis else 0
        offset += start * stride
        result.append(((after, stride * step),))
    return Access(source.base, _joined(result), offset)


def is_alias(node: Node) -> bool:
    """Whether a node is a view of its input (a projection of several outputs is a value)."""
    return node.op.kind == "view" and node.op.name != "output"


def access_of(node: Node, known: dict[Node, Access | None]) -> Access | None:
    """How to read `node`, following its views down to a value; None if that has no such form.

    known   answers found before; filled on the way
    """
    chain = []
    while node not in known and is_alias(node):
        chain.append(node)
        node = node.inputs[0]
    result = known.get(node) if node in known else identity(node)
    known[node] = result
    for view in reversed(chain):
        result = through(view, result) if result is not None else None
        known[view] = result
    return result
