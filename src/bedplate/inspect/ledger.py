"""Ledger: who holds memory, and what was held when most of it was.

Every block that is made and freed while the ledger is open is counted, with the bytes that were
asked for. At a peak the blocks that live are noted; those are then told apart by who holds them: a
parameter, its gradient, the state of an optimiser. What a plan stored is an activation, what it
needs on the way a temporary; in the arena of a plan the two are told apart by who reads them.

What the allocator calls may run inside a finaliser, on any thread: it appends to a log and does
nothing else, which takes no lock. The log is read now and then, in its order.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bedplate.compiler.plan import Temporaries
from bedplate.inspect.places import BACKWARD, FORWARD, OPTIMISER, module_of, phase_of
from bedplate.memory import ForeignBlock

PARAMETER, GRADIENT, ACTIVATION, OPTIMISER_STATE, TEMPORARY, DATA = (
    "parameter", "gradient", "activation", "optimiser state", "temporary", "data",
)  # fmt: skip
KINDS: tuple[str, ...] = (PARAMETER, GRADIENT, OPTIMISER_STATE, ACTIVATION, TEMPORARY, DATA)
NEW_PEAK = 1.01  # a peak that is less than so much above the last is not noted anew
READ_AT = 1 << 13  # entries of the log: it is read when there are more, 1 MB at most
MAX_POINTS = 4000  # of the curve over time; twice as many before it is thinned out
LEAST_MADE = 128  # blocks made or freed between two looks at the holders, at least
CURVE_STEP = 0.005  # of the peak: a change that the curve shows
HOST = "cpu"
Named = list[tuple[int, str, str]]  # (identity of a block, kind, path)
clock = time.perf_counter_ns


@dataclass(slots=True, eq=False)
class Held:
    """A block, as long as it lives and in the notes of a peak.

    plan  whose arena it is
    """

    nbytes: int
    site: Any
    kind: str
    module: str = ""
    plan: Any = None
    device: str = HOST


@dataclass(frozen=True, slots=True)
class Share:
    """Bytes that are one thing: the lines of a table are sums of these."""

    nbytes: int
    kind: str
    module: str
    site: Any
    device: str = HOST


@dataclass(frozen=True, slots=True)
class Temporary:
    """A buffer in the arena of a plan, and the regions that it lives from and to."""

    nbytes: int
    offset: int
    first: int
    last: int
    kind: str
    site: Any


@dataclass(slots=True, eq=False)
class Window:
    """A while in which the most that lives at once is noted.

    before  bytes that lived when it began
    peak    the most bytes that lived at once
    """

    before: int
    peak: int
    noted: int = 0
    notes: list[Held] = field(default_factory=list)


class Ledger:
    """See the head of this file.

    holders  gives the memory of parameters and optimisers there is: (block, kind, path)
    plan     what is known of the plan whose arena has a site, or None
    live     bytes, as far as the log was read
    curve    (time, bytes by kind, in the order of KINDS), whenever it has changed
    """

    def __init__(
        self, holders: Callable[[], Named], plan: Callable[[Any], Any] = lambda site: None
    ) -> None:
        self._holders = holders
        self._plan = plan
        self._log: deque[tuple[Any, ...]] = deque()
        self._reading = threading.RLock()
        self._blocks: dict[int, Held] = {}
        self._windows: list[Window] = []
        self._kinds: dict[str, int] = dict.fromkeys(KINDS, 0)
        self._shown = 0
        self._highest = 0
        self._read_at = READ_AT
        self.live = 0
        self.curve: list[tuple[int, tuple[int, ...]]] = []

    # ---- what the allocator calls

    def made(self, block: Any) -> None:
        if type(block) is ForeignBlock:
            return
        log = self._log
        log.append((id(block), block.nbytes, block.site, clock()))
        if len(log) > self._read_at:
            self.name_holders()
            self.read()

    def made_on_device(self, block: Any) -> None:
        device = str(block.runtime.device)
        self._log.append((id(block), block.nbytes, block.site, clock(), device))

    def gone(self, block: Any) -> None:
        self._log.append((id(block), block.site))

    def adopt(self, found: Iterable[tuple[Any, Any, str, str]]) -> None:
        """Count blocks that lived before: (block, site, kind, device)."""
        now = clock()
        for block, site, kind, device in found:
            self._log.append((id(block), block.nbytes, site, now, device, kind))
        self.name_holders()

    # ---- who holds what

    def name_holders(self) -> None:
        """Tell parameters, gradients and optimisers' state from the rest."""
        named = self._holders()
        # a step that binds parameters anew makes as many blocks, and each pays for one holder
        self._read_at = min(READ_AT, len(named) + LEAST_MADE)
        self._log.append((named,))

    def name_if_made(self) -> None:
        """The same, if anything was made since the last time."""
        try:
            if len(self._log[-1]) != 1:
                self.name_holders()
        except IndexError:  # the log was read
            self.name_holders()

    # ---- reading the log

    def read(self) -> None:
        """Bring the books up to date; what another thread is reading already is left to it."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            self._read()
        finally:
            self._reading.release()

    def _read(self) -> None:
        log = self._log
        for _ in range(len(log)):
            try:
                entry = log.popleft()
            except IndexError:  # a finaliser has made us read in the middle of this
                return
            size = len(entry)
            if size == 2:
                self._count_gone(*entry)
            elif size >= 4:
                self._count_made(*entry)
            else:
                self._name(entry[0])

    def _count_made(
        self, key: int, nbytes: int, site: Any, now: int, device: str = HOST, kind: str = ""
    ) -> None:
        if kind and key in self._blocks:  # adopted, though it was seen
            return
        held = Held(nbytes, site, kind or TEMPORARY, module_of(site), None, device)
        if isinstance(site, Temporaries):
            held.site, held.plan = None, self._plan(site)
        elif not kind and site is not None:  # values get their lines when they are computed
            held.kind = DATA
        self._blocks[key] = held
        self.live += nbytes
        self._weigh(held, 1)
        live = self.live
        for window in self._windows:
            if live > window.peak:
                window.peak = live
        if live > self._highest:
            self._highest = live
        if abs(live - self._shown) > self._highest * CURVE_STEP:
            self._show(now)

    def _count_gone(self, key: int, site: Any) -> None:
        live = self.live
        for window in self._windows:
            if live > window.noted * NEW_PEAK:
                window.noted, window.notes = live, list(self._blocks.values())
        held = self._blocks.pop(key, None)
        if held is None:
            return
        self._weigh(held, -1)
        self.live -= held.nbytes
        self._settle(held, site)

    def _settle(self, held: Held, site: Any) -> None:
        """The line of a value is known when its plan has run."""
        if site is None or isinstance(site, Temporaries) or held.kind == DATA:
            return
        held.site = site
        held.module = held.module or module_of(site)
        if held.kind == TEMPORARY:
            held.kind = ACTIVATION

    def _name(self, named: Named) -> None:
        for key, kind, path in named:
            held = self._blocks.get(key)
            if held is not None:
                held.module = path
                self._change(held, kind)

    def _change(self, held: Held, kind: str) -> None:
        if held.kind != kind:
            self._weigh(held, -1)
            held.kind = kind
            self._weigh(held, 1)

    def _weigh(self, held: Held, sign: int) -> None:
        """Add a block to the bytes by kind, or take it away; an arena by what is in it."""
        kinds = self._kinds
        if held.plan is None:
            kinds[held.kind] += sign * held.nbytes
            return
        rest = held.nbytes
        for kind, nbytes in held.plan.kinds():
            kinds[kind] += sign * nbytes
            rest -= nbytes
        kinds[TEMPORARY] += sign * rest

    # ---- the curve

    def _show(self, now: int) -> None:
        self._shown = self.live
        self.curve.append((now, tuple(self._kinds.values())))
        if len(self.curve) >= 2 * MAX_POINTS:
            pairs = zip(self.curve[::2], self.curve[1::2], strict=True)
            self.curve = [max(pair, key=lambda point: sum(point[1])) for pair in pairs]

    # ---- windows

    def open(self) -> Window:
        """Begin to note what is held when most is."""
        with self._reading:
            self._read()
            self._show(clock())
            window = Window(self.live, self.live)
            self._windows.append(window)
            return window

    def outermost(self) -> Window | None:
        """The window that began first of those that are open."""
        return next(iter(self._windows), None)

    def close(self, window: Window) -> None:
        """The window ends."""
        with self._reading:
            self._read()
            self._windows.remove(window)

    def look(self, window: Window) -> tuple[list[Share], list[Share]]:
        """What was held at the peak of a window, and what is held now."""
        self.name_holders()
        with self._reading:
            self._read()
            if self.live > window.noted:
                window.noted, window.notes = self.live, list(self._blocks.values())
            self._show(clock())
            return _shares(window.notes), _shares(self._blocks.values())

    def settle(self, sites: dict[int, Any]) -> None:
        """Give the lines of blocks that live, by their identity, to what is not known yet."""
        with self._reading:
            self._read()
            for key, site in sites.items():
                held = self._blocks.get(key)
                if held is not None:
                    self._weigh(held, -1)
                    self._settle(held, site)
                    self._weigh(held, 1)


def _shares(blocks: Iterable[Held]) -> list[Share]:
    shares = []
    for held in blocks:
        if held.plan is None:
            shares.append(Share(held.nbytes, held.kind, held.module, held.site, held.device))
        else:
            shares += _arena_shares(held)
    return shares


def _arena_shares(held: Held) -> list[Share]:
    """The arena of a plan at the region where most of it lives."""
    shares = held.plan.fullest()
    rest = held.nbytes - sum(share.nbytes for share in shares)
    return [*shares, Share(rest, TEMPORARY, "", None)] if rest > 0 else shares


def fullest(temporaries: list[Temporary]) -> list[Share]:
    """What lives in an arena at the region where most does; of two in one place, one counts.

    cost  n log n: one walk over the regions in which something begins or ends
    """
    begins = sorted(temporaries, key=lambda t: t.first)
    ends = sorted(temporaries, key=lambda t: t.last)
    at: dict[int, list[Temporary]] = {}  # what lives at an offset; the last that came counts
    total = most = ended = 0
    best = -1
    for number, each in enumerate(begins):
        while ends[ended].last < each.first:
            total -= _remove(at, ends[ended])
            ended += 1
        total += _add(at, each)
        last_of_region = number + 1 == len(begins) or begins[number + 1].first > each.first
        if last_of_region and total > most:
            most, best = total, each.first
    live = [t for t in temporaries if t.first <= best <= t.last]
    counted = {t.offset: t for t in sorted(live, key=lambda t: t.first)}.values()
    return [Share(t.nbytes, t.kind, module_of(t.site), t.site) for t in counted]


def _add(at: dict[int, list[Temporary]], each: Temporary) -> int:
    """The bytes that come to what counts."""
    here = at.setdefault(each.offset, [])
    before = here[-1].nbytes if here else 0
    here.append(each)
    return each.nbytes - before


def _remove(at: dict[int, list[Temporary]], each: Temporary) -> int:
    """The bytes that what counts loses."""
    here = at[each.offset]
    before = here[-1].nbytes
    here.remove(each)
    return before - (here[-1].nbytes if here else 0)


def kind_of(site: Any, readers: set[str]) -> str:
    """What a value is that a plan keeps for itself.

    site     of the node
    readers  the phases that read it
    """
    phase = phase_of(site)
    if phase == FORWARD and BACKWARD in readers:
        return ACTIVATION
    if phase == BACKWARD and (OPTIMISER in readers):
        return GRADIENT
    return TEMPORARY
