"""Kinds of work on models: a perceptron's step, optimisers, a language model, a package's import.

This file needs NumPy alone: the peers' processes import it too.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks import olmo
from benchmarks.kinds import (
    Arrays,
    Kind,
    Parameters,
    cross_entropy_answer,
    no_flops,
    normal,
    nothing_moved,
)

# --------------------------------------------------------------------- perceptron's step

MLP_SIZES = (64, 64, 64, 10)


def _mlp_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    weights = []
    for fan_in, fan_out in pairwise(MLP_SIZES):
        weights += [
            normal(rng, fan_out, fan_in) / np.float32(np.sqrt(fan_in)),
            normal(rng, fan_out),
        ]
    x = normal(rng, p["batch"], MLP_SIZES[0])
    return [x, rng.integers(0, MLP_SIZES[-1], p["batch"]), *weights]


def mlp_gradients(x: np.ndarray, targets: np.ndarray, weights: Arrays) -> tuple[Any, Arrays]:
    """Loss and gradients of a ReLU perceptron with cross-entropy, by hand."""
    layers = list(zip(weights[::2], weights[1::2], strict=True))
    activations = [x]
    for i, (weight, bias) in enumerate(layers):
        x = x @ weight.T + bias
        x = np.maximum(x, 0) if i < len(layers) - 1 else x
        activations.append(x)
    loss, grad = cross_entropy_answer({}, [activations[-1], targets])
    grads: Arrays = []
    for i, (weight, _) in reversed(list(enumerate(layers))):
        grads = [grad.T @ activations[i], grad.sum(0), *grads]
        grad = (grad @ weight) * (activations[i] > 0)
    return loss, grads


def _mlp_answer(p: Parameters, inputs: Arrays) -> Arrays:
    return [np.array(mlp_gradients(inputs[0], inputs[1], inputs[2:])[0])]


def _mlp_flops(p: Parameters) -> float:
    pairs = sum(a * b for a, b in pairwise(MLP_SIZES))
    return 6.0 * p["batch"] * pairs


def _mlp_moved(p: Parameters) -> tuple[float, float]:
    pairs = 4.0 * sum(a * b + b for a, b in pairwise(MLP_SIZES))
    return pairs + 4.0 * p["batch"] * MLP_SIZES[0], pairs


# ------------------------------------------------------------------------- optimiser's step

ADAMW = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1}


def _optimiser_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    """Parameters, then their gradients."""
    return [normal(rng, *p["shape"]) for _ in range(2 * p["tensors"])]


def _optimiser_answer(p: Parameters, inputs: Arrays) -> Arrays:
    """The first and the last parameter after the first step of AdamW."""
    values, grads = inputs[: p["tensors"]], inputs[p["tensors"] :]
    a = ADAMW
    return [
        values[i] * (1 - a["lr"] * a["weight_decay"])
        - a["lr"] * grads[i] / (np.abs(grads[i]) + a["eps"])
        for i in (0, -1)
    ]


def _optimiser_moved(p: Parameters) -> tuple[float, float]:
    one = 4.0 * p["tensors"] * float(np.prod(p["shape"]))
    return 4 * one, 3 * one


# ----------------------------------------------------------------------- language model


def _train_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    shape = (p["batch"], p["time"] + 1)
    return [rng.integers(0, p["config"]["vocab_size"], shape)]


def _wide_weights(p: Parameters) -> olmo.Weights:
    found = olmo.random_weights(p["config"])
    return {name: found.pop(name).astype(np.float64) for name in list(found)}


def _train_answer(p: Parameters, inputs: Arrays) -> Arrays:
    """The loss before the first step."""
    return [np.array(olmo.loss(np, _wide_weights(p), p["config"], inputs[0]))]


def layer_products(config: Parameters) -> float:
    """Multiply-adds a token in the matrices of one layer."""
    _, q, kv = olmo.sizes(config)
    width = config["hidden_size"]
    return width * (2.0 * q + 2 * kv) + 3.0 * width * config["intermediate_size"]


def _train_flops(p: Parameters) -> float:
    c = p["config"]
    scores = 2 * olmo.sizes(c)[1] * p["time"] / 2
    layers = c["num_hidden_layers"] * (layer_products(c) + scores)
    return 6.0 * (layers + c["hidden_size"] * c["vocab_size"]) * p["batch"] * p["time"]


def _prompt(p: Parameters, rng: np.random.Generator) -> Arrays:
    return [rng.integers(0, p["config"]["vocab_size"], (1, p["prompt"]))]


def _prefill_answer(p: Parameters, inputs: Arrays) -> Arrays:
    """What follows the prompt: for a decoder the logits before its first new token."""
    return [olmo.last_logits(np, _wide_weights(p), p["config"], inputs[0])]


def _prefill_flops(p: Parameters) -> float:
    c = p["config"]
    scores = 2 * olmo.sizes(c)[1] * p["prompt"] / 2
    layers = c["num_hidden_layers"] * (layer_products(c) + scores) * p["prompt"]
    return 2.0 * (layers + c["hidden_size"] * c["vocab_size"])


# bytes of one weight: the whole numbers have a scale of 16 bits for each 32
WEIGHT_BYTES = {"float32": 4.0, "bfloat16": 2.0, "int8": 1 + 2 / 32, "int4": 0.5 + 2 / 32}


def _decode_moved(p: Parameters) -> tuple[float, float]:
    """Of `new` tokens: all matrices but the embedding, and the keys and values until then."""
    c = p["config"]
    matrices = c["num_hidden_layers"] * layer_products(c) + c["hidden_size"] * c["vocab_size"]
    kept = 2.0 * c["num_hidden_layers"] * olmo.sizes(c)[2] * (p["prompt"] + p["new"] / 2)
    width = 4.0 if p["dtype"] == "float32" else 2.0
    return p["new"] * (matrices * WEIGHT_BYTES[p["dtype"]] + kept * width), 0.0


def _nothing(p: Parameters, rng: np.random.Generator) -> Arrays:
    return []


MODEL_KINDS = {
    "mlp_step": Kind(_mlp_inputs, _mlp_answer, _mlp_flops, _mlp_moved),
    "optimiser": Kind(_optimiser_inputs, _optimiser_answer, no_flops, _optimiser_moved),
    "train_step": Kind(_train_inputs, _train_answer, _train_flops, nothing_moved),
    "first_step": Kind(_train_inputs, None, no_flops, nothing_moved),
    "prefill": Kind(_prompt, _prefill_answer, _prefill_flops, nothing_moved),
    "decode": Kind(_prompt, _prefill_answer, no_flops, _decode_moved),
    "import_package": Kind(_nothing, None, no_flops, nothing_moved),
}
