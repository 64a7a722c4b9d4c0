"""The tables of the scaling benchmark: what grows, how far, and what the algorithm makes of it.

Each point is a case of `kinds.py` or `model_kinds.py` with one number changed. The algorithm's own
growth is fitted over the same points, from the operations (or the bytes) that the case counts and
from the memory that it cannot do without, so that fixed parts bend both lines alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.case import KINDS
from benchmarks.kinds import Parameters
from benchmarks.model_cases import olmo_config
from benchmarks.model_kinds import layer_products
from benchmarks.olmo import sizes

CAUSAL = {"heads": 4, "dim": 64, "backward": True}


def _train(d_model: int = 128, layers: int = 2, time: int = 128, batch: int = 4) -> Parameters:
    return {"config": olmo_config(d_model, layers, 256), "batch": batch, "time": time}


def _decode(prompt: int) -> Parameters:
    return {"config": olmo_config(256, 4, 256), "prompt": prompt, "new": 16, "dtype": "float32"}


def weights(config: Parameters) -> float:
    """The number of weights of a model, norms left out."""
    layers = config["num_hidden_layers"] * layer_products(config)
    return layers + 2.0 * config["hidden_size"] * config["vocab_size"]


def train_bytes(p: Parameters) -> float:
    """Weights, gradients and both moments; what the gradient of each layer needs again."""
    c, tokens = p["config"], p["batch"] * p["time"]
    _, q, kv = sizes(c)
    kept = 4 * c["hidden_size"] + 3 * q + 4 * kv + 3 * c["intermediate_size"]
    a_token = c["num_hidden_layers"] * kept + 2 * c["vocab_size"]
    return 4.0 * (4 * weights(c) + tokens * a_token)


def decode_bytes(p: Parameters) -> float:
    c = p["config"]
    kept = 2.0 * c["num_hidden_layers"] * sizes(c)[2] * (p["prompt"] + p["new"])
    prefill = p["prompt"] * (4 * c["hidden_size"] + 2 * c["intermediate_size"])
    return 4.0 * (weights(c) + kept + prefill)


def moved_bytes(kind: str) -> Callable[[Parameters], float]:
    return lambda p: sum(KINDS[kind].moved(p))


def flops(kind: str) -> Callable[[Parameters], float]:
    return KINDS[kind].flops


@dataclass(frozen=True)
class Series:
    """One picture: a number that grows.

    along    what grows
    points   its values
    make     value -> parameters of the case
    work     parameters -> what the time should follow
    memory   parameters -> what the memory should follow
    threads  whether the value is the number of threads (the work is then divided by it)
    first    the time of the first call counts, with an empty cache
    """

    name: str
    along: str
    kind: str
    points: tuple[int, ...]
    make: Callable[[int], Parameters]
    work: Callable[[Parameters], float]
    memory: Callable[[Parameters], float]
    threads: bool = False
    first: bool = False

    def growth(self, value: int) -> tuple[float, float]:
        """(what the time should follow, what the memory should follow) at a value."""
        p = self.make(value)
        return self.work(p) / (value if self.threads else 1), self.memory(p)


def _attention(**more: Any) -> Callable[[int], Parameters]:
    return lambda time: {**CAUSAL, "time": time, **more}


TRAIN = ("train_step", flops("train_step"), train_bytes)


def _training(
    name: str, along: str, points: tuple[int, ...], make: Callable[[int], Parameters], **more: bool
) -> Series:
    kind, work, memory = TRAIN
    return Series(name, along, kind, points, make, work, memory, **more)


SERIES = (
    Series("product", "size", "matmul", (128, 256, 512, 1024, 2048),
           lambda n: {"m": n, "k": n, "n": n}, flops("matmul"), moved_bytes("matmul")),
    Series("attention", "sequence", "attention", (256, 512, 1024, 2048, 4096), _attention(),
           flops("attention"), moved_bytes("attention")),
    Series("attention, window 256", "sequence", "attention", (512, 1024, 2048, 4096),
           _attention(window=256), flops("attention"), moved_bytes("attention")),
    Series("cross-entropy", "vocabulary", "cross_entropy", (2048, 8192, 32768, 131072),
           lambda v: {"rows": 512, "columns": v}, moved_bytes("cross_entropy"),
           moved_bytes("cross_entropy")),
    _training("training step, sequence", "sequence", (64, 128, 256, 512, 1024),
              lambda t: _train(time=t)),
    _training("training step, width", "width", (64, 128, 256, 512), lambda d: _train(d_model=d)),
    _training("training step, depth", "layers", (1, 2, 4, 8, 16), lambda n: _train(layers=n)),
    _training("training step, batch", "batch", (1, 2, 4, 8, 16, 32), lambda b: _train(batch=b)),
    _training("training step, threads", "threads", (1, 2, 4, 8, 16, 32, 64),
              lambda n: _train(256, 4, 128, 8), threads=True),
    # equal layers have equal kernels: only the graph grows with them
    _training("first step, depth", "layers", (1, 2, 4, 8, 16), lambda n: _train(layers=n),
              first=True),
    Series("decoding 16 tokens", "prompt", "decode", (64, 256, 1024, 2048), _decode,
           moved_bytes("decode"), decode_bytes),
)  # fmt: skip
