"""JAX, everything under jit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers import jax_models

COMPILES = True
VERSION = jax.__version__
jax.config.update("jax_enable_x64", True)


def forget() -> None:
    """Let go of what was compiled, and of the constants that it holds."""
    jax.clear_caches()


def as_arrays(results: Any) -> list[np.ndarray]:
    return [np.asarray(x.astype(jnp.float32) if x.dtype == jnp.bfloat16 else x) for x in results]


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
        if dtype == jnp.int8:
            return [jnp.matmul(a, b, preferred_element_type=jnp.int32)]
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


def concat(p: Any, inputs: Any) -> Any:
    return _jitted(lambda *parts: [jnp.concatenate(parts, -1)], *inputs)


def gather(p: Any, inputs: Any) -> Any:
    return _jitted(lambda table, ids: [table[ids]], *inputs)


def scatter_add(p: Any, inputs: Any) -> Any:
    shape = p["rows"], p["columns"]
    return _jitted(lambda grad, ids: [jnp.zeros(shape, grad.dtype).at[ids].add(grad)], *inputs)


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
    return _jitted(lambda x: [x.swapaxes(-1, -2)], *inputs)


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


def _image(p: Any, inputs: Any, function: Any) -> Any:
    if p.get("backward"):
        return _with_gradient(function, inputs[:-1], inputs[-1])
    return _jitted(lambda *inputs: [function(*inputs)], *inputs)


def convolution(p: Any, inputs: Any) -> Any:
    step, width = (p["stride"],) * 2, ((p["padding"],) * 2,) * 2
    more = {"window_strides": step, "padding": width, "feature_group_count": p["groups"]}
    return _image(p, inputs, lambda x, w: jax.lax.conv_general_dilated(x, w, **more))


def pool(p: Any, inputs: Any) -> Any:
    window, step = (1, 1, p["window"], p["window"]), (1, 1, p["stride"], p["stride"])
    largest = p["mode"] == "max"
    start, combine = (-jnp.inf, jax.lax.max) if largest else (0.0, jax.lax.add)
    scale = 1.0 if largest else 1 / p["window"] ** 2

    def function(x: Any) -> Any:
        return jax.lax.reduce_window(x, np.float32(start), combine, window, step, "VALID") * scale

    return _image(p, inputs, function)


def _standard(x: Any, axes: Any) -> Any:
    centred = x - x.mean(axes, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, axes, keepdims=True) + 1e-5)


def batch_norm(p: Any, inputs: Any) -> Any:
    return _image(p, inputs, lambda x: _standard(x, (0, 2, 3)))


def group_norm(p: Any, inputs: Any) -> Any:
    shape = p["batch"], p["groups"], -1
    return _image(p, inputs, lambda x: _standard(x.reshape(shape), (2,)).reshape(x.shape))


def resample(p: Any, inputs: Any) -> Any:
    size = p["size"] * p["factor"]

    def function(x: Any) -> Any:
        return jax.image.resize(x, (*x.shape[:2], size, size), "bilinear")

    return _image(p, inputs, function)


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


def residual_step(p: Any, inputs: Any) -> Any:
    x, targets, *weights = (jnp.asarray(array) for array in inputs)

    def loss_of(weights: Any) -> Any:
        layers, y = iter(weights), x
        for _ in range(p["blocks"]):
            before = y
            for last in (False, True):
                y = jax.lax.conv_general_dilated(y, next(layers), (1, 1), ((1, 1), (1, 1)))
                weight, bias = (next(layers).reshape(-1, 1, 1) for _ in range(2))
                y = _standard(y, (0, 2, 3)) * weight + bias
                y = jax.nn.relu(y + before if last else y)
        matrix, bias = layers
        return _cross_entropy(y.mean((2, 3)) @ matrix.T + bias, targets)

    return _trained(loss_of, weights)


def perceptron(p: Any, inputs: Any) -> Any:
    x, targets, *weights = (jnp.asarray(array) for array in inputs)

    def loss_of(weights: Any) -> Any:
        y = x
        for weight, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
            y = jax.nn.relu(y @ weight.T + bias)
        return _cross_entropy(y @ weights[-2].T + weights[-1], targets)

    return _trained(loss_of, weights)


def _trained(loss_of: Any, weights: Any) -> Any:
    """A run of one step of AdamW on the weights; its result is the loss."""
    state = jax_models.fresh_state(weights)

    @jax.jit
    def step(weights: Any, state: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(weights)
        return loss, *jax_models.adamw(weights, grads, state)

    def run() -> Any:
        nonlocal weights, state
        loss, weights, state = step(weights, state)
        return jax.block_until_ready([loss, *weights])[:1]

    return run


def optimiser(p: Any, inputs: Any) -> Any:
    values = [jnp.asarray(array) for array in inputs[: p["tensors"]]]
    grads = [jnp.asarray(array) for array in inputs[p["tensors"] :]]
    state = jax_models.fresh_state(values)
    step = jax.jit(jax_models.adamw, donate_argnums=(0, 2))

    def run() -> Any:
        nonlocal values, state
        values, state = step(values, grads, state)
        return jax.block_until_ready([values[0], values[-1]])

    return run


train_step = jax_models.train_step
first_step = jax_models.train_step
prefill = jax_models.prefill
decode = jax_models.decode
