"""Memory reports: what is held now and what was held at the peak, by whom and from which line.

What is held now is counted at once, at any time. A peak is known of a while in which somebody
watched: inside `peak()`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bedplate.errors import SettingError
from bedplate.inspect import memory_page, memory_text
from bedplate.inspect.census import Census, take
from bedplate.inspect.ledger import KINDS, Ledger, Share, Window, clock
from bedplate.inspect.places import NO_MODULE, module_of, shown_line
from bedplate.inspect.tracker import Tracker, kind_of_block, running, tracking
from bedplate.memory import readable
from bedplate.tensor import synchronize
from bedplate.tensor.atomic import replacing

KEYS = ("device", "module", "kind", "line")


@dataclass(frozen=True)
class MemoryRow:
    """What one line made for one module, of one kind, on one device: bytes now and at the peak."""

    device: str
    module: str
    kind: str
    line: str
    live: int
    peak: int


@dataclass
class MemoryReport:
    """See the head of this file; `print` shows it as tables.

    rows     the most bytes first
    live     bytes that are held now
    peak     the most that were held at once; None if nobody watched
    pooled   bytes that the allocator keeps for reuse, on the CPU
    seconds  from the first to the last point of `curve`
    curve    (seconds, bytes by kind), whenever it changed
    """

    rows: list[MemoryRow]
    live: int
    peak: int | None
    pooled: int
    curve: list[tuple[float, dict[str, int]]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return self.curve[-1][0] if self.curve else 0.0

    def by(self, *names: str) -> dict[Any, tuple[int, int]]:
        """(bytes now, bytes at the peak) by "device", "module", "kind", "line", or several.

        returns  keyed by the value, or a tuple of values if there are several names; the most
                 bytes first
        raises   SettingError for another name
        """
        if not names or not set(names) <= set(KEYS):
            raise SettingError(
                f"by: {', '.join(map(repr, names)) or 'nothing'} is not known\n"
                f"  give one or more of {', '.join(KEYS)}"
            )
        sums: dict[Any, tuple[int, int]] = {}
        for row in self.rows:
            values = tuple(getattr(row, name) for name in names)
            key = values[0] if len(values) == 1 else values
            live, peak = sums.get(key, (0, 0))
            sums[key] = live + row.live, peak + row.peak
        return dict(sorted(sums.items(), key=lambda entry: -max(entry[1])))

    def __str__(self) -> str:
        return memory_text.report_text(self)

    def text(self, top: int = memory_text.TOP) -> str:
        """The tables, with at most `top` rows each."""
        return memory_text.report_text(self, top)

    def html(self, path: str | Path) -> None:
        """Write a page that needs nothing else: tables, and the picture of `timeline`.

        raises  OSError; CheckpointError if something is there that is no regular file
        """
        _write(path, memory_page.page(self))

    def timeline(self, path: str | Path) -> None:
        """Write a picture (SVG) of the bytes of each kind over time.

        raises  SettingError if nobody watched; what `html` raises
        """
        if not self.curve:
            raise SettingError(
                "timeline: nothing was watched, so there is no time\n"
                "  take the report of `with bp.memory.peak() as m:`, m.report()"
            )
        _write(path, memory_page.picture(self))

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as `json` takes them."""
        return asdict(self)

    def json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)


