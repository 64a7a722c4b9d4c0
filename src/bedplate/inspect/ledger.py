"""Ledger: who holds memory, and what was held when most of it was.

Every block that is made and freed while the ledger is open is counted, with the bytes that were
asked for. At a peak the blocks that live are noted; those are then told apart by who holds them: a
parameter, its gradient, the state of an optimiser. What a plan stored is an activation, what it
needs on the way a temporary; in the arena of a plan the two are told apart by who reads them.

What the allocator calls may run inside a finaliser, on any thread: it appends to a log and does
nothing else, which takes no lock. The log is read now and then, in its order. Most blocks are made
and freed between two peaks: of those no more is kept than the books need.

Long: the log, the books and the notes of a peak change together, at each entry that is read.
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
NEVER = float("inf")
CURVE_STEP = 0.005  # of the peak: a change that the curve shows
HOST = "cpu"
Named = list[tuple[int, str, str]]  # (identity of a block, kind, path)
# a block that is in no notes: bytes of a temporary; or bytes, site, kind and module (None: of the
# site)
Brief = int | tuple[int, Any, str, str | None]
clock = time.perf_counter_ns


@dataclass(slots=True, eq=False)
class Held:
    """A block, as long as it lives and in the notes of a peak.

    plan   whose arena it is
    noted  it is in such notes
    """

    nbytes: int
    site: Any
    kind: str
    module: str = ""
    plan: Any = None
    device: str = HOST
    noted: bool = False


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
        self._blocks: dict[int, Held | Brief] = {}
        self._windows: list[Window] = []
        self._least_peak = self._note_above = NEVER  # of the windows; what is noted, and NEW_PEAK
        self._curve_step = 0.0
        self._kinds: dict[str, int] = dict.fromkeys(KINDS, 0)
        self._shown = 0
        self._highest = 0
        self._read_at = READ_AT
        self._is_named = False  # since the log was last read because it was long
        self.live = 0
        self.curve: list[tuple[int, tuple[int, ...]]] = []

    # ---- what the allocator calls

    def made(self, block: Any) -> None:
        if type(block) is ForeignBlock:
            return
        log = self._log
        log.append((id(block), block.nbytes, block.site, clock()))
        if len(log) > self._read_at:
            self._read_long()

    def _read_long(self) -> None:
        if not self._is_named:
            self.name_holders()
        self.read()
        self._is_named = False

    def made_together(self, blocks: list[Any], sizes: list[int]) -> None:
        log = self._log
        log.append((list(map(id, blocks)), sizes, clock()))
        if len(log) > self._read_at:
            self._read_long()

    def made_on_device(self, block: Any) -> None:
        device = str(block.runtime.device)
        self._log.append((id(block), block.nbytes, block.site, clock(), device))

    @property
    def gone(self) -> Callable[[tuple[int, Any]], None]:
        """To be called with (identity, site) of a block."""
        return self._log.append

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
        self._is_named = True

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
        """Most entries are of blocks of which no more is known than the entry says: written out."""
        log, blocks, kinds = self._log, self._blocks, self._kinds
        for _ in range(len(log)):
            try:
                entry = log.popleft()
            except IndexError:  # a finaliser has made us read in the middle of this
                return
            size = len(entry)
            if size == 2:
                key, site = entry
                if self.live > self._note_above:
                    self._note()
                held = blocks.pop(key, 0)
                if isinstance(held, int):
                    kinds[TEMPORARY] -= held
                    self.live -= held
                elif isinstance(held, tuple):
                    kinds[held[2]] -= held[0]
                    self.live -= held[0]
                else:
                    self._weigh(held, -1)
                    self.live -= held.nbytes
                    if held.noted:
                        self._settle(held, site)
            elif size == 4:
                key, nbytes, site, now = entry
                if type(site) is Temporaries:
                    self._count_made(*entry)
                    continue
                kind = TEMPORARY if site is None else DATA  # values get their lines when computed
                blocks[key] = nbytes if site is None else (nbytes, site, DATA, None)
                kinds[kind] += nbytes
                live = self.live = self.live + nbytes
                if live > self._least_peak or abs(live - self._shown) > self._curve_step:
                    self._has_changed(now)
            elif size == 3:
                self._count_together(*entry)
            elif size == 1:
                self._name(entry[0])
            else:
                self._count_made(*entry)

    def _count_together(self, keys: list[int], sizes: list[int], now: int) -> None:
        """Blocks that were made one after the other: no peak lies between them."""
        self._blocks.update(zip(keys, sizes, strict=True))
        total = sum(sizes)
        self._kinds[TEMPORARY] += total
        self.live += total
        if self.live > self._least_peak or abs(self.live - self._shown) > self._curve_step:
            self._has_changed(now)

    def _count_made(
        self, key: int, nbytes: int, site: Any, now: int, device: str = HOST, kind: str = ""
    ) -> None:
        if kind and key in self._blocks:  # adopted, though it was seen
            return
        held = Held(nbytes, site, kind or TEMPORARY, module_of(site), None, device)
        if isinstance(site, Temporaries):
            held.site, held.plan = None, self._plan(site)
        elif not kind and site is not None:
            held.kind = DATA
        self._blocks[key] = held
        self.live += nbytes
        self._weigh(held, 1)
        self._has_changed(now)

    def _has_changed(self, now: int) -> None:
        """More lives than before."""
        live = self.live
        if live > self._least_peak:
            for window in self._windows:
                window.peak = max(window.peak, live)
            self._set_bounds()
        if live > self._highest:
            self._highest = live
            self._curve_step = live * CURVE_STEP
        if abs(live - self._shown) > self._curve_step:
            self._show(now)

    def _set_bounds(self) -> None:
        """From where on more bytes than now mean something."""
        self._least_peak = min([w.peak for w in self._windows], default=NEVER)
        self._note_above = min([w.noted * NEW_PEAK for w in self._windows], default=NEVER)

    def _note(self) -> None:
        """Note what is held, in each window that has a new peak."""
        live = self.live
        for window in self._windows:
            if live > window.noted * NEW_PEAK:
                window.noted, window.notes = live, self._all_held()
        self._set_bounds()

    def _all_held(self) -> list[Held]:
        """All blocks that live, as notes hold them."""
        found = [held for key in list(self._blocks) if (held := self._held(key)) is not None]
        for held in found:
            held.noted = True
        return found

    def _held(self, key: int) -> Held | None:
        """What is known of a block; it is written into from now on."""
        held = self._blocks.get(key)
        if held is None or isinstance(held, Held):
            return held
        nbytes, site, kind, module = (held, None, TEMPORARY, "") if isinstance(held, int) else held
        made = Held(nbytes, site, kind, module_of(site) if module is None else module)
        self._blocks[key] = made
        return made

    def _settle(self, held: Held, site: Any) -> None:
        """The line of a value is known when its plan has run."""
        if site is None or isinstance(site, Temporaries) or held.kind == DATA:
            return
        held.site = site
        held.module = held.module or module_of(site)
        if held.kind == TEMPORARY:
            held.kind = ACTIVATION

    def _name(self, named: Named) -> None:
        blocks, kinds = self._blocks, self._kinds
        for key, kind, path in named:
            held = blocks.get(key)
            if isinstance(held, int):
                kinds[TEMPORARY] -= held
                kinds[kind] += held
                blocks[key] = held, None, kind, path
            elif isinstance(held, tuple):
                kinds[held[2]] -= held[0]
                kinds[kind] += held[0]
                blocks[key] = held[0], held[1], kind, path
            elif held is not None:
                held.module = path
                if held.kind != kind:
                    self._weigh(held, -1)
                    held.kind = kind
                    self._weigh(held, 1)

    def _weigh(self, held: Held, sign: int) -> None:
        """Add a block to the bytes by kind, or take it away; an arena by what is in it."""
        kinds = self._kinds
        if held.plan is None:
            kinds[held.kind] += held.nbytes if sign > 0 else -held.nbytes
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
            self.curve = [a if sum(a[1]) > sum(b[1]) else b for a, b in pairs]

    # ---- windows

    def open(self) -> Window:
        """Begin to note what is held when most is."""
        with self._reading:
            self._read()
            self._show(clock())
            window = Window(self.live, self.live)
            self._windows.append(window)
            self._set_bounds()
            return window

    def outermost(self) -> Window | None:
        """The window that began first of those that are open."""
        return next(iter(self._windows), None)

    def close(self, window: Window) -> None:
        """The window ends."""
        with self._reading:
            self._read()
            self._windows.remove(window)
            self._set_bounds()

    def look(self, window: Window) -> tuple[list[Share], list[Share]]:
        """What was held at the peak of a window, and what is held now."""
        self.name_holders()
        with self._reading:
            self._read()
            if self.live > window.noted:
                window.noted, window.notes = self.live, self._all_held()
                self._set_bounds()
            self._show(clock())
            return _shares(window.notes), _shares(self._all_held())

    def settle(self, sites: dict[int, Any]) -> None:
        """Give the lines of blocks that live, by their identity, to what is not known yet."""
        with self._reading:
            self._read()
            for key, site in sites.items():
                held = self._held(key)
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
