"""Report: what a profile found, as tables of numbers; `str()` is the text (see text.py)."""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bedplate.errors import SettingError
from bedplate.inspect import text, trace
from bedplate.inspect.launches import TaskTimes
from bedplate.inspect.ledger import KINDS, Share
from bedplate.inspect.limits import Machine, measure
from bedplate.inspect.places import NO_MODULE, module_of, phase_of, shown_line
from bedplate.inspect.recorder import Recording, Span
from bedplate.inspect.stamps import StampedPlan, sites_of
from bedplate.inspect.verdict import Verdict, Work, judge
from bedplate.kernel.lower import symbol_of

SPENT = ("compile", "together", "plan", "numpy")  # kinds of spans that time goes to
Key = tuple[str, tuple[str, ...], tuple[str, ...]]  # of a row: name, lines, phases
Times = tuple[StampedPlan, int, TaskTimes]  # a plan, the number of a task of it, its launches


@dataclass
class KernelRow:
    """All launches of one kernel that come from the same lines, in the same phase.

    seconds   on the clock, over all launches; median_seconds of one
    nbytes    of all launches: each input read once, each output written once
    flops     of all launches, as the records of the ops count them
    several   workers shared it
    lines     `file:line` of what it computes; a fused kernel has several
    modules   paths of the modules that they ran in
    phases    of the step: "forward", "backward", "optimiser"
    """

    name: str
    launches: int
    seconds: float
    median_seconds: float
    nbytes: float
    flops: float
    several: bool
    verdict: Verdict
    lines: list[str]
    modules: list[str]
    phases: list[str]


@dataclass
class ModuleRow:
    """What the operations of one module took, by phase: kernels' seconds; memory at the peak."""

    path: str
    seconds: dict[str, float] = field(default_factory=dict)
    nbytes: dict[str, int] = field(default_factory=dict)

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    @property
    def total_bytes(self) -> int:
        return sum(self.nbytes.values())


@dataclass
class MemoryTable:
    """Bytes that were held at one time: in all, by kind, by line."""

    nbytes: int
    kinds: dict[str, int]
    lines: list[tuple[str, str, int]]  # (line, kind, bytes)


@dataclass
class Compiled:
    """A kernel that was made ready; cold: by LLVM, not from the disk cache."""

    name: str
    seconds: float
    cold: bool


@dataclass
class Report:
    """What a profile found; `str()` is the text.

    seconds   of the profile, on the clock
    spent     seconds of the thread that profiles, by what they went to: kernels, Python, ...
    elsewhere seconds of kernels by thread, of the other threads: they ran beside `spent`
    kernels   by time, the longest first; modules too
    peak, end memory when most was held, and at the end
    compiled  the kernels that were made ready
    limits    of the machine, measured when the profile ended
    """

    seconds: float
    spent: dict[str, float]
    elsewhere: list[float]
    kernels: list[KernelRow]
    modules: list[ModuleRow]
    peak: MemoryTable
    end: MemoryTable
    compiled: list[Compiled]
    limits: Machine
    recording: Recording

    def __str__(self) -> str:
        return text.report_text(self)

    def text(self, top: int = 20) -> str:
        """The text, with at most `top` lines in each table."""
        return text.report_text(self, top)

    def trace(self, path: str | Path) -> None:
        """Write a trace that chrome://tracing and ui.perfetto.dev show.

        raises  OSError; CheckpointError if something is there that is no regular file
        """
        trace.write(self.recording, Path(path))

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as `json` takes them."""
        found = {
            name: asdict(value) if hasattr(value, "__dataclass_fields__") else value
            for name, value in vars(self).items() if name != "recording"
        }  # fmt: skip
        for name in ("kernels", "modules", "compiled"):
            found[name] = [asdict(row) for row in getattr(self, name)]
        return found

    def json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)


class Pending:
    """A report that is filled in when its profile ends; until then asking it is refused."""

    def __init__(self) -> None:
        self._report: Report | None = None

    def fill(self, report: Report) -> None:
        self._report = report

    def __getattr__(self, name: str) -> Any:
        if self._report is None:
            raise SettingError(
                f"profile: {name} is known when the profile has ended\n"
                "  look at the report behind the `with` block"
            )
        return getattr(self._report, name)

    def __str__(self) -> str:
        return "a profile that is still running" if self._report is None else str(self._report)


def make_report(recording: Recording) -> Report:
    """The report of a recording; measures the machine's limits."""
    machine = measure()
    kernels = _kernels(recording, machine)
    kernels += _numpy_rows(recording)
    kernels.sort(key=lambda row: -row.seconds)
    return Report(
        (recording.end - recording.begin) / 1e9,
        _spent(recording),
        [part for thread, part in _by_thread(recording).items() if thread != recording.thread],
        kernels,
        _modules(recording),
        _memory(recording.at_peak, recording.peak_bytes),
        _memory(recording.at_end, None),
        _compiled(recording),
        machine,
        recording,
    )


