"""Kinds of work on images: convolution, pooling, normalisation of batches or groups, resampling,
and a train step of a small residual net.

All are of float32 images (batch, channels, size, size); with `backward` the last input is the
gradient of the output, and the gradients follow the output in the answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.kinds import (
    Arrays,
    Kind,
    Parameters,
    cross_entropy_answer,
    no_flops,
    normal,
    nothing_moved,
)


def out_size(p: Parameters) -> int:
    """The height and width of the outputs of a window."""
    if "window" not in p:
        return p["size"] * p.get("factor", 1)
    return (p["size"] + 2 * p.get("padding", 0) - p["window"]) // p["stride"] + 1


def _out_shape(p: Parameters) -> tuple[int, ...]:
    return (p["batch"], p.get("out", p["channels"]), out_size(p), out_size(p))


def _inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    shapes: list[tuple[int, ...]] = [(p["batch"], p["channels"], p["size"], p["size"])]
    if "out" in p:
        shapes.append((p["out"], p["channels"] // p.get("groups", 1), p["window"], p["window"]))
    if p.get("backward"):
        shapes.append(_out_shape(p))
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]


def _moved(p: Parameters) -> tuple[float, float]:
    one, other = 4.0 * p["batch"] * p["channels"] * p["size"] ** 2, 4.0 * np.prod(_out_shape(p))
    return (one + other, one + other) if p.get("backward") else (one, float(other))


def _taps(p: Parameters) -> Iterator[tuple[tuple[int, int], Any]]:
    """(tap, the part of the padded image that it meets)."""
    step, count = p["stride"], out_size(p)
    for y, x in itertools.product(range(p["window"]), repeat=2):
        part = [slice(k, k + (count - 1) * step + 1, step) for k in (y, x)]
        yield (y, x), (slice(None), slice(None), *part)


def _padded(p: Parameters, x: np.ndarray, value: float = 0.0) -> np.ndarray:
    width = p.get("padding", 0)
    return np.pad(x, ((0, 0), (0, 0), (width, width), (width, width)), constant_values=value)


def _inner(p: Parameters, x: np.ndarray) -> np.ndarray:
    width = p.get("padding", 0)
    return x[:, :, width : x.shape[2] - width, width : x.shape[3] - width]


def _convolution_answer(p: Parameters, inputs: Arrays) -> Arrays:
    x, w = inputs[:2]
    n, groups = p["batch"], p.get("groups", 1)
    padded, shape = _padded(p, x), _out_shape(p)
    y, to_x, to_w = np.zeros(shape), np.zeros(padded.shape), np.zeros(w.shape)
    grad = inputs[2].reshape(n, groups, w.shape[0] // groups, -1) if p.get("backward") else None
    for (i, j), part in _taps(p):
        rows = w[:, :, i, j].reshape(groups, w.shape[0] // groups, w.shape[1])
        met = padded[part].reshape(n, groups, w.shape[1], -1)
        y += (rows @ met).reshape(shape)
        if grad is not None:
            to_x[part] += (rows.swapaxes(1, 2) @ grad).reshape(n, x.shape[1], *shape[2:])
            to_w[:, :, i, j] = (grad @ met.swapaxes(2, 3)).sum(0).reshape(w.shape[:2])
    return [y] if grad is None else [y, _inner(p, to_x), to_w]


def _convolution_flops(p: Parameters) -> float:
    taps = p["channels"] // p.get("groups", 1) * p["window"] ** 2
    return 2.0 * float(np.prod(_out_shape(p))) * taps * (3 if p.get("backward") else 1)


def _pool_answer(p: Parameters, inputs: Arrays) -> Arrays:
    x = inputs[0]
    padded = _padded(p, x, -np.inf if p["mode"] == "max" else 0.0)
    met = np.stack([padded[part] for _, part in _taps(p)])
    y = met.max(0) if p["mode"] == "max" else met.mean(0)
    if not p.get("backward"):
        return [y]
    to_x = np.zeros(padded.shape)
    for number, (_, part) in enumerate(_taps(p)):
        share = met[number] == y if p["mode"] == "max" else 1 / p["window"] ** 2
        to_x[part] += inputs[1] * share
    return [y, _inner(p, to_x)]


def _normalised(p: Parameters, inputs: Arrays, axes: tuple[int, ...]) -> Arrays:
    """Mean 0 and variance 1 over the axes, and the gradient of that."""
    x = inputs[0]
    centred = x - x.mean(axes, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)
    unit = centred * scale
    if not p.get("backward"):
        return [unit]
    grad = inputs[1]
    mean, slope = grad.mean(axes, keepdims=True), (grad * unit).mean(axes, keepdims=True)
    return [unit, scale * (grad - mean - unit * slope)]


def _batch_norm_answer(p: Parameters, inputs: Arrays) -> Arrays:
    return _normalised(p, inputs, (0, 2, 3))


def _group_norm_answer(p: Parameters, inputs: Arrays) -> Arrays:
    shape = (p["batch"], p["groups"], -1)
    found = _normalised(p, [x.reshape(shape) for x in inputs], (2,))
    return [x.reshape(inputs[0].shape) for x in found]


def _resample_answer(p: Parameters, inputs: Arrays) -> Arrays:
    size, count = p["size"], out_size(p)
    at = np.clip((np.arange(count) + 0.5) * size / count - 0.5, 0, size - 1)
    matrix = np.maximum(1 - np.abs(at[:, None] - np.arange(size)), 0)
    y = matrix @ inputs[0] @ matrix.T
    return [y, matrix.T @ inputs[1] @ matrix] if p.get("backward") else [y]


# ------------------------------------------------------------------ a residual net's train step

# layers of a block: each a 3x3 convolution, batch norm with weight and bias, and relu, the last of
# them behind the sum with the block's input
BLOCK_LAYERS = 2
CLASSES = 10
LAYER_ARRAYS = 3  # filters, weight, bias


def _net_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    """Images, labels, three arrays for each layer, then the matrix and bias of the classes."""
    c = p["channels"]
    layers: Arrays = []
    for _ in range(p["blocks"] * BLOCK_LAYERS):
        filters = normal(rng, c, c, 3, 3) / np.float32(np.sqrt(9 * c))
        layers += [filters, 1 + normal(rng, c) / 10, normal(rng, c) / 10]
    head = [normal(rng, CLASSES, c) / np.float32(np.sqrt(c)), normal(rng, CLASSES)]
    images = normal(rng, p["batch"], c, p["size"], p["size"])
    return [images, rng.integers(0, CLASSES, p["batch"]), *layers, *head]


def _net_answer(p: Parameters, inputs: Arrays) -> Arrays:
    """The loss before the first step."""
    x, targets, *weights = inputs
    c = p["channels"]
    one = {**p, "out": c, "window": 3, "stride": 1, "padding": 1}
    at = 0
    for _ in range(p["blocks"]):
        before = x
        for layer in range(BLOCK_LAYERS):
            filters, weight, bias = weights[at : at + LAYER_ARRAYS]
            at += LAYER_ARRAYS
            (x,) = _normalised(p, _convolution_answer(one, [x, filters]), (0, 2, 3))
            x = x * weight.reshape(c, 1, 1) + bias.reshape(c, 1, 1)
            x = np.maximum(x + before if layer == BLOCK_LAYERS - 1 else x, 0)
    logits = x.mean((2, 3)) @ weights[-2].T + weights[-1]
    return [np.array(cross_entropy_answer({}, [logits, targets])[0])]


def _net_flops(p: Parameters) -> float:
    """Of the convolutions: the first layer's images need no gradient."""
    one = {**p, "out": p["channels"], "window": 3, "stride": 1, "padding": 1}
    return _convolution_flops(one) * (3 * p["blocks"] * BLOCK_LAYERS - 1)


SPATIAL = {
    "convolution": Kind(_inputs, _convolution_answer, _convolution_flops, _moved),
    "pool": Kind(_inputs, _pool_answer, no_flops, _moved),
    "batch_norm": Kind(_inputs, _batch_norm_answer, no_flops, _moved),
    "group_norm": Kind(_inputs, _group_norm_answer, no_flops, _moved),
    "resample": Kind(_inputs, _resample_answer, no_flops, _moved),
    "residual_step": Kind(_net_inputs, _net_answer, _net_flops, nothing_moved),
}