def _write(path: str | Path, text: str) -> None:
    with replacing(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")


class Peak:
    """The most memory that was held at once, in a block of code.

    `bytes` and `added` may be asked inside the block too: they are then those so far.
    """

    def __init__(self, tracker: Tracker, window: Window) -> None:
        self._tracker: Tracker | None = tracker
        self._window = window
        self._begin = clock()
        self._made: Callable[[], MemoryReport] | None = None

    @property
    def bytes(self) -> int:
        """The most that was held at once, what was held before counted in."""
        if self._tracker is not None:
            self._tracker.ledger.read()
        return self._window.peak

    @property
    def before(self) -> int:
        """What was held when the block began."""
        return self._window.before

    @property
    def added(self) -> int:
        """The most that was held at once beyond what was held before."""
        return self.bytes - self.before

    def report(self) -> MemoryReport:
        """All there is to know of this block of code: what was held at its peak and at its end."""
        if self._tracker is not None:
            return _of_window(self._tracker, self._window, self._begin)()
        if self._made is None:
            raise SettingError("report: the block of code that was watched has failed to end")
        return self._made()

    def end(self) -> None:
        """The block of code ends."""
        if self._tracker is not None:
            self._made = _of_window(self._tracker, self._window, self._begin)
            self._tracker = None

    def __repr__(self) -> str:
        return f"<Peak {readable(self.bytes)}, {readable(self.added)} of it new>"


@contextmanager
def peak() -> Iterator[Peak]:
    """Note the most memory that is held at once inside the block, on all threads and devices.

    Blocks may be nested; each has a peak of its own. What is pending is computed when it begins
    and when it ends.

    returns  a `Peak`: `m.bytes`, `m.before`, `m.added`, and `m.report()` with the details
    cost     two looks at all objects for the outermost; while it lasts less than 10 % of a step.
             What was planned before is planned anew, so that its lines are known
    >>> import bedplate as bp
    >>> x = bp.ones((1024, 256)).realise()
    >>> with bp.memory.peak() as m:
    ...     y = (x + 1).realise()
    >>> m.added == y.nbytes
    True
    """
    synchronize()
    with tracking() as tracker:
        window = tracker.ledger.open()
        measured = Peak(tracker, window)
        try:
            yield measured
            synchronize()
        finally:
            measured.end()
            tracker.ledger.close(window)


def report() -> MemoryReport:
    """What is held now, by device, module, kind and source line; inside `peak()` its peak too.

    returns  a `MemoryReport`: it prints as tables, `.by("kind")` sums, `.html(path)` writes a page
    cost     looks at all objects, 0.2 s where there are half a million. What is pending is
             computed first
    >>> import bedplate as bp
    >>> x = bp.ones((1024, 256)).realise()
    >>> bp.memory.report().live >= x.nbytes
    True
    """
    synchronize()
    tracker = running()
    if tracker is not None and (window := tracker.ledger.outermost()) is not None:
        return _of_window(tracker, window, 0)()
    return _counted()


def _counted() -> MemoryReport:
    """Nobody watches: what is held now."""
    census = take()
    tracker = Tracker()
    tracker.places.search()
    holders = {key: (kind, path) for key, kind, path in tracker.holders()}
    shares = []
    for key, block in census.blocks.items():
        site = census.site(block)
        kind, module = holders.get(key, (kind_of_block(census, block), module_of(site)))
        shares.append(Share(block.nbytes, kind, module, site, census.device(block)))
    live = sum(share.nbytes for share in shares)
    return MemoryReport(_rows(shares, []), live, None, census.pooled())


def _of_window(tracker: Tracker, window: Window, begin: int) -> Callable[[], MemoryReport]:
    """What makes the report of a window, as of now; rows are summed only if somebody asks."""
    tracker.places.search()
    census: Census = tracker.settle()
    pooled, ledger = census.pooled(), tracker.ledger
    del census
    at_peak, now = ledger.look(window)
    live, most = ledger.live, window.peak
    curve = _curve(ledger, begin)
    return lambda: MemoryReport(_rows(now, at_peak), live, most, pooled, curve)


def _curve(ledger: Ledger, begin: int) -> list[tuple[float, dict[str, int]]]:
    points = [(at, kinds) for at, kinds in ledger.curve if at >= begin]
    first = points[0][0] if points else 0
    return [((at - first) / 1e9, dict(zip(KINDS, kinds, strict=True))) for at, kinds in points]


def _rows(now: Iterable[Share], at_peak: Iterable[Share]) -> list[MemoryRow]:
    sums: dict[tuple[str, str, str, str], list[int]] = {}
    for column, shares in enumerate((now, at_peak)):
        for share in shares:
            key = (share.device, share.module or NO_MODULE, share.kind, shown_line(share.site))
            sums.setdefault(key, [0, 0])[column] += share.nbytes
    rows = [MemoryRow(*key, live, most) for key, (live, most) in sums.items()]
    return sorted(rows, key=lambda row: -max(row.live, row.peak))
