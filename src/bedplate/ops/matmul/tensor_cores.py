"""The product of bfloat16 and float16 by tensor cores: one tile of c by a block of four warps.

    for each item (a tile of c):
        acc = 0
        for k0 in range(0, K, 32):
            stage a[rows, k0 : k0 + 32] and b[k0 : k0 + 32, columns] in shared memory
            for k in range(k0, k0 + 32, 16):
                acc[i][j] = mma(a fragment i, b fragment j, acc[i][j])   for this warp's i, j
        c = epilogue(acc)

The next stage is fetched into registers before the products of this one and goes to the other of
two buffers, so one barrier a step is enough. Each element of c is one chain over k = 0, 16, 32 ...
whatever the cut, so a row has the same bits in any company; in which order the 16 products of a
step are added is the hardware's. Sums leave through shared memory, 16 rows of a warp at a time, so
that the epilogue is there four times at most and c is written 16 bytes at a time.

    accumulates in   float32
    flops            2 M N K
    bytes            a tile of R x C reads (R + C) 2 K bytes: 128 x 128 makes 64 flops a byte
    registers        of a thread, for 128 x 128: 128 accumulators, 32 for the next stage, 32 for
                     fragments, of 255
    shared memory    2 (128 + 128) x 40 x 2 = 40 KiB of the 48 that every GPU gives
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    block_barrier,
    cast,
    f32,
    i64,
    kernel,
    load,
    loop,
    minimum,
    mma,
    ptr,
    shared,
    shuffle,
    store,
    tail_mask,
    thread_lane,
    thread_warp,
    var,
    warp_barrier,
    when,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.matmul.fragments import EIGHT, Copier, Fragments, Layout, Source
from bedplate.ops.matmul.pack import batch_offset
from bedplate.ops.matmul.task import (
    A_K,
    A_ROW,
    B_COLUMN,
    B_K,
    COLUMN_BLOCKS,
    COLUMNS,
    DEPTH,
    N_WORDS,
    ROW_BLOCKS,
    ROWS,
    A,
    B,
    C,
    Variant,
    apply_epilogue,
)

WARPS = 4
THREADS = 32 * WARPS
STEP = 32  # k's of a stage
TILE = 16  # rows, k's and (two fragments of) columns of a fragment
# Items that are near in number share rows of a and columns of b in the cache: they go down so
# many tiles of rows before they go to the next column.
GROUP = 8


@dataclass(frozen=True, slots=True)
class Cut:
    """A tile of c, and how its four warps share it.

    rows, columns            of the tile
    warp_rows, warp_columns  of a warp's part, multiples of 16
    """

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int


LARGE = Cut(128, 128, 64, 64)
SMALL = Cut(64, 64, 32, 32)
FLAT = Cut(16, 128, 16, 32)


@dataclass(frozen=True, slots=True)
class Kind:
    """What specialises the kernel, beside the cut and the epilogue.

    a_kind, b_kind        how an operand lies: see Layout
    aligned               of a, b and c, whether eights start at multiples of 16 bytes
    rank                  batch dimensions
    split_rows            rows of several products were merged: the epilogue wants them apart
    """

    element: Type
    out: Type
    a_kind: str
    b_kind: str
    aligned: tuple[bool, bool, bool]
    rank: int
    split_rows: bool

    @property
    def variant(self) -> Variant:
        """What the epilogue wants to know."""
        return Variant(
            self.element, self.element, f32, self.out, self.a_kind, self.b_kind, self.rank,
            self.split_rows, True,
        )  # fmt: skip


@functools.cache
def layouts(kind: Kind, cut: Cut) -> tuple[Layout, Layout]:
    """How tiles of a and b are staged."""
    return (
        Layout(kind.element, cut.rows, STEP, kind.a_kind, kind.aligned[0]),
        Layout(kind.element, cut.columns, STEP, kind.b_kind, kind.aligned[1]),
    )


def make_kernel(kind: Kind, cut: Cut, emit: Callable[..., Any] | None) -> Kernel:
    """The task kernel: its items are tiles of c; the words are those of task.py.

    emit  stages the epilogue; None: sums are cast
    """
    of_a, of_b = layouts(kind, cut)
    chunk = TILE * (cut.warp_columns + EIGHT) * WARPS  # float32 numbers on their way out
    elements = max(2 * (of_a.size + of_b.size), 2 * chunk)

    @kernel
    def matmul_tensor_cores(args: ptr(i64), begin: i64, end: i64, worker: i64):
        warp = thread_warp(WARPS)
        memory = shared(kind.element, elements)
        here = _Thread(kind, cut, args, warp, memory, (of_a, of_b))
        for item in loop(begin, end):
            tile = _Tile(kind, cut, args, item)
            here.finish(tile, here.sums(tile), emit)

    return matmul_tensor_cores


class _Tile:
    """Where the tile of an item begins, and how much of it there is."""

    def __init__(self, kind: Kind, cut: Cut, args: Value, item: Value) -> None:
        self.kind, self.args = kind, args
        down, across = word_int(args, ROW_BLOCKS), word_int(args, COLUMN_BLOCKS)
        self.batch, tile = item // (down * across), item % (down * across)
        group, within = tile // (across * GROUP), tile % (across * GROUP)
        high = minimum(down - group * GROUP, GROUP)
        self.row = (group * GROUP + within % high) * cut.rows
        self.column = within // high * cut.columns
        self.rows, self.columns = word_int(args, ROWS), word_int(args, COLUMNS)
        self.depth = word_int(args, DEPTH)
        self.c = word_pointer(args, C, kind.out) + self.batch * self.rows * self.columns
        self._a = self._operand(A, 1, A_ROW, self.row)
        self._b = self._operand(B, 2, B_COLUMN, self.column)
        self._steps = word_int(args, A_K), word_int(args, B_K)

    def _operand(self, word: int, column: int, stride: int, first: Value) -> tuple[Value, Value]:
        """(first element of the tile, stride from row to row or column to column)"""
        start = batch_offset(self.args, self.batch, N_WORDS, self.kind.rank, column, 3)
        step = word_int(self.args, stride)
        return word_pointer(self.args, word, self.kind.element) + start + first * step, step

    def sources(self, k: Value | int) -> tuple[Source, Source]:
        """Both operands from k on."""
        (a, a_row), (b, b_column), (a_k, b_k) = self._a, self._b, self._steps
        left = self.depth - k
        return (
            Source(a + a_k * k, a_row, a_k, self.rows - self.row, left),
            Source(b + b_k * k, b_column, b_k, self.columns - self.column, left),
        )


class _Thread:
    """What a thread does in every tile."""

    def __init__(
        self, kind: Kind, cut: Cut, args: Value, warp: Value, memory: Value,
        layouts: tuple[Layout, Layout],
    ) -> None:  # fmt: skip
        self.kind, self.cut, self.args, self.warp, self.memory = kind, cut, args, warp, memory
        self.layouts = layouts
        self.lane = thread_lane()
        thread = warp * 32 + self.lane
        self.copiers = [Copier(layout, thread, THREADS) for layout in layouts]
        self.of_a, self.of_b = (Fragments(layout) for layout in layouts)
        across = cut.columns // cut.warp_columns
        self.warp_row = warp // across * cut.warp_rows
        self.warp_column = warp % across * cut.warp_columns

    def sums(self, tile: _Tile) -> list[list[Any]]:
        """This warp's part of the tile, as accumulators (16 rows, 8 columns) each."""
        cut = self.cut
        down, across = cut.warp_rows // TILE, cut.warp_columns // EIGHT
        sums = [[var(zeros(f32, 4)) for _ in range(across)] for _ in range(down)]
        stage_size = sum(layout.size for layout in self.layouts)
        self._put(self._fetch(tile, 0), self.memory)
        block_barrier()
        for k in loop(0, tile.depth, STEP):
            parity = k // STEP % 2
            following = self._fetch(tile, k + STEP)
            self._multiply(self.memory + parity * stage_size, sums)
            self._put(following, self.memory + (1 - parity) * stage_size)
            block_barrier()
        return sums

    def _fetch(self, tile: _Tile, k: Any) -> list[list[Value]]:
        sources = tile.sources(k)
        return [c.fetch(source) for c, source in zip(self.copiers, sources, strict=True)]

    def _put(self, eights: list[list[Value]], stage: Value) -> None:
        a, b = self.copiers
        a.put(eights[0], stage)
        b.put(eights[1], stage + self.layouts[0].size)

    def _multiply(self, stage: Value, sums: list[list[Any]]) -> None:
        """One stage's products."""
        b_stage = stage + self.layouts[0].size
        warp_barrier()  # the edges of what was fetched are branches
        for k in range(0, STEP, TILE):
            fragments: list[Value] = []
            for column in range(0, self.cut.warp_columns, TILE):
                fragments += self.of_b.b(b_stage, self.warp_column + column, k)
            for i, line in enumerate(sums):
                a = self.of_a.a(stage, self.warp_row + i * TILE, k)
                for total, b in zip(line, fragments, strict=True):
                    total.set(mma(a, b, total.get()))

    # On the way out

    def finish(self, tile: _Tile, sums: list[list[Any]], emit: Any) -> None:
        """Store this warp's part: 16 rows at a time lie down in shared memory and are read in
        eights of a row."""
        cut, lane = self.cut, self.lane
        pitch = cut.warp_columns + EIGHT
        chunk = cast(self.memory, ptr(f32)) + self.warp * (TILE * pitch)
        in_row = cut.warp_columns // EIGHT
        for i, line in enumerate(sums):
            for j, total in enumerate(line):
                place = chunk + lane // 4 * pitch + j * EIGHT + lane % 4 * 2
                store(place, shuffle(total.get(), None, (0, 1)), aligned=True)
                store(place + EIGHT * pitch, shuffle(total.get(), None, (2, 3)), aligned=True)
            block_barrier()
            for index in loop(lane, TILE * in_row, 32):
                row, column = index // in_row, index % in_row * EIGHT
                value = load(chunk + row * pitch + column, EIGHT, aligned=True)
                here = tile.row + self.warp_row + i * TILE + row
                self._store(tile, emit, here, tile.column + self.warp_column + column, value)
            block_barrier()

    def _store(self, tile: _Tile, emit: Any, row: Value, column: Value, value: Value) -> None:
        with when((row < tile.rows) & (column < tile.columns)):
            mask = tail_mask(tile.columns - column, EIGHT)
            made = apply_epilogue(
                self.kind.variant, emit, self.args, tile.batch, row, column, value, mask
            )
            place = tile.c + row * tile.columns + column
            store(place, made, mask, aligned=self.kind.aligned[2])
