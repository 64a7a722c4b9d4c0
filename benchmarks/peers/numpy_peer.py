"""NumPy, as its users would write it."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.model_kinds import mlp_gradients

VERSION = np.__version__


def as_arrays(results: Any) -> list[np.ndarray]:
    return [np.asarray(result) for result in results]


def matmul(p: Any, inputs: Any) -> Any:
    a, b = inputs
    if p.get("dtype") == "bfloat16":
        return None
    if p.get("dtype") in ("int8", "float16"):
        # NumPy has no fast product of these: its users widen them
        narrow = np.float16 if p["dtype"] == "float16" else np.int32
        return lambda: [(a.astype(np.float32) @ b.astype(np.float32)).astype(narrow)]
    if p.get("transpose_a"):
        a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    if p.get("transpose_b"):
        b = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
    return lambda: [a @ b]


def chain(p: Any, inputs: Any) -> Any:
    a, b = inputs
    return lambda: [np.maximum((a + b) * 2, 0)]


def unary(p: Any, inputs: Any) -> Any:
    return (lambda: [np.exp(inputs[0])]) if p["function"] == "exp" else None


def add(p: Any, inputs: Any) -> Any:
    a, b = inputs
    return lambda: [a + b]


def concat(p: Any, inputs: Any) -> Any:
    return lambda: [np.concatenate(inputs, -1)]


def gather(p: Any, inputs: Any) -> Any:
    table, ids = inputs
    return lambda: [table.take(ids, 0)]


def scatter_add(p: Any, inputs: Any) -> Any:
    grad, ids = inputs

    def run() -> Any:
        table = np.zeros((p["rows"], p["columns"]), np.float32)
        np.add.at(table, ids, grad)
        return [table]

    return run


def sum(p: Any, inputs: Any) -> Any:
    return lambda: [inputs[0].sum(p["axis"])]


def cumsum(p: Any, inputs: Any) -> Any:
    return lambda: [inputs[0].cumsum()]


def sort(p: Any, inputs: Any) -> Any:
    return lambda: [np.sort(inputs[0])]


def topk(p: Any, inputs: Any) -> Any:
    (x,) = inputs

    def run() -> Any:
        best = x[np.argpartition(x, -p["k"])[-p["k"] :]]
        best.sort()
        return [best[::-1]]

    return run


def normal(p: Any, inputs: Any) -> Any:
    rng = np.random.default_rng(0)
    return lambda: [rng.standard_normal(p["n"], dtype=np.float32)]


def transpose(p: Any, inputs: Any) -> Any:
    return lambda: [np.ascontiguousarray(inputs[0].swapaxes(-1, -2))]


def softmax(p: Any, inputs: Any) -> Any:
    if p.get("backward"):
        return None
    (x,) = inputs

    def run() -> Any:
        y = np.exp(x - x.max(-1, keepdims=True))
        y /= y.sum(-1, keepdims=True)
        return [y]

    return run


def rms_norm(p: Any, inputs: Any) -> Any:
    if p.get("backward"):
        return None
    x, weight = inputs
    eps = np.float32(1e-6)
    return lambda: [x * (1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)) * weight]


def mlp_step(p: Any, inputs: Any) -> Any:
    x, targets, *weights = inputs
    weights = [weight.copy() for weight in weights]

    def run() -> Any:
        loss, grads = mlp_gradients(x, targets, weights)
        for weight, grad in zip(weights, grads, strict=True):
            weight -= np.float32(0.01) * grad
        return [loss]

    return run
