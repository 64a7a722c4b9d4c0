"""The second derivative of attention, in tensor ops over all T x S pairs.

For gradients of gradients only: unlike attention and its gradient it stores the weights.
With S = scale q k^T, p = exp(S - lse), dp = g v^T, delta = sum(p dp), ds = p (dp - delta), the
gradient is dq = scale ds k, dk = scale ds^T q, dv = p^T g. For cotangents a, b, c of these:

    e = scale (a k^T + q b^T)             of ds
    x = p (e - sum(p e))                  of dp
    y = g c^T + e (dp - delta) - dp sum(p e)    of p
    z = p (y - sum(p y))                  of S
    q: scale (ds b + z k)    k: scale (ds^T a + z^T q)    v: x^T g    g: x v + p c

sums run over the keys. out and lse count as functions of q, k, v: they get no gradient.
"""

from __future__ import annotations

from typing import Any

from bedplate.graph.node import Attributes
from bedplate.ops.build import Value, as_type, number
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.pointwise.comparison import greater_equal, less, logical_and
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import exp
from bedplate.ops.shape.creation import index_along, zeros_like
from bedplate.ops.shape.views import expand_dims, matrix_transpose, reshape


def second_gradient(
    grad_out: Any, inputs: Any, output: Value, **attributes: Any
) -> tuple[Any, ...]:
    """See the head of this file; heads that share a key head stand on an axis of their own."""
    q, k, v, _, lse, g, *length = inputs
    group = q.shape[1] // k.shape[1] if k.shape[1] else 1
    of_queries = [zeros_like(q) if grad_out[0] is None else grad_out[0], q, g]
    of_keys = [zeros_like(k) if x is None else x for x in grad_out[1:]] + [k, v]
    a, q, g = (_grouped(x, group) for x in of_queries)  # (B, K, G, T, D)
    b, c, k, v = (expand_dims(x, 2) for x in of_keys)  # (B, K, 1, S, D)
    p = _weights(q, k, _grouped(lse, group), length, attributes)
    to_q, to_k, to_v, to_g = _formulas(a, b, c, q, k, v, g, p, attributes["scale"])
    shape = inputs[0].shape
    keys = (x.sum(axis=2) for x in (to_k, to_v))
    ignored = (None for _ in length)
    return reshape(to_q, shape), *keys, None, None, reshape(to_g, shape), *ignored


def _formulas(
    a: Value, b: Value, c: Value, q: Value, k: Value, v: Value, g: Value, p: Value, scale: float
) -> tuple[Value, Value, Value, Value]:
    def over_keys(x: Value) -> Value:
        return x.sum(axis=-1, keepdims=True)

    dp = _outer(g, v)
    inner = dp - over_keys(p * dp)
    ds = p * inner
    e = (_outer(a, k) + _outer(q, b)) * scale
    e_sum = over_keys(p * e)
    x = p * (e - e_sum)
    y = _outer(g, c) + e * inner - dp * e_sum
    z = p * (y - over_keys(p * y))
    return (
        (matmul(ds, b) + matmul(z, k)) * scale,
        (matmul(matrix_transpose(ds), a) + matmul(matrix_transpose(z), q)) * scale,
        matmul(matrix_transpose(x), g),
        matmul(x, v) + matmul(p, c),
    )


def _grouped(x: Value, group: int) -> Value:
    """(B, H, ...) as (B, H / group, group, ...)."""
    return reshape(x, (x.shape[0], x.shape[1] // group, group, *x.shape[2:]))


def _outer(rows: Value, keys: Value) -> Value:
    return matmul(rows, matrix_transpose(keys))


def _weights(q: Value, k: Value, lse: Value, length: list[Value], attributes: Attributes) -> Value:
    """exp(scale q k^T - lse) for the keys that a query sees, else 0."""
    p = exp(_outer(q, k) * attributes["scale"] - as_type(expand_dims(lse, -1), q.dtype))
    if not attributes["causal"] and not length:
        return p
    n_queries, n_keys = q.shape[-2], k.shape[-2]
    keys = index_along(q, 1, (1, n_keys))
    there = length[0] if length else n_keys
    seen = less(keys, there)
    behind = index_along(q, 0, (n_queries, 1)) - keys + (there - n_queries)
    if attributes["causal"]:
        seen = logical_and(seen, greater_equal(behind, 0))
    if attributes["window"] is not None:
        seen = logical_and(seen, less(behind, attributes["window"]))
    return where(seen, p, number(q, 0.0))
