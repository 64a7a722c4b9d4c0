"""The programs whose allocations are recorded: OLMo 3 training and generation, an image network,
text of many lengths, many small tensors.

Each is a function that makes ready and returns what to run; both are in the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import bedplate as bp
import bedplate.nn.functional as F
from bedplate import nn, optim
from bedplate.olmo import Config, Olmo3
from benchmarks.model_cases import olmo_config

Program = Callable[[], None]
LENGTHS = (16, 700)  # tokens: texts and prompts are of any length in between


def olmo(d_model: int, n_layers: int, vocab_size: int) -> Olmo3:
    bp.manual_seed(0)
    return Olmo3(Config.from_dict(olmo_config(d_model, n_layers, vocab_size)))


def train_step(model: Any, optimiser: Any) -> Callable[[Any], Any]:
    def step(ids: Any) -> Any:
        optimiser.zero_grad()
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def train_captured() -> None:
    """OLMo 3 of width 256 and 4 layers, batches of 8 x 256 tokens: 12 captured steps."""
    model = olmo(256, 4, 4096)
    step = bp.jit(train_step(model, optim.AdamW(model.parameters(), lr=1e-3)))
    draw = np.random.default_rng(0)
    for _ in range(12):
        step(bp.tensor(draw.integers(0, 4096, (8, 257)))).item()


def train_lengths() -> None:
    """OLMo 3 of width 128, one text of any length a step, uncaptured: 40 steps."""
    model = olmo(128, 2, 4096)
    step = train_step(model, optim.AdamW(model.parameters(), lr=1e-3))
    draw = np.random.default_rng(1)
    for _ in range(40):
        step(bp.tensor(draw.integers(0, 4096, (4, int(draw.integers(*LENGTHS)))))).item()


def generation() -> None:
    """OLMo 3 of width 512 and 4 layers: 16 prompts of any length, 24 tokens after each."""
    model = olmo(512, 4, 4096)
    draw = np.random.default_rng(2)
    for _ in range(16):
        prompt = draw.integers(0, 4096, (1, int(draw.integers(*LENGTHS))))
        model.generate(prompt, 24)


def convolution() -> None:
    """A residual image network, 32 images of 3 x 64 x 64, uncaptured: 8 steps."""
    bp.manual_seed(0)

    def block(before: int, after: int, stride: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
        )

    model = nn.Sequential(
        block(3, 32, 1), block(32, 32, 1), block(32, 64, 2), block(64, 64, 1), block(64, 128, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    optimiser = optim.AdamW(model.parameters(), lr=1e-3)
    draw = np.random.default_rng(3)
    for _ in range(8):
        images = bp.tensor(draw.standard_normal((32, 3, 64, 64), dtype=np.float32))
        optimiser.zero_grad()
        loss = F.cross_entropy(model(images), bp.tensor(draw.integers(0, 10, 32)))
        loss.backward()
        optimiser.step()
        loss.item()


def small_tensors() -> None:
    """A perceptron of 20 hidden units, element by element in eager mode: each value is read."""
    draw = np.random.default_rng(4)
    weights = [bp.tensor(draw.standard_normal((20, 20), dtype=np.float32)) for _ in range(6)]
    for _ in range(400):
        x = bp.tensor(draw.standard_normal(20, dtype=np.float32))
        for weight in weights:
            x = (weight @ x).realise()
            x = (x + 0.5).realise()
            x = x.tanh().realise()
        x.sum().item()


def read_values() -> None:
    """A step in which each value is computed by itself, as in a debugger: 30 steps."""
    bp.manual_seed(0)
    draw = np.random.default_rng(5)
    first, second = (
        bp.tensor(draw.standard_normal(s, dtype=np.float32)) for s in ((768, 768), (768, 3072))
    )
    for _ in range(30):
        x = bp.tensor(draw.standard_normal((int(draw.integers(64, 2048)), 768), dtype=np.float32))
        h = (x @ first).realise()
        h = F.gelu(h).realise()
        h = (h @ second).realise()
        h = F.gelu(h).realise()
        h = (h @ second.mT).realise()
        (h * h).mean().item()


PROGRAMS: dict[str, Program] = {
    f.__name__: f
    for f in (train_captured, train_lengths, generation, convolution, small_tensors, read_values)
}
