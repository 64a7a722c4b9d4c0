"""PyTorch: eager, or through torch.compile when BENCHMARK_TORCH_COMPILE is set."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.model_kinds import ADAMW as numbers

# of the optimiser, as PyTorch spells it
ADAMW = {
    "lr": numbers["lr"],
    "betas": (numbers["beta1"], numbers["beta2"]),
    "eps": numbers["eps"],
    "weight_decay": numbers["weight_decay"],
}
VERSION = torch.__version__
COMPILES = "BENCHMARK_TORCH_COMPILE" in os.environ
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))


def prepare(function: Any) -> Any:
    """Compile, if this peer is the compiled one."""
    return torch.compile(function) if COMPILES else function


def forget() -> None:
    """Let go of what was compiled, and of the weights that it holds."""
    if COMPILES:
        torch.compiler.reset()


def as_arrays(results: Any) -> list[np.ndarray]:
    narrow = torch.bfloat16, torch.float16
    plain = (result.detach() for result in results)
    return [(x.float() if x.dtype in narrow else x).numpy() for x in plain]


def _leaf(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array).requires_grad_()


def _with_gradient(function: Any, leaves: list[torch.Tensor], grad: torch.Tensor | None) -> Any:
    function = prepare(function)

    def run() -> Any:
        for leaf in leaves:
            leaf.grad = None
        output = function(*leaves)
        output.backward(grad)
        return [output, *(leaf.grad for leaf in leaves)]

    return run


def _without_gradient(function: Any, *inputs: torch.Tensor) -> Any:
    function = prepare(function)

    def run() -> Any:
        with torch.no_grad():
            return [function(*inputs)]

    return run


def matmul(p: Any, inputs: Any) -> Any:
    a, b = (torch.from_numpy(x) for x in inputs)
    if p.get("dtype") == "bfloat16":
        a, b = a.bfloat16(), b.bfloat16()
    if p.get("dtype") == "int8":
        # PyTorch's own product of int8 adds up in int8; this is what its quantised layers use
        return _without_gradient(torch._int_mm, a, b)
    if p.get("transpose_a"):
        a = a.transpose(-1, -2).contiguous().transpose(-1, -2)
    if p.get("transpose_b"):
        b = b.transpose(-1, -2).contiguous().transpose(-1, -2)
    return _without_gradient(lambda a, b: a @ b, a, b)


def chain(p: Any, inputs: Any) -> Any:
    a, b = (torch.from_numpy(x) for x in inputs)
    return _without_gradient(lambda a, b: torch.relu((a + b) * 2), a, b)


def unary(p: Any, inputs: Any) -> Any:
    function = torch.exp if p["function"] == "exp" else F.gelu
    return _without_gradient(lambda x: function(x), torch.from_numpy(inputs[0]))


def add(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda a, b: a + b, *(torch.from_numpy(x) for x in inputs))


def add_recorded(p: Any, inputs: Any) -> Any:
    a, b = (_leaf(x) for x in inputs)
    return lambda: [a + b]


def concat(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda *parts: torch.cat(parts, -1), *map(torch.from_numpy, inputs))


def gather(p: Any, inputs: Any) -> Any:
    table, ids = map(torch.from_numpy, inputs)
    return _without_gradient(lambda table, ids: F.embedding(ids, table), table, ids)


def scatter_add(p: Any, inputs: Any) -> Any:
    gradient = torch.ops.aten.embedding_dense_backward  # what the embedding's gradient is
    return _without_gradient(
        lambda grad, ids: gradient(grad, ids, p["rows"], -1, False), *map(torch.from_numpy, inputs)
    )


def sum(p: Any, inputs: Any) -> Any:
    axes = (0, 1) if p["axis"] is None else p["axis"]
    return _without_gradient(lambda x: x.sum(axes), torch.from_numpy(inputs[0]))


def cumsum(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda x: x.cumsum(0), torch.from_numpy(inputs[0]))


def sort(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda x: x.sort().values, torch.from_numpy(inputs[0]))


def topk(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda x: x.topk(p["k"]).values, torch.from_numpy(inputs[0]))


def normal(p: Any, inputs: Any) -> Any:
    return _without_gradient(lambda: torch.randn(p["n"]))


def _image(p: Any, inputs: Any, function: Any) -> Any:
    if p.get("backward"):
        *leaves, grad = inputs
        return _with_gradient(function, [_leaf(x) for x in leaves], torch.from_numpy(grad))
    return _without_gradient(function, *(torch.from_numpy(x) for x in inputs))


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
    return _without_gradient(lambda x: x.mT.contiguous(), torch.from_numpy(inputs[0]))


def layer_norm(p: Any, inputs: Any) -> Any:
    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, x.shape[-1:], weight, None, 1e-5)

    if p.get("backward"):
        leaves = [_leaf(inputs[0]), _leaf(inputs[1])]
        return _with_gradient(function, leaves, torch.from_numpy(inputs[2]))
    return _without_gradient(function, *(torch.from_numpy(x) for x in inputs))


def softmax(p: Any, inputs: Any) -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)

    if p.get("backward"):
        return _with_gradient(function, [_leaf(inputs[0])], torch.from_numpy(inputs[1]))
    return _without_gradient(function, torch.from_numpy(inputs[0]))


def rms_norm(p: Any, inputs: Any) -> Any:
    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, x.shape[-1:], weight, 1e-6)

    if p.get("backward"):
        leaves = [_leaf(inputs[0]), _leaf(inputs[1])]
        return _with_gradient(function, leaves, torch.from_numpy(inputs[2]))
    return _without_gradient(function, *(torch.from_numpy(x) for x in inputs))


def cross_entropy(p: Any, inputs: Any) -> Any:
    targets = torch.from_numpy(inputs[1])
    return _with_gradient(lambda x: F.cross_entropy(x, targets), [_leaf(inputs[0])], None)


def attention(p: Any, inputs: Any) -> Any:
    mask = None
    if "window" in p:
        distance = torch.arange(p["time"])[:, None] - torch.arange(p["time"])[None, :]
        mask = (distance >= 0) & (distance < p["window"])

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa="kv_heads" in p
        )

    if p.get("backward"):
        return _with_gradient(function, [_leaf(x) for x in inputs[:3]], torch.from_numpy(inputs[3]))
    return _without_gradient(function, *(torch.from_numpy(x) for x in inputs))


def build_ops(p: Any, inputs: Any) -> Any:
    a, b = (torch.from_numpy(x) for x in inputs)

    def run() -> Any:
        x = a
        for _ in range(p["ops"]):
            x = x + b
        return [x]

    return run


def mlp_step(p: Any, inputs: Any) -> Any:
    x, targets = (torch.from_numpy(array) for array in inputs[:2])
    weights = [_leaf(array.copy()) for array in inputs[2:]]

    def loss_of(x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(F.linear(x, weights[0], weights[1]))
        hidden = torch.relu(F.linear(hidden, weights[2], weights[3]))
        return F.cross_entropy(F.linear(hidden, weights[4], weights[5]), targets)

    loss_of = prepare(loss_of)
    optimiser = torch.optim.SGD(weights, lr=0.01)

    def run() -> Any:
        optimiser.zero_grad()
        loss = loss_of(x, targets)
        loss.backward()
        optimiser.step()
        return [loss]

    return run


def residual_step(p: Any, inputs: Any) -> Any:
    x, targets = (torch.from_numpy(array) for array in inputs[:2])
    weights = [_leaf(array.copy()) for array in inputs[2:]]

    def loss_of(x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        layers = iter(weights)
        for _ in range(p["blocks"]):
            before = x
            for last in (False, True):
                x = F.conv2d(x, next(layers), padding=1)
                weight, bias = next(layers), next(layers)
                x = F.batch_norm(x, None, None, weight, bias, training=True)
                x = torch.relu(x + before if last else x)
        return F.cross_entropy(F.linear(x.mean((2, 3)), *layers), targets)

    return _trained(loss_of, x, targets, weights)


def perceptron(p: Any, inputs: Any) -> Any:
    x, targets = (torch.from_numpy(array) for array in inputs[:2])
    weights = [_leaf(array.copy()) for array in inputs[2:]]

    def loss_of(x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        for weight, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
            x = torch.relu(F.linear(x, weight, bias))
        return F.cross_entropy(F.linear(x, *weights[-2:]), targets)

    return _trained(loss_of, x, targets, weights)


def _trained(loss_of: Callable, x: Any, targets: Any, weights: list[Any]) -> Any:
    loss_of = prepare(loss_of)
    optimiser = torch.optim.AdamW(weights, fused=True, **ADAMW)

    def run() -> Any:
        optimiser.zero_grad()
        loss = loss_of(x, targets)
        loss.backward()
        optimiser.step()
        return [loss]

    return run


def optimiser(p: Any, inputs: Any) -> Any:
    if COMPILES and p["tensors"] > 100:
        return None  # it takes minutes to compile a step of so many
    leaves = [_leaf(array) for array in inputs[: p["tensors"]]]
    for leaf, grad in zip(leaves, inputs[p["tensors"] :], strict=True):
        leaf.grad = torch.from_numpy(grad)
    # compiled, the step is fused by the compiler; eager, by the kernel that PyTorch has for it
    made = torch.optim.AdamW(leaves, fused=None if COMPILES else True, **ADAMW)
    step = prepare(made.step)

    def run() -> Any:
        step()
        return [leaves[0], leaves[-1]]

    return run
