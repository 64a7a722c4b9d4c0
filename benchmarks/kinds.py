"""The kinds of work that are measured: inputs, float64 answer, flops and bytes of each.

A kind is what the peers implement, by name. To add one, add its `Kind` to the table at the end,
and a function of the same name to the peers that can do it.

This file needs NumPy alone: the peers' processes import it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
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


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


# ------------------------------------------------------------------------------ matmul

# bytes of an element that is read, that is written: products of int8 are added up in int32
SIZES = {"float64": (8, 8), "bfloat16": (2, 2), "float16": (2, 2), "int8": (1, 4)}


def _matmul_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    batch = (p["batch"],) if "batch" in p else ()
    shapes = (*batch, p["m"], p["k"]), (*batch, p["k"], p["n"])
    if p.get("dtype") == "int8":
        return [rng.integers(-127, 128, shape, np.int8) for shape in shapes]
    # bfloat16 is made by the peers, from float32
    dtype = p.get("dtype", "float32").replace("bfloat16", "float32")
    return [normal(rng, *shape).astype(dtype) for shape in shapes]


def _matmul_answer(p: Parameters, inputs: Arrays) -> Arrays:
    a, b = (x.astype(np.float64) for x in inputs)
    return [a @ b]


def _matmul_flops(p: Parameters) -> float:
    return 2.0 * p.get("batch", 1) * p["m"] * p["k"] * p["n"]


def _matmul_moved(p: Parameters) -> tuple[float, float]:
    read, written = SIZES.get(p.get("dtype", ""), (4, 4))
    batch = float(p.get("batch", 1))
    taken = p["m"] * p["k"] + p["k"] * p["n"]
    return batch * read * taken, batch * written * p["m"] * p["n"]


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


def _sum_moved(p: Parameters) -> tuple[float, float]:
    whole = 4.0 * math.prod(p["shape"])
    return whole, 0.0 if p["axis"] is None else whole / p["shape"][p["axis"]]


# ----------------------------------------------------------------------------- row-wise


def _rows_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    shape = (p["rows"], p["columns"])
    inputs = [normal(rng, *shape)]
    if p.get("weight"):
        inputs.append(normal(rng, p["columns"]))
    if p.get("backward"):
        inputs.append(normal(rng, *shape))
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
    return [normal(rng, p["rows"], p["columns"]), rng.integers(0, p["columns"], p["rows"])]


def cross_entropy_answer(p: Parameters, inputs: Arrays) -> Arrays:
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
    heads, kv_heads = p["heads"], p.get("kv_heads", p["heads"])
    counts = (heads, kv_heads, kv_heads, *([heads] if p.get("backward") else []))
    return [normal(rng, p.get("batch", 1), count, p["time"], p["dim"]) for count in counts]


def _attention_mask(p: Parameters) -> np.ndarray:
    distance = np.arange(p["time"])[:, None] - np.arange(p["time"])[None, :]
    return (distance >= 0) & (distance < p.get("window", p["time"]))


def _attention_answer(p: Parameters, inputs: Arrays) -> Arrays:
    q, k, v = inputs[:3]
    group = p["heads"] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
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
    to_k, to_v = grad_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad
    shape = (len(q), p["heads"] // group, group, *q.shape[2:])
    return [output, grad_scores @ k, to_k.reshape(shape).sum(2), to_v.reshape(shape).sum(2)]


def _attention_flops(p: Parameters) -> float:
    pairs = float(_attention_mask(p).sum()) * p.get("batch", 1) * p["heads"]
    # forward: scores and output; backward: scores again, three products more and two gradients
    return pairs * p["dim"] * 2 * (2 + 5 if p.get("backward") else 2)


def _attention_moved(p: Parameters) -> tuple[float, float]:
    head = 4.0 * p.get("batch", 1) * p["time"] * p["dim"]
    q, kv = head * p["heads"], 2 * head * p.get("kv_heads", p["heads"])
    return (2 * q + kv, 2 * q + kv) if p.get("backward") else (q + kv, q)


def no_flops(p: Parameters) -> float:
    return 0.0


def nothing_moved(p: Parameters) -> tuple[float, float]:
    return 0.0, 0.0


def _small_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    return [normal(rng, 8, 8), normal(rng, 8, 8)]


KINDS = {
    "matmul": Kind(_matmul_inputs, _matmul_answer, _matmul_flops, _matmul_moved),
    "chain": Kind(
        lambda p, rng: [normal(rng, p["n"]), normal(rng, p["n"])],
        _chain_answer,
        lambda p: 3.0 * p["n"],
        lambda p: (8.0 * p["n"], 4.0 * p["n"]),
    ),
    "unary": Kind(
        lambda p, rng: [normal(rng, p["n"])],
        _unary_answer,
        no_flops,
        lambda p: (4.0 * p["n"], 4.0 * p["n"]),
    ),
    "sum": Kind(
        lambda p, rng: [normal(rng, *p["shape"])],
        lambda p, x: [np.asarray(x[0].sum(p["axis"]))],
        lambda p: 1.0 * math.prod(p["shape"]),
        _sum_moved,
    ),
    "cumsum": Kind(
        lambda p, rng: [normal(rng, p["n"])],
        lambda p, x: [np.cumsum(x[0])],
        lambda p: 1.0 * p["n"],
        lambda p: (4.0 * p["n"], 4.0 * p["n"]),
    ),
    "sort": Kind(
        lambda p, rng: [normal(rng, p.get("rows", 1), p["n"])],
        lambda p, x: [np.sort(x[0])],
        no_flops,
        lambda p: (4.0 * p.get("rows", 1) * p["n"], 4.0 * p.get("rows", 1) * p["n"]),
    ),
    "topk": Kind(
        lambda p, rng: [normal(rng, p["n"])],
        lambda p, x: [np.sort(x[0])[: -p["k"] - 1 : -1]],
        no_flops,
        lambda p: (4.0 * p["n"], 0.0),
    ),
    "normal": Kind(lambda p, rng: [], None, no_flops, lambda p: (0.0, 4.0 * p["n"])),
    "add": Kind(_small_inputs, lambda p, x: [x[0] + x[1]], no_flops, nothing_moved),
    # the same with a gradient wanted: what recording it costs
    "add_recorded": Kind(_small_inputs, lambda p, x: [x[0] + x[1]], no_flops, nothing_moved),
    "layer_norm": Kind(_rows_inputs, _layer_norm_answer, no_flops, _rows_moved),
    "softmax": Kind(_rows_inputs, _softmax_answer, no_flops, _rows_moved),
    "rms_norm": Kind(_rows_inputs, _rms_norm_answer, no_flops, _rows_moved),
    "cross_entropy": Kind(
        _cross_entropy_inputs,
        cross_entropy_answer,
        no_flops,
        lambda p: (4.0 * p["rows"] * p["columns"], 4.0 * p["rows"] * p["columns"]),
    ),
    "attention": Kind(_attention_inputs, _attention_answer, _attention_flops, _attention_moved),
    "build_ops": Kind(_small_inputs, None, no_flops, nothing_moved),
}
