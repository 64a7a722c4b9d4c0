"""memory_plan: give every temporary its place in one arena, by its live range.

Needs regions; leaves an offset in each temporary BufferRef. A temporary lives from the first
region that touches it to the last. A result may lie over an input that dies in the same launch
if the launch says so (`in_place`). What is free is reused best fit first, region by region; where
that leaves an arena that is larger than what lives at once, the largest temporaries get their
places first.
"""

from __future__ import annotations

import bisect
import itertools
from dataclasses import dataclass

from bedplate.compiler.builder import ALIGNMENT, BufferRef, Launch

# An arena is good enough at this many times its lower bound. Placing by size reaches 1.00 where
# region by region gives 1.17, but takes each pair of temporaries in turn: 16 ms for 490.
GOOD_ENOUGH = 1.02
MOST_BY_SIZE = 2000


@dataclass(eq=False, slots=True)
class _Range:
    buffer: BufferRef
    first: int
    last: int
    readers_at_last: int = 0

    @property
    def size(self) -> int:
        """Its bytes, in whole cache lines."""
        return -(-self.buffer.nbytes // ALIGNMENT) * ALIGNMENT


def plan_memory(regions: list[list[Launch]]) -> int:
    """Set the offsets of all temporaries; returns the bytes of the arena."""
    blocks, owner = _blocks(regions)
    size = _place(blocks)
    if size > GOOD_ENOUGH * _largest_live_set(blocks, len(regions)) and len(blocks) <= MOST_BY_SIZE:
        size = _place_by_size(blocks, size)
    for buffer, root in owner.items():
        buffer.offset = root.offset
    return size


def largest_live_set(regions: list[list[Launch]]) -> int:
    """The bytes of all temporaries of the region that has most: no arena can be smaller.

    Those that lie over another count once, as in the plan.
    """
    return _largest_live_set(_blocks(regions)[0], len(regions))


def _largest_live_set(blocks: list[_Range], n_regions: int) -> int:
    change = [0] * (n_regions + 1)
    for block in blocks:
        change[block.first] += block.size
        change[block.last + 1] -= block.size
    return max(itertools.accumulate(change), default=0)


def _blocks(regions: list[list[Launch]]) -> tuple[list[_Range], dict[BufferRef, BufferRef]]:
    """What needs a place, and the temporaries that lie over another: over which."""
    ranges = _live_ranges(regions)
    owner = _in_place(regions, ranges)
    return [entry for buffer, entry in ranges.items() if buffer not in owner], owner


def _live_ranges(regions: list[list[Launch]]) -> dict[BufferRef, _Range]:
    ranges: dict[BufferRef, _Range] = {}
    for level, launches in enumerate(regions):
        for launch in launches:
            for buffer in (*launch.reads, *launch.writes):
                if buffer.slot is None:
                    entry = ranges.setdefault(buffer, _Range(buffer, level, level))
                    entry.last = level
    for level, launches in enumerate(regions):
        for launch in launches:
            for buffer in {*launch.reads, *launch.writes}:
                entry = ranges.get(buffer)
                if entry is not None and entry.last == level:
                    entry.readers_at_last += 1
    return ranges


def _in_place(
    regions: list[list[Launch]], ranges: dict[BufferRef, _Range]
) -> dict[BufferRef, BufferRef]:
    """The temporary that each one lies over: the first of its chain, which lies over none."""
    owner: dict[BufferRef, BufferRef] = {}
    taken: set[BufferRef] = set()
    for level, launches in enumerate(regions):
        for launch in launches:
            for source, target in launch.in_place:
                old, new = ranges.get(source), ranges.get(target)
                if old is None or new is None or source in taken or target in owner:
                    continue
                alone = old.last == level and old.readers_at_last == 1 and new.first == level
                if alone and old.first < level and target.nbytes <= source.nbytes:
                    root = owner.get(source, source)
                    owner[target] = root
                    taken.add(source)
                    ranges[root].last = max(ranges[root].last, new.last)
    return owner


class _Arena:
    """Free pieces (size, offset), the smallest that fits first; grows at the end."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []
        self.end = 0

    def take(self, size: int) -> int:
        position = bisect.bisect_left(self.free, (size, 0))
        if position < len(self.free):
            found, offset = self.free.pop(position)
            if found > size:
                bisect.insort(self.free, (found - size, offset + size))
            return offset
        offset = self.end
        self.end += size
        return offset

    def give(self, size: int, offset: int) -> None:
        """Take a piece back, joined with free neighbours."""
        for other_size, other in list(self.free):
            if other + other_size == offset:
                self.free.remove((other_size, other))
                offset, size = other, size + other_size
            elif offset + size == other:
                self.free.remove((other_size, other))
                size += other_size
        if offset + size == self.end:
            self.end = offset
        else:
            bisect.insort(self.free, (size, offset))


def _place(blocks: list[_Range]) -> int:
    arena = _Arena()
    peak = 0
    live: list[tuple[int, int, int]] = []  # (last region, size, offset)
    for block in sorted(blocks, key=lambda b: (b.first, -b.buffer.nbytes)):
        while live and live[0][0] < block.first:
            _, size, offset = live.pop(0)
            arena.give(size, offset)
        block.buffer.offset = arena.take(block.size)
        peak = max(peak, arena.end)
        bisect.insort(live, (block.last, block.size, block.buffer.offset))
    return peak


def _place_by_size(blocks: list[_Range], bound: int) -> int:
    """Place the largest first, each in the smallest gap that fits between those placed before.

    bound    if the arena does not become smaller than this, the places stay as they are
    returns  the bytes of the arena
    """
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first region, last region)
    by_size = sorted(blocks, key=lambda b: (-b.size, b.first))
    for block in by_size:
        first, last = block.first, block.last
        beside = sorted([p for p in placed if p[2] <= last and first <= p[3]])
        offset = _smallest_gap(beside, block.size)
        placed.append((offset, offset + block.size, first, last))
    size = max((end for _, end, _, _ in placed), default=0)
    if size >= bound:
        return bound
    for block, place in zip(by_size, placed, strict=True):
        block.buffer.offset = place[0]
    return size


def _smallest_gap(beside: list[tuple[int, int, int, int]], size: int) -> int:
    """The offset of the smallest gap of at least `size` bytes between pieces; behind them if none.

    beside  (offset, end, ...) by offset; pieces may overlap
    """
    best, width, reached = -1, 0, 0
    for offset, end, _, _ in beside:
        gap = offset - reached
        if gap >= size and (best < 0 or gap < width):
            best, width = reached, gap
        reached = max(reached, end)
    return best if best >= 0 else reached
