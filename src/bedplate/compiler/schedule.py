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


def allow_overwriting(
    regions: list[list[Launch]], pairs: list[tuple[BufferRef, BufferRef]]
) -> list[bool]:
    """For each pair (new, old): whether `new` may be the memory of `old`.

    That is so if one launch writes `new`, and all that read `old` run in regions before, or
    are that launch, which says that it can work in place. A launch whose results nobody reads
    is moved behind the readers where that helps.
    """
    for new, old in pairs:
        _move_behind(regions, new, old)
    return [_may_overwrite(regions, new, old) for new, old in pairs]


def _level_of(regions: list[list[Launch]], launch: Launch) -> int:
    return next(i for i, region in enumerate(regions) if any(each is launch for each in region))


def _touching(
    regions: list[list[Launch]], buffer: BufferRef
) -> tuple[list[Launch], list[tuple[int, Launch]]]:
    """Who writes a buffer, and who reads it where."""
    writers = [x for region in regions for x in region if buffer in x.writes]
    readers = [(i, x) for i, region in enumerate(regions) for x in region if buffer in x.reads]
    return writers, readers


def _move_behind(regions: list[list[Launch]], new: BufferRef, old: BufferRef) -> None:
    writers, _ = _touching(regions, new)
    if len(writers) != 1:
        return
    (writer,) = writers
    level = _level_of(regions, writer)
    last = max((i for i, x in _touching(regions, old)[1] if x is not writer), default=-1)
    is_read = any(b in x.reads for b in writer.writes for region in regions for x in region)
    if last < level or is_read:
        return
    regions[level] = [x for x in regions[level] if x is not writer]
    while len(regions) <= last + 1:
        regions.append([])
    regions[last + 1].append(writer)


def _may_overwrite(regions: list[list[Launch]], new: BufferRef, old: BufferRef) -> bool:
    writers, _ = _touching(regions, new)
    if len(writers) != 1 or writers[0].shared:
        return False
    level = _level_of(regions, writers[0])
    for i, reader in _touching(regions, old)[1]:
        if reader is writers[0]:
            if not any(a is old and b is new for a, b in reader.in_place):
                return False
        elif i >= level:
            return False
    return True
