"""tinygrad on the processor, everything under TinyJit: kernels compiled by clang."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
from tinygrad import Device, Tensor, TinyJit, dtypes

COMPILES = True
VERSION = version("tinygrad")


def as_arrays(results: Any) -> list[np.ndarray]:
    narrow = dtypes.bfloat16, dtypes.float16
    return [(x.float() if x.dtype in narrow else x).numpy() for x in results]


def _tensors(inputs: Any) -> list[Tensor]:
    return [Tensor(np.ascontiguousarray(array)).realize() for array in inputs]


def _jitted(function: Any, *tensors: Tensor) -> Any:
    """The function captured; it is captured at the second call and replayed from the third."""
    step = TinyJit(lambda *tensors: [x.contiguous().realize() for x in function(*tensors)])

    def run() -> Any:
        results = step(*tensors)
        Device[Device.DEFAULT].synchronize()
        return results

    run(), run()
    return run


def _with_gradient(function: Any, leaves: list[Tensor], grad: Tensor | None) -> Any:
    def both(*tensors: Tensor) -> Any:
        output = function(*tensors[: len(leaves)])
        given = None if grad is None else tensors[-1]
        return [output, *output.gradient(*tensors[: len(leaves)], gradient=given)]

    return _jitted(both, *leaves, *([] if grad is None else [grad]))


def _rows(p: Any, inputs: Any, function: Any) -> Any:
    tensors = _tensors(inputs)
    if p.get("backward"):
        return _with_gradient(function, tensors[:-1], tensors[-1])
    return _jitted(lambda *tensors: [function(*tensors)], *tensors)


def matmul(p: Any, inputs: Any) -> Any:
    a, b = inputs
    a = np.ascontiguousarray(a.swapaxes(-1, -2)) if p.get("transpose_a") else a
    b = np.ascontiguousarray(b.swapaxes(-1, -2)) if p.get("transpose_b") else b
    a, b = _tensors([a, b])
    if p.get("dtype") == "bfloat16":
        a, b = (x.cast(dtypes.bfloat16).realize() for x in (a, b))
    more = {"dtype": dtypes.int32} if p.get("dtype") == "int8" else {}

    def product(a: Tensor, b: Tensor) -> list[Tensor]:
        a = a.transpose(-1, -2) if p.get("transpose_a") else a
        b = b.transpose(-1, -2) if p.get("transpose_b") else b
        return [a.matmul(b, **more)]

    return _jitted(product, a, b)


def chain(p: Any, inputs: Any) -> Any:
    return _jitted(lambda a, b: [((a + b) * 2).relu()], *_tensors(inputs))


def unary(p: Any, inputs: Any) -> Any:
    if p["function"] == "exp":
        return _jitted(lambda x: [x.exp()], *_tensors(inputs))
    return _jitted(lambda x: [x * 0.5 * (1 + (x * 0.5**0.5).erf())], *_tensors(inputs))


def add(p: Any, inputs: Any) -> Any:
    return _jitted(lambda a, b: [a + b], *_tensors(inputs))


def sum(p: Any, inputs: Any) -> Any:
    return _jitted(lambda x: [x.sum(p["axis"])], *_tensors(inputs))


def concat(p: Any, inputs: Any) -> Any:
    return _jitted(lambda *parts: [parts[0].cat(*parts[1:], dim=-1)], *_tensors(inputs))


def transpose(p: Any, inputs: Any) -> Any:
    return _jitted(lambda x: [x.transpose(-1, -2)], *_tensors(inputs))


def cumsum(p: Any, inputs: Any) -> Any:
    return _jitted(lambda x: [x.cumsum(0)], *_tensors(inputs))


def softmax(p: Any, inputs: Any) -> Any:
    return _rows(p, inputs, lambda x: x.softmax(-1))


def layer_norm(p: Any, inputs: Any) -> Any:
    return _rows(p, inputs, lambda x, weight: x.layernorm(-1, 1e-5) * weight)


def rms_norm(p: Any, inputs: Any) -> Any:
    def function(x: Tensor, weight: Tensor) -> Tensor:
        return x * ((x * x).mean(-1, keepdim=True) + 1e-6).rsqrt() * weight

    return _rows(p, inputs, function)


def cross_entropy(p: Any, inputs: Any) -> Any:
    logits, targets = _tensors(inputs)

    def both(logits: Tensor, targets: Tensor) -> Any:
        loss = logits.sparse_categorical_crossentropy(targets)
        return [loss, *loss.gradient(logits)]

    return _jitted(both, logits, targets)


# gradients of what follows take it minutes, or gigabytes: forward alone


def attention(p: Any, inputs: Any) -> Any:
    if p.get("backward") or "window" in p or "kv_heads" in p:
        return None
    return _rows(p, inputs, lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True))


def convolution(p: Any, inputs: Any) -> Any:
    more = {"stride": p["stride"], "padding": p["padding"], "groups": p["groups"]}
    if p.get("backward"):
        return None
    return _rows(p, inputs, lambda x, w: x.conv2d(w, **more))


def pool(p: Any, inputs: Any) -> Any:
    window, step = (p["window"],) * 2, p["stride"]
    if p.get("backward"):
        return None
    if p["mode"] == "max":
        return _rows(p, inputs, lambda x: x.max_pool2d(window, step))
    return _rows(p, inputs, lambda x: x.avg_pool2d(window, step))
