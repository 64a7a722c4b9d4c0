"""Lower a fused group: its program, the words that fill it in, and its launches.

Needs final groups; enters one launch for the group, and one more for the results that come
in parts (sums over rows, and over rows too long for one item).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bedplate.compiler.access import Access, Dims, identity, merged, numel, split
from bedplate.compiler.builder import BufferRef, PlanBuilder, View, scratch_bytes
from bedplate.compiler.combine import combine_kernel
from bedplate.compiler.domain import aligned
from bedplate.compiler.fused_kernel import fused_kernel
from bedplate.compiler.groups import Group
from bedplate.compiler.program import (
    BROADCAST,
    FULL,
    GENERAL,
    ITEM,
    ROW,
    TRANSPOSED,
    UNIT,
    Apply,
    CheckedIndex,
    Exact,
    Load,
    Number,
    Pattern,
    Position,
    Program,
    Reduce,
    Store,
    Value,
    choose_scratch,
    inputs_of,
    stage_plans,
)
from bedplate.compiler.reductions import BLOCK, accumulator_type
from bedplate.errors import InternalError
from bedplate.graph.node import Node
from bedplate.kernel import f32, host

ITEM_ELEMENTS = 16384  # elements of one work item: tens of micro-seconds, so that workers balance
COLUMN_CHUNK = 4096  # columns whose running sums stay in the first cache
SCRATCH_LIMIT = 256 * 1024  # bytes of a kept row that still fit the second cache
STREAM_BYTES = 24 << 20  # results larger than this pass the caches by
BAKED = (0, 1, -1, 2, 0.5)


@dataclass
class Context:
    """What lowering shares: the accesses of all nodes, where their values are, run-time numbers.

    buffer_of   the memory of a value
    scalar_word the word of a `scalar` leaf
    site_of     enters a checked index in the table of run-time errors, gives its number
    """

    builder: PlanBuilder
    access_of: Callable[[Node], Access]
    buffer_of: Callable[[Node], BufferRef]
    scalar_word: Callable[[Node], Any]
    site_of: Callable[[Node], int]


@dataclass
class AccessUse:
    """One access of a program: to `base` (None: a position), enumerated at `size` elements.

    extra   words after the strides: the stride of a take's axis, the columns of partial results
    buffer  given for partial results, which are no node's memory
    """

    base: Node | None
    dims: Dims
    offset: int
    size: int
    itemsize: int
    written: bool = False
    extra: list[int] = field(default_factory=list)
    buffer: BufferRef | None = None
    dtype: Any = None


def lower_fused(group: Group, context: Context) -> None:
    """Enter the launches of a group."""
    ProgramBuilder(group, context).launch()


@dataclass
class Region:
    """Elements of an assembled value: `source`, in row-major order, goes to dims and offset."""

    source: Node
    target: Node
    dims: Dims
    offset: int


def lower_region(region: Region, context: Context, shared: bool) -> None:
    """Enter the launch that copies a value to its region of an assembled one."""
    builder = ProgramBuilder(Group("fused", numel(region.source)), context)
    builder.region = region
    launched = len(context.builder.launches)
    builder.launch()
    for launch in context.builder.launches[launched:]:
        launch.shared = shared


class ProgramBuilder:
    """Turns one group into a program, its words and its launches."""

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
            region = self.region
            value = self._read(region.source, numel(region.source))
            itemsize = region.target.dtype.itemsize
            use = AccessUse(
                region.target,
                region.dims,
                region.offset,
                numel(region.source),
                itemsize,
                written=True,
            )
            self.stores.append(Store(value, self._use(use), region.target.dtype))
        for node in self.group.stored:
            value = self.values[self.ids[node]]
            if isinstance(value, Reduce) and value.kind != "row":
                self._partial(node, value)
            else:
                whole = identity(node)
                use = AccessUse(node, whole.dims, 0, numel(node), node.dtype.itemsize, written=True)
                self.stores.append(Store(self.ids[node], self._use(use), node.dtype))

    def _partial(self, node: Node, value: Reduce) -> None:
        """A result in parts: (items, columns) for sums over rows, (rows, chunks) for long rows."""
        itemsize = accumulator_type(value).bits // 8
        parts = self._n_parts()
        dtype = value.accumulate
        direct = parts == 1 and dtype is node.dtype and dtype.kind != "b"
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

    # the domain

    def _resolve(self) -> tuple[list[int], list[int], list[tuple[list[int], list[int]]]]:
        """Sizes of the row axes and of the column axes, and the strides of each access."""
        if self.group.rows is None:
            flat = aligned([use.dims for use in self.uses], self.group.total)
            if flat is None:
                raise InternalError(f"group {self.group.name}: its accesses have no common axes")
            sizes, strides = flat
            if not sizes:
                return [], [1], [([], [1 if use.written else 0]) for use in self.uses]
            return sizes[:-1], sizes[-1:], [(s[:-1], s[-1:]) for s in strides]
        parts = [self._parts(use) for use in self.uses]
        row_axes = aligned([row for row, _ in parts], self.rows)
        col_axes = aligned([col for _, col in parts], self.cols)
        if row_axes is None or col_axes is None:
            raise InternalError(f"group {self.group.name}: its accesses have no common axes")
        col_sizes = col_axes[0] or [1]
        columns = [
            c or [1 if use.written else 0] for c, use in zip(col_axes[1], self.uses, strict=True)
        ]
        return row_axes[0], col_sizes, list(zip(row_axes[1], columns, strict=True))

    def _parts(self, use: AccessUse) -> tuple[Dims, Dims]:
        if use.size == self.rows and use.size != self.group.total:
            return use.dims, ((self.cols, 0),)
        parts = split(use.dims, self.cols)
        if parts is None:
            raise InternalError(f"group {self.group.name}: an access crosses rows")
        return parts

    def _pattern(self, use: AccessUse, strides: tuple[list[int], list[int]]) -> Pattern:
        rows, cols = strides
        if use.written:
            level = ROW if use.size == self.rows and use.size != self.group.total else FULL
            return Pattern(level, _inner(cols[-1]))
        if any(cols):
            return Pattern(FULL, _inner(cols[-1]))
        return Pattern(ROW if any(rows) else ITEM, BROADCAST)

    def _place(self, patterns: list[Pattern]) -> tuple[list[int], list[int]]:
        """The level and the stage of each value."""
        levels: list[int] = []
        stages: list[int] = []
        for value in self.values:
            inputs = inputs_of(value)
            level = max((levels[i] for i in inputs), default=ITEM)
            stage = max((stages[i] for i in inputs), default=0)
            if isinstance(value, Load | Position):
                level = max(level, patterns[value.access].level)
            if isinstance(value, Reduce):
                level, stage = ROW, stage + 1
            levels.append(level)
            stages.append(stage)
        return levels, stages

    def build(self) -> tuple[Program, list[int], list[int], list[tuple[list[int], list[int]]]]:
        """The program and the numbers that were taken out of it."""
        self._members()
        self._outputs()
        row_sizes, col_sizes, strides = self._resolve()
        patterns = [self._pattern(u, s) for u, s in zip(self.uses, strides, strict=True)]
        levels, stages = self._place(patterns)
        tiled = self._tiled(patterns, levels, strides)
        if tiled is not None:
            patterns = tiled
        row_wise = any(isinstance(v, Reduce) and v.kind == "row" for v in self.values)
        sinks = [s.value for s in self.stores if patterns[s.access].level == FULL]
        kept = choose_scratch(self.values, levels, stages, sinks)
        if len(col_sizes) > 1 or self._scratch_bytes(kept) > SCRATCH_LIMIT:
            kept = ()
        program = Program(
            len(row_sizes), len(col_sizes), tuple(self.values), tuple(levels), tuple(stages),
            tuple(patterns), tuple(self.stores), kept, not row_wise, self.column,
            self._streams(strides, len(col_sizes)), tiled is not None,
        )  # fmt: skip
        return program, row_sizes, col_sizes, strides

    def _tiled(
        self, patterns: list[Pattern], levels: list[int], strides: list[tuple[list[int], list[int]]]
    ) -> list[Pattern] | None:
        """The patterns of a tiled kernel, if one pays: an input jumps along the columns, but
        not along the rows, and nothing else is in the way."""
        if self.group.rows is not None or ROW in levels or len(strides[0][1]) > 1:
            return None
        indexed = {v.access for v in self.values if isinstance(v, Load) and v.index is not None}
        found = list(patterns)
        for i, (use, pattern, (rows, _)) in enumerate(
            zip(self.uses, patterns, strides, strict=True)
        ):
            if use.written and pattern.inner != UNIT:
                return None
            jumps = pattern.inner == GENERAL and use.base is not None and i not in indexed
            if jumps and rows and rows[-1] == 1:
                found[i] = Pattern(FULL, TRANSPOSED)
        return found if found != patterns else None

    def _scratch_bytes(self, kept: tuple[int, ...]) -> int:
        return sum(self.cols * self.values[i].dtype.itemsize for i in kept)

    def _streams(self, strides: list[tuple[list[int], list[int]]], column_axes: int) -> bool:
        """Whether all results are long, aligned and better kept out of the caches."""
        lanes = host().lanes(f32)
        if column_axes > 1 or self.column or not self.stores:
            return False
        return all(
            use.buffer is None
            and use.size * use.itemsize >= STREAM_BYTES
            and cols[-1] == 1
            and all(row % lanes == 0 for row in rows)
            for use, (rows, cols) in zip(self.uses, strides, strict=True)
            if use.written
        )

    # the launch

    def _rows_per_item(self) -> int:
        if self.column:
            reduced = self._reduced_rows()
            return min(1024, max(16, 1 << max(math.ceil(reduced / 32) - 1, 0).bit_length()))
        if self.group.split:
            return 1
        return max(1, ITEM_ELEMENTS // max(self._inner_columns, 1))

    def launch(self) -> None:
        """Enter the launch, and those that combine partial results."""
        if self.group.total == 0:
            return
        program, row_sizes, col_sizes, strides = self.build()
        if program.tiled:
            self.tile_rows = row_sizes[-1]
            row_sizes[-1] = -(-self.tile_rows // host().lanes(f32))
        n_rows = math.prod(row_sizes)
        self._inner_columns = math.prod(col_sizes)
        rows_per_item = self._rows_per_item()
        items = -(-n_rows // rows_per_item)
        words: list[Any] = [n_rows, rows_per_item]
        if program.chunked:
            chunk = self._chunk(col_sizes)
            n_chunks = -(-col_sizes[-1] // chunk)
            words += [chunk, n_chunks]
        if program.column:
            parts = self._n_parts()
            words += [self._reduced_rows(), parts]
            items = n_rows // self._reduced_rows() * parts
        if program.chunked:
            items *= n_chunks
        words += [*row_sizes, *col_sizes]
        if program.tiled:
            words.append(self.tile_rows)
        for use, pattern, stride in zip(self.uses, program.patterns, strides, strict=True):
            words += self._access_words(use, pattern, stride)
        for i, value in enumerate(program.values):
            if isinstance(value, Number | CheckedIndex):
                words += self.words[i]
        self._enter(program, words, items)

    def _chunk(self, col_sizes: list[int]) -> int:
        if self.group.split:
            return BLOCK
        if len(col_sizes) > 1:
            return col_sizes[-1]
        return COLUMN_CHUNK if self.column else ITEM_ELEMENTS

    def _access_words(
        self, use: AccessUse, pattern: Pattern, stride: tuple[list[int], list[int]]
    ) -> list[Any]:
        words: list[Any] = [self._start(use)]
        if pattern.level >= ROW:
            words += stride[0]
        if pattern.level == FULL:
            words += stride[1][:-1]
            if pattern.inner in (GENERAL, TRANSPOSED):
                words.append(stride[1][-1])
        return words + use.extra

    def _start(self, use: AccessUse) -> Any:
        if use.buffer is not None:
            return use.buffer
        if use.base is None:
            return use.offset
        return View(self.context.buffer_of(use.base), (), (), use.offset, use.base.dtype)

    def _enter(self, program: Program, words: list[Any], items: int) -> None:
        builder = self.context.builder
        reads = [self._buffer(use) for use in self.uses if not use.written and use.base is not None]
        writes = [self._buffer(use) for use in self.uses if use.written]
        for i in program.scratch:
            itemsize = program.values[i].dtype.itemsize
            step = scratch_bytes(self.cols * itemsize)
            buffer = builder.scratch(step)
            words += [buffer, step // itemsize]
            writes.append(buffer)
        if any(isinstance(v, CheckedIndex) for v in program.values):
            words.append(builder.error_record)
        nbytes = sum(math.prod(s for s, t in u.dims if t) * u.itemsize for u in self.uses)
        n_ops = sum(isinstance(v, Apply | Reduce) for v in program.values)
        launch = builder.launch(
            fused_kernel(program), words, items, reads=reads, writes=writes,
            flops=float(n_ops * self.group.total), nbytes=float(nbytes), name=program.name,
        )  # fmt: skip
        launch.in_place = self._in_place(program)
        for node, parts, partial in self.combines:
            self._combine(node, parts, partial)

    def _buffer(self, use: AccessUse) -> BufferRef:
        if use.buffer is not None:
            return use.buffer
        if use.base is None:
            raise InternalError("a position has no memory")
        return self.context.buffer_of(use.base)

    def _in_place(self, program: Program) -> list[tuple[BufferRef, BufferRef]]:
        """Results that may lie over an input: same elements, written after its last reading."""
        last: dict[int, int] = {}
        for stage, plan in enumerate(stage_plans(program)):
            for i in plan.compute:
                last[i] = stage
        reads: dict[int, list[int]] = {}
        for i, value in enumerate(program.values):
            if isinstance(value, Load):
                reads.setdefault(id(self.uses[value.access].base), []).append(i)
        pairs = []
        for entry in program.stores:
            target = self.uses[entry.access]
            if target.buffer is not None or program.patterns[entry.access].level != FULL:
                continue
            for loads in reads.values():
                if all(self._same_place(program, i, target, last, entry) for i in loads):
                    source = self.uses[program.values[loads[0]].access]  # type: ignore[union-attr]
                    pairs.append((self._buffer(source), self._buffer(target)))
        return pairs

    def _same_place(
        self, program: Program, i: int, target: AccessUse, last: dict[int, int], entry: Store
    ) -> bool:
        value = program.values[i]
        if not isinstance(value, Load) or value.index is not None:
            return False
        use = self.uses[value.access]
        whole = use.offset == 0 and use.dims == target.dims and use.itemsize == target.itemsize
        return whole and last.get(i, -1) <= program.stages[entry.value]

    def _combine(self, node: Node, parts: int, partial: BufferRef) -> None:
        value = self.values[self.ids[node]]
        if not isinstance(value, Reduce):
            raise InternalError("only reductions leave partial results")
        outer = numel(node) // self.cols if value.kind == "column" else numel(node)
        columns = self.cols if value.kind == "column" else 1
        target = self.context.buffer_of(node)
        kernel, chunk = combine_kernel(value.op, value.dtype, value.accumulate)
        chunks = -(-columns // chunk)
        self.context.builder.launch(
            kernel, [partial, target, parts, columns, chunks], outer * chunks, reads=[partial],
            writes=[target], flops=float(outer * columns * parts),
            nbytes=float(partial.nbytes + target.nbytes), name=f"combine_{value.op.name}",
        )  # fmt: skip


def _inner(stride: int) -> int:
    return UNIT if stride == 1 else BROADCAST if stride == 0 else GENERAL


def take_dims(access: Access, shape: Any, axis: int, out_shape: Any) -> tuple[Dims, int]:
    """How a take walks over its source apart from the index, and the stride of its axis."""
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    count = math.prod(out_shape) // max(before * after, 1)
    outer = split(access.dims, after)
    inner = split(outer[0], shape[axis]) if outer is not None else None
    if outer is None or inner is None or len(merged(inner[1])) > 1:
        raise InternalError("take: its source is not walked by one stride along the axis")
    stride = merged(inner[1])[0][1] if merged(inner[1]) else 0
    return merged((*inner[0], (count, 0), *outer[1])), stride
