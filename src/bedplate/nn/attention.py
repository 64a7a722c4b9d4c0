"""Attention of queries over keys and values, causal or over any mask.

Letters in the comments: B batch, T queries, S keys, H query heads, K key/value heads,
G = H / K query heads a key/value head, d head_dim.
"""

from __future__ import annotations

import math

from bedplate.errors import ShapeError
from bedplate.ops.attention.attention import attention as fused_attention
from bedplate.ops.reduction.softmax import softmax
from bedplate.tensor import Tensor, arange, random, where


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool = True,
    window: int | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    length: Tensor | None = None,
) -> Tensor:
    """softmax(q k' scale) v, where the last query stands at the position of the last key.

    q        (B, H, T, d)
    k, v     (B, K, S, d)   H a multiple of K: each key/value head serves H / K query heads
    causal   a query sees no key behind its own position
    window   a query sees at most this many keys, up to its own position
    scale    1 / sqrt(d) unless given
    dropout  probability with which a weight is set to 0
    length   () int64: only the first so many keys are there; not with dropout
    returns  (B, H, T, d)
    raises   ShapeError if the shapes do not fit
    cost     4 d flops a pair that sees each other, 10 d for the gradient
    source   Vaswani et al. 2017, arXiv:1706.03762; grouped heads: Ainslie et al. 2023,
             arXiv:2305.13245
    >>> import bedplate as bp
    >>> q = k = bp.zeros((1, 1, 3, 2))
    >>> v = bp.tensor([[[[2.0, 0.0], [4.0, 0.0], [6.0, 3.0]]]])
    >>> bp.nn.functional.attention(q, k, v).tolist()
    [[[[2.0, 0.0], [3.0, 0.0], [4.0, 1.0]]]]
    """
    _check(q, k, v)
    if not dropout:
        return fused_attention(q, k, v, causal, window, scale, length)
    n_queries, n_keys = q.shape[2], k.shape[2]
    mask = None
    if causal or window is not None:
        place = q.device
        queries = arange(n_queries, device=place).reshape((n_queries, 1)) + (n_keys - n_queries)
        distance = queries - arange(n_keys, device=place).reshape((1, n_keys))  # (T, S)
        mask = distance >= 0
        if window is not None:
            mask = mask & (distance < window)
    return masked_attention(q, k, v, mask, scale, dropout)


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    fits = (
        q.ndim == k.ndim == v.ndim == 4
        and k.shape == v.shape
        and q.shape[0] == k.shape[0]
        and q.shape[3] == k.shape[3]
        and q.shape[1] % k.shape[1] == 0
    )
    if not fits:
        raise ShapeError(
            f"attention: the shapes do not fit\n  q  {q.shape}\n  k  {k.shape}\n  v  {v.shape}\n"
            "  expected q (B, H, T, d), k and v (B, K, S, d), H a multiple of K"
        )


def masked_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(q k' scale) v over the positions that the mask shows.

    q        (B, H, T, d)
    k, v     (B, K, S, d)
    mask     (T, S) bool, or None for all
    returns  (B, H, T, d)
    """
    batch, n_heads, time, size = q.shape
    n_kv_heads, n_seen = k.shape[1:3]
    group = n_heads // n_kv_heads
    scale = 1.0 / math.sqrt(size) if scale is None else scale
    q = q.reshape((batch, n_kv_heads, group * time, size))  # (B, K, G T, d)
    scores = (q @ k.transpose(-1, -2)) * scale  # (B, K, G T, S)
    scores = scores.reshape((batch, n_kv_heads, group, time, n_seen))  # (B, K, G, T, S)
    if mask is not None:
        scores = where(mask, scores, -math.inf)
    weights = softmax(scores, axis=-1)
    if dropout:
        weights = random.dropout(weights, dropout)
    y = weights.reshape((batch, n_kv_heads, group * time, n_seen)) @ v  # (B, K, G T, d)
    return y.reshape((batch, n_heads, time, size))