# ---- kernels


def _timed(recording: Recording) -> Iterator[Times]:
    for (plan, task), times in recording.tasks.items():
        yield recording.plans[plan], task, times


def _kernels(recording: Recording, machine: Machine) -> list[KernelRow]:
    rows: dict[Key, list[Times]] = {}
    for stamped, number, times in _timed(recording):
        task = stamped.tasks[number]
        sites = sites_of(task)
        lines = tuple(dict.fromkeys(map(shown_line, sites)))
        phases = tuple(dict.fromkeys(map(phase_of, sites)))
        rows.setdefault((task.name, lines, phases), []).append((stamped, number, times))
    return [_kernel_row(key, found, machine) for key, found in rows.items()]


def _kernel_row(key: Key, found: list[Times], machine: Machine) -> KernelRow:
    name, lines, phases = key
    works, modules = [], {}
    for stamped, number, times in found:
        works += _works(stamped, number, times)
        task = stamped.tasks[number]
        modules.update(dict.fromkeys(module_of(site) for site in sites_of(task)))
    every = np.concatenate([part for _, _, times in found for part in times.seconds])
    return KernelRow(
        name,
        sum(times.count for _, _, times in found),
        sum(times.total for _, _, times in found),
        float(np.median(every)),
        sum(times.count * plan.tasks[number].nbytes for plan, number, times in found),
        sum(times.count * plan.tasks[number].flops for plan, number, times in found),
        any(work.several for work in works),
        judge(works, machine),
        list(lines),
        [module for module in modules if module],
        list(phases),
    )


def _works(stamped: StampedPlan, number: int, times: TaskTimes) -> Iterator[Work]:
    """The launches whose time is that of one worker, and of several: each has its own limit."""
    task = stamped.tasks[number]
    written = stamped.info.written[number] if stamped.info is not None else 1.0
    for several in (False, True):
        seconds = times.of(several)
        if len(seconds):
            yield Work(
                len(seconds), float(np.median(seconds)), task.flops, task.nbytes, written,
                task.wide, several,
            )  # fmt: skip


def _numpy_rows(recording: Recording) -> list[KernelRow]:
    """What LAPACK and pocketfft did on the host, which nobody counts the work of."""
    rows: dict[Any, list[Span]] = {}
    for span in recording.spans:
        if span.kind == "numpy":
            rows.setdefault((span.name, shown_line(span.site)), []).append(span)
    verdict = Verdict("numpy", 0.0, 0.0, "in NumPy or SciPy")
    return [
        KernelRow(
            name, len(spans), sum(s.seconds for s in spans),
            float(np.median([s.seconds for s in spans])), 0.0, 0.0, False, verdict, [line],
            [m for m in {module_of(s.site) for s in spans} if m],
            list({phase_of(s.site) for s in spans}),
        )
        for (name, line), spans in rows.items()
    ]  # fmt: skip


# ---- modules


