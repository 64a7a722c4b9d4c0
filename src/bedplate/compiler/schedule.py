"""schedule: put launches that do not depend on each other side by side.

Needs launches in program order; leaves regions. A launch stands in the first region after all
that it depends on: what writes its inputs, and what read or wrote its outputs before.
Launches that write different regions of one buffer (`shared`) do not wait for each other.
"""

from __future__ import annotations

from bedplate.compiler.builder import BufferRef, Launch


def schedule(launches: list[Launch]) -> list[list[Launch]]:
    """The launches in regions; the order within a region is that of the program."""
    writers: dict[BufferRef, list[tuple[int, bool]]] = {}
    readers: dict[BufferRef, int] = {}
    regions: list[list[Launch]] = []
    for launch in launches:
        level = _level(launch, writers, readers)
        for buffer in launch.reads:
            readers[buffer] = max(readers.get(buffer, -1), level)
        for buffer in launch.writes:
            writers.setdefault(buffer, []).append((level, launch.shared))
        while len(regions) <= level:
            regions.append([])
        regions[level].append(launch)
    return regions


def _level(
    launch: Launch, writers: dict[BufferRef, list[tuple[int, bool]]], readers: dict[BufferRef, int]
) -> int:
    after = -1
    for buffer in launch.reads:
        for level, _ in writers.get(buffer, ()):
            after = max(after, level)
    for buffer in launch.writes:
        after = max(after, readers.get(buffer, -1))
        for level, shared in writers.get(buffer, ()):
            if not (shared and launch.shared):
                after = max(after, level)
    return after + 1
