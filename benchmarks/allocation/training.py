"""What it costs to give large blocks back at once: python -m benchmarks.allocation.training

A training step whose temporaries take 208 MiB and a chain of element-wise ops on 120 MB, with
`keep_large` on and off, each in processes of its own, in turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import bedplate as bp
from bedplate import optim
from benchmarks.allocation.programs import olmo, train_step

TURNS = 3


def _median(run: Callable[[], object], warm: int, times: int) -> float:
    seconds = []
    for _ in range(warm + times):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[warm:])


def measured() -> dict[str, float]:
    """Seconds of each, in this process."""
    model = olmo(256, 4, 4096)
    step = bp.jit(train_step(model, optim.AdamW(model.parameters(), lr=1e-3)))
    ids = bp.tensor(np.random.default_rng(0).integers(0, 4096, (8, 257)))
    x = bp.ones(30_000_000).realise()
    return {
        "training step": _median(lambda: step(ids).item(), 3, 6),
        "(x * 2 + 1).exp() of 120 MB": _median(lambda: (x * 2 + 1).exp().realise(), 3, 12),
    }


def main() -> None:
    found: dict[tuple[str, str], list[float]] = {}
    for keep in ("1", "0") * TURNS:
        command = [sys.executable, "-m", "benchmarks.allocation.training", "here"]
        environment = {**os.environ, "BEDPLATE_KEEP_LARGE": keep}
        answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        for name, seconds in json.loads(answer.stdout).items():
            found.setdefault((name, keep), []).append(seconds)
    for (name, keep), seconds in found.items():
        shown = " ".join(f"{1e3 * s:.1f}" for s in seconds)
        print(f"{name:28} keep_large={keep}: {1e3 * statistics.median(seconds):.1f} ms ({shown})")


if __name__ == "__main__":
    if sys.argv[1:] == ["here"]:
        print(json.dumps(measured()))
    else:
        main()
