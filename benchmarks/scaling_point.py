"""One point of the scaling benchmark, in this process: python -m benchmarks.scaling_point JOB.

JOB is JSON: kind, parameters, budget in seconds. The answer is JSON: seconds of a run (median),
seconds of the first run, and the most bytes that were held at once during a later run.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

from bedplate.memory import Block, observe_blocks
from benchmarks.case import Case
from benchmarks.peers import bedplate_peer

WARM_RUNS = 3  # until a captured step is replayed
MOST_RUNS = 1000


class Watched:
    """Bytes of the blocks that are held, and the most of them since `begin`."""

    def __init__(self) -> None:
        self.held = self.most = 0
        self._nbytes: dict[int, int] = {}
        self.end = observe_blocks(self._made, self._gone)

    def begin(self) -> None:
        self.most = self.held

    def _made(self, block: Block) -> None:
        self._nbytes[id(block)] = block.nbytes
        self.held += block.nbytes
        self.most = max(self.most, self.held)

    def _gone(self, block: tuple[int, Any]) -> None:
        self.held -= self._nbytes.pop(block[0], 0)


def measured(job: dict[str, Any]) -> dict[str, float]:
    """Seconds and bytes; with a budget of 0 of the first run alone."""
    watched = Watched()
    try:
        return _measured(job, watched)
    finally:
        watched.end()


def _measured(job: dict[str, Any], watched: Watched) -> dict[str, float]:
    case = Case("point", job["kind"], job["parameters"])
    start = time.perf_counter()
    run = getattr(bedplate_peer, case.kind)(case.parameters, case.inputs())
    run()
    first = time.perf_counter() - start
    if not job["budget"]:
        return {"seconds": first, "first_seconds": first, "bytes": watched.most}
    for _ in range(WARM_RUNS - 1):
        run()
    watched.begin()
    run()
    times: list[float] = []
    end = time.perf_counter() + job["budget"]
    while len(times) < 3 or (time.perf_counter() < end and len(times) < MOST_RUNS):
        begin = time.perf_counter()
        run()
        times.append(getattr(run, "seconds", None) or time.perf_counter() - begin)
    most = watched.most
    return {"seconds": statistics.median(times), "first_seconds": first, "bytes": most}


if __name__ == "__main__":
    print(json.dumps(measured(json.loads(sys.argv[1]))))
