"""The process of one peer: reads commands as lines of JSON, answers in lines of JSON.

    python -m benchmarks.worker MODULE

    {"do": "versions"}                   -> {"version", "python"}
    {"do": "has", "case": NAME}          -> {"has": whether this peer has such a kind}
    {"do": "prepare", "case": NAME}      -> {"first_seconds", "samples"} or {"absent": why}
    {"do": "time", "seconds": BUDGET}    -> {"seconds", "calls"}: the median time of a call
                                            (of a run with an attribute `seconds`: what it says)
    {"do": "drop"}                       -> {"resident_bytes": of the process, once all is dropped}

Standard output carries the answers alone; what libraries print goes to standard error.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import Case
from benchmarks.cases import all_cases

N_SAMPLES = 4096
Run = Callable[[], Any]


def sample(array: np.ndarray) -> np.ndarray:
    """Up to N_SAMPLES values at positions that depend on the size alone."""
    flat = np.asarray(array).reshape(-1)
    if flat.size <= N_SAMPLES:
        return flat
    return flat[np.random.default_rng(3).integers(0, flat.size, N_SAMPLES)]


def resident_bytes() -> int:
    """What this process holds of the machine's memory; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class Worker:
    """One peer: at most one prepared case at a time."""

    def __init__(self, peer: Any) -> None:
        self.peer = peer
        self.run: Run | None = None
        self.cases = {case.name: case for case in all_cases()}
        self.calls = 1
        self.factor = 1.0

    def versions(self) -> dict[str, Any]:
        return {"version": self.peer.VERSION, "python": sys.version.split()[0]}

    def has(self, case: str) -> dict[str, Any]:
        return {"has": self._make(self.cases[case]) is not None}

    def _make(self, case: Case) -> Any:
        """What prepares the case here, if the peer takes part in it."""
        if not case.suits(getattr(self.peer, "COMPILES", False)):
            return None
        return getattr(self.peer, case.kind, None)

    def prepare(self, case: str) -> dict[str, Any]:
        return self._prepare(self.cases[case])

    def _prepare(self, case: Case) -> dict[str, Any]:
        self.calls, self.factor = 1, 1.0
        if hasattr(self.peer, "any_case"):
            return self._prepare_limit(case)
        make = self._make(case)
        if make is None:
            return {"absent": f"no {case.kind} here"}
        inputs = case.inputs()
        start = time.perf_counter()
        self.run = make(case.parameters, inputs)
        if self.run is None:
            return {"absent": f"no such {case.kind} here"}
        results = self.run()
        first_seconds = time.perf_counter() - start
        arrays = self.peer.as_arrays(results) if case.is_checked else []
        samples = [sample(array).astype(np.float64).tolist() for array in arrays]
        return {"first_seconds": first_seconds, "samples": samples}

    def _prepare_limit(self, case: Case) -> dict[str, Any]:
        found = self.peer.any_case(case)
        if found is None:
            return {"absent": "this limit does not bind the case"}
        self.run, self.factor = found
        return {"first_seconds": 0.0}

    def time(self, seconds: float) -> dict[str, Any]:
        """Median seconds of a call over about `seconds`; short calls are timed in batches."""
        run = self.run
        assert run is not None, "prepare comes first"  # noqa: S101 - the harness is the caller
        times: list[float] = []
        end = time.perf_counter() + seconds
        gc.collect()
        while not times or (time.perf_counter() < end and len(times) < 1000):
            calls = self.calls
            start = time.perf_counter()
            for _ in range(calls):
                run()
            elapsed = getattr(run, "seconds", None) or time.perf_counter() - start
            if elapsed < 0.0005 and calls < 4096:
                self.calls *= 2
                continue
            times.append(elapsed / calls)
        return {"seconds": statistics.median(times) * self.factor, "calls": len(times) * self.calls}

    def drop(self) -> dict[str, Any]:
        """Let go of the case, of what the peer compiled for it, and of freed memory."""
        self.run = None
        getattr(self.peer, "forget", lambda: None)()
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone
        if trim is not None:
            trim(0)
        return {"resident_bytes": resident_bytes()}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(importlib.import_module(f"benchmarks.peers.{sys.argv[1]}"))
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(worker, command.pop("do"))(**command)
        except Exception:  # the harness must hear of whatever a peer raises
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
