"""JAX's language model: the plain array code of `benchmarks/olmo.py` under jit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import olmo
from benchmarks.model_kinds import ADAMW


def fresh_state(values: Any) -> Any:
    """Both moments of each value, and the number of the step."""
    zeros = jax.tree.map(jnp.zeros_like, values)
    return zeros, jax.tree.map(jnp.zeros_like, values), jnp.zeros((), jnp.int32)


def adamw(values: Any, grads: Any, state: Any) -> Any:
    """(values, state) after one step."""
    first, second, count = state
    a, count = ADAMW, count + 1
    first = jax.tree.map(lambda m, g: a["beta1"] * m + (1 - a["beta1"]) * g, first, grads)
    second = jax.tree.map(lambda v, g: a["beta2"] * v + (1 - a["beta2"]) * g * g, second, grads)
    scale = a["lr"] / (1 - jnp.float32(a["beta1"]) ** count)
    spread = 1 - jnp.float32(a["beta2"]) ** count

    def moved(x: Any, m: Any, v: Any) -> Any:
        return x * (1 - a["lr"] * a["weight_decay"]) - scale * m / (jnp.sqrt(v / spread) + a["eps"])

    return jax.tree.map(moved, values, first, second), (first, second, count)


def _weights(config: Any, dtype: Any) -> Any:
    found = olmo.random_weights(config)
    return {name: jnp.asarray(found.pop(name), dtype) for name in list(found)}


def train_step(p: Any, inputs: Any) -> Any:
    config, ids = p["config"], jnp.asarray(inputs[0])
    weights = _weights(config, jnp.float32)
    state = fresh_state(weights)

    def step(weights: Any, state: Any, ids: Any) -> Any:
        loss, grads = jax.value_and_grad(lambda w: olmo.loss(jnp, w, config, ids))(weights)
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
        scale = jnp.minimum(1.0, 1.0 / (norm + 1e-6))
        return loss, *adamw(weights, jax.tree.map(lambda g: g * scale, grads), state)

    step = jax.jit(step, donate_argnums=(0, 1))

    def run() -> Any:
        nonlocal weights, state
        loss, weights, state = step(weights, state, ids)
        return jax.block_until_ready([loss, weights])[:1]

    return run


def prefill(p: Any, inputs: Any) -> Any:
    if p["dtype"] not in ("float32", "bfloat16"):
        return None
    weights, ids = _weights(p["config"], jnp.dtype(p["dtype"])), jnp.asarray(inputs[0])
    function = jax.jit(lambda w, ids: _with_cache(w, p["config"], ids))
    return lambda: jax.block_until_ready(function(weights, ids))[:1]


def _with_cache(weights: Any, config: Any, ids: Any) -> Any:
    """Logits of the last token, and each layer's keys and values."""
    kept: list[Any] = []
    x = olmo.hidden(jnp, weights, config, ids, lambda k, v: kept.append((k, v)))
    return x[:, -1] @ weights["lm_head.weight"].T, kept


def _step(weights: Any, config: Any, table: Any, token: Any, place: Any, cache: Any) -> Any:
    """(the next token, the cache) after one token at a place."""
    x = weights["model.embed_tokens.weight"][token[:, None]]
    row = tuple(jax.lax.dynamic_slice_in_dim(part, place, 1) for part in table)
    columns, kept = jnp.arange(len(table[0])), []
    for index in range(config["num_hidden_layers"]):

        def attention(q: Any, k: Any, v: Any, index: int = index) -> Any:
            full = [jax.lax.dynamic_update_slice_in_dim(old, new, place, 2)
                    for old, new in zip(cache[index], (k, v), strict=True)]  # fmt: skip
            kept.append(full)
            mask = olmo.seen(jnp, config, index, place[None], columns)
            return olmo.attend(jnp, q, *full, mask)

        x = olmo.layer(jnp, weights, config, index, x, row, attention)
    x = olmo.norm(jnp, x, weights["model.norm.weight"], config["rms_norm_eps"])
    return (x[:, -1] @ weights["lm_head.weight"].T).argmax(-1), kept


def decode(p: Any, inputs: Any) -> Any:
    """Greedy, one call a token: each is read before the next one is asked for."""
    if p["dtype"] not in ("float32", "bfloat16"):
        return None
    config, dtype = p["config"], jnp.dtype(p["dtype"])
    weights, room = _weights(config, dtype), p["prompt"] + p["new"]
    table = olmo.tables(jnp, config, np.arange(room), dtype)
    logits, cache = jax.jit(lambda w, ids: _with_cache(w, config, ids))(weights, inputs[0])
    width = [(0, 0), (0, 0), (0, p["new"]), (0, 0)]
    start = [[jnp.pad(x, width) for x in layer] for layer in cache]
    step = jax.jit(lambda *inputs: _step(inputs[0], config, *inputs[1:]), donate_argnums=4)
    copy = jax.jit(lambda cache: jax.tree.map(jnp.copy, cache))

    def run() -> Any:
        token, cache = logits.argmax(-1), copy(start)
        for place in range(p["prompt"], room):
            token, cache = step(weights, table, token, jnp.asarray(place), cache)
            token.block_until_ready()
        return [logits]

    return run
