"""The medium tier: blocks cut from one long range by best fit, and joined again when freed.

A segment is a range of addresses much longer than what is used of it, which costs nothing: the
system gives pages when they are first touched. It is used from its beginning up to a top that rises
when nothing below it fits, by what is missing only. A request takes the smallest free range that is
large enough; what is left of that stays free, and a range that is freed joins its free neighbours.
So pages that were touched once serve requests of every size, where a list for each size would touch
fresh pages for each. Pages of free ranges go back to the system when room is needed.

Everything here runs under `ACCOUNT.lock`. Ctrl-C may end it after any call. The truth is therefore
in one table, `_free`, which single steps change, and the counts with it; what is derived from it is
checked when it is used. The worst that an interrupt leaves behind is a range that nobody uses.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, insort

from bedplate.memory.classes import HUGE_PAGE_BYTES, PAGE_BYTES, round_up
from bedplate.memory.mapping import ACCOUNT, Account, Segment
from bedplate.memory.pressure import require_mapped

# the longest that the system gives; a limit on addresses (ulimit -v) or strict accounting may
# refuse the first
SEGMENT_BYTES = (1 << 36, 1 << 30)
STEP_BYTES = HUGE_PAGE_BYTES  # what the top rises by


class Medium:
    """See the head of this file.

    segments    the newest last, which alone grows
    free_bytes  of all free ranges
    """

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.free_bytes = 0
        self._live: dict[int, int] = {}  # start -> end of what is in use
        self._free: dict[int, int] = {}  # start -> end of what is not
        self._starts: dict[int, int] = {}  # end -> start of the same; may hold more
        self._sizes: list[tuple[int, int]] = []  # (bytes, start) of the same, rising; so may this
        self._away: dict[int, int] = {}  # start -> end of what the system has taken back

    # the default keeps the name alive while the interpreter shuts down
    def __del__(self, account: Account = ACCOUNT) -> None:
        with account.lock:
            account.free -= self.free_bytes

    @property
    def live_bytes(self) -> int:
        return sum([end - start for start, end in list(self._live.items())])

    def take(self, nbytes: int) -> int:
        """The address of a range, now in use.

        raises  MemoryError if the limit or the system has no more
        """
        size = round_up(max(nbytes, 1), PAGE_BYTES)
        while (start := self._fitting(size)) is None:
            self._grow(size)
        return start

    def give_back(self, start: int) -> None:
        """A range is no longer in use; it joins the free ranges on both sides."""
        self._join(start, self._live.pop(start))

    def trim(self, bound_bytes: int) -> None:
        """Give pages back to the system, of the largest ranges first, until so little is free."""
        for start, end in sorted(self._free.items(), key=lambda span: span[0] - span[1]):
            if self.free_bytes <= bound_bytes:
                return
            self._discard(start, end)
        if not self._live:
            for table in (self._starts, self._sizes, self._away, self.segments):
                table.clear()

    # ---- free ranges

    def _fitting(self, size: int) -> int | None:
        sizes = self._sizes
        place = bisect_left(sizes, (size, 0))
        while place < len(sizes):
            found, start = sizes[place]
            del sizes[place]
            if self._free.get(start) != start + found:
                continue  # left behind by an interrupt
            self._forget(start, start + found)
            if found > size:
                self._remember(start + size, start + found)
            self._live[start] = start + size
            return start
        return None

    def _join(self, start: int, end: int) -> None:
        after = self._free.get(end)
        if after is not None:
            self._drop(end, after)
            end = after
        before = self._starts.get(start)
        if before is not None and self._free.get(before) == start:
            self._drop(before, start)
            start = before
        self._remember(start, end)

    def _remember(self, start: int, end: int) -> None:
        nbytes = end - start
        self.free_bytes += nbytes
        ACCOUNT.free += nbytes
        self._free[start] = end
        self._starts[end] = start
        insort(self._sizes, (nbytes, start))

    def _forget(self, start: int, end: int) -> None:
        nbytes = end - start
        self.free_bytes -= nbytes
        ACCOUNT.free -= nbytes
        del self._free[start]
        self._starts.pop(end, None)

    def _drop(self, start: int, end: int) -> None:
        self._forget(start, end)
        entry = end - start, start
        place = bisect_left(self._sizes, entry)
        if place < len(self._sizes) and self._sizes[place] == entry:
            del self._sizes[place]

    # ---- more of them, and fewer

    def _grow(self, size: int) -> None:
        """Make a free range of a size possible: what went away comes back, or the top rises."""
        away = [(end - start, start) for start, end in self._away.items() if end - start >= size]
        if away:
            nbytes, start = min(away)
            if require_mapped(nbytes):
                self._segment_of(start).count(nbytes)
                self._join(start, self._away.pop(start))
            return
        if not self.segments:
            self._reserve(size)
        segment = self.segments[-1]
        top = segment.end
        last = self._starts.get(top, top)
        last = last if self._free.get(last) == top else top
        missing = round_up(size - (top - last), STEP_BYTES)
        if segment.room < missing + STEP_BYTES:  # ranges of two segments must not meet
            self._reserve(size)
        elif require_mapped(missing):
            segment.grow(missing)
            self._join(top, top + missing)

    def _reserve(self, size: int) -> None:
        """A new segment."""
        least = round_up(size, STEP_BYTES) + STEP_BYTES
        for length in SEGMENT_BYTES:
            if length > least:
                with contextlib.suppress(MemoryError):
                    self.segments.append(Segment(length))
                    return
        self.segments.append(Segment(least))

    def _discard(self, start: int, end: int) -> None:
        segment = self._segment_of(start)
        self._drop(start, end)
        if end == segment.end:
            segment.shrink(end - start)
        else:
            segment.discard(start, end - start)
            self._away[start] = end

    def _segment_of(self, address: int) -> Segment:
        return next(s for s in self.segments if s.address <= address < s.end)
