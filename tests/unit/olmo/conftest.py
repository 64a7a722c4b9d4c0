"""What the tests of the model share."""

from pathlib import Path

import pytest

from bedplate.olmo import Config, Olmo3
from bedplate.tensor import manual_seed

CASES = Path(__file__).parents[2] / "data" / "olmo3"


@pytest.fixture
def cases():
    return CASES


@pytest.fixture
def small_model():
    """A model of two sliding layers and a full one, by keywords of Config."""

    def make(dtype="float32", **changes):
        manual_seed(7)
        sizes = {
            "vocab_size": 64,
            "d_model": 32,
            "intermediate_size": 48,
            "n_layers": 3,
            "n_heads": 4,
            "n_kv_heads": 2,
            "seq_len": 64,
            "sliding_window": 3,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_theta": 10000.0,
            "initializer_range": 0.2,
        }
        return Olmo3(Config(**{**sizes, **changes}), dtype)

    return make
