"""The medium tier: blocks cut from segments by best fit, and joined again when they are freed.

A segment is a mapping. A request takes the smallest free range that is large enough; what is left
of that stays free, unless it is too small to ever serve a request of this tier. A range that is
freed joins its free neighbours. So pages that were touched once serve requests of every size,
where a list for each size would touch fresh pages for each.

Everything here runs under `ACCOUNT.lock`. Ctrl-C may end it after any call. The truth is therefore
in one table, `_free`, which single steps change, and the counts with it; what is derived from it is
checked when it is used. The worst that an interrupt leaves behind is a range that nobody uses.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from bedplate.memory.classes import HUGE_PAGE_BYTES, MEBIBYTE, PAGE_BYTES, round_up
from bedplate.memory.mapping import ACCOUNT, Account, Mapping

# A segment is a quarter of those there are, within these bounds, or as large as the request.
LEAST_SEGMENT_BYTES, MOST_SEGMENT_BYTES = 8 * MEBIBYTE, 64 * MEBIBYTE


class Medium:
    """See the head of this file.

    least       bytes of the smallest range that is worth keeping apart
    segments    by address, the oldest first
    free_bytes  of all free ranges
    """

    def __init__(self, least: int) -> None:
        self.least = max(least, PAGE_BYTES)
        self.segments: dict[int, Mapping] = {}
        self.free_bytes = 0
        self._live: dict[int, int] = {}  # start -> end of what is in use
        self._free: dict[int, int] = {}  # start -> end of what is not
        self._starts: dict[int, int] = {}  # end -> start of the same; may hold more
        self._sizes: list[tuple[int, int]] = []  # (bytes, start) of the same, rising; so may this

    # the default keeps the name alive while the interpreter shuts down
    def __del__(self, account: Account = ACCOUNT) -> None:
        with account.lock:
            account.free -= self.free_bytes

    @property
    def live_bytes(self) -> int:
        return sum([end - start for start, end in list(self._live.items())])

    def take(self, nbytes: int) -> int | None:
        """The address of a free range, now in use; None if none is large enough."""
        sizes, size = self._sizes, round_up(max(nbytes, 1), PAGE_BYTES)
        place = bisect_left(sizes, (size, 0))
        while place < len(sizes):
            found, start = sizes[place]
            if self._free.get(start) != start + found:
                del sizes[place]  # left behind by an interrupt
                continue
            rest = found - size if found - size >= self.least else 0
            end = start + found - rest
            del sizes[place]
            self._forget(start, start + found)
            if rest:
                self._remember(end, end + rest)
            self._live[start] = end
            return start
        return None

    def give_back(self, start: int) -> None:
        """A range is no longer in use; it joins the free ranges on both sides."""
        end = self._live.pop(start)
        after = self._free.get(end)
        if after is not None:
            self._drop(end, after)
            end = after
        before = self._starts.get(start)
        if before is not None and self._free.get(before) == start:
            self._drop(before, start)
            start = before
        self._remember(start, end)

    def add(self, segment: Mapping) -> None:
        """Make the pages of a mapping available, all but the last page.

        That page is never used, so that ranges of two segments never meet.
        """
        self.segments[segment.address] = segment
        self._remember(segment.address, _end(segment))

    def segment_bytes(self, nbytes: int) -> tuple[int, int]:
        """How large a segment must be for a request, and how large it had better be."""
        least = round_up(max(nbytes, 1), PAGE_BYTES) + PAGE_BYTES
        mapped = sum([segment.nbytes for segment in self.segments.values()])
        better = min(max(mapped // 4, LEAST_SEGMENT_BYTES), MOST_SEGMENT_BYTES)
        return least, round_up(max(least, better), HUGE_PAGE_BYTES)

    def unused(self) -> list[Mapping]:
        """The segments of which nothing is in use, the oldest first."""
        return [s for start, s in self.segments.items() if self._free.get(start) == _end(s)]

    def remove(self, segment: Mapping) -> None:
        """Forget a segment of which nothing is in use."""
        self._drop(segment.address, _end(segment))
        del self.segments[segment.address]

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


def _end(segment: Mapping) -> int:
    return segment.address + segment.nbytes - PAGE_BYTES
