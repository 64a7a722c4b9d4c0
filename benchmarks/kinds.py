"""The kinds of work that are measured: inputs, float64 answer, flops and bytes of each.

A kind is what the peers implement, by name. To add one, add its `Kind` to the table at the end,
and a function of the same name to the peers that can do it.

This file needs NumPy alone: the peers' processes import it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Arrays = list[np.ndarray]
Parameters = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """What cases of one sort share.

    inputs      (parameters, random generator) -> arrays
    answer      (parameters, inputs as float64) -> arrays that every peer must give; None if
                there is nothing to compare (a training step is compared by its loss)
    flops       (parameters) -> arithmetic operations
    moved       (parameters) -> (bytes read, bytes written), every input and output once
    """

    inputs: Callable[[Parameters, np.random.Generator], Arrays]
    answer: Callable[[Parameters, Arrays], Arrays] | None
    flops: Callable[[Parameters], float]
    moved: Callable[[Parameters], tuple[float, float]]


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


# ------------------------------------------------------------------------------ matmul


def _matmul_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    batch = (p["batch"],) if "batch" in p else ()
    a = _normal(rng, *batch, p["m"], p["k"])
    b = _normal(rng, *batch, p["k"], p["n"])
    if p.get("dtype") == "float64":
        return [a.astype(np.float64), b.astype(np.float64)]
    return [a, b]


def _matmul_flops(p: Parameters) -> float:
    return 2.0 * p.get("batch", 1) * p["m"] * p["k"] * p["n"]


def _matmul_moved(p: Parameters) -> tuple[float, float]:
    size = {"float64": 8, "bfloat16": 2}.get(p.get("dtype", ""), 4) * p.get("batch", 1)
    return size * (p["m"] * p["k"] + p["k"] * p["n"]), size * p["m"] * p["n"]


# ------------------------------------------------------------------------- element-wise


def _chain_answer(p: Parameters, inputs: Arrays) -> Arrays:
    a, b = inputs
    return [np.maximum((a + b) * 2, 0)]


def _unary_answer(p: Parameters, inputs: Arrays) -> Arrays:
    (x,) = inputs
    if p["function"] == "exp":
        return [np.exp(x)]
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return [x * (0.5 + 0.5 * erf(x / math.sqrt(2)))]


# ----------------------------------------------------------------------------- row-wise


def _rows_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    shape = (p["rows"], p["columns"])
    inputs = [_normal(rng, *shape)]
    if p.get("weight"):
        inputs.append(_normal(rng, p["columns"]))
    if p.get("backward"):
        inputs.append(_normal(rng, *shape))
    return inputs


def _layer_norm_answer(p: Parameters, inputs: Arrays) -> Arrays:
    x, weight = inputs[:2]
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    unit = centred * scale
    if not p.get("backward"):
        return [unit * weight]
    inner = inputs[2] * weight
    mean, slope = inner.mean(-1, keepdims=True), (inner * unit).mean(-1, keepdims=True)
    return [unit * weight, scale * (inner - mean - unit * slope), (inputs[2] * unit).sum(0)]


def _rows_moved(p: Parameters) -> tuple[float, float]:
    one = 4.0 * p["rows"] * p["columns"]
    return (2 * one, 2 * one) if p.get("backward") else (one, one)


def _softmax_answer(p: Parameters, inputs: Arrays) -> Arrays:
    x = inputs[0]
    y = np.exp(x - x.max(-1, keepdims=True))
    y /= y.sum(-1, keepdims=True)
    if not p.get("backward"):
        return [y]
    grad = inputs[1]
    return [y, y * (grad - (grad * y).sum(-1, keepdims=True))]


def _rms_norm_answer(p: Parameters, inputs: Arrays) -> Arrays:
    x, weight = inputs[:2]
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    if not p.get("backward"):
        return [x * scale * weight]
    grad = inputs[2]
    inner = grad * weight
    grad_x = scale * (inner - x * scale**2 * (inner * x).mean(-1, keepdims=True))
    return [x * scale * weight, grad_x, (grad * x * scale).sum(0)]


def _cross_entropy_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    return [_normal(rng, p["rows"], p["columns"]), rng.integers(0, p["columns"], p["rows"])]


def _cross_entropy_answer(p: Parameters, inputs: Arrays) -> Arrays:
    logits, targets = inputs
    rows = np.arange(len(targets))
    shifted = logits - logits.max(-1, keepdims=True)
    total = np.exp(shifted).sum(-1, keepdims=True)
    loss = (np.log(total[:, 0]) - shifted[rows, targets]).mean()
    grad = np.exp(shifted) / total
    grad[rows, targets] -= 1
    return [np.array(loss), grad / len(targets)]


# ---------------------------------------------------------------------------- attention


def _attention_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    shape = (p.get("batch", 1), p["heads"], p["time"], p["dim"])
    return [_normal(rng, *shape) for _ in range(4 if p.get("backward") else 3)]


def _attention_mask(p: Parameters) -> np.ndarray:
    distance = np.arange(p["time"])[:, None] - np.arange(p["time"])[None, :]
    return (distance >= 0) & (distance < p.get("window", p["time"]))


def _attention_answer(p: Parameters, inputs: Arrays) -> Arrays:
    q, k, v = inputs[:3]
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(p["dim"])
    scores = np.where(_attention_mask(p), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    output = weights @ v
    if not p.get("backward"):
        return [output]
    grad = inputs[3]
    grad_weights = grad @ v.swapaxes(-1, -2)
    inner = (grad * output).sum(-1, keepdims=True)
    grad_scores = weights * (grad_weights - inner) / np.sqrt(p["dim"])
    return [
        output,
        grad_scores @ k,
        grad_scores.swapaxes(-1, -2) @ q,
        weights.swapaxes(-1, -2) @ grad,
    ]


def _attention_flops(p: Parameters) -> float:
    pairs = float(_attention_mask(p).sum()) * p.get("batch", 1) * p["heads"]
    # forward: scores and output; backward: scores again, three products more and two gradients
    return pairs * p["dim"] * 2 * (2 + 5 if p.get("backward") else 2)


def _attention_moved(p: Parameters) -> tuple[float, float]:
    one = 4.0 * p.get("batch", 1) * p["heads"] * p["time"] * p["dim"]
    return (4 * one, 4 * one) if p.get("backward") else (3 * one, one)


# --------------------------------------------------------------------- perceptron's step

MLP_SIZES = (64, 64, 64, 10)


def _mlp_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    weights = []
    for fan_in, fan_out in pairwise(MLP_SIZES):
        weights += [
            _normal(rng, fan_out, fan_in) / np.float32(np.sqrt(fan_in)),
            _normal(rng, fan_out),
        ]
    x = _normal(rng, p["batch"], MLP_SIZES[0])
    return [x, rng.integers(0, MLP_SIZES[-1], p["batch"]), *weights]


def mlp_gradients(x: np.ndarray, targets: np.ndarray, weights: Arrays) -> tuple[Any, Arrays]:
    """Loss and gradients of a ReLU perceptron with cross-entropy, by hand."""
    layers = list(zip(weights[::2], weights[1::2], strict=True))
    activations = [x]
    for i, (weight, bias) in enumerate(layers):
        x = x @ weight.T + bias
        x = np.maximum(x, 0) if i < len(layers) - 1 else x
        activations.append(x)
    loss, grad = _cross_entropy_answer({}, [activations[-1], targets])
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


# ----------------------------------------------------------------------- language model


def _train_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    shape = (p["batch"], p["time"] + 1)
    return [rng.integers(0, p["config"]["vocab_size"], shape)]


def _train_flops(p: Parameters) -> float:
    c = p["config"]
    width, head = c["hidden_size"], c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    q, kv = head * c["num_attention_heads"], head * c["num_key_value_heads"]
    layer = width * (2 * q + 2 * kv) + 3 * width * c["intermediate_size"]
    scores = 2 * q * p["time"] / 2
    per_token = c["num_hidden_layers"] * (layer + scores) + width * c["vocab_size"]
    return 6.0 * per_token * p["batch"] * p["time"]


def _nothing_moved(p: Parameters) -> tuple[float, float]:
    return 0.0, 0.0


def _no_flops(p: Parameters) -> float:
    return 0.0


def _square_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    return [_normal(rng, p["n"], p["n"])]


def _small_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    return [_normal(rng, 8, 8), _normal(rng, 8, 8)]


KINDS = {
    "matmul": Kind(_matmul_inputs, lambda p, x: [x[0] @ x[1]], _matmul_flops, _matmul_moved),
    "chain": Kind(
        lambda p, rng: [_normal(rng, p["n"]), _normal(rng, p["n"])],
        _chain_answer,
        lambda p: 3.0 * p["n"],
        lambda p: (8.0 * p["n"], 4.0 * p["n"]),
    ),
    "unary": Kind(
        lambda p, rng: [_normal(rng, p["n"])],
        _unary_answer,
        _no_flops,
        lambda p: (4.0 * p["n"], 4.0 * p["n"]),
    ),
    "sum": Kind(
        _square_inputs,
        lambda p, x: [np.asarray(x[0].sum(p["axis"]))],
        lambda p: 1.0 * p["n"] ** 2,
        lambda p: (4.0 * p["n"] ** 2, 0.0),
    ),
    "cumsum": Kind(
        lambda p, rng: [_normal(rng, p["n"])],
        lambda p, x: [np.cumsum(x[0])],
        lambda p: 1.0 * p["n"],
        lambda p: (4.0 * p["n"], 4.0 * p["n"]),
    ),
    "sort": Kind(
        lambda p, rng: [_normal(rng, p.get("rows", 1), p["n"])],
        lambda p, x: [np.sort(x[0])],
        _no_flops,
        lambda p: (4.0 * p.get("rows", 1) * p["n"], 4.0 * p.get("rows", 1) * p["n"]),
    ),
    "topk": Kind(
        lambda p, rng: [_normal(rng, p["n"])],
        lambda p, x: [np.sort(x[0])[: -p["k"] - 1 : -1]],
        _no_flops,
        lambda p: (4.0 * p["n"], 0.0),
    ),
    "normal": Kind(lambda p, rng: [], None, _no_flops, lambda p: (0.0, 4.0 * p["n"])),
    "transpose": Kind(
        _square_inputs,
        lambda p, x: [x[0].T],
        _no_flops,
        lambda p: (4.0 * p["n"] ** 2, 4.0 * p["n"] ** 2),
    ),
    "add": Kind(_small_inputs, lambda p, x: [x[0] + x[1]], _no_flops, _nothing_moved),
    "layer_norm": Kind(_rows_inputs, _layer_norm_answer, _no_flops, _rows_moved),
    "softmax": Kind(_rows_inputs, _softmax_answer, _no_flops, _rows_moved),
    "rms_norm": Kind(_rows_inputs, _rms_norm_answer, _no_flops, _rows_moved),
    "cross_entropy": Kind(
        _cross_entropy_inputs,
        _cross_entropy_answer,
        _no_flops,
        lambda p: (4.0 * p["rows"] * p["columns"], 4.0 * p["rows"] * p["columns"]),
    ),
    "attention": Kind(_attention_inputs, _attention_answer, _attention_flops, _attention_moved),
    "mlp_step": Kind(_mlp_inputs, _mlp_answer, _mlp_flops, _mlp_moved),
    "build_ops": Kind(_small_inputs, None, _no_flops, _nothing_moved),
    "train_step": Kind(_train_inputs, None, _train_flops, _nothing_moved),
    "first_step": Kind(_train_inputs, None, _no_flops, _nothing_moved),
}
