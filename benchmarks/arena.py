"""The memory of a train step's intermediates, with and without rematerialisation.

    python -m benchmarks.arena                     the models of the training cases
    python -m benchmarks.arena --only 64-2-128     some of them

The arena holds all intermediates of a captured step, each for as long as it is needed. Beside it:
the bytes of all of them together, and of the largest set that is needed at one time, which no
arena can do without in that order of launches.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import bedplate as bp
from bedplate import optim
from bedplate.compiler import compile_plan
from bedplate.compiler.memory_plan import largest_live_set, plan_memory
from bedplate.olmo import Config, Olmo3
from benchmarks.model_cases import TRAINED

MIB = 1 << 20
ROUNDS = 3


def step_of(p: Any, again: bool) -> Any:
    """A captured train step on ids."""
    model = Olmo3(Config(**p["config"]))
    model.rematerialise = again
    parameters = list(model.parameters())
    optimiser = optim.AdamW(parameters)

    @bp.jit
    def step(ids: Any) -> Any:
        optimiser.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optim.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=False)
        optimiser.step()
        return loss.detach()

    return step


def measure(p: Any, again: bool) -> tuple[int, int, int, float]:
    """Bytes of the arena, of the largest live set, of all; milliseconds a step (median)."""
    found: list[tuple[int, int, int]] = []

    def planned(regions: Any) -> int:
        size = plan_memory(regions)
        temporaries = {b for r in regions for x in r for b in x.writes if b.slot is None}
        found.append((size, largest_live_set(regions), sum(b.nbytes for b in temporaries)))
        return size

    ids = np.random.default_rng(0).integers(
        0, p["config"]["vocab_size"], (p["batch"], p["time"] + 1)
    )
    compile_plan.plan_memory = planned
    try:
        with bp.config(plan_files=False):
            step, seconds = step_of(p, again), []
            for _ in range(ROUNDS + 2):
                begin = time.perf_counter()
                step(bp.tensor(ids)).item()
                seconds.append(time.perf_counter() - begin)
    finally:
        compile_plan.plan_memory = plan_memory
    return *max(found), sorted(seconds[2:])[ROUNDS // 2] * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="64-2-128,128-4-256,256-4-256")
    print(f"{'model':<12}{'kept':<14}{'arena MiB':>10}{'bound':>9}{'ratio':>7}{'all':>9}{'ms':>9}")
    for name in parser.parse_args().only.split(","):
        for again in (False, True):
            size, bound, total, ms = measure(TRAINED[name], again)
            sizes = f"{size / MIB:>10.1f}{bound / MIB:>9.1f}{size / bound:>7.3f}{total / MIB:>9.1f}"
            print(
                f"{name:<12}{'layer inputs' if again else 'all':<14}{sizes}{ms:>9.1f}", flush=True
            )


if __name__ == "__main__":
    main()
