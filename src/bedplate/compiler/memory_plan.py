"""memory_plan: give every temporary its place in one arena, by its live range.

Needs regions; leaves an offset in each temporary BufferRef. A temporary lives from the first
region that touches it to the last. A result may lie over an input that dies in the same launch
if the launch says so (`in_place`). What is free is reused best fit first, so the arena is
about as large as what lives at once.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from bedplate.compiler.builder import ALIGNMENT, BufferRef, Launch


@dataclass(eq=False, slots=True)
class _Range:
    buffer: BufferRef
    first: int
    last: int
    readers_at_last: int = 0


def plan_memory(regions: list[list[Launch]]) -> int:
    """Set the offsets of all temporaries; returns the bytes of the arena."""
    ranges = _live_ranges(regions)
    owner = _in_place(regions, ranges)
    size = _place([entry for buffer, entry in ranges.items() if buffer not in owner])
    for buffer, root in owner.items():
        buffer.offset = root.offset
    return size


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
        size = -(-block.buffer.nbytes // ALIGNMENT) * ALIGNMENT
        block.buffer.offset = arena.take(size)
        peak = max(peak, arena.end)
        bisect.insort(live, (block.last, size, block.buffer.offset))
    return peak