def _modules(recording: Recording) -> list[ModuleRow]:
    rows: dict[str, ModuleRow] = {}

    def row(path: str) -> ModuleRow:
        return rows.setdefault(path or NO_MODULE, ModuleRow(path or NO_MODULE))

    for stamped, number, times in _timed(recording):
        sites = sites_of(stamped.tasks[number]) or [None]
        for site in sites:  # a fused kernel's time is shared out among its operations
            seconds = row(module_of(site)).seconds
            phase = phase_of(site)
            seconds[phase] = seconds.get(phase, 0.0) + times.total / len(sites)
    for share in recording.at_peak:
        nbytes = row(share.module).nbytes
        nbytes[share.kind] = nbytes.get(share.kind, 0) + share.nbytes
    return sorted(rows.values(), key=lambda r: (-r.total_seconds, -r.total_bytes))


# ---- memory


def _memory(shares: Iterable[Share], peak_bytes: int | None) -> MemoryTable:
    kinds: dict[str, int] = dict.fromkeys(KINDS, 0)
    lines: dict[tuple[str, str], int] = {}
    for share in shares:
        kinds[share.kind] += share.nbytes
        key = (shown_line(share.site), share.kind)
        lines[key] = lines.get(key, 0) + share.nbytes
    total = sum(kinds.values()) if peak_bytes is None else peak_bytes
    table = [(line, kind, nbytes) for (line, kind), nbytes in lines.items()]
    return MemoryTable(total, kinds, sorted(table, key=lambda entry: -entry[2]))


# ---- time


def _compiled(recording: Recording) -> list[Compiled]:
    """Each kernel once; what LLVM did on another thread counts to its kernel."""
    made: dict[str, list[tuple[int, int]]] = {}
    for symbol, begin, end in recording.generated:
        made.setdefault(symbol, []).append((begin, end))
    rows = []
    for span in recording.spans:
        if span.kind != "compile":
            continue
        mine = made.get(symbol_of(span.name), [])
        begin, end = mine.pop(0) if mine and mine[0][0] < span.end else (span.begin, span.begin)
        before = max(min(end, span.begin) - begin, 0) / 1e9
        rows.append(Compiled(span.name, span.seconds + before, end > begin))
    return sorted(rows, key=lambda row: (not row.cold, -row.seconds))


def _spent(recording: Recording) -> dict[str, float]:
    """What the seconds of the thread that profiles went to; they add up."""
    here = [span for span in recording.spans if span.thread == recording.thread]
    of = {kind: [span for span in here if span.kind == kind] for kind in SPENT}
    wall = (recording.end - recording.begin) / 1e9
    runs = recording.run_ns.get(recording.thread, 0) / 1e9
    kernels = _by_thread(recording).get(recording.thread, 0.0)
    alone = _apart(of["compile"], of["together"])
    compiled = of["together"] + alone
    compiling, numpy = _seconds(compiled), _seconds(of["numpy"])
    inside = compiling - _seconds(_apart(compiled, of["plan"]))
    planning = max(_seconds(of["plan"]) - inside, 0.0)
    rest = wall - runs - compiling - planning - numpy
    return {
        "kernels": kernels,
        "handing over": max(runs - kernels, 0.0),
        "NumPy functions": numpy,
        "compiling kernels": compiling,
        "planning": planning,
        "Python": max(rest, 0.0),
    }


def _by_thread(recording: Recording) -> dict[int, float]:
    """Seconds of kernels by the thread that ran the plan: shared out as the time inside runs is."""
    kernels = sum(times.total for times in recording.tasks.values())
    inside = sum(recording.run_ns.values())
    return {thread: kernels * ns / inside for thread, ns in recording.run_ns.items() if inside}


def _seconds(spans: Iterable[Span]) -> float:
    return sum(span.seconds for span in spans)


def _apart(spans: list[Span], others: list[Span]) -> list[Span]:
    """The spans that lie inside none of the others; those of one thread are nested or apart."""
    ends: list[int] = []  # the latest end of the others so far, by their begins
    begins: list[int] = []
    for other in sorted(others, key=lambda span: span.begin):
        begins.append(other.begin)
        ends.append(max(other.end, ends[-1] if ends else other.end))
    return [
        span for span in spans
        if not (number := bisect.bisect_right(begins, span.begin)) or span.end > ends[number - 1]
    ]  # fmt: skip
