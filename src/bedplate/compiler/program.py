"""Program: the structure of one fused kernel, with every size, stride and number taken out.

A program is a list of values in topological order, what each is computed from, and where
results go. Equal programs are one compiled kernel: sizes, strides, offsets and numbers are
words that the launch supplies, so that a new batch size compiles nothing.

The domain is rows x columns. Each value lives at a level: ITEM (one for all), ROW (one for
each row) or FULL (one for each element), and in a stage: a reduction over the columns of
stage s is ready in stage s + 1, which walks over the same row again.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from bedplate.compiler.cost import Exact, emission_size
from bedplate.dtypes import DType
from bedplate.ops.record import Op

ITEM, ROW, FULL = 0, 1, 2
# strides of the innermost column axis: 0, 1, any; TRANSPOSED: any, but 1 along the innermost row
# axis; PAIRED: 2, as the real parts of complex numbers lie
BROADCAST, UNIT, GENERAL, TRANSPOSED, PAIRED = 0, 1, 2, 3, 4
STRIDED = (GENERAL, TRANSPOSED, PAIRED)  # those whose stride is a word
# instructions above which keeping a value between stages beats computing it again
EXPENSIVE = 8


@dataclass(frozen=True, slots=True)
class Load:
    """An element of memory. index: the value that selects a slice (take), or None."""

    dtype: DType
    access: int
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """The index along an axis (iota): the offset that the access counts."""

    dtype: DType
    access: int


@dataclass(frozen=True, slots=True)
class Number:
    """A constant: `baked` in the kernel's text (as repr, which tells 0.0 from -0.0), or a word."""

    dtype: DType
    baked: str | None

    @property
    def number(self) -> bool | int | float:
        """The baked number."""
        text = self.baked or ""
        if text in ("True", "False"):
            return text == "True"
        return int(text) if text.lstrip("-").isdigit() else float(text)


