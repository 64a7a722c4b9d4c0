"""schedule: put launches that do not depend on each other side by side.

Needs launches in program order; leaves regions. A launch stands in the first region after all
that it depends on: what writes its inputs, and what read or wrote its outputs before.
Launches that write different regions of one buffer (`shared`) do not wait for each other.
"""

from __future__ import annotations

from bedplate.compiler.builder import BufferRef, Launch

NEVER = (-1, -1)  # no region writes it


def schedule(launches: list[Launch]) -> list[list[Launch]]:
    """The launches in regions; the order within a region is that of the program."""
    writers: dict[BufferRef, tuple[int, int]] = {}  # last region, of those alone and of shared ones
    readers: dict[BufferRef, int] = {}
    regions: list[list[Launch]] = []
    for launch in launches:
        level = _level(launch, writers, readers)
        for buffer in launch.reads:
            readers[buffer] = max(readers.get(buffer, -1), level)
        for buffer in launch.writes:
            alone, shared = writers.get(buffer, NEVER)
            last = (alone, max(shared, level)) if launch.shared else (max(alone, level), shared)
            writers[buffer] = last
        while len(regions) <= level:
            regions.append([])
        regions[level].append(launch)
    return regions


def _level(
    launch: Launch, writers: dict[BufferRef, tuple[int, int]], readers: dict[BufferRef, int]
) -> int:
    after = -1
    for buffer in launch.reads:
        after = max(after, *writers.get(buffer, NEVER))
    for buffer in launch.writes:
        alone, shared = writers.get(buffer, NEVER)
        after = max(after, readers.get(buffer, -1), alone, -1 if launch.shared else shared)
    return after + 1


def allow_overwriting(
    regions: list[list[Launch]], pairs: list[tuple[BufferRef, BufferRef]]
) -> list[bool]:
    """For each pair (new, old): whether `new` may be the memory of `old`.

    That is so if all that read `old` run in regions before `new` is first written, or are the
    launch that writes it first, which says that it can work in place. A launch whose results
    nobody reads is moved behind the readers where that helps. Nothing is overwritten before the
    last check of an index: a run that fails leaves everything as it was.
    """
    users = _Users(regions)
    checked = checked_regions(regions)
    for new, old in pairs:
        users.move_behind(new, old)
    users.regroup()
    return [users.may_overwrite(new, old, checked) for new, old in pairs]


def checked_regions(regions: list[list[Launch]]) -> int:
    """How many regions must have run until all indices are checked."""
    return max(
        (i + 1 for i, region in enumerate(regions) if any(x.checks for x in region)), default=0
    )


class _Users:
    """Who writes and who reads each buffer, and in which region."""

    def __init__(self, regions: list[list[Launch]]) -> None:
        self.regions = regions
        self.moved: list[Launch] = []
        self.level: dict[int, int] = {}
        self.writers: dict[BufferRef, list[Launch]] = {}
        self.readers: dict[BufferRef, list[Launch]] = {}
        for level, region in enumerate(regions):
            for launch in region:
                self.level[id(launch)] = level
                for buffer in launch.writes:
                    self.writers.setdefault(buffer, []).append(launch)
                for buffer in launch.reads:
                    self.readers.setdefault(buffer, []).append(launch)

    def move_behind(self, new: BufferRef, old: BufferRef) -> None:
        """Put the launch that writes `new` behind all that read `old`, if nothing follows it."""
        writers = self.writers.get(new, [])
        if len(writers) != 1:
            return
        (writer,) = writers
        level = self.level[id(writer)]
        others = [x for x in self.readers.get(old, []) if x is not writer]
        last = max((self.level[id(x)] for x in others), default=-1)
        if last < level or any(buffer in self.readers for buffer in writer.writes):
            return
        self.level[id(writer)] = last + 1
        self.moved.append(writer)

    def regroup(self) -> None:
        """Put what was moved at the end of its new region."""
        moved = {id(writer) for writer in self.moved}
        for level, region in enumerate(self.regions):
            self.regions[level] = [x for x in region if id(x) not in moved]
        for writer in {id(x): x for x in self.moved}.values():
            while len(self.regions) <= self.level[id(writer)]:
                self.regions.append([])
            self.regions[self.level[id(writer)]].append(writer)

    def may_overwrite(self, new: BufferRef, old: BufferRef, checked: int) -> bool:
        """See `allow_overwriting`; not before region `checked`."""
        writers = self.writers.get(new, [])
        if not writers or any(x.shared for x in writers):
            return False
        first = min(writers, key=lambda x: self.level[id(x)])
        level = self.level[id(first)]
        if level < checked:
            return False
        for reader in self.readers.get(old, []):
            if reader is first:
                if not any(a is old and b is new for a, b in reader.in_place):
                    return False
            elif self.level[id(reader)] >= level:
                return False
        return True
