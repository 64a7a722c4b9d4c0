"""Bedplate: eager, or the same step captured by jit when BENCHMARK_JIT is set."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

import bedplate as bp
import bedplate.nn.functional as F
from bedplate.memory import release_cache
from benchmarks.peers import bedplate_models
from benchmarks.peers.bedplate_models import JIT, realised, tensors

VERSION = version("bedplate")
COMPILES = JIT


def forget() -> None:
    """Give what is kept for reuse back to the system."""
    release_cache()


def as_arrays(results: Any) -> list[np.ndarray]:
    return [result.numpy() for result in results]


def _without_gradient(function: Any, *inputs: Any) -> Any:
    function = bp.jit(function) if JIT else function

    def run() -> Any:
        with bp.no_grad():
            return realised([function(*inputs)])

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
        return realised([output.detach(), *(leaf.grad for leaf in leaves)])

    return run


def matmul(p: Any, inputs: Any) -> Any:
    a, b = inputs
    a = np.ascontiguousarray(a.swapaxes(-1, -2)) if p.get("transpose_a") else a
    b = np.ascontiguousarray(b.swapaxes(-1, -2)) if p.get("transpose_b") else b
    a, b = tensors([a, b])
    if p.get("dtype") == "bfloat16":
        a, b = realised([a.astype(bp.bfloat16), b.astype(bp.bfloat16)])
    if p.get("dtype") == "int8":
        # a product of int8 is an int8 that wraps; the same work as the peers' adds up in int32
        return _without_gradient(lambda a, b: a.astype(bp.int32) @ b.astype(bp.int32), a, b)
    if p.get("transpose_a"):
        return _without_gradient(lambda a, b: a.mT @ b, a, b)
    if p.get("transpose_b"):
        return _without_gradient(lambda a, b: a @ b.mT, a, b)
    return _without_gradient(lambda a, b: a @ b, a, b)


def chain(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda a, b: ((a + b) * 2).relu(), *tensors(inputs))


def unary(p: Any, inputs: Any) -> Any:
    function = F.gelu if p["function"] == "gelu" else bp.exp
    return _without_gradient(lambda x: function(x), *tensors(inputs))


def add(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda a, b: a + b, *tensors(inputs))


def add_recorded(p: Any, inputs: Any) -> Any:
    a, b = (x.requires_grad_() for x in tensors(inputs))
    return lambda: realised([a + b])


def concat(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda *parts: bp.concat(parts, -1), *tensors(inputs))


def gather(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda table, ids: F.embedding(ids, table), *tensors(inputs))


def scatter_add(p: Any, inputs: Any) -> Any:
    """The gradient of an embedding; what the embedding gives is not asked for."""
    grad, ids = tensors(inputs)
    table = bp.zeros((p["rows"], p["columns"]), requires_grad=True)

    def gradient(ids: Any, grad: Any) -> Any:
        table.grad = None
        F.embedding(ids, table).backward(grad)
        return table.grad

    gradient = bp.jit(gradient) if JIT else gradient
    return lambda: realised([gradient(ids, grad)])


def sum(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda x: x.sum(axis=p["axis"]), *tensors(inputs))


def cumsum(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda x: bp.cumsum(x, axis=0), *tensors(inputs))


def sort(p: Any, inputs: Any) -> Any:
    return _without_gradient(bp.sort, *tensors(inputs))


def topk(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda x: bp.topk(x, p["k"]).values, *tensors(inputs))


def normal(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda: bp.random.normal((p["n"],)))


def _image(p: Any, inputs: Any, function: Any) -> Any:
    given = tensors(inputs)
    if p.get("backward"):
        return _with_gradient(function, given[:-1], given[-1])
    return _without_gradient(function, *given)


def convolution(p: Any, inputs: Any) -> Any:
    more = {"stride": p["stride"], "padding": p["padding"], "groups": p.get("groups", 1)}
    return _image(p, inputs, lambda x, w: F.conv2d(x, w, **more))


def pool(p: Any, inputs: Any) -> Any:
    function = F.max_pool2d if p["mode"] == "max" else F.avg_pool2d
    return _image(p, inputs, lambda x: function(x, p["window"], p["stride"]))


def batch_norm(p: Any, inputs: Any) -> Any:
    return _image(p, inputs, lambda x: F.batch_norm(x, None, None, training=True))


def group_norm(p: Any, inputs: Any) -> Any:
    return _image(p, inputs, lambda x: F.group_norm(x, p["groups"]))


def resample(p: Any, inputs: Any) -> Any:
    return _image(p, inputs, lambda x: F.interpolate(x, None, p["factor"], "bilinear"))


def transpose(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda x: x.mT, *tensors(inputs))


def layer_norm(p: Any, inputs: Any) -> Any:
    x, weight, *grad = tensors(inputs)

    def function(x: Any, weight: Any) -> Any:
        return F.layer_norm(x, x.shape[-1:], weight, None, 1e-5)

    if grad:
        return _with_gradient(function, [x, weight], grad[0])
    return _without_gradient(function, x, weight)


def softmax(p: Any, inputs: Any) -> Any:
    x, *grad = tensors(inputs)
    if grad:
        return _with_gradient(lambda x: F.softmax(x, -1), [x], grad[0])
    return _without_gradient(lambda x: F.softmax(x, -1), x)


def rms_norm(p: Any, inputs: Any) -> Any:
    x, weight, *grad = tensors(inputs)
    if grad:
        return _with_gradient(
            lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6), [x, weight], grad[0]
        )
    return _without_gradient(lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6), x, weight)


def cross_entropy(p: Any, inputs: Any) -> Any:
    logits, targets = tensors(inputs)
    return _with_gradient(lambda x: F.cross_entropy(x, targets), [logits], None)


def attention(p: Any, inputs: Any) -> Any:
    q, k, v, *grad = tensors(inputs)
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
    a, b = tensors(inputs)

    def run() -> Any:
        x = a
        for _ in range(p["ops"]):
            x = x + b
        return []

    return run


mlp_step = bedplate_models.mlp_step
residual_step = bedplate_models.residual_step
perceptron = bedplate_models.perceptron
optimiser = bedplate_models.optimiser
train_step = bedplate_models.train_step
first_step = bedplate_models.train_step
prefill = bedplate_models.prefill
decode = bedplate_models.decode
