"""Recorder: listens to the floors while a profile runs, and keeps what they tell.

It keeps the events of each run of a plan as they are, and folds them into launches when there are
many (see launches.py); so a run that is observed takes some micro-seconds more.
"""

from __future__ import annotations

import ctypes
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from bedplate.compiler.builder import BufferRef, Launch
from bedplate.compiler.plan import FIRST_INPUT, Plan, members_of
from bedplate.compiler.realise import clear_plans
from bedplate.graph.node import Node
from bedplate.inspect.launches import Folded, TaskTimes, fold
from bedplate.inspect.ledger import (
    OPTIMISER_STATE,
    PARAMETER,
    Ledger,
    Share,
    Temporary,
    fullest,
    kind_of,
)
from bedplate.inspect.places import Places, phase_of
from bedplate.inspect.stamps import StampedPlan
from bedplate.memory import observe_blocks
from bedplate.observer import hooks

FOLD_AT = 1 << 18  # events kept as they are: 8 MiB
_INT64 = ctypes.c_int64
MAX_SPANS = 100_000  # of module calls and runs that a trace shows


@dataclass
class PlanInfo:
    """What is known of a plan that was made while it was observed.

    outputs  (slot, site) of what it stores
    written  share of the bytes that are written, by the number of the task
    """

    outputs: list[tuple[int, Any]]
    temporaries: list[Temporary]
    written: list[float]
    _fullest: list[Share] | None = None

    def fullest(self) -> list[Share]:
        """The temporaries that live at once where they are most."""
        if self._fullest is None:
            self._fullest = fullest(self.temporaries)
        return self._fullest


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
        self.places = Places(self._spent)
        self.ledger = Ledger(self._holders)
        self.made = Recording(time.perf_counter_ns(), threading.get_ident())

    def start(self) -> None:
        """Listen; if that fails half-way, what was done is undone."""
        clear_plans()  # those that are made from here on are known in full
        with ExitStack() as undo:
            undo.callback(self.places.restore)
            self.places.install()
            undo.callback(observe_blocks(self.ledger.made, self.ledger.gone))
            self.ledger.adopt()
            undo.callback(hooks.clear)
            self._listen()
            self._undo = undo.pop_all()
        self.made.begin = time.perf_counter_ns()

    def _listen(self) -> None:
        hooks.site, hooks.gradient = self.places.site, self.places.gradient
        hooks.plan_key, hooks.planned = self._plan_key, self._planned
        hooks.run, hooks.host = self._run, self._host
        hooks.compiled, hooks.generated = self._compiled, self._generated
        hooks.together = self._together

    def stop(self) -> Recording:
        """What was told; everything runs as before when this returns."""
        made = self.made
        made.end = time.perf_counter_ns()
        self._undo.close()
        with self._lock:  # another thread may be on its way to `_run`: it stamps no plan any more
            self._ended = True
            for stamped in made.plans:
                stamped.restore()
        self.places.search()
        made.at_peak, made.at_end = self.ledger.close()
        made.peak_bytes = self.ledger.peak
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
        self._info[id(plan.native)] = _info_of(plan, regions, buffers)

    def _run(self, plan: Any, address: int, first: int, end: int, limit: int) -> None:
        slots = (_INT64 * plan.n_slots).from_address(address)
        with self._lock:
            number = None if self._ended else self._number(plan)
            stamped = None if number is None else self.made.plans[number]
        if number is None or stamped is None:
            plan.call(address, first, end, limit)
            return
        if first == 0:
            self.ledger.ran(stamped.info, slots)
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
            made.memory.append((done, self.ledger.live))
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
        if self.ledger.unnamed:  # before an update binds the parameters to other memory
            self.ledger.name_holders()
        self._add_span(name, "python", begin, end)

    def _add_span(self, name: str, kind: str, begin: int, end: int, site: Any = None) -> None:
        spans = self.made.spans
        if kind in ("run", "python") and len(spans) >= MAX_SPANS:
            return
        spans.append(Span(name, kind, threading.get_ident(), begin, end, site))

    def _holders(self) -> Any:
        """(tensor, kind, module path) of parameters, buffers and optimisers' state."""
        paths: dict[int, str] = {}
        roots, optimisers = self.places.known()
        for root, kind in roots:
            tensors = [*root.named_parameters(), *root.named_buffers()]
            for name, tensor in tensors:
                path = f"{kind}.{name}".rpartition(".")[0]
                paths[id(tensor)] = path
                yield tensor, PARAMETER, path
        for optimiser in optimisers:
            tensors = [p for group in optimiser.param_groups for p in group["params"]]
            for parameter, state in zip(tensors, list(optimiser.state), strict=False):
                path = paths.get(id(parameter), "")
                if not path:
                    yield parameter, PARAMETER, path
                for tensor in list(state.values()):
                    yield tensor, OPTIMISER_STATE, path


def _info_of(plan: Plan, regions: list[list[Launch]], buffers: dict[Node, BufferRef]) -> PlanInfo:
    nodes = {buffer: node for node, buffer in buffers.items()}
    first_output = FIRST_INPUT + plan.n_inputs
    outputs = [
        (buffer.slot, node.site)
        for buffer, node in nodes.items()
        if buffer.slot is not None and buffer.slot >= first_output
    ]
    life: dict[BufferRef, list[Any]] = {}
    for number, region in enumerate(regions):
        for launch in region:
            sites = [n.site for n in members_of(launch.origin) if n.site is not None]
            phases = {phase_of(site) for site in sites}
            site = sites[0] if sites else None
            for buffer in (*launch.reads, *launch.writes):
                if buffer.slot is None:
                    found = life.setdefault(buffer, [number, number, set(), site])
                    found[1] = number
            for buffer in launch.reads:
                if buffer.slot is None:
                    life[buffer][2] |= phases
    temporaries = []
    for buffer, (first, last, readers, site) in life.items():
        node = nodes.get(buffer)
        kind = kind_of(node.site, readers) if node is not None else kind_of(None, set())
        where = node.site if node is not None and node.site is not None else site
        temporaries.append(Temporary(buffer.nbytes, buffer.offset or 0, first, last, kind, where))
    return PlanInfo(outputs, temporaries, _written(plan, regions))


def _written(plan: Plan, regions: list[list[Launch]]) -> list[float]:
    """The share of its bytes that each task writes; a merged one as its first launch."""
    written = {}
    for launch in (launch for region in regions for launch in region):
        stored = sum(b.nbytes for b in launch.writes if b.name != "scratch")
        written[launch.name] = min(stored / launch.nbytes, 1.0) if launch.nbytes else 1.0
    return [
        written.get((task.parts or (task,))[0].name, 1.0)
        for region in plan.native.regions
        for task in region
    ]
