"""JAX, everything under jit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

VERSION = jax.__version__
jax.config.update("jax_enable_x64", True)


def as_arrays(results: Any) -> list[np.ndarray]:
    return [np.asarray(result.astype(jnp.float32) if result.dtype == jnp.bfloat16 else result)
            for result in results]  # fmt: skip


def _jitted(function: Any, *inputs: Any) -> Any:
    function = jax.jit(function)
    arrays = [jnp.asarray(x) for x in inputs]
    return lambda: jax.block_until_ready(function(*arrays))


def _with_gradient(function: Any, inputs: Any, grad: Any) -> Any:
    def both(grad: Any, *inputs: Any) -> Any:
        output, backward = jax.vjp(function, *inputs)
        return [output, *backward(grad)]

    return _jitted(both, grad, *inputs)


def matmul(p: Any, inputs: Any) -> Any:
    a, b = inputs
    dtype = jnp.dtype(p.get("dtype", "float32"))
    a = a.swapaxes(-1, -2) if p.get("transpose_a") else a
    b = b.swapaxes(-1, -2) if p.get("transpose_b") else b

    def product(a: Any, b: Any) -> Any:
        a = a.swapaxes(-1, -2) if p.get("transpose_a") else a
        b = b.swapaxes(-1, -2) if p.get("transpose_b") else b
        return [a @ b]

    return _jitted(product, jnp.asarray(a, dtype), jnp.asarray(b, dtype))


def chain(p: Any, inputs: Any) -> Any:
    return _jitted(lambda a, b: [jax.nn.relu((a + b) * 2)], *inputs)


def unary(p: Any, inputs: Any) -> Any:
    if p["function"] == "exp":
        return _jitted(lambda x: [jnp.exp(x)], *inputs)
    return _jitted(lambda x: [jax.nn.gelu(x, approximate=False)], *inputs)


def add(p: Any, inputs: Any) -> Any:
    return _jitted(lambda a, b: [a + b], *inputs)


def sum(p: Any, inputs: Any) -> Any:
    return _jitted(lambda x: [x.sum(p["axis"])], *inputs)


def cumsum(p: Any, inputs: Any) -> Any:
    return _jitted(lambda x: [jnp.cumsum(x)], *inputs)


def sort(p: Any, inputs: Any) -> Any:
    return _jitted(lambda x: [jnp.sort(x)], *inputs)


def topk(p: Any, inputs: Any) -> Any:
    return _jitted(lambda x: [jax.lax.top_k(x, p["k"])[0]], *inputs)


def normal(p: Any, inputs: Any) -> Any:
    return _jitted(lambda key: [jax.random.normal(key, (p["n"],))], jax.random.PRNGKey(0))


def transpose(p: Any, inputs: Any) -> Any:
    return _jitted(lambda x: [x.T], *inputs)


def _layer_norm(x: Any, weight: Any) -> Any:
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5) * weight


def layer_norm(p: Any, inputs: Any) -> Any:
    if p.get("backward"):
        return _with_gradient(_layer_norm, inputs[:2], inputs[2])
    return _jitted(lambda x, weight: [_layer_norm(x, weight)], *inputs)


def softmax(p: Any, inputs: Any) -> Any:
    if p.get("backward"):
        return _with_gradient(lambda x: jax.nn.softmax(x, -1), inputs[:1], inputs[1])
    return _jitted(lambda x: [jax.nn.softmax(x, -1)], *inputs)


def _rms_norm(x: Any, weight: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * weight


def rms_norm(p: Any, inputs: Any) -> Any:
    if p.get("backward"):
        return _with_gradient(_rms_norm, inputs[:2], inputs[2])
    return _jitted(lambda x, weight: [_rms_norm(x, weight)], *inputs)


def _cross_entropy(logits: Any, targets: Any) -> Any:
    picked = jnp.take_along_axis(logits, targets[:, None], -1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)


def cross_entropy(p: Any, inputs: Any) -> Any:
    return _jitted(jax.value_and_grad(_cross_entropy), *inputs)


def attention(p: Any, inputs: Any) -> Any:
    window = (p["window"] - 1, 0) if "window" in p else None

    def function(q: Any, k: Any, v: Any) -> Any:
        rows = (x.swapaxes(1, 2) for x in (q, k, v))
        output = jax.nn.dot_product_attention(*rows, is_causal=True, local_window_size=window)
        return output.swapaxes(1, 2)

    if p.get("backward"):
        return _with_gradient(function, inputs[:3], inputs[3])
    return _jitted(lambda q, k, v: [function(q, k, v)], *inputs)


def mlp_step(p: Any, inputs: Any) -> Any:
    x, targets, *weights = (jnp.asarray(array) for array in inputs)

    def loss_of(weights: Any) -> Any:
        hidden = jax.nn.relu(x @ weights[0].T + weights[1])
        hidden = jax.nn.relu(hidden @ weights[2].T + weights[3])
        return _cross_entropy(hidden @ weights[4].T + weights[5], targets)

    @jax.jit
    def step(weights: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(weights)
        return loss, [w - jnp.float32(0.01) * g for w, g in zip(weights, grads, strict=True)]

    def run() -> Any:
        nonlocal weights
        loss, weights = step(weights)
        return jax.block_until_ready([loss, *weights])[:1]

    return run
