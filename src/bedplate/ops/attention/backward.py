"""The gradient of attention as an op of its own; the kernel is in reverse.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType
from bedplate.graph.node import Attributes, Shape
from bedplate.later import deferred
from bedplate.ops.attention.second import second_gradient
from bedplate.ops.record import Cost, Op, register


def _infer(
    inputs: tuple[Any, ...], attributes: Attributes
) -> tuple[tuple[Shape, ...], tuple[DType, ...]]:
    q, k, v = inputs[:3]
    return (q.shape, k.shape, v.shape), (q.dtype, k.dtype, v.dtype)


def weights(
    q: Any, k: Any, length: Any, *, scale: float, causal: bool, window: int | None
) -> tuple[Any, Any, Any]:
    """(p, lse, k) in float64 NumPy: softmax over the keys seen, and k repeated for each head."""
    q, k = q.astype(np.float64), k.astype(np.float64)
    k = np.repeat(k, q.shape[1] // max(k.shape[1], 1), axis=1)
    n_queries, n_keys = q.shape[2], k.shape[2]
    there = n_keys if length is None else min(max(int(length), 0), n_keys)
    behind = np.arange(n_queries)[:, None] + (there - n_queries) - np.arange(n_keys)
    seen = np.ones_like(behind, bool) & (np.arange(n_keys) < there)
    if causal or window is not None:
        seen &= (behind >= 0) & (behind < (n_keys + 1 if window is None else window))
    scores = np.where(seen, q @ k.swapaxes(-1, -2) * scale, -np.inf)
    greatest = scores.max(-1, keepdims=True, initial=-np.finfo(np.float64).max)
    p = np.exp(scores - greatest)
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.log(total) + np.where(total > 0, greatest, 0)
    return p / np.where(total > 0, total, 1), lse[..., 0], k


def reference(
    q: Any, k: Any, v: Any, out: Any, lse: Any, grad_out: Any, length: Any = None,
    **attributes: Any,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The textbook formulas over all T x S pairs, in float64."""
    p, _, wide_k = weights(q, k, length, **attributes)
    group = q.shape[1] // max(k.shape[1], 1)
    wide_v = np.repeat(v.astype(np.float64), group, axis=1)
    grad = grad_out.astype(np.float64)
    delta = (grad * out.astype(np.float64)).sum(-1, keepdims=True)
    ds = p * (grad @ wide_v.swapaxes(-1, -2) - delta) * attributes["scale"]
    shape = (k.shape[0], k.shape[1], group, *k.shape[2:])
    dk = (ds.swapaxes(-1, -2) @ q.astype(np.float64)).reshape(shape).sum(2)
    dv = (p.swapaxes(-1, -2) @ grad).reshape(shape).sum(2)
    return (ds @ wide_k).astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype)


def pair_flops(each: float) -> Any:
    """Flops of `each` times the head size for every pair of query and key that it sees, about."""

    def flops(inputs: Any, output: Any, attributes: Any) -> float:
        batch, heads, queries, head_dim = inputs[0].shape
        seen = float(inputs[1].shape[2])
        if attributes["causal"]:  # the last query sees all keys, the first as many fewer
            seen = max(seen - (queries - 1) / 2, 0.0)
        if attributes["window"] is not None:
            seen = min(seen, attributes["window"])
        return each * head_dim * batch * heads * queries * seen

    return flops


ATTENTION_BACKWARD = register(
    Op(
        "attention_backward",
        "kernel",
        _infer,
        reference=reference,
        gradient=second_gradient,
        cost=Cost("10 D flops a pair that sees each other", pair_flops(10)),
        lower=deferred("bedplate.ops.attention.lower", "lower_backward"),
        n_outputs=3,
        any_order=(2,),
        dtypes=FLOATS,
        doc="The gradients of attention by queries, keys and values.",
    )
)
