"""Run the cases: prepare every peer, check it, then time all of them in interleaved rounds.

The rounds go A B C, B C A, C A B ... so that whatever the machine does meanwhile hits every
peer alike; a figure is the median over the rounds, its spread the distance between the
quartiles, relative to the median.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.peer import PeerError, Process
from benchmarks.worker import sample

Tell = Callable[[str], None]
# a thread pool may still spin after the last call of the peer before
SETTLE_SECONDS = 0.01


@dataclass
class Measured:
    """One peer at one case; `rounds` holds seconds, already divided by the case's divisor."""

    case: Case
    peer: str
    first_seconds: float = 0.0
    version: str = ""
    rounds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        if len(self.rounds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.rounds, n=4)
        return (high - low) / self.median


class Harness:
    """The running peers, and how long to measure each.

    rounds    how many times every peer has its turn
    budget    seconds of one turn
    """

    def __init__(self, processes: list[Process], rounds: int, budget: float, tell: Tell) -> None:
        self.processes = processes
        self.rounds = rounds
        self.budget = budget
        self.tell = tell

    def measure(self, case: Case) -> list[Measured]:
        """All peers that have this case; a peer that is wrong or fails is told and left out."""
        inputs = case.inputs()
        answer = case.answer(inputs)
        expected = None if answer is None else [sample(array) for array in answer]
        del inputs, answer
        ready = []
        for process in self.processes:
            measured = self._prepare(process, case, expected)
            if measured is not None:
                ready.append((process, measured))
        self._time(ready, case)
        for process, _ in ready:
            process.ask("drop")
        return [measured for _, measured in ready if measured.rounds]

    def _prepare(self, process: Process, case: Case, expected: Any) -> Measured | None:
        try:
            answer = process.ask("prepare", case=case.name)
        except PeerError as error:
            self.tell(f"{case.name}: {error}")
            return None
        if "absent" in answer:
            return None
        if expected is not None and "samples" in answer:
            wrong = difference(expected, answer["samples"], case.tolerance)
            if wrong:
                self.tell(f"{case.name}: {process.name} is wrong: {wrong}")
                return None
        return Measured(case, process.name, answer["first_seconds"], process.version)

    def peers_with(self, case: Case) -> list[str]:
        """The names of the peers that have the case's kind."""
        return [p.name for p in self.processes if p.ask("has", case=case.name)["has"]]

    def first_calls(
        self, case: Case, name: str, start: Callable[[str], Process], label: str, n_calls: int = 3
    ) -> list[Measured]:
        """Seconds of the first call, in a new process each; `start` says with which cache."""
        measured: Measured | None = None
        for _ in range(n_calls):
            fresh = start(name)
            found = self._prepare(fresh, case, None)
            fresh.close()
            if found is None:
                return []
            if measured is None:
                measured = Measured(case, label, found.first_seconds, found.version)
            measured.rounds.append(found.first_seconds)
        return [measured] if measured else []

    def _time(self, ready: list[tuple[Process, Measured]], case: Case) -> None:
        for turn in range(self.rounds + 1):  # the first round warms up and is thrown away
            for offset in range(len(ready)):
                process, measured = ready[(turn + offset) % len(ready)]
                time.sleep(SETTLE_SECONDS)
                answer = process.ask("time", seconds=self.budget)
                if turn:
                    measured.rounds.append(answer["seconds"] / case.divisor)


def difference(expected: list[np.ndarray], samples: list[Any], tolerance: float) -> str:
    """What is wrong with `samples`, or an empty text; NaN is wrong too."""
    if len(expected) != len(samples):
        return f"{len(samples)} results, expected {len(expected)}"
    for index, (right, got) in enumerate(zip(expected, samples, strict=True)):
        found = np.asarray(got)
        if found.shape != right.shape:
            return f"result {index} has {found.size} values, expected {right.size}"
        error = np.abs(found - right).max() / max(np.abs(right).max(), 1e-30)
        if not error <= tolerance:
            return f"result {index} is off by {error:.2g} of its largest value"
    return ""
