"""Run the cases: prepare every peer, check it, then time all of them in interleaved rounds.

The rounds go A B C, B C A, C A B ... so that whatever the machine does meanwhile hits every
peer alike; a figure is the median over the rounds, its spread the distance between the
quartiles, relative to the median.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.case import Case
from benchmarks.peer import TURN_SECONDS, PeerError, Process
from benchmarks.worker import sample

Tell = Callable[[str], None]
# a thread pool may still spin after the last call of the peer before
SETTLE_SECONDS = 0.01
# a case with a turn of more than this has few rounds, and none that is thrown away: such a run
# is not warmed up by another one, and the machine changes less within it than between two
LONG_SECONDS, LONG_ROUNDS = 1.0, 3
# a peer so many times slower than the fastest, with turns of more than so many seconds, has had its
# only turn with the first round
FAR_BEHIND, FAR_SECONDS = 10.0, 0.3
# a process that holds more than this between two cases is begun anew: a dozen of them, all with the
# next case prepared, are to fit into one machine, and no peer holds half of it once imported
RESIDENT_BYTES = 1 << 30
AT_ONCE = 2  # peers that prepare a case, compile for it above all


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
        ready = self.ready(case)
        self._time(ready, case)
        self.drop()
        return [measured for _, measured in ready]

    def drop(self) -> None:
        """Nothing of the case stays, of a peer that was wrong or failed neither."""
        for process in self.processes:
            try:
                resident = process.ask("drop")["resident_bytes"]
            except PeerError:  # what failed was told, and a process that ended is begun anew
                continue
            if resident > RESIDENT_BYTES:
                process.restart()

    def ready(self, case: Case) -> list[tuple[Process, Measured]]:
        """The peers that have prepared the case, and whose results are right."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = pool.map(lambda process: self._prepared(process, case), self.processes)
            expected = expected_samples(case)
            found = [
                (process, self._checked(process, case, answer, expected))
                for process, answer in zip(self.processes, answers, strict=True)
            ]
        return [(process, measured) for process, measured in found if measured is not None]

    def prepare(self, process: Process, case: Case) -> Measured | None:
        """Prepare one peer at one case, unchecked; None if it cannot."""
        return self._checked(process, case, self._prepared(process, case), None)

    def _prepared(self, process: Process, case: Case) -> dict[str, Any] | None:
        return self._asked(process, case, "prepare", case=case.name)

    def _asked(self, process: Process, about: Case, do: str, **more: Any) -> dict[str, Any] | None:
        """The answer; None for a peer that failed, which is told."""
        try:
            return process.ask(do, **more)
        except PeerError as error:
            self.tell(f"{about.name}: {process.name}: {last_line(error)}")
            return None

    def _checked(
        self, process: Process, case: Case, answer: dict[str, Any] | None, expected: Any
    ) -> Measured | None:
        """The row of a peer that has prepared the case; None if it cannot or is wrong."""
        if answer is None or "absent" in answer:
            return None
        if expected is not None and "samples" in answer:
            wrong = difference(expected, answer["samples"], case.tolerance)
            if wrong:
                self.tell(f"{case.name}: {process.name} is wrong: {wrong}")
                return None
        return Measured(case, process.name, answer["first_seconds"], process.version)

    def peers_with(self, case: Case) -> list[str]:
        """The names of the peers that have the case's kind."""
        names = []
        for process in self.processes:
            answer = self._asked(process, case, "has", case=case.name)
            if answer and answer["has"]:
                names.append(process.name)
        return names

    def _time(self, ready: list[tuple[Process, Measured]], case: Case) -> None:
        """The rounds; the first one warms up, and is thrown away unless it was long."""
        self._round(ready, case, 0)
        near = _in_reach(ready)
        rounds = self.rounds
        if max((m.rounds[0] for _, m in near), default=0.0) * case.divisor > LONG_SECONDS:
            rounds = min(rounds, LONG_ROUNDS) - 1
        else:
            for _, measured in near:
                measured.rounds.clear()
        for turn in range(1, rounds + 1):
            self._round(near, case, turn)

    def _round(self, ready: list[tuple[Process, Measured]], case: Case, turn: int) -> None:
        """One turn of each; a peer that fails is taken out."""
        first = turn % max(len(ready), 1)
        for process, measured in [*ready[first:], *ready[:first]]:
            time.sleep(SETTLE_SECONDS)
            answer = self._asked(process, case, "time", seconds=self.budget, limit=TURN_SECONDS)
            if answer is None:
                ready.remove((process, measured))
            else:
                measured.rounds.append(answer["seconds"] / case.divisor)


def expected_samples(case: Case) -> list[np.ndarray] | None:
    """What every peer must give at the positions that are looked at."""
    answer = case.answer(case.inputs())
    return None if answer is None else [sample(array) for array in answer]


def _in_reach(ready: list[tuple[Process, Measured]]) -> list[tuple[Process, Measured]]:
    """Those that are not far behind after the first round."""
    least = max(FAR_SECONDS, FAR_BEHIND * min((m.rounds[0] for _, m in ready), default=0.0))
    return [pair for pair in ready if pair[1].rounds[0] <= least]


def last_line(error: Exception) -> str:
    """The end of a traceback: what went wrong."""
    return str(error).strip().splitlines()[-1]


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
