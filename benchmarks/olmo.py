"""OLMo 3 in plain array code: what peers are held to, and the model of peers without one.

`xp` is `numpy` or a module with the same functions (`jax.numpy`). Weights are a dict by their
published names. This file needs NumPy alone: the peers' processes import it too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Weights = dict[str, Any]
Config = dict[str, Any]
SPREAD = 0.02  # of the random weights, as the published configuration has it
FULL_EVERY = 4  # of four layers three look at a window, the fourth at everything


def sizes(config: Config) -> tuple[int, int, int]:
    """(size of a head, of all queries, of all keys)"""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head = config.get("head_dim", config["hidden_size"] // heads)
    return head, head * heads, head * kv_heads


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The shape of each weight, by its published name."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    _, q, kv = sizes(config)
    layer = {
        "self_attn.q_proj": (q, width),
        "self_attn.k_proj": (kv, width),
        "self_attn.v_proj": (kv, width),
        "self_attn.o_proj": (width, q),
        "self_attn.q_norm": (q,),
        "self_attn.k_norm": (kv,),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
        "post_attention_layernorm": (width,),
        "post_feedforward_layernorm": (width,),
    }
    found = {"model.embed_tokens.weight": (config["vocab_size"], width)}
    for index in range(config["num_hidden_layers"]):
        found |= {f"model.layers.{index}.{name}.weight": shape for name, shape in layer.items()}
    return {**found, "model.norm.weight": (width,), "lm_head.weight": found[next(iter(found))]}


def random_weights(config: Config, seed: int = 11) -> Weights:
    """float32; the norms' weights around 1, so that an answer depends on each of them."""
    rng = np.random.default_rng(seed)
    spread = np.float32(SPREAD)
    return {
        name: rng.standard_normal(shape, dtype=np.float32) * spread + np.float32(len(shape) == 1)
        for name, shape in shapes(config).items()
    }


def tables(xp: Any, config: Config, positions: Any, dtype: Any) -> tuple[Any, Any]:
    """Cosines and sines of the rotation, each (T, d): NumPy's, whatever `xp`."""
    head = sizes(config)[0]
    rates = config["rope_theta"] ** (-np.arange(0, head, 2) / head)
    angles = np.asarray(positions)[:, None] * np.concatenate([rates, rates])
    return xp.asarray(np.cos(angles), dtype), xp.asarray(np.sin(angles), dtype)


def rotated(xp: Any, x: Any, table: tuple[Any, Any]) -> Any:
    cosines, sines = table
    first, second = xp.split(x, 2, axis=-1)
    return x * cosines + xp.concatenate([-second, first], axis=-1) * sines


def norm(xp: Any, x: Any, weight: Any, eps: float) -> Any:
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    scale = 1 / xp.sqrt((wide * wide).mean(-1, keepdims=True) + np.float32(eps))
    return (wide * scale * weight).astype(x.dtype)


def seen(xp: Any, config: Config, index: int, rows: Any, columns: Any) -> Any:
    """Whether the query at a row may see the key at a column, in layer `index`."""
    distance = rows[:, None] - columns[None, :]
    window = config["sliding_window"] if (index + 1) % FULL_EVERY else 1 << 30
    return (distance >= 0) & (distance < window)


def attend(xp: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    """softmax(q k' / sqrt(d)) v over the pairs of the mask; q (B, H, T, d), k and v (B, H, S, d)"""
    scores = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    wide = scores if scores.dtype == np.float64 else scores.astype(np.float32)
    wide = xp.where(mask, wide, -np.inf)
    weights = xp.exp(wide - wide.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(q.dtype) @ v


def silu(xp: Any, x: Any) -> Any:
    return x / (1 + xp.exp(-x))


def layer(
    xp: Any, w: Weights, config: Config, index: int, x: Any, table: Any, attention: Any
) -> Any:
    """One layer; `attention(q, k, v)` says what the queries see, and keeps what it wants."""
    place, eps = f"model.layers.{index}.", config["rms_norm_eps"]

    def linear(name: str, x: Any) -> Any:
        return x @ w[f"{place}{name}.weight"].T

    def heads(x: Any) -> Any:
        return x.reshape(*x.shape[:2], -1, sizes(config)[0]).swapaxes(1, 2)

    def normed(name: str, x: Any) -> Any:
        return norm(xp, x, w[f"{place}{name}.weight"], eps)

    q = heads(normed("self_attn.q_norm", linear("self_attn.q_proj", x)))
    k = heads(normed("self_attn.k_norm", linear("self_attn.k_proj", x)))
    v = heads(linear("self_attn.v_proj", x))
    y = attention(rotated(xp, q, table), rotated(xp, k, table), v)
    y = linear("self_attn.o_proj", y.swapaxes(1, 2).reshape(x.shape))
    x = x + normed("post_attention_layernorm", y)
    inner = silu(xp, linear("mlp.gate_proj", x)) * linear("mlp.up_proj", x)
    return x + normed("post_feedforward_layernorm", linear("mlp.down_proj", inner))


def hidden(xp: Any, w: Weights, config: Config, ids: Any, keep: Any = None) -> Any:
    """The hidden states behind the last norm, (B, T, d_model).

    keep  is told the keys and values of each layer
    """
    x = w["model.embed_tokens.weight"][ids]
    places = np.arange(ids.shape[1])
    table = tables(xp, config, places, x.dtype)
    for index in range(config["num_hidden_layers"]):
        mask = xp.asarray(seen(np, config, index, places, places))

        def attention(q: Any, k: Any, v: Any, mask: Any = mask) -> Any:
            if keep is not None:
                keep(k, v)
            return attend(xp, q, k, v, mask)

        x = layer(xp, w, config, index, x, table, attention)
    return norm(xp, x, w["model.norm.weight"], config["rms_norm_eps"])


def last_logits(xp: Any, w: Weights, config: Config, ids: Any) -> Any:
    """(B, vocab_size): what follows the last token."""
    return hidden(xp, w, config, ids)[:, -1] @ w["lm_head.weight"].T


def loss(xp: Any, w: Weights, config: Config, ids: Any) -> Any:
    """The mean cross-entropy of each next token; ids (B, T + 1)."""
    logits = hidden(xp, w, config, ids[:, :-1]) @ w["lm_head.weight"].T
    largest = logits.max(-1, keepdims=True)
    total = xp.log(xp.exp(logits - largest).sum(-1)) + largest[..., 0]
    picked = xp.take_along_axis(logits, ids[:, 1:, None], -1)[..., 0]
    return (total - picked).mean()
