"""Presets: sizes and training settings by name, for text as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bedplate.olmo.config import Config

BYTE_VOCABULARY = 256


@dataclass(frozen=True)
class Preset:
    """A model's sizes, and a recipe that trains it well.

    model           keywords of `Config`
    batch_size      sequences a step
    learning_rate   at the peak of the schedule
    meaning         one line for people
    """

    model: dict[str, Any]
    batch_size: int
    seq_len: int
    learning_rate: float
    meaning: str

    def config(self, **changes: Any) -> Config:
        """The preset's config, with keys changed."""
        return Config(**{**self.model, **changes})


def _sizes(d_model: int, n_layers: int, seq_len: int, window: int, **more: Any) -> dict[str, Any]:
    """Heads of 32 and a feed-forward of 2.75 d_model rounded to 16."""
    return {
        "vocab_size": BYTE_VOCABULARY,
        "d_model": d_model,
        "intermediate_size": round(2.75 * d_model / 16) * 16,
        "n_layers": n_layers,
        "n_heads": max(1, d_model // 32),
        "seq_len": seq_len,
        "sliding_window": window,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "rope_theta": 10000.0,
        # wider than for large models, and the spread with which small ones learned fastest:
        # held-out loss of the demo after 2 million tokens: 1.71 with 0.02, 1.59 with 0.1
        "initializer_range": round(d_model**-0.5, 3),
        **more,
    }


PRESETS = {
    "demo": Preset(
        _sizes(128, 2, 256, 128), 8, 128, 6e-3,
        "learns the look of code in 90 seconds on 2 cores",
    ),
    "tiny": Preset(
        _sizes(64, 4, 256, 64), 16, 256, 4e-3,
        "four layers, the last with full attention; some minutes",
    ),
    "small": Preset(
        _sizes(256, 4, 512, 128), 8, 256, 2e-3,
        "3 million parameters; an hour on 2 cores",
    ),
    "medium": Preset(
        _sizes(512, 8, 1024, 256), 4, 512, 1e-3,
        "23 million parameters; a day on 2 cores",
    ),
}  # fmt: skip
