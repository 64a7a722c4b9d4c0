"""Recorder: listens to the floors while a profile runs, and keeps what they tell.

It keeps the events of each run of a plan as they are, and folds them into launches when there are
many (see launches.py); so a run that is observed takes some micro-seconds more.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from bedplate.compiler.builder import Launch
from bedplate.compiler.plan import Plan
from bedplate.compiler.realise import clear_plans
from bedplate.graph.node import Node
from bedplate.inspect.launches import Folded, TaskTimes, fold
from bedplate.inspect.ledger import Share
from bedplate.inspect.places import phase_of
from bedplate.inspect.plan_info import PlanInfo
from bedplate.inspect.stamps import StampedPlan
from bedplate.inspect.tracker import tracking
from bedplate.observer import hooks

FOLD_AT = 1 << 18  # events kept as they are: 8 MiB
MAX_SPANS = 100_000  # of module calls and runs that a trace shows


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took a while on a Python thread.

    kind  "compile", "together" (of several that were compiled), "plan", "run", "numpy", "python"
    """

    name: str
    kind: str
    thread: int
    begin: int
    end: int
    site: Any = None

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / 1e9


@dataclass
class Recording:
    """All that was told, between `begin` and `end` (time.perf_counter_ns)."""

    begin: int
    thread: int
    end: int = 0
    spans: list[Span] = field(default_factory=list)
    run_ns: dict[int, int] = field(default_factory=dict)  # thread -> inside runs of plans
    tasks: dict[tuple[int, int], TaskTimes] = field(default_factory=dict)
    plans: list[StampedPlan] = field(default_factory=list)
    folded: Folded = field(default_factory=Folded)
    generated: list[tuple[str, int, int]] = field(default_factory=list)  # LLVM's: symbol, times
    at_peak: list[Share] = field(default_factory=list)
    at_end: list[Share] = field(default_factory=list)
    peak_bytes: int = 0
    memory: list[tuple[int, int]] = field(default_factory=list)  # (time, live bytes)


class Recorder:
    """Listens from `start` to `stop`; see the head of this file."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._planning: dict[int, int] = {}
        self._info: dict[int, PlanInfo] = {}
        self._plans: dict[int, int] = {}
        self._runs: list[tuple[int, int, Any]] = []
        self._n_events = 0
        self._ended = False
        self.made = Recording(time.perf_counter_ns(), threading.get_ident())

    def start(self) -> None:
        """Listen; if that fails half-way, what was done is undone."""
        clear_plans()  # those that are made from here on are known in full
        with ExitStack() as undo:
            self.tracker = undo.enter_context(tracking())
            self.window = self.tracker.ledger.open()
            undo.callback(self.tracker.ledger.close, self.window)
            undo.callback(self.tracker.listen)
            self._listen()
            self._undo = undo.pop_all()
        self.made.begin = time.perf_counter_ns()

    def _listen(self) -> None:
        self.tracker.places.span = self._spent
        hooks.gradient = self.tracker.places.gradient_in_full
        hooks.plan_key, hooks.planned = self._plan_key, self._planned
        hooks.run, hooks.host = self._run, self._host
        hooks.compiled, hooks.generated = self._compiled, self._generated
        hooks.together = self._together

    def stop(self) -> Recording:
        """What was told; everything runs as before when this returns."""
        made = self.made
        made.end = time.perf_counter_ns()
        ledger = self.tracker.ledger
        self.tracker.places.span = None
        self.tracker.listen()  # to no more than memory
        with self._lock:  # another thread may be on its way to `_run`: it stamps no plan any more
            self._ended = True
            for stamped in made.plans:
                stamped.restore()
        self.tracker.places.search()
        self.tracker.settle()
        made.at_peak, made.at_end = ledger.look(self.window)
        made.peak_bytes = self.window.peak
        made.memory = [(at, sum(kinds)) for at, kinds in ledger.curve if at >= made.begin]
        self._undo.close()
        with self._lock:
            self._fold()
        clear_plans()  # their keys hold the lines
        return made

    # ---- plans

    def _plan_key(self, signature: Any) -> Any:
        self._planning[threading.get_ident()] = time.perf_counter_ns()
        sites = [node.site for node in signature.order]
        return tuple([None if s is None else (id(s[0]), s[1], phase_of(s)) for s in sites])

    def _planned(self, plan: Plan, regions: list[list[Launch]], buffers: dict[Node, Any]) -> None:
        begin = self._planning.pop(threading.get_ident(), None)
        if begin is None:
            return  # to be looked at only, by `explain`
        self._add_span("plan", "plan", begin, time.perf_counter_ns())
        self._info[id(plan.native)] = self.tracker.planned(plan, regions, buffers)

    def _run(self, plan: Any, address: int, first: int, end: int, limit: int) -> None:
        with self._lock:
            number = None if self._ended else self._number(plan)
            stamped = None if number is None else self.made.plans[number]
        if number is None or stamped is None:
            plan.call(address, first, end, limit)
            return
        with stamped.lock:
            stamped.begin()
            begin = time.perf_counter_ns()
            plan.call(address, first, end, limit)
            done = time.perf_counter_ns()
            events = stamped.events()
        with self._lock:
            thread = threading.get_ident()
            made = self.made
            made.run_ns[thread] = made.run_ns.get(thread, 0) + done - begin
            self._add_span("run", "run", begin, done)
            self._runs.append((number, begin, events))
            self._n_events += len(events)
            if self._n_events > FOLD_AT:
                self._fold()

    def _number(self, plan: Any) -> int:
        """The number of a plan; one that is new is stamped, and kept: its number stands for it."""
        number = self._plans.get(id(plan))
        if number is not None:
            return number
        self.made.plans.append(StampedPlan(plan, self._info.pop(id(plan), None)))
        number = self._plans[id(plan)] = len(self.made.plans) - 1
        return number

    def _fold(self) -> None:
        by_plan: dict[int, list[tuple[int, Any]]] = {}
        for number, begin, events in self._runs:
            by_plan.setdefault(number, []).append((begin, events))
        for number, runs in by_plan.items():
            fold(self.made.plans[number], number, runs, self.made.tasks, self.made.folded)
        self._runs, self._n_events = [], 0

    # ---- the rest

    def _host(self, task: Any, begin: int, end: int) -> None:
        self._add_span(f"numpy_{task.node.op.name}", "numpy", begin, end, task.node.site)

    def _compiled(self, name: str, begin: int, end: int) -> None:
        self._add_span(name, "compile", begin, end)

    def _together(self, begin: int, end: int) -> None:
        self._add_span("kernels of a plan", "together", begin, end)

    def _generated(self, symbol: str, begin: int, end: int) -> None:
        self.made.generated.append((symbol, begin, end))

    def _spent(self, name: str, begin: int, end: int) -> None:
        self._add_span(name, "python", begin, end)

    def _add_span(self, name: str, kind: str, begin: int, end: int, site: Any = None) -> None:
        spans = self.made.spans
        if kind in ("run", "python") and len(spans) >= MAX_SPANS:
            return
        spans.append(Span(name, kind, threading.get_ident(), begin, end, site))
