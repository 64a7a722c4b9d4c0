"""Are a profile's figures true? Beside loops of perf_counter; see in-depth/profiling.md."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import bedplate as bp
from bedplate.olmo import Config, Olmo3

CALLS = 12


def loop(call: Callable[[], Any]) -> list[float]:
    """Milliseconds of each call."""
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def compare(name: str, call: Callable[[], Any]) -> None:
    """Print the loop without a profile and with one, and what the profile says of the kernels."""
    for _ in range(4):
        call()
    plain = loop(call)
    with bp.profile() as report:
        watched = loop(call)
    kernels = sum(row.seconds for row in report.kernels) * 1e3
    median = f", median {report.kernels[0].median_seconds * 1e3:.2f}"
    print(
        f"{name:8} a call {statistics.median(plain):.2f} ms, profiled "
        f"{statistics.median(watched):.2f}; kernels {kernels / sum(watched):.1%} of that"
        + (median if len(report.kernels) == 1 else "")
    )


def train_step() -> Callable[[], Any]:
    sizes = {"d_model": 256, "n_heads": 4, "intermediate_size": 768}
    model = Olmo3(Config(n_layers=4, vocab_size=256, **sizes))
    optimiser = bp.optim.AdamW(model.parameters(), lr=1e-3)
    ids = np.random.default_rng(0).integers(0, 256, (4, 257))
    inputs, targets = bp.tensor(ids[:, :-1]), bp.tensor(ids[:, 1:])

    @bp.jit
    def step(inputs: bp.Tensor, targets: bp.Tensor) -> bp.Tensor:
        loss = model.loss(inputs, targets)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss.detach()

    return lambda: step(inputs, targets).item()


a = bp.tensor(np.random.default_rng(0).standard_normal((1536, 1536)).astype(np.float32))
x = bp.tensor(np.random.default_rng(0).standard_normal(1 << 22).astype(np.float32))
product = bp.jit(lambda a: a @ a)
chain = bp.jit(lambda x: ((x * 2 + 1).tanh() * x).exp())
compare("product", lambda: product(a))
compare("chain", lambda: chain(x))
compare("step", train_step())
