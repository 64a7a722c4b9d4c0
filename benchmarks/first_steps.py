"""Seconds from after the import to the first loss of a train step, by the number of layers.

    python -m benchmarks.first_steps                 1, 2, 4, 8, 16 layers of width 128
    python -m benchmarks.first_steps --layers 4,8    others

Each row is three processes: with an empty cache of kernels and plans (cold), with a full one
(warm), and with kernels but no plans (planned); the last goes on with another batch size and
sequence length (new size; it compiles nothing). The step is that of the training cases, under
bp.jit, on so few tokens that running it takes 2 ms a layer. The last line is the exponent of a
power law through each column. With --threads 1 kernels are compiled one by one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import bedplate as bp
from benchmarks.model_cases import olmo_config
from benchmarks.peer import ROOT, child_environment
from benchmarks.peers.bedplate_models import step_of
from benchmarks.scaling import exponent

WIDTH, WORDS = 128, 256
SIZES = ((4, 96), (6, 112))  # batch and sequence length: of the first step, and of the new size


def measure(n_layers: int) -> list[float]:
    """Seconds of the first step in this process, and of the first with a new size."""
    seconds = []
    started = time.perf_counter()
    step, _ = step_of({"config": olmo_config(WIDTH, n_layers, WORDS)})
    for batch, length in SIZES:
        ids = np.random.default_rng(1).integers(0, WORDS, (batch, length + 1))
        step(bp.tensor(ids)).item()
        seconds.append(time.perf_counter() - started)
        step(bp.tensor(ids)).item()
        started = time.perf_counter()
    return seconds


def row(n_layers: int, threads: int) -> tuple[int, list[float]]:
    """Kernels in the cache after the first process; seconds: cold, warm, planned, new size."""
    seconds = []
    kernels = 0
    command = [sys.executable, "-m", "benchmarks.first_steps", "--one", str(n_layers)]
    with tempfile.TemporaryDirectory() as folder:
        for plan_files in ("1", "1", "0"):
            more = {"BENCHMARK_JIT": "1", "BEDPLATE_CACHE_DIR": folder}
            answer = subprocess.run(
                command,
                cwd=ROOT,
                env=child_environment(threads, {**more, "BEDPLATE_PLAN_FILES": plan_files}),
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            first, new_size = json.loads(answer.stdout)
            seconds.append(first)
            kernels = kernels or len(list((Path(folder) / "kernels").iterdir()))
        seconds.append(new_size)
    return kernels, seconds


def main() -> None:
    first = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_steps", description=first)
    parser.add_argument("--layers", default="1,2,4,8,16", help="numbers, by comma")
    parser.add_argument("--one", type=int, help="measure in this process")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    layers = [int(n) for n in options.layers.split(",")]
    heads = ("kernels", "cold", "warm", "planned", "new size")
    print(f"{'layers':>8}" + "".join(f"{head:>9}" for head in heads) + "   seconds")
    rows = []
    for n_layers in layers:
        kernels, seconds = row(n_layers, options.threads)
        rows.append(seconds)
        print(f"{n_layers:>8}{kernels:>9}" + "".join(f"{s:>9.3f}" for s in seconds), flush=True)
    if len(layers) > 1:
        values = [float(n) for n in layers]
        columns = [list(column) for column in zip(*rows, strict=True)]
        print(f"{'power':>17}" + "".join(f"{exponent(values, c):>9.2f}" for c in columns))


if __name__ == "__main__":
    main()
