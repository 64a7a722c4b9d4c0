"""How time and memory grow: with sequence, width, depth, batch, vocabulary, prompt and threads.

    python -m benchmarks.scaling                     measure and print the table
    python -m benchmarks.scaling --only attention    some series; several with commas
    python -m benchmarks.scaling --keep              keep the points, make the page anew from them

Every point is a process of its own. A power law is fitted by least squares on the logarithms, to
what was measured and to what the algorithm counts; what grows faster than the algorithm is flagged.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.growth import SERIES, Series
from benchmarks.machine import machine
from benchmarks.peer import ROOT, child_environment
from benchmarks.report import shown
from benchmarks.results import RESULTS

KEPT = RESULTS / "scaling.json"
# exponents differ by so much between two runs, and by what a cache more or less does
TOLERANCE = 0.15

Point = dict[str, float]  # value, seconds, bytes


@dataclass(frozen=True)
class Fit:
    """The exponents of one series, of what was measured and of what the algorithm counts."""

    name: str
    along: str
    points: list[Point]
    time: tuple[float, float]
    memory: tuple[float, float]

    @property
    def worse(self) -> list[str]:
        """What grows faster than the algorithm."""
        pairs = {"time": self.time, "memory": self.memory}
        return [what for what, (found, due) in pairs.items() if found > due + TOLERANCE]


def exponent(values: list[float], results: list[float]) -> float:
    """The exponent of the power law nearest to the results, by least squares on logarithms."""
    return float(np.polyfit(np.log(values), np.log(np.maximum(results, 1e-12)), 1)[0])


def fitted(series: Series, points: list[Point]) -> Fit:
    """The exponents of a series; points of two values at least."""
    values = [point["value"] for point in points]
    due = [series.growth(int(value)) for value in values]
    found = [[point[key] for point in points] for key in ("seconds", "bytes")]
    times, memories = (
        (exponent(values, measured), exponent(values, list(counted)))
        for measured, counted in zip(found, zip(*due, strict=True), strict=True)
    )
    return Fit(series.name, series.along, points, times, memories)


def point(series: Series, value: int, threads: int, budget: float) -> Point:
    """One point, measured in a process of its own."""
    job = {"kind": series.kind, "parameters": series.make(value), "budget": budget}
    with tempfile.TemporaryDirectory() as folder:
        more = {"BENCHMARK_JIT": "1"}
        if series.first:
            job["budget"], more["BEDPLATE_CACHE_DIR"] = 0.0, folder
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.scaling_point", json.dumps(job)],
            cwd=ROOT,
            env=child_environment(value if series.threads else threads, more),
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(f"{series.name} at {value}:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    seconds = found["first_seconds" if series.first else "seconds"]
    return {"value": value, "seconds": seconds, "bytes": found["bytes"]}


def measure(series: Series, threads: int, budget: float) -> list[Point]:
    values = [v for v in series.points if not series.threads or v <= threads]
    return [point(series, value, threads, budget) for value in values]


HEAD = ("what", "along", "from - to", "time", "algorithm", "memory", "algorithm", "")


def cells(fit: Fit) -> list[str]:
    """A row of the table: exponents, and the range that they hold for."""
    first, last = fit.points[0], fit.points[-1]
    return [
        fit.name,
        fit.along,
        f"{first['value']:g} - {last['value']:g}",
        f"{fit.time[0]:.2f} ({shown(first['seconds'])} - {shown(last['seconds'])})",
        f"{fit.time[1]:.2f}",
        f"{fit.memory[0]:.2f} ({shown(first['bytes'], 'B')} - {shown(last['bytes'], 'B')})",
        f"{fit.memory[1]:.2f}",
        f"worse: {', '.join(fit.worse)}" if fit.worse else "",
    ]


def fits(kept: dict[str, Any]) -> list[Fit]:
    """The fits of all series that have points."""
    points = kept.get("series", {})
    return [fitted(series, points[series.name]) for series in SERIES
            if len(points.get(series.name, [])) > 1]  # fmt: skip


def read() -> dict[str, Any]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def keep(measured: dict[str, list[Point]], about: dict[str, Any]) -> None:
    """Put the series beside those that are kept of the same machine."""
    old = read()
    same = old.get("about", {}).get("machine") == about["machine"]
    series = {**(old["series"] if same else {}), **measured}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps({"about": about, "series": series}, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    first = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=first)
    parser.add_argument("--only", default="", help="parts of the series' names, by comma")
    parser.add_argument("--keep", action="store_true", help=f"keep the points in {KEPT.name}")
    parser.add_argument("--budget", type=float, default=0.4, help="seconds a point (default 0.4)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


def main() -> None:
    options = arguments()
    words = [word.strip() for word in options.only.split(",")]
    chosen = [series for series in SERIES if any(word in series.name for word in words)]
    about = machine(options.threads)
    measured: dict[str, list[Point]] = {}
    for series in chosen:
        try:
            measured[series.name] = measure(series, options.threads, options.budget)
        except RuntimeError as error:
            print(error, file=sys.stderr)
    table = Table(*HEAD)
    for fit in fits({"series": measured}):
        table.add_row(*cells(fit))
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    if options.keep:
        keep(measured, about)
        print("the page made from it: python -m benchmarks.scaling_page")


if __name__ == "__main__":
    main()
