"""The trace of a profile in the format of Chrome's tracing, which Perfetto reads too.

One row for each thread: what each worker did of each launch, the runs of plans, kernels that were
made ready, plans that were made, calls of modules; and the memory that was held.
source  "Trace Event Format", the Chromium project: complete events ("X"), counters ("C")
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bedplate.devices.cpu.workers import workers
from bedplate.inspect.places import module_of, phase_of, shown_line
from bedplate.inspect.stamps import sites_of
from bedplate.tensor.atomic import replacing

if TYPE_CHECKING:
    from bedplate.inspect.recorder import Recording

MAX_MEMORY = 20_000  # points of the memory's curve


def write(recording: Recording, path: Path) -> None:
    """Write the trace; a crash leaves the old file or the new.

    raises  OSError; CheckpointError if something is there that is no regular file
    """
    document = {"displayTimeUnit": "ms", "traceEvents": list(events(recording))}
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        json.dump(document, file)


def events(recording: Recording) -> Iterator[dict[str, Any]]:
    """All events; times in micro-seconds since the profile began."""
    threads = _Threads(recording)
    pieces = list(_pieces(recording, threads))
    spans = [_span(span, recording, threads) for span in recording.spans]
    yield from threads.names()
    yield from spans
    yield from pieces
    yield from _generated(recording)
    step = max(1, len(recording.memory) // MAX_MEMORY)
    for at, nbytes in recording.memory[::step]:
        yield {"name": "memory", "ph": "C", "pid": 1, "ts": _micro(at, recording),
               "args": {"bytes": nbytes}}  # fmt: skip


class _Threads:
    """Small numbers for threads: Python's first, then the workers."""

    def __init__(self, recording: Recording) -> None:
        self._numbers: dict[int, int] = {recording.thread: 1}
        self._python = {t.ident: t.name for t in threading.enumerate()}

    def number(self, ident: int) -> int:
        return self._numbers.setdefault(ident, len(self._numbers) + 1)

    def names(self) -> Iterator[dict[str, Any]]:
        native = {ident: f"worker {n}" for n, ident in enumerate(workers._threads, 1)}
        for ident, number in self._numbers.items():
            name = native.get(ident) or self._python.get(ident) or "a thread that has ended"
            yield {"name": "thread_name", "ph": "M", "pid": 1, "tid": number,
                   "args": {"name": name}}  # fmt: skip


def _micro(at: int, recording: Recording) -> float:
    return (at - recording.begin) / 1e3


def _span(span: Any, recording: Recording, threads: _Threads) -> dict[str, Any]:
    return {
        "name": span.name, "cat": span.kind, "ph": "X", "pid": 1,
        "tid": threads.number(span.thread), "ts": _micro(span.begin, recording),
        "dur": (span.end - span.begin) / 1e3,
    }  # fmt: skip


def _generated(recording: Recording) -> Iterator[dict[str, Any]]:
    """What LLVM made, side by side: a row for each that ran at one time."""
    busy: list[int] = []
    for symbol, begin, end in sorted(recording.generated, key=lambda made: made[1]):
        row = next((i for i, until in enumerate(busy) if until <= begin), len(busy))
        busy[row : row + 1] = [end]
        yield {
            "name": symbol, "cat": "llvm", "ph": "X", "pid": 2, "tid": row + 1,
            "ts": _micro(begin, recording), "dur": (end - begin) / 1e3,
        }  # fmt: skip


def _pieces(recording: Recording, threads: _Threads) -> Iterator[dict[str, Any]]:
    known: dict[tuple[int, int], tuple[str, dict[str, Any]]] = {}
    for table in recording.folded.pieces:
        for plan, task, thread, begin, end in table.tolist():
            key = (plan, task)
            if key not in known:
                known[key] = _about(recording.plans[plan].tasks[task])
            name, arguments = known[key]
            yield {
                "name": name, "cat": "kernel", "ph": "X", "pid": 1, "tid": threads.number(thread),
                "ts": _micro(begin, recording), "dur": (end - begin) / 1e3, "args": arguments,
            }  # fmt: skip


def _about(task: Any) -> tuple[str, dict[str, Any]]:
    sites = sites_of(task)
    return task.name, {
        "lines": list(dict.fromkeys(map(shown_line, sites))),
        "modules": list(dict.fromkeys(filter(None, map(module_of, sites)))),
        "phases": list(dict.fromkeys(map(phase_of, sites))),
        "flops": task.flops, "bytes": task.nbytes, "items": task.items,
    }  # fmt: skip