@dataclass(frozen=True, slots=True)
class Given:
    """A value that is in a register already: the product that an epilogue finishes."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class Apply:
    """An elementwise op."""

    op: Op
    attributes: Exact
    dtype: DType
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CheckedIndex:
    """An index, wrapped if negative (and `wrap`), and compared with the size, which is a word."""

    source: int
    dtype: DType
    wrap: bool


@dataclass(frozen=True, slots=True)
class Reduce:
    """A reduction of `source`.

    kind   "row": over the columns, ready in the next stage; "split": over one chunk of the
           columns, and "column": over the rows of one item; both leave partial results that
           another launch combines
    """

    op: Op
    source: int
    dtype: DType
    accumulate: DType
    kind: str


Value = Load | Position | Number | Given | Apply | CheckedIndex | Reduce


@dataclass(frozen=True, slots=True)
class Pattern:
    """How an access moves: its level, and its stride along the innermost columns."""

    level: int
    inner: int


@dataclass(frozen=True, slots=True)
class Store:
    """Where a value goes. dtype: of the memory."""

    value: int
    access: int
    dtype: DType


@dataclass(frozen=True)
class Program:
    """See the head of this file.

    scratch   the FULL values kept between stages
    chunked   an item takes a chunk of the columns
    column    there are sums over rows, so an item is a block of the rows that one sum takes
    stream    results pass the caches by
    tiled     the innermost row axis counts tiles of rows; see emit_tiled.py
    width     columns of each row, if so few whole vectors that they need no loop; else 0
    """

    n_row_dims: int
    n_col_dims: int
    values: tuple[Value, ...]
    levels: tuple[int, ...]
    stages: tuple[int, ...]
    patterns: tuple[Pattern, ...]
    stores: tuple[Store, ...]
    scratch: tuple[int, ...]
    chunked: bool
    column: bool
    stream: bool
    tiled: bool = False
    width: int = 0

    @functools.cached_property
    def key(self) -> int:
        return hash((self.values, self.patterns, self.stores, self.n_row_dims, self.n_col_dims))

    def __hash__(self) -> int:
        return self.key

    @property
    def n_stages(self) -> int:
        return 1 + max(self.stages)

    @property
    def name(self) -> str:
        """A readable name: the kind and the ops that stand out."""
        kind = "map"
        if any(isinstance(v, Reduce) for v in self.values):
            kind = "column" if self.column else "row"
        ops = [v.op.name for v in self.values if isinstance(v, Apply | Reduce)]
        shown = list(dict.fromkeys(ops))[:6]
        return "_".join([kind, *shown])


def inputs_of(value: Value) -> tuple[int, ...]:
    """The values that a value is computed from."""
    if isinstance(value, Apply):
        return value.inputs
    if isinstance(value, Reduce | CheckedIndex):
        return (value.source,)
    if isinstance(value, Load) and value.index is not None:
        return (value.index,)
    return ()


@dataclass(frozen=True)
class StagePlan:
    """What the column loops of one stage compute: FULL values in order, and their uses."""

    compute: tuple[int, ...]
    reload: tuple[int, ...]
    keep: tuple[int, ...]
    reduces: tuple[int, ...]
    stores: tuple[Store, ...]

    @property
    def empty(self) -> bool:
        return not (self.reduces or self.stores or self.keep)


def stage_plans(program: Program) -> list[StagePlan]:
    """The work of each stage: what its reductions, stores and kept values need."""
    return [_stage_plan(program, stage) for stage in range(program.n_stages)]


def _stage_plan(program: Program, stage: int) -> StagePlan:
    levels, stages, values = program.levels, program.stages, program.values
    reduces = tuple(
        i
        for i, v in enumerate(values)
        if isinstance(v, Reduce) and _reduce_stage(program, v) == stage
    )
    stores = tuple(
        s for s in program.stores
        if program.patterns[s.access].level == FULL
        and not isinstance(values[s.value], Reduce)
        and stages[s.value] == stage
    )  # fmt: skip
    keep = tuple(i for i in program.scratch if stages[i] == stage)
    needed: set[int] = set()
    reload: set[int] = set()
    stack = [values[i].source for i in reduces] + [s.value for s in stores] + list(keep)  # type: ignore[union-attr]
    while stack:
        i = stack.pop()
        if levels[i] != FULL or i in needed or i in reload:
            continue
        if i in program.scratch and stages[i] < stage:
            reload.add(i)
            continue
        needed.add(i)
        stack.extend(inputs_of(values[i]))
    return StagePlan(tuple(sorted(needed)), tuple(sorted(reload)), keep, reduces, stores)


def _reduce_stage(program: Program, reduce: Reduce) -> int:
    return program.stages[reduce.source]


def cost_of(value: Value, values: Sequence[Value]) -> int:
    """Instructions that one value takes."""
    if not isinstance(value, Apply):
        return 1
    return emission_size(
        value.op, value.attributes, tuple(values[i].dtype for i in value.inputs), value.dtype
    )


def choose_scratch(
    values: list[Value], levels: list[int], stages: list[int], sinks: list[int]
) -> tuple[int, ...]:
    """The expensive FULL values that a later stage needs again.

    sinks   the values that are stored
    """
    wanted: set[int] = set()
    seen: set[tuple[int, int]] = set()
    stack: list[tuple[int, int]] = [(i, stages[i]) for i in sinks]
    stack += [(v.source, stages[v.source]) for v in values if isinstance(v, Reduce)]
    while stack:
        i, stage = stack.pop()
        if (i, stage) in seen or levels[i] != FULL:
            continue
        seen.add((i, stage))
        value = values[i]
        if stages[i] < stage and isinstance(value, Apply) and cost_of(value, values) > EXPENSIVE:
            wanted.add(i)
            continue
        stack.extend((j, stage) for j in inputs_of(value))
    return tuple(sorted(wanted))
