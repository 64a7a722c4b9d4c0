"""The values of a program: what each member of a group becomes, what is read, where results go."""

from __future__ import annotations

import math
from typing import Any

from bedplate.compiler.access import identity, merged, numel
from bedplate.compiler.builder import BufferRef, View
from bedplate.compiler.cost import Exact
from bedplate.compiler.groups import Group
from bedplate.compiler.program import (
    Apply,
    CheckedIndex,
    Load,
    Number,
    Position,
    Reduce,
    Store,
    Value,
)
from bedplate.compiler.reductions import BLOCK, accumulator_type
from bedplate.compiler.uses import AccessUse, Context, Region, take_dims
from bedplate.dtypes import int32
from bedplate.errors import InternalError
from bedplate.graph.node import Node

ITEM_ELEMENTS = 16384  # elements of one work item: tens of micro-seconds, so that workers balance
# Rows that a sum over rows takes in one part, without a launch that joins parts. Parts of many rows
# have up to 1024, so errors are no larger than theirs.
ROWS_AT_ONCE = 64
BAKED = (0, 1, -1, 2, 0.5)


class ProgramBuilder:
    """Collects the values, accesses and results of one group."""

    def __init__(self, group: Group, context: Context) -> None:
        self.group = group
        self.context = context
        self.values: list[Value] = []
        self.words: dict[int, list[Any]] = {}
        self.uses: list[AccessUse] = []
        self.known: dict[Any, int] = {}
        self.ids: dict[Node, int] = {}
        self.stores: list[Store] = []
        self.combines: list[tuple[Node, int, BufferRef]] = []
        self.region: Region | None = None
        self.rows = group.rows if group.rows is not None else 1
        self.cols = group.cols if group.cols is not None else group.total
        self.inside = set(group.members)
        self._inner_columns = self.cols
        self.column = any(self._kind(node) == "column" for node in group.members)

    # values

    def _kind(self, node: Node) -> str:
        if node.op.kind != "reduce":
            return ""
        if node not in self.group.late:
            return "row"
        return "split" if self.group.split else "column"

    def _add(self, value: Value, key: Any = None) -> int:
        self.values.append(value)
        if key is not None:
            self.known[key] = len(self.values) - 1
        return len(self.values) - 1

    def _members(self) -> None:
        for node in self.group.members:
            self.ids[node] = self._member(node)

    def _member(self, node: Node) -> int:
        if node.op.kind == "reduce":
            source = self._read(node.inputs[0], numel(node.inputs[0]))
            accumulate = (
                node.op.accumulate(node.inputs[0].dtype) if node.op.accumulate else node.dtype
            )
            return self._add(Reduce(node.op, source, node.dtype, accumulate, self._kind(node)))
        if node.op.name == "take":
            return self._take(node)
        inputs = tuple([self._read(source, numel(node)) for source in node.inputs])
        if node.op.name == "checked_index":
            here = self._add(CheckedIndex(inputs[0], node.dtype, node.attributes.get("wrap", True)))
            self.words[here] = [node.attributes["size"], self.context.site_of(node)]
            return here
        value = Apply(node.op, Exact(node.attributes), node.dtype, inputs)
        key = (value, numel(node))  # equal values are computed once
        return self.known[key] if key in self.known else self._add(value, key)

    def _read(self, source: Node, size: int) -> int:
        access = self.context.access_of(source)
        base = access.base
        if base in self.inside and base not in self.group.late:
            return self.ids[base]
        if base.op.name in ("constant", "scalar"):
            return self._number(base)
        key = (id(base), access.dims, access.offset, size)
        if key in self.known:
            return self.known[key]
        if base.op.name == "iota":
            use = self._use(AccessUse(None, access.dims, access.offset, size, 0))
            return self._add(Position(base.dtype, use), key)
        use = self._use(AccessUse(base, access.dims, access.offset, size, base.dtype.itemsize))
        return self._add(Load(base.dtype, use), key)

    def _use(self, use: AccessUse) -> int:
        self.uses.append(use)
        return len(self.uses) - 1

    def _number(self, base: Node) -> int:
        if base.op.name == "scalar":
            key = ("scalar", base.attributes["index"])
            word, baked = self.context.scalar_word(base), None
        else:
            word = base.attributes["value"]
            key = ("constant", base.dtype, type(word), repr(word))
            baked = repr(word) if word in BAKED else None
        if key in self.known:
            return self.known[key]
        here = self._add(Number(base.dtype, baked), key)
        self.words[here] = (
            [] if baked is not None else [int(word) if isinstance(word, bool) else word]
        )
        return here

    def _take(self, node: Node) -> int:
        source, indices = node.inputs
        axis = node.attributes["axis"]
        access = self.context.access_of(source)
        index = self._read(indices, numel(node))
        dims, stride = take_dims(access, source.shape, axis, node.shape)
        use = self._use(
            AccessUse(
                access.base, dims, access.offset, numel(node), node.dtype.itemsize, extra=[stride]
            )
        )
        return self._add(Load(node.dtype, use, index))

    # results

    def _outputs(self) -> None:
        if self.region is not None:
            source = self.region.source
            self._store_region(self._read(source, numel(source)), self.region)
        for node in self.group.stored:
            value = self.values[self.ids[node]]
            if isinstance(value, Reduce) and value.kind != "row":
                self._partial(node, value)
            elif node in self.group.regions:
                self._store_region(self.ids[node], self.group.regions[node])
            else:
                whole = identity(node)
                use = AccessUse(node, whole.dims, 0, numel(node), node.dtype.itemsize, written=True)
                self.stores.append(Store(self.ids[node], self._use(use), node.dtype))

    def _store_region(self, value: int, region: Region) -> None:
        """Store a value in its region of an assembled one."""
        dtype = region.target.dtype
        use = AccessUse(
            region.target, region.dims, region.offset, numel(region.source), dtype.itemsize,
            written=True,
        )  # fmt: skip
        self.stores.append(Store(value, self._use(use), dtype))

    def _partial(self, node: Node, value: Reduce) -> None:
        """A result in parts: (items, columns) for sums over rows, (rows, chunks) for long rows."""
        itemsize = accumulator_type(value).bits // 8
        parts = self._n_parts()
        # truths accumulate as integers, see accumulator_type
        dtype = int32 if value.accumulate.kind == "b" else value.accumulate
        direct = parts == 1 and dtype is node.dtype
        buffer = self.context.buffer_of(node) if direct else self.context.builder.temp(
            numel(node) * parts * itemsize, "partial"
        )  # fmt: skip
        if value.kind == "column":
            dims = merged(((self.rows, 0), (self.cols, 1)))
            use = AccessUse(None, dims, 0, self.group.total, itemsize, True, [self.cols], buffer)
        else:
            use = AccessUse(
                None, merged(((self.rows, 0),)), 0, self.rows, itemsize, True, [], buffer
            )
        self.stores.append(Store(self.ids[node], self._use(use), dtype))
        if not direct:
            self.combines.append((node, parts, buffer))

    def _n_parts(self) -> int:
        if self.group.split:
            return -(-self.cols // BLOCK)
        return -(-self._reduced_rows() // self._rows_per_item())

    def _reduced_rows(self) -> int:
        late = next(node for node in self.group.members if self._kind(node) == "column")
        return self.rows * self.cols // numel(late)

    def _rows_per_item(self) -> int:
        if self.column:
            reduced = self._reduced_rows()
            if reduced <= ROWS_AT_ONCE:
                return ROWS_AT_ONCE
            return min(1024, max(16, 1 << max(math.ceil(reduced / 32) - 1, 0).bit_length()))
        if self.group.split:
            return 1
        return max(1, ITEM_ELEMENTS // max(self._inner_columns, 1))

    # memory

    def _start(self, use: AccessUse) -> Any:
        if use.buffer is not None:
            return use.buffer
        if use.base is None:
            return use.offset
        return View(self.context.buffer_of(use.base), (), (), use.offset, use.base.dtype)

    def _buffer(self, use: AccessUse) -> BufferRef:
        if use.buffer is not None:
            return use.buffer
        if use.base is None:
            raise InternalError("a position has no memory")
        return self.context.buffer_of(use.base)
