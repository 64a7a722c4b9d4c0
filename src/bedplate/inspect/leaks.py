"""Leaks: memory that still lives though nobody needs it, where it was made and who holds it.

`leaks` compares what lives after each of several steps, `expect_no_leak` what lives before and
after a block of code. What counts is blocks of memory; rules.py says which of them are leaks.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bedplate.errors import LeakError, SettingError
from bedplate.forks import renewed
from bedplate.inspect.census import Census, take
from bedplate.inspect.cycles import InCycle, collect
from bedplate.inspect.frames import Variable
from bedplate.inspect.holders import Search
from bedplate.inspect.places import shown_line
from bedplate.inspect.rules import Before, constants_of_steps, grows, verdict
from bedplate.inspect.ways import way_text
from bedplate.memory import Block, line_of, observe_blocks, readable
from bedplate.observer import hooks
from bedplate.tensor import synchronize

SEARCH_SECONDS = 5.0  # for the holders of all leaks together, the most bytes first
LOOKED_AT = 4  # values of a line whose holders are looked for: they may be different ones
WARM_UP = 2  # steps in which caches fill: a captured step is replayed from its third call on


@dataclass(frozen=True)
class Leaked:
    """Values of one line that leak together.

    line    `file:line` where they were made
    count   of blocks that live, and nbytes: all of them
    holder  who holds them, in words
    births  the steps that they were made in; empty for `expect_no_leak`
    """

    line: str
    count: int
    nbytes: int
    holder: str
    births: tuple[int, ...] = ()
    site: Any = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        values = "value" if self.count == 1 else "values"
        steps = ""
        if self.births:
            grown = self.nbytes / len(set(self.births))
            steps = f", {readable(int(grown))} more in each of {len(set(self.births))} steps"
        return (
            f"{self.count} {values}, {readable(self.nbytes)}, made at {self.line}{steps}\n"
            f"    held by {self.holder}"
        )

    @property
    def place(self) -> tuple[str, int]:
        """The file and the line, for annotations; ("", 0) if they are not known."""
        file, _, line = (line_of(self.site) if self.site is not None else "").rpartition(":")
        return (file, int(line)) if line.isdigit() else ("", 0)


@dataclass
class LeakReport:
    """What leaks, the most bytes first; true if anything does, `print` shows it.

    leaks   one for each line
    steps   that were compared; 0 for a block of code
    note    why nothing could be said yet
    """

    leaks: list[Leaked]
    steps: int = 0
    note: str = ""

    def __bool__(self) -> bool:
        return bool(self.leaks)

    def __len__(self) -> int:
        return len(self.leaks)

    def __iter__(self) -> Iterator[Leaked]:
        return iter(self.leaks)

    def __str__(self) -> str:
        over = f" over {self.steps} steps" if self.steps else ""
        if not self.leaks:
            return self.note or f"no leak{over}"
        total = readable(sum(leak.nbytes for leak in self.leaks))
        head = f"memory leaks: {total} from {len(self.leaks)} lines{over}"
        return "\n".join([head.replace(" 1 lines", " 1 line"), *(f"  {x}" for x in self.leaks)])


# ---- what grows from step to step


class _Steps:
    """Which blocks live after each step, and the step that they were made in."""

    def __init__(self) -> None:
        self._born: dict[int, tuple[weakref.ref[Block], int]] = {}
        self.count = -1
        self.cycles: list[tuple[int, InCycle]] = []

    def end(self) -> Census:
        """A step ends here; the first call is where the first one begins."""
        synchronize()
        step = self.count + 1
        cycles = collect()
        if step > 0:
            self.cycles += [(step, each) for each in cycles]
        census = take()
        born = {}
        for key, block in census.blocks.items():
            known = self._born.get(key)
            if known is None or known[0]() is not block:
                known = weakref.ref(block), step
            born[key] = known
        self._born, self.count = born, step
        return census

    def step_of(self, block: Block) -> int:
        return self._born[id(block)][1]


_ongoing: _Steps | None = None
_lock = renewed(threading.RLock())


def leaks(
    step: Callable[[], Any] | None = None, *, steps: int = 5, warm_up: int = WARM_UP + 1
) -> LeakReport:
    """What grows with each step: made on which line, and held by whom.

    step     is called `warm_up` times and then `steps` times, and what lives is compared after each
             call. Without it, each call of `leaks()` ends a step: call it in a loop
    steps    at least 4
    returns  a `LeakReport`; it is true if something leaks, and prints
    raises   SettingError for less than 4 steps
    cost     one collection of cycles and one look at all objects for each step, together 0.3 s
             where there are half a million; up to 5 s to find the holders of what leaks
    >>> import bedplate as bp
    >>> kept = []
    >>> found = bp.memory.leaks(lambda: kept.append(bp.ones((1024,)).realise()))
    >>> len(found), "kept[" in str(found)
    (1, True)
    """
    if step is None:
        return _one_more(sys._getframe(1))
    if steps < 4 or warm_up < 0:
        raise SettingError(
            f"leaks: {steps} steps after a warm-up of {warm_up} show no growth\n"
            "  give at least 4 steps"
        )
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()  # cycles are to be seen, not collected
    try:
        for _ in range(warm_up):
            step()
        watched = _Steps()
        watched.end()
        for _ in range(steps - 1):
            step()
            watched.end()
        step()
        census = watched.end()
    finally:
        if collecting:
            gc.enable()
    search = Search(sys._getframe(1), SEARCH_SECONDS)
    search.variables.setdefault(id(step), []).append(Variable("step", 0, "leaks()"))
    return LeakReport(_growing(watched, census, 1, search), steps)


def _one_more(top: Any) -> LeakReport:
    """A step of a loop ends."""
    global _ongoing
    with _lock:
        if _ongoing is None:
            _ongoing = _Steps()
        watched = _ongoing
        census = watched.end()
        if watched.count < WARM_UP + 4:
            note = f"{watched.count} steps: growth shows after {WARM_UP + 4}"
            return LeakReport([], watched.count, note)
        return LeakReport(
            _growing(watched, census, WARM_UP + 1, Search(top, SEARCH_SECONDS)), watched.count
        )


def _growing(watched: _Steps, census: Census, first: int, search: Search) -> list[Leaked]:
    """The lines whose values live on from steps `first` to the last but one."""
    last = watched.count - 1  # what the last step made, it may still need
    lines: dict[str, list[Block]] = {}
    for block in census.blocks.values():
        if first <= watched.step_of(block) <= last:
            lines.setdefault(shown_line(census.site(block)), []).append(block)
    found = {
        line: blocks for line, blocks in lines.items()
        if grows([watched.step_of(b) for b in blocks], first, last)
    }  # fmt: skip
    leaked = _of_cycles(watched, first)
    search.leave_out(census, vars(census), census.blocks, census.nodes, census.tensors)
    search.leave_out(*census.tensors.values(), lines, found, *lines.values())
    for line, blocks in _largest(found):
        blocks.sort(key=watched.step_of)
        holder = "not looked for" if search.is_late else way_text(search.way_to(blocks[-1]))
        births = tuple(watched.step_of(b) for b in blocks)
        site = census.site(blocks[-1])
        leaked.append(Leaked(line, len(blocks), _bytes(blocks), holder, births, site))
    return sorted(leaked, key=lambda leak: -leak.nbytes)


def _of_cycles(watched: _Steps, first: int) -> list[Leaked]:
    lines: dict[str, list[tuple[int, InCycle]]] = {}
    for step, each in watched.cycles:
        if step >= first:
            lines.setdefault(shown_line(each.site), []).append((step, each))
    return [
        Leaked(line, len(found), sum(each.nbytes for _, each in found), found[-1][1].text,
               tuple(step for step, _ in found), found[-1][1].site)
        for line, found in lines.items()
        if grows([step for step, _ in found], first, watched.count)
    ]  # fmt: skip


def _largest(lines: dict[str, list[Block]]) -> list[tuple[str, list[Block]]]:
    return sorted(lines.items(), key=lambda entry: -_bytes(entry[1]))


def _bytes(blocks: list[Block]) -> int:
    return sum(block.nbytes for block in blocks)


# ---- what a block of code leaves behind


class _Births:
    """When each block was made: the number of runs of plans before it."""

    def __init__(self) -> None:
        self.runs = 0
        self.of: dict[int, int] = {}
        self._before = hooks.run

    def made(self, block: Block) -> None:
        self.of[id(block)] = self.runs

    def gone(self, entry: tuple[int, Any]) -> None:
        self.of.pop(entry[0], None)

    def run(self, plan: Any, address: int, first: int, end: int, limit: int) -> None:
        self.runs += 1
        if self._before is not None:
            self._before(plan, address, first, end, limit)
        else:
            plan.call(address, first, end, limit)

    def listen(self) -> Callable[[], None]:
        """Begin; the function that is returned ends it."""
        restore = observe_blocks(self.made, self.gone)
        hooks.run = self.run

        def end() -> None:
            if hooks.run == self.run:
                hooks.run = self._before
            restore()

        return end


class Watch:
    """What a block of code leaves behind: from `begin` to `end`.

    top  the innermost frame outside
    """

    def __init__(self, top: Any) -> None:
        synchronize()
        gc.collect()
        self._collecting = gc.isenabled()
        self.before = Before(top)
        self._births = _Births()
        self._end = self._births.listen()
        gc.disable()  # cycles are to be seen, not collected

    def stop(self) -> None:
        """Everything runs as before."""
        self._end()
        if self._collecting:
            gc.enable()

    def found(self, top: Any) -> LeakReport:
        """What leaked until now; to be called before `stop`."""
        synchronize()
        of, runs = self._births.of, self._births.runs
        cycles: dict[str, list[InCycle]] = {}
        for each in collect():
            cycles.setdefault(shown_line(each.site), []).append(each)
        leaked = [
            Leaked(line, len(found), sum(x.nbytes for x in found), found[0].text, (), found[0].site)
            for line, found in cycles.items()
        ]
        census = take()
        lines: dict[str, list[Block]] = {}
        for key, block in census.blocks.items():
            if key in of and not any(t in self.before.tensors for t in census.holders(block)):
                lines.setdefault(shown_line(census.site(block)), []).append(block)
        if lines:
            leaked += self._held(census, lines, top, runs)
        return LeakReport(sorted(leaked, key=lambda leak: -leak.nbytes))

    def _held(
        self, census: Census, lines: dict[str, list[Block]], top: Any, runs: int
    ) -> list[Leaked]:
        """Those lines whose values are held by somebody who should not."""
        of, leaked = self._births.of, []
        search = Search(top, SEARCH_SECONDS)
        search.leave_out(census, vars(census), census.blocks, census.nodes, census.tensors)
        search.leave_out(*census.tensors.values(), lines, *lines.values())
        constants = constants_of_steps()
        for line, blocks in _largest(lines):
            blocks.sort(key=lambda block: of[id(block)])
            growing = grows([of[id(block)] for block in blocks], 0, runs)
            more = grows([of[id(block)] for block in blocks if id(block) in constants], 0, runs)
            if search.is_late:
                break
            chosen = _some(blocks)
            search.leave_out(chosen)
            for block in chosen:
                holder = verdict(search.way_to(block), self.before, growing, more)
                if holder:
                    site = census.site(block)
                    leaked.append(Leaked(line, len(blocks), _bytes(blocks), holder, (), site))
                    break
        return leaked


def _some(blocks: list[Block]) -> list[Block]:
    """A few of them: the second to last, the first, the last, one between."""
    n = len(blocks)
    return [blocks[i] for i in dict.fromkeys([max(n - 2, 0), 0, n - 1, n // 2])][:LOOKED_AT]


@contextmanager
def expect_no_leak() -> Iterator[None]:
    """Raise if memory that is made inside the block is leaked by it.

    Parameters, gradients, the state of optimisers, caches of this package and what the variables
    of the running functions stand for may live on; see docs/in-depth/leaks.md.

    raises  LeakError, which names the line of the values and who holds them; whatever the block
            raises comes first
    cost    two looks at all objects, and some micro-seconds for each run of a plan; the collector
            of cycles is off meanwhile
    >>> import bedplate as bp
    >>> with bp.memory.expect_no_leak():
    ...     y = (bp.ones((4,)) * 2).realise()
    """
    top = sys._getframe(2)  # behind contextlib's own
    watch = Watch(top)
    try:
        yield
        report = watch.found(sys._getframe(2))
    finally:
        watch.stop()
    if report:
        raise LeakError(str(report), report)
