"""The cases about models: optimisers, training, inference, first calls; and the import.

This file needs NumPy alone: the peers' processes import it too.
"""

from __future__ import annotations

from typing import Any

from benchmarks.case import FIRST_STEP, IMPORT, Case
from benchmarks.kinds import Parameters

SPINE = "spine"  # the group of cases that the README's claims rest on


def olmo_config(d_model: int, n_layers: int, vocab_size: int, **more: Any) -> Parameters:
    """A small OLMo 3 in the published spelling; heads of 32, feed-forward 2.75 x d_model."""
    return {
        "model_type": "olmo3",
        "hidden_size": d_model,
        "intermediate_size": round(2.75 * d_model / 16) * 16,
        "num_hidden_layers": n_layers,
        "num_attention_heads": d_model // 32,
        "num_key_value_heads": d_model // 32,
        "vocab_size": vocab_size,
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "sliding_window": 4096,
        "tie_word_embeddings": False,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
        **more,
    }


def _train(d_model: int, n_layers: int, time: int, batch: int, vocab_size: int) -> Parameters:
    return {"config": olmo_config(d_model, n_layers, vocab_size), "batch": batch, "time": time}


# The model that `make demo` trains, and its batch: `bedplate train --preset demo`.
DEMO = {"config": olmo_config(128, 2, 256, sliding_window=128), "batch": 8, "time": 128}
FOUR_LAYERS = _train(256, 4, 256, 8, 4096)
# name -> d_model, layers, time, batch, vocabulary
TRAINED = {
    "64-2-128": _train(64, 2, 128, 16, 256),
    "128-4-256": _train(128, 4, 256, 16, 256),
    "256-4-256": FOUR_LAYERS,
    "512-8-512": _train(512, 8, 512, 4, 32000),
}
INFERRED = {
    "config": olmo_config(
        1024, 8, 32000, num_attention_heads=16, num_key_value_heads=16, intermediate_size=2816
    ),
    "prompt": 512,
    "new": 64,
}
# two blocks of a small residual net, as such a net for 32 x 32 images begins
RESIDUAL = {"batch": 8, "channels": 64, "size": 32, "blocks": 2}
# largest error of a logit, relative to the largest: 4-bit weights are off by 4 % each
PRECISIONS = {
    "f32": ("float32", 1e-3),
    "bf16": ("bfloat16", 5e-2),
    "int8": ("int8", 1e-1),
    "int4": ("int4", 4e-1),
}

OPTIMISERS = [
    Case("optimiser/adamw-200x64x64", "optimiser", {"tensors": 200, "shape": (64, 64)}),
    Case("optimiser/adamw-2048x2048", "optimiser", {"tensors": 1, "shape": (2048, 2048)}),
]
TRAINING = [
    Case("train/demo", "train_step", DEMO, (SPINE,)),
    *(Case(f"train/{name}", "train_step", numbers) for name, numbers in TRAINED.items()),
    Case("train/perceptron-64-64-64-10", "perceptron", {"sizes": (64, 64, 64, 10), "batch": 32}),
    Case("train/perceptron-784-256-10", "perceptron", {"sizes": (784, 256, 10), "batch": 128}),
    Case("train/residual-8x64x32x32", "residual_step", RESIDUAL, tolerance=1e-3),
]
INFERENCE = [
    Case(f"{kind}/{name}-{INFERRED[word]}", kind, {**INFERRED, "dtype": dtype}, ("inference",),
         tolerance)
    for name, (dtype, tolerance) in PRECISIONS.items()
    for kind, word in (("prefill", "prompt"), ("decode", "new"))
]  # fmt: skip
BEGINNING = [
    *(
        Case(f"first/{name}-{cache}", FIRST_STEP, {**numbers, "cache": cache}, groups)
        for name, numbers, groups in (
            ("demo-step", DEMO, (SPINE,)), ("4-layer-step", FOUR_LAYERS, ()),
        )
        for cache in ("cold", "warm")
    ),
    Case("first/import", IMPORT),
    Case("first/import-memory", IMPORT, unit="B"),
]  # fmt: skip
MODEL_CASES = [*OPTIMISERS, *TRAINING, *INFERENCE, *BEGINNING]
