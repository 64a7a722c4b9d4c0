"""What each feature is worth: the same work with it and without it, side by side.

    python -m benchmarks.switches                    all of them
    python -m benchmarks.switches --only fusion      one, or several with commas
    python -m benchmarks.switches --graphs           what is launched with it and without it

Both sides are processes of their own, their rounds interleaved; results are compared with float64
and with each other before anything is timed. Dead code needs no switch: what nobody asks for is
never in a graph (`docs/in-depth/compiler.md`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.case import Case
from benchmarks.cases import all_cases
from benchmarks.graphs import show_graphs
from benchmarks.harness import Harness, difference, last_line
from benchmarks.peer import PEERS, Peer, PeerError, Process
from benchmarks.report import shown

ON = "bedplate-jit"
FUSION = {name: "0" for name in ("fusion", "folding", "cse", "algebra")}
# what both sides may differ by, relative to the largest value: roundings in another order
ROUNDING = 1e-4
PEERS["plain"] = Peer("plain_peer", is_ours=True)


@dataclass(frozen=True)
class Switch:
    """One feature at one case.

    off    settings that switch it off
    goal   at least so many times faster with it; 0: no goal is set
    peer   what runs without it, if that is another program
    """

    name: str
    case: str
    off: dict[str, str] = field(default_factory=dict)
    goal: float = 0.0
    peer: str = ON

    @property
    def environment(self) -> dict[str, str]:
        return {f"BEDPLATE_{key.upper()}": value for key, value in self.off.items()}


SWITCHES = (
    Switch("fusion, folding", "train/demo", FUSION, 1.4),
    Switch("fusion, folding", "train/64-2-128", FUSION, 1.4),
    Switch("fusion, folding", "train/residual-8x64x32x32", FUSION),
    Switch("fusion, folding", "train/perceptron-64-64-64-10", FUSION, 1.4),
    Switch("fusion, folding", "train/perceptron-784-256-10", FUSION, 1.4),
    Switch("fusion, folding", "train/256-4-256", FUSION),
    Switch("fusion, folding", "dispatch/mlp-step-jit", FUSION),
    Switch("fusion, folding", "optimiser/adamw-2048x2048", FUSION),
    Switch("fusion, folding", "elementwise/chain-3e7", FUSION, 2.0),
    Switch("fusion, folding", "elementwise/chain-1e6", FUSION),
    Switch("fusion, folding", "reduce/rmsnorm-fwdbwd", FUSION),
    Switch("blocking", "matmul/512", goal=1.55, peer="plain"),
    Switch("blocking", "matmul/1024", goal=1.55, peer="plain"),
    Switch("bfloat16 dot", "matmul/1024-bf16", {"bfloat16_dot": "0"}),
    Switch("layout", "conv/3x3-8x512x7x7-fwd", {"layout": "0"}, 1.51),
    Switch("layout", "conv/3x3-8x512x7x7-fwdbwd", {"layout": "0"}, 1.51),
    Switch("layout", "conv/3x3-8x256x14x14-fwd", {"layout": "0"}),
    Switch("tiling", "reduce/transpose-4096", {"tiling": "0"}, 1.93),
    Switch("tiling", "reduce/transpose-batch4096x32x64", {"tiling": "0"}),
    Switch("merging", "optimiser/adamw-200x64x64", {"merging": "0"}, 1.0),
    Switch("merging", "train/demo", {"merging": "0"}),
    Switch("pooling", "elementwise/chain-3e7", {"pooling": "0"}),
    Switch("pooling", "train/demo", {"pooling": "0"}),
    Switch("threads", "matmul/1024", {"threads": "0"}),
    Switch("threads", "train/demo", {"threads": "0"}),
    Switch("jit", "dispatch/mlp-step-jit", {"jit": "0"}),
    Switch("jit", "train/64-2-128", {"jit": "0"}),
)


@dataclass(frozen=True)
class Outcome:
    """Seconds of each round with the feature and without it."""

    switch: Switch
    on: list[float]
    off: list[float]

    @property
    def gain(self) -> float:
        return statistics.median(self.off) / statistics.median(self.on)

    @property
    def range(self) -> tuple[float, float]:
        """The gain of the least and of the best round."""
        gains = sorted(off / on for on, off in zip(self.on, self.off, strict=True))
        return gains[0], gains[-1]


def measure(switch: Switch, threads: int, rounds: int, budget: float, folder: Path) -> Outcome:
    """Both sides of a switch. raises PeerError if one fails, or if their results differ."""
    case = next(case for case in all_cases() if case.name == switch.case)
    cache = {"BEDPLATE_CACHE_DIR": str(folder)}
    sides = [
        Process(ON, sys.executable, threads, cache),
        Process(switch.peer, sys.executable, threads, {**cache, **switch.environment}),
    ]
    harness = Harness(sides, rounds, budget, print)
    try:
        _compare(sides, case)
        found = harness.measure(case)
    finally:
        for side in sides:
            side.close()
    if len(found) < len(sides):
        raise PeerError(f"{switch.name} at {switch.case}: a side is missing")
    return Outcome(switch, found[0].rounds, found[1].rounds)


def _compare(sides: list[Process], case: Case) -> None:
    on, off = (side.ask("prepare", case=case.name)["samples"] for side in sides)
    wrong = difference([np.asarray(part) for part in on], off, ROUNDING)
    if wrong:
        raise PeerError(f"{case.name}: with and without differ: {wrong}")


def table(outcomes: list[Outcome]) -> Table:
    made = Table("feature", "case", "with", "without", "times faster", "rounds", "goal")
    for outcome in outcomes:
        switch = outcome.switch
        reached = "reached" if outcome.gain >= switch.goal else "missed"
        made.add_row(
            switch.name,
            switch.case,
            shown(statistics.median(outcome.on)),
            shown(statistics.median(outcome.off)),
            f"{outcome.gain:.2f}",
            "{:.2f} - {:.2f}".format(*outcome.range),
            f"{switch.goal:.2f} {reached}" if switch.goal else "-",
        )
    return made


def arguments() -> argparse.Namespace:
    first = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.switches", description=first)
    parser.add_argument("--only", default="", help="parts of features' or cases' names, by comma")
    parser.add_argument("--graphs", action="store_true", help="show what is launched, and stop")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default 7)")
    parser.add_argument("--budget", type=float, default=0.2, help="seconds a turn (default 0.2)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


def main() -> None:
    options = arguments()
    words = [word.strip() for word in options.only.split(",")]
    switches = [s for s in SWITCHES if any(word in f"{s.name} {s.case}" for word in words)]
    if options.graphs:
        for switch in switches:
            show_graphs(switch.name, switch.case, switch.off)
        return
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        for switch in switches:
            try:
                outcomes.append(
                    measure(switch, options.threads, options.rounds, options.budget, Path(folder))
                )
            except PeerError as error:
                print(last_line(error))
    Console(width=None if sys.stdout.isatty() else 130).print(table(outcomes))


if __name__ == "__main__":
    main()
