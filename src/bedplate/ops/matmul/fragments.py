"""Matrices in memory that a block of threads shares, and their fragments as tensor cores take them.

A staged matrix is one operand of a product, cut to a tile: `outer` rows of a (or columns of b) by
`depth` k's. It lies in shared memory "along" (k's of one row side by side) or "across" (rows of one
k side by side), as it lies in the memory it comes from, so that it is copied 16 bytes at a time;
`load_matrices` turns the latter around on the way to the registers.

Lines are 8 elements longer than the tile: 8 of them, 16 bytes of each, then meet in no bank of
shared memory (32 banks of 4 bytes), for all tiles whose lines are a multiple of 32 elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bedplate.kernel import (
    Type,
    Value,
    element,
    insert,
    load,
    load_matrices,
    otherwise,
    select,
    shuffle,
    store,
    thread_lane,
    var,
    when,
    zeros,
)

PAD = 8
EIGHT = 8  # elements of 16 bits that a thread copies at a time


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tile of one operand is copied and lies.

    outer, depth  elements of the tile
    kind          "along" or "across", by which neighbours in memory are neighbours; "general":
                  neither, gathered and then laid along
    aligned       every eight start at a multiple of 16 bytes
    """

    element: Type
    outer: int
    depth: int
    kind: str
    aligned: bool

    @property
    def is_across(self) -> bool:
        return self.kind == "across"

    @property
    def line(self) -> int:
        """Elements side by side."""
        return self.outer if self.is_across else self.depth

    @property
    def pitch(self) -> int:
        """Elements from line to line in shared memory."""
        return self.line + PAD

    @property
    def size(self) -> int:
        """Elements in shared memory."""
        return (self.depth if self.is_across else self.outer) * self.pitch

    @property
    def n_eights(self) -> int:
        return self.outer * self.depth // EIGHT


@dataclass(frozen=True, slots=True)
class Source:
    """A tile in the device's memory: its first element, strides, and how much of it there is."""

    first: Value
    outer_stride: Value
    k_stride: Value
    outer_left: Value
    depth_left: Value


class Copier:
    """Copies tiles of one operand, each thread its share of the eights."""

    def __init__(self, layout: Layout, thread: Value, n_threads: int) -> None:
        self.layout = layout
        in_line = layout.line // EIGHT
        self.indices = [thread + first for first in range(0, layout.n_eights, n_threads)]
        self.is_whole = layout.n_eights % n_threads == 0  # each thread has as many
        self.places = [(index // in_line, index % in_line * EIGHT) for index in self.indices]

    def fetch(self, source: Source) -> list[Value]:
        """This thread's eights, zeros where the operand has no elements."""
        return [self._eight(source, place) for place in range(len(self.places))]

    def _eight(self, source: Source, which: int) -> Value:
        layout, (line, within) = self.layout, self.places[which]
        outer, k = (within, line) if layout.is_across else (line, within)
        lines = source.depth_left if layout.is_across else source.outer_left
        there = source.outer_left if layout.is_across else source.depth_left
        exists = line < lines
        if not self.is_whole:
            exists = exists & (self.indices[which] < layout.n_eights)
        count = select(exists, there - within, 0)
        start = source.first + outer * source.outer_stride + k * source.k_stride
        if layout.kind == "general":
            return gather_eight(start, source.k_stride, count)
        return load_eight(start, count, layout.aligned)

    def put(self, eights: list[Value], to: Value) -> None:
        """Store this thread's eights in shared memory."""
        for (line, within), index, eight in zip(self.places, self.indices, eights, strict=True):
            place = to + line * self.layout.pitch + within
            if self.is_whole:
                store(place, eight, aligned=True)
            else:
                with when(index < self.layout.n_eights):
                    store(place, eight, aligned=True)


def load_eight(start: Value, count: Value, aligned: bool) -> Value:
    """Eight elements side by side, zeros from `count` on; nothing behind it is read."""
    cell = var(zeros(element(start.type), EIGHT))
    with when(count >= EIGHT):
        cell.set(load(start, EIGHT, aligned=aligned))
    with otherwise():
        cell.set(gather_eight(start, 1, count))
    return cell.get()


def gather_eight(start: Value, step: Any, count: Value) -> Value:
    """The same, `step` apart; lanes are known under trace, so the vector stays in registers."""
    eight = zeros(element(start.type), EIGHT)
    for place in range(EIGHT):
        eight = insert(eight, place, load(start + step * place, None, count > place))
    return eight


class Fragments:
    """What a warp's lanes take of a staged matrix; for the elements see `mma`."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        lane = thread_lane()
        matrix, row = lane // EIGHT, lane % EIGHT
        low, high = matrix % 2 * EIGHT, matrix // 2 * EIGHT
        # matrices of a: (rows, k), (rows + 8, k), (rows, k + 8), (rows + 8, k + 8); of b: two
        # of k and k + 8 for 8 columns, two for the next 8
        self.of_a = self._place(low, high, row)
        self.of_b = self._place(high, low, row)

    def _place(self, outer: Value, k: Value, row: Value) -> Value:
        pitch = self.layout.pitch
        return (k + row) * pitch + outer if self.layout.is_across else (outer + row) * pitch + k

    def _offset(self, outer: Any, k: Any) -> Any:
        pitch = self.layout.pitch
        return k * pitch + outer if self.layout.is_across else outer * pitch + k

    def a(self, staged: Value, outer: Any, k: Any) -> Value:
        """The fragment of 16 rows and 16 k's: vec(T, 8)."""
        place = staged + self.of_a + self._offset(outer, k)
        return load_matrices(place, transposed=self.layout.is_across)

    def b(self, staged: Value, outer: Any, k: Any) -> tuple[Value, Value]:
        """The fragments of 16 k's and 8 columns, and of the next 8: vec(T, 4) each."""
        place = staged + self.of_b + self._offset(outer, k)
        both = load_matrices(place, transposed=self.layout.is_across)
        return shuffle(both, None, range(4)), shuffle(both, None, range(4, 8))
