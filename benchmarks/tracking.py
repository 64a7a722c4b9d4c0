"""What it costs to have memory watched: steps inside `bp.memory.peak()` and outside, by turns.

    python -m benchmarks.tracking [--rounds 15] [--only adamw] [--profile NAME]

Each program takes its steps in one process: some that are watched, some that nobody watches, in
many short turns, so that what the machine does meanwhile meets both. The figure is that of the
median turn of each. The first steps of a turn are not timed: beginning to watch forgets all plans.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import functools
import pstats
import statistics
import time
from collections.abc import Callable

import numpy as np

import bedplate as bp
from bedplate import nn, optim
from bedplate.olmo import PRESETS, Olmo3

TURN_SECONDS = 0.08
WARM_UP = 4
BOUND = 10.0  # per cent: what watching may cost a step
Step = Callable[[], object]


def _net_step(capture: bool) -> Step:
    """An AdamW step of a net of 700 numbers."""
    bp.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    optimiser = optim.AdamW(net.parameters(), lr=1e-3)
    x, y = bp.ones((8, 16)).realise(), bp.ones((8, 4)).realise()

    def step(x: bp.Tensor, y: bp.Tensor) -> bp.Tensor:
        optimiser.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    taken = bp.jit(step) if capture else step
    return lambda: taken(x, y).item()


def _vectors() -> Step:
    """Forward and backward through 60 vectors of 16 numbers."""
    vectors = [bp.ones((16,)).realise().requires_grad_() for _ in range(60)]

    def step() -> None:
        total = vectors[0].tanh()
        for vector in vectors[1:]:
            total = total + (vector * 2).tanh()
        total.sum().backward()
        for vector in vectors:
            vector.grad = None

    return step


def _one_by_one() -> Step:
    """100 evaluations of one operation on 64 numbers."""
    x = bp.ones((64,)).realise()

    def step() -> None:
        y = x
        for _ in range(100):
            y = (y + 1).realise()

    return step


def _demo(capture: bool) -> Step:
    """A training step of the demo's model."""
    demo = PRESETS["demo"]
    bp.manual_seed(0)
    model = Olmo3(demo.config(vocab_size=256))
    optimiser = optim.AdamW(model.parameters(), lr=demo.learning_rate)
    ids = np.random.default_rng(0).integers(0, 256, (demo.batch_size, demo.seq_len + 1))
    inputs, targets = bp.tensor(ids[:, :-1]).realise(), bp.tensor(ids[:, 1:]).realise()

    def step(inputs: bp.Tensor, targets: bp.Tensor) -> bp.Tensor:
        optimiser.zero_grad()
        loss = model.loss(inputs, targets)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss.detach()

    taken = bp.jit(step) if capture else step
    return lambda: taken(inputs, targets).item()


PROGRAMS: dict[str, Callable[[], Step]] = {
    "adamw_eager": functools.partial(_net_step, False),
    "adamw_captured": functools.partial(_net_step, True),
    "vectors": _vectors,
    "one_by_one": _one_by_one,
    "demo_captured": functools.partial(_demo, True),
    "demo_eager": functools.partial(_demo, False),
}


def turn(step: Step, seconds: float) -> float:
    """Seconds that a step takes, over a turn."""
    for _ in range(WARM_UP):
        step()
    count, begin = 0, time.perf_counter()
    end = begin
    while end - begin < seconds or not count:
        step()
        count += 1
        end = time.perf_counter()
    return (end - begin) / count


def compare(step: Step, rounds: int, seconds: float = TURN_SECONDS) -> tuple[float, float]:
    """Seconds of a step that nobody watches and of one that is watched: the medians of turns."""
    plain, watched = [], []
    turn(step, 0.0)
    for number in range(rounds):
        for watching in (False, True) if number % 2 else (True, False):
            with bp.memory.peak() if watching else contextlib.nullcontext():
                (watched if watching else plain).append(turn(step, seconds))
    return statistics.median(plain), statistics.median(watched)


def _profile(step: Step) -> None:
    """Where a watched step spends its time in Python."""
    with bp.memory.peak():
        turn(step, 0.1)
        profile = cProfile.Profile()
        profile.runcall(turn, step, 1.0)
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tracking", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="parts of names, by comma")
    parser.add_argument("--profile", action="store_true", help="where a watched step spends time")
    given = parser.parse_args()
    for name, program in PROGRAMS.items():
        if not any(part in name for part in given.only.split(",")):
            continue
        step = program()
        if given.profile:
            _profile(step)
            continue
        plain, watched = compare(step, given.rounds)
        cost = 100 * (watched / plain - 1)
        verdict = "" if cost < BOUND else f"   above {BOUND:.0f} %"
        print(f"{name:16} {plain * 1e3:8.3f} ms  watched {watched * 1e3:8.3f} ms  {cost:+6.1f} %"
              f"{verdict}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
