"""Bedplate: eager, or the same step captured by jit when BENCHMARK_JIT is set."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

import numpy as np

import bedplate as bp
import bedplate.nn.functional as F
from bedplate import optim
from bedplate.olmo import Config, Olmo3

VERSION = version("bedplate")
JIT = "BENCHMARK_JIT" in os.environ


def as_arrays(results: Any) -> list[np.ndarray]:
    return [result.numpy() for result in results]


def _realised(results: list[Any]) -> list[Any]:
    for result in results:
        result.realise()
    return results


def _without_gradient(function: Any, *inputs: Any) -> Any:
    function = bp.jit(function) if JIT else function

    def run() -> Any:
        with bp.no_grad():
            return _realised([function(*inputs)])

    return run


def _with_gradient(function: Any, leaves: list[Any], grad: Any) -> Any:
    for leaf in leaves:
        leaf.requires_grad_()

    def both() -> Any:
        for leaf in leaves:
            leaf.grad = None
        output = function(*leaves)
        output.backward(grad)
        return output

    both = bp.jit(both) if JIT else both

    def run() -> Any:
        output = both()
        return _realised([output.detach(), *(leaf.grad for leaf in leaves)])

    return run


def _tensors(inputs: Any) -> list[Any]:
    return [bp.tensor(array) for array in inputs]


def matmul(p: Any, inputs: Any) -> Any:
    a, b = _tensors(inputs)
    if p.get("dtype") == "bfloat16":
        a, b = a.astype(bp.bfloat16), b.astype(bp.bfloat16)
    if p.get("transpose_a"):
        a = bp.tensor(np.ascontiguousarray(a.numpy().swapaxes(-1, -2)))
        return _without_gradient(lambda a, b: a.mT @ b, a, b)
    if p.get("transpose_b"):
        b = bp.tensor(np.ascontiguousarray(b.numpy().swapaxes(-1, -2)))
        return _without_gradient(lambda a, b: a @ b.mT, a, b)
    return _without_gradient(lambda a, b: a @ b, *_realised([a, b]))


def chain(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda a, b: ((a + b) * 2).relu(), *_tensors(inputs))


def unary(p: Any, inputs: Any) -> Any:
    function = F.gelu if p["function"] == "gelu" else bp.exp
    return _without_gradient(lambda x: function(x), *_tensors(inputs))


def add(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda a, b: a + b, *_tensors(inputs))


def sum(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda x: x.sum(axis=p["axis"]), *_tensors(inputs))


def cumsum(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda x: bp.cumsum(x, axis=0), *_tensors(inputs))


def sort(p: Any, inputs: Any) -> Any:
    return _without_gradient(bp.sort, *_tensors(inputs))


def topk(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda x: bp.topk(x, p["k"]).values, *_tensors(inputs))


def normal(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda: bp.random.normal((p["n"],)))


def _image(p: Any, inputs: Any, function: Any) -> Any:
    tensors = _tensors(inputs)
    if p.get("backward"):
        return _with_gradient(function, tensors[:-1], tensors[-1])
    return _without_gradient(function, *tensors)


def convolution(p: Any, inputs: Any) -> Any:
    more = {"stride": p["stride"], "padding": p["padding"], "groups": p.get("groups", 1)}
    return _image(p, inputs, lambda x, w: F.conv2d(x, w, **more))


def pool(p: Any, inputs: Any) -> Any:
    function = F.max_pool2d if p["mode"] == "max" else F.avg_pool2d
    return _image(p, inputs, lambda x: function(x, p["window"], p["stride"]))


def batch_norm(p: Any, inputs: Any) -> Any:
    return _image(p, inputs, lambda x: F.batch_norm(x, None, None, training=True))


def resample(p: Any, inputs: Any) -> Any:
    return _image(p, inputs, lambda x: F.interpolate(x, None, p["factor"], "bilinear"))


def transpose(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda x: x.mT, *_tensors(inputs))


def layer_norm(p: Any, inputs: Any) -> Any:
    x, weight, *grad = _tensors(inputs)

    def function(x: Any, weight: Any) -> Any:
        return F.layer_norm(x, x.shape[-1:], weight, None, 1e-5)

    if grad:
        return _with_gradient(function, [x, weight], grad[0])
    return _without_gradient(function, x, weight)


def softmax(p: Any, inputs: Any) -> Any:
    x, *grad = _tensors(inputs)
    if grad:
        return _with_gradient(lambda x: F.softmax(x, -1), [x], grad[0])
    return _without_gradient(lambda x: F.softmax(x, -1), x)


def rms_norm(p: Any, inputs: Any) -> Any:
    x, weight, *grad = _tensors(inputs)
    if grad:
        return _with_gradient(
            lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6), [x, weight], grad[0]
        )
    return _without_gradient(lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6), x, weight)


def cross_entropy(p: Any, inputs: Any) -> Any:
    logits, targets = _tensors(inputs)
    return _with_gradient(lambda x: F.cross_entropy(x, targets), [logits], None)


def attention(p: Any, inputs: Any) -> Any:
    q, k, v, *grad = _tensors(inputs)
    window = p.get("window")

    def function(q: Any, k: Any, v: Any) -> Any:
        return F.attention(q, k, v, causal=True, window=window)

    if grad:
        return _with_gradient(function, [q, k, v], grad[0])
    return _without_gradient(function, q, k, v)


def build_ops(p: Any, inputs: Any) -> Any:
    """Building alone: the graph is dropped, nobody asks for a value."""
    if JIT:
        return None
    a, b = _tensors(inputs)

    def run() -> Any:
        x = a
        for _ in range(p["ops"]):
            x = x + b
        return []

    return run


def mlp_step(p: Any, inputs: Any) -> Any:
    x, targets, *weights = _tensors(inputs)
    for weight in weights:
        weight.requires_grad_()
    optimiser = optim.SGD(weights, lr=0.01)

    def step(x: Any, targets: Any) -> Any:
        optimiser.zero_grad()
        hidden = F.linear(x, weights[0], weights[1]).relu()
        hidden = F.linear(hidden, weights[2], weights[3]).relu()
        loss = F.cross_entropy(F.linear(hidden, weights[4], weights[5]), targets)
        loss.backward()
        optimiser.step()
        return loss.detach()

    step = bp.jit(step) if JIT else step
    return lambda: _realised([step(x, targets), *weights])[:1]


def train_step(p: Any, inputs: Any) -> Any:
    bp.manual_seed(0)
    model = Olmo3(Config(**p["config"]))
    parameters = list(model.parameters())
    optimiser = optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    ids = bp.tensor(inputs[0])

    def step(ids: Any) -> Any:
        optimiser.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optim.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=False)
        optimiser.step()
        return loss.detach()

    step = bp.jit(step) if JIT else step
    return lambda: _realised([step(ids), *parameters])[:1]


first_step = train_step
