"""The layout of a program: its axes, how accesses move along them, levels and stages."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bedplate.compiler.access import Dims, split
from bedplate.compiler.domain import aligned
from bedplate.compiler.program import (
    BROADCAST,
    FULL,
    GENERAL,
    ITEM,
    PAIRED,
    ROW,
    TRANSPOSED,
    UNIT,
    Load,
    Pattern,
    Position,
    Program,
    Reduce,
    choose_scratch,
    inputs_of,
)
from bedplate.compiler.program_builder import ProgramBuilder
from bedplate.compiler.uses import AccessUse, inner_pattern
from bedplate.config import config
from bedplate.devices.cpu.caches import cache_bytes
from bedplate.errors import InternalError
from bedplate.kernel import f32, host

SCRATCH_LIMIT = 256 * 1024  # bytes of a kept row that still fit the second cache
SHORT_ROW = 64  # columns up to which a row is not worth a loop
# A kernel that moves more than the caches hold leaves nothing of its results there, so they pass
# them by: a store into the cache reads the line first. What the last cache and a core's own hold
# together stays: RMS norm of 4096 x 1024, which moves 32 MiB, takes 0.26 ms so and 0.34 past the
# caches, of 16384 x 1024 1.99 and 1.81; a chain over two inputs of 36 MiB in all 0.29 and 0.26
# (an L3 of 32 MiB). Larger caches are shared with more cores than a program has.
STREAM_BYTES = min(cache_bytes(3), 32 << 20) + cache_bytes(2)

Strides = tuple[list[int], list[int]]  # along the row axes, along the column axes


@dataclass
class Layout:
    """A program, and the numbers that were taken out of it."""

    program: Program
    row_sizes: list[int]
    col_sizes: list[int]
    strides: list[Strides]


class LayoutBuilder(ProgramBuilder):
    """Lays the accesses of a group out along common axes, and completes its program."""

    def _resolve(self) -> tuple[list[int], list[int], list[Strides]]:
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

    def _pattern(self, use: AccessUse, strides: Strides) -> Pattern:
        rows, cols = strides
        if use.written:
            level = ROW if use.size == self.rows and use.size != self.group.total else FULL
            return Pattern(level, inner_pattern(cols[-1]))
        if any(cols):
            return Pattern(FULL, inner_pattern(cols[-1]))
        return Pattern(ROW if any(rows) else ITEM, BROADCAST)

    def _place(self, patterns: list[Pattern]) -> Strides:
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

    def build(self) -> Layout:
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
            self._streams(strides, patterns), tiled is not None,
            0 if tiled is not None else self._width(row_sizes, col_sizes),
        )  # fmt: skip
        return Layout(program, row_sizes, col_sizes, strides)

    def _tiled(
        self, patterns: list[Pattern], levels: list[int], strides: list[Strides]
    ) -> list[Pattern] | None:
        """The patterns of a tiled kernel, if one pays: an input jumps along the columns, but
        not along the rows, and nothing else is in the way."""
        if not config.tiling:
            return None
        if self.group.rows is not None or ROW in levels or len(strides[0][1]) > 1:
            return None
        indexed = {v.access for v in self.values if isinstance(v, Load) and v.index is not None}
        found = list(patterns)
        for i, (use, pattern, (rows, _)) in enumerate(
            zip(self.uses, patterns, strides, strict=True)
        ):
            if use.written and pattern.inner != UNIT:
                return None
            strided = pattern.inner in (GENERAL, PAIRED)
            jumps = strided and use.base is not None and i not in indexed
            if jumps and rows and rows[-1] == 1:
                found[i] = Pattern(FULL, TRANSPOSED)
        return found if found != patterns else None

    def _width(self, row_sizes: list[int], col_sizes: list[int]) -> int:
        """The columns of a short row of whole vectors, such as half a head; 0 for any other."""
        columns = col_sizes[-1]
        whole = columns % host().lanes(f32) == 0
        return columns if row_sizes and whole and columns <= SHORT_ROW else 0

    def _scratch_bytes(self, kept: tuple[int, ...]) -> int:
        return sum(self.cols * self.values[i].dtype.itemsize for i in kept)

    def _streams(self, strides: list[Strides], patterns: list[Pattern]) -> bool:
        """Whether the whole results are aligned, and better kept out of the caches."""
        lanes = host().lanes(f32)
        moved = sum(math.prod(s for s, t in u.dims if t) * u.itemsize for u in self.uses)
        if moved <= STREAM_BYTES or len(strides[0][1]) > 1:
            return False
        whole = [
            (use, stride)
            for use, stride, pattern in zip(self.uses, strides, patterns, strict=True)
            if use.written and use.buffer is None and pattern.level == FULL
        ]
        return bool(whole) and all(
            cols[-1] == 1 and use.offset % lanes == 0 and all(row % lanes == 0 for row in rows)
            for use, (rows, cols) in whole
        )
