"""Seconds from after the import to the first loss of a train step, by the number of layers.

    python tools/first_steps.py                 1, 2, 4, 8, 16 layers of width 128
    python tools/first_steps.py --layers 4,8    others

Each row is three processes: with an empty cache of kernels and plans (cold), with a full one
(warm), and with kernels but no plans (planned); the last goes on with another batch size and
sequence length (new size; it compiles nothing). The step is that of an OLMo 3 with AdamW and
clipping under bp.jit, on so few tokens that running it takes 2 ms a layer. The last line is the
exponent of a power law through each column.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import bedplate as bp
from bedplate import optim
from bedplate.olmo import Config, Olmo3

WIDTH, WORDS = 128, 256
SIZES = ((4, 96), (6, 112))  # batch and sequence length: of the first step, and of the new size


def step_of(n_layers: int) -> Any:
    """The captured step."""
    bp.manual_seed(0)
    config = Config(
        model_type="olmo3", hidden_size=WIDTH, intermediate_size=352, vocab_size=WORDS,
        num_hidden_layers=n_layers, num_attention_heads=4, num_key_value_heads=4,
        max_position_embeddings=4096,
    )  # fmt: skip
    model = Olmo3(config)
    parameters = list(model.parameters())
    optimizer = optim.AdamW(parameters, lr=1e-3)

    def step(ids: Any) -> Any:
        optimizer.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optim.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=False)
        optimizer.step()
        return loss.detach()

    return bp.jit(step)


def measure(n_layers: int) -> list[float]:
    """Seconds of the first step in this process, and of the first with a new size."""
    seconds = []
    started = time.perf_counter()
    step = step_of(n_layers)
    for batch, length in SIZES:
        ids = np.random.default_rng(1).integers(0, WORDS, (batch, length + 1))
        step(bp.tensor(ids)).item()
        seconds.append(time.perf_counter() - started)
        step(bp.tensor(ids)).item()
        started = time.perf_counter()
    return seconds


def row(n_layers: int) -> list[float]:
    """cold, warm, planned, new size."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for plan_files in ("1", "1", "0"):
            environment = {**os.environ, "BEDPLATE_CACHE_DIR": folder}
            environment["BEDPLATE_PLAN_FILES"] = plan_files
            command = [sys.executable, __file__, "--one", str(n_layers)]
            answer = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            first, new_size = json.loads(answer.stdout)
            seconds.append(first)
        seconds.append(new_size)
    return seconds


def exponent(layers: list[int], seconds: list[float]) -> float:
    """The power of the number of layers that fits best."""
    slope, _ = np.polyfit([math.log(n) for n in layers], [math.log(s) for s in seconds], 1)
    return float(slope)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", default="1,2,4,8,16")
    parser.add_argument("--one", type=int, help="measure in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    layers = [int(n) for n in options.layers.split(",")]
    print(f"{'layers':>8}{'cold':>9}{'warm':>9}{'planned':>9}{'new size':>9}   seconds")
    rows = []
    for n_layers in layers:
        rows.append(row(n_layers))
        print(f"{n_layers:>8}" + "".join(f"{s:>9.3f}" for s in rows[-1]))
    if len(layers) > 1:
        columns = [list(column) for column in zip(*rows, strict=True)]
        print(f"{'power':>8}" + "".join(f"{exponent(layers, c):>9.2f}" for c in columns))


if __name__ == "__main__":
    main()
