"""What rounded weights cost in quality, and what they save.

    python -m benchmarks.quantised --checkpoint runs/demo/checkpoint

Of a trained model: nats a byte on the held-out part of the text it was trained on (`--data`;
Python's standard library, as `bedplate train`), how far its logits are from those of float32,
relative to their spread, and how often the likeliest token is the same. Of a model of a real size
(8 layers of 1024) with random weights the logits alone.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bedplate as bp
from bedplate.data import load_codec, load_corpus
from bedplate.nn.functional import cross_entropy
from bedplate.olmo import Config, Olmo3, load

KINDS = ("float32", "bfloat16", "int8", "int4")
WINDOWS = 8  # passed through the model at a time
REAL = {
    "vocab_size": 32000, "d_model": 1024, "n_layers": 8, "n_heads": 16, "intermediate_size": 2816,
}  # fmt: skip
Array = np.ndarray[Any, Any]


def as_kind(make: Callable[[str], Olmo3], kind: str) -> Olmo3:
    """The model in float32 or bfloat16, or float32 with rounded weights."""
    if kind in ("float32", "bfloat16"):
        return make(kind)
    return make("float32").quantise(kind)


def matrix_bytes(model: Olmo3) -> int:
    """Bytes of the matrices that each token passes through."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return sum(t.nbytes for n, t in tensors.items() if len(t.shape) > 1 and "embed" not in n)


class Against:
    """Logits beside those of float32, and the loss, over windows of text."""

    def __init__(self) -> None:
        self.error = self.spread = self.loss = 0.0
        self.same = self.count = 0

    def add(self, logits: Array, wanted: Array, loss: float) -> None:
        """logits, wanted  (..., V) float32"""
        self.error += float(np.square(logits - wanted).sum())
        self.spread += float(np.square(wanted - wanted.mean(-1, keepdims=True)).sum())
        same = logits.argmax(-1) == wanted.argmax(-1)
        self.same, self.count = self.same + int(same.sum()), self.count + same.size
        self.loss += loss * same.size

    def cells(self) -> list[str]:
        error = math.sqrt(self.error / max(self.spread, 1e-30))
        return [f"{error:.2%}", f"{self.same / max(self.count, 1):.1%}"]


def logits_of(model: Olmo3, ids: Array) -> Array:
    with bp.no_grad():
        return model(ids).astype(bp.float32).numpy()


def trained(folder: Path, data: Path | None, n_tokens: int) -> list[list[str]]:
    """A row for each kind: bytes, nats a byte, error, agreement."""
    models = {kind: as_kind(lambda dtype: load(folder, dtype), kind) for kind in KINDS}
    corpus = load_corpus(data, load_codec(folder))
    length = models["float32"].config.seq_len
    windows = corpus.held_out[: len(corpus.held_out) // (length + 1) * (length + 1)]
    windows = windows.reshape(-1, length + 1)
    step = max(1, len(windows) * length // max(n_tokens, 1))
    windows = windows[::step].astype(np.int64)
    found = {kind: Against() for kind in KINDS}
    for first in range(0, len(windows), WINDOWS):
        ids = windows[first : first + WINDOWS]
        wanted = logits_of(models["float32"], ids[:, :-1])
        for kind, model in models.items():
            logits = logits_of(model, ids[:, :-1])
            flat = bp.tensor(logits.reshape(-1, logits.shape[-1]))
            loss = cross_entropy(flat, bp.tensor(ids[:, 1:].ravel())).item()
            found[kind].add(logits, wanted, loss)
    return [
        [
            kind, f"{matrix_bytes(models[kind]) / 1e6:.2f}",
            f"{against.loss / against.count / corpus.bytes_per_token:.4f}", *against.cells(),
        ]
        for kind, against in found.items()
    ]  # fmt: skip


def real_sized() -> list[list[str]]:
    """As `trained`, without a loss."""

    def make(dtype: str) -> Olmo3:
        bp.manual_seed(0)
        whole = Olmo3(Config(**REAL))
        return whole if dtype == "float32" else _narrowed(whole, dtype)

    ids = np.random.default_rng(0).integers(0, REAL["vocab_size"], (1, 128))
    wanted = logits_of(make("float32"), ids)
    rows = []
    for kind in KINDS:
        model, against = as_kind(make, kind), Against()
        against.add(logits_of(model, ids), wanted, 0.0)
        rows.append([kind, f"{matrix_bytes(model) / 1e6:.0f}", "", *against.cells()])
    return rows


def _narrowed(whole: Olmo3, dtype: str) -> Olmo3:
    model = Olmo3(whole.config, dtype)
    model.load_state_dict(whole.state_dict())
    return model


def show(title: str, rows: list[list[str]]) -> None:
    head = ["weights", "matrices, MB", "nats a byte", "error of logits", "same likeliest token"]
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.quantised", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=Path("runs/demo/checkpoint"))
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--tokens", type=int, default=200_000)
    given = parser.parse_args(arguments)
    show(str(given.checkpoint), trained(given.checkpoint, given.data, given.tokens))
    show("8 layers of 1024, random weights", real_sized())


if __name__ == "__main__":
    main(sys.argv[1:])
