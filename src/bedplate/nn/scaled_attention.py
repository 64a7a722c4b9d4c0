"""Attention by PyTorch's name and arguments: masks, dropout, grouped queries.

Without mask and dropout it is the fused kernel (`bp.attention`), which never stores the weights
of all pairs. With either it is composed of products and a softmax, and does store them.
Letters in the comments: T queries, S keys, H query heads, K key/value heads, D head_dim.
"""

from __future__ import annotations

import math

from bedplate.dtypes import bool_, float32
from bedplate.errors import DTypeError, ShapeError
from bedplate.nn.noise import dropout
from bedplate.ops.attention.attention import attention as fused_attention
from bedplate.ops.build import broadcast_shapes
from bedplate.ops.refusal import refuse
from bedplate.tensor import Generator, Tensor, arange, functions, where


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """softmax(query key' scale + mask) value, along the last two axes.

    query       (..., H, T, D)  float; leading axes broadcast with those of key and value, or none
    key         (..., K, S, D)  dtype of query
    value       (..., K, S, V)  dtype of query
    attn_mask   broadcasts to (..., H, T, S): bool, True where a query sees a key; or a float
                that is added to the scaled products
    dropout_p   probability with which a weight is set to 0, whatever the mode of a module
    is_causal   query i sees the keys up to i, counted from the first key: as in PyTorch, and
                unlike `bp.attention`, whose last query stands at the last key; not with a mask
    scale       1 / sqrt(D) unless given
    enable_gqa  each key/value head serves H / K query heads; otherwise K is H (or broadcasts)
    generator   where dropout draws from; the default generator unless given
    returns     (..., H, T, V)  dtype of query; products and softmax run in float32 or better. A
                query that sees no key gives zeros, and its gradients are zeros
    raises      ShapeError, DTypeError if the arguments do not fit; ValueError for a mask that is
                to be causal as well
    source      Vaswani et al. 2017, arXiv:1706.03762; grouped heads: Ainslie et al. 2023,
                arXiv:2305.13245
    >>> import bedplate as bp
    >>> x = bp.tensor([[[1.0], [3.0]]])
    >>> bp.nn.functional.scaled_dot_product_attention(x * 0, x * 0, x).tolist()
    [[[2.0], [2.0]]]
    >>> mask = bp.tensor([[True, False], [False, False]])
    >>> bp.nn.functional.scaled_dot_product_attention(x, x, x, mask).tolist()
    [[[1.0], [0.0]]]
    """
    _check(query, key, value, attn_mask, is_causal, enable_gqa)
    scale = 1.0 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    same = query.shape[:-3] == key.shape[:-3] == value.shape[:-3]
    heads = enable_gqa or query.shape[-3:-2] == key.shape[-3:-2] == value.shape[-3:-2]
    narrow = query.shape[-1] == value.shape[-1] >= 1
    if attn_mask is None and not dropout_p and same and heads and narrow:
        return _fused(query, key, value, is_causal, scale)
    return _composed(query, key, value, attn_mask, dropout_p, is_causal, scale, generator)


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    enable_gqa: bool,
) -> None:
    name = "scaled_dot_product_attention"
    named = {"query": query, "key": key, "value": value}
    inputs = (query, key, value)
    if any(x.ndim < 2 for x in inputs) or key.shape[-2] != value.shape[-2]:
        refuse(ShapeError, name, "the shapes do not fit", named,
               "expected query (..., T, D), key (..., S, D), value (..., S, V)")  # fmt: skip
    if query.shape[-1] != key.shape[-1]:
        refuse(ShapeError, name, "query and key differ in their last size", named)
    if any(x.dtype is not query.dtype for x in inputs) or not query.dtype.is_float:
        refuse(DTypeError, name, "the dtypes must be one float dtype", named)
    if enable_gqa:
        groups = min(x.ndim for x in inputs) >= 3 and key.shape[-3] == value.shape[-3] > 0
        if not groups or query.shape[-3] % key.shape[-3]:
            refuse(ShapeError, name, "the heads do not fit", named,
                   "H of query must be a multiple of K of key and value")  # fmt: skip
    if attn_mask is not None and is_causal:
        raise ValueError(f"{name}: attn_mask and is_causal exclude each other")
    if attn_mask is not None and not (attn_mask.dtype is bool_ or attn_mask.dtype.is_float):
        refuse(DTypeError, name, "a mask is bool or float", {"attn_mask": attn_mask})


def _fused(query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float) -> Tensor:
    """The kernel, on (B, H, T, D)."""
    n_queries, n_keys = query.shape[-2], key.shape[-2]
    if is_causal and n_queries > n_keys:
        parts = [
            _fused(query[..., :n_keys, :], key, value, True, scale),
            _fused(query[..., n_keys:, :], key, value, False, scale),
        ]
        return functions.concat(parts, axis=-2)
    if is_causal and n_queries < n_keys:  # what follows query T - 1 is seen by nobody
        key, value = key[..., :n_queries, :], value[..., :n_queries, :]
    q, k, v = (_four(x) for x in (query, key, value))
    return fused_attention(q, k, v, causal=is_causal, scale=scale).reshape(query.shape)


def _four(x: Tensor) -> Tensor:
    """(B, H, T, D): leading axes merged, missing ones of size 1."""
    shape = (1,) * (4 - x.ndim) + x.shape
    return x.reshape((math.prod(shape[:-3]), *shape[-3:]))


def _composed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    generator: Generator | None,
) -> Tensor:
    weights = attention_weights(query, key, attn_mask, dropout_p, is_causal, scale, generator)
    return _by_head(weights, value.astype(weights.dtype)).astype(query.dtype)  # (..., H, T, V)


def attention_weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    generator: Generator | None = None,
) -> Tensor:
    """(..., H, T, S), float32 or better: the weight of each key for each query."""
    if query.dtype.itemsize == 2:
        query, key = query.astype(float32), key.astype(float32)
    scores = _by_head(query, key.transpose(-1, -2)) * scale
    if is_causal:
        positions = arange(scores.shape[-2], device=query.device).reshape((-1, 1))
        attn_mask = positions >= arange(scores.shape[-1], device=query.device)
    weights = _weights(scores, attn_mask)
    return dropout(weights, dropout_p, generator=generator) if dropout_p else weights


def _by_head(x: Tensor, y: Tensor) -> Tensor:
    """x @ y, where a head of y serves several of x."""
    grouped = x.ndim >= 3 and y.ndim >= 3 and 1 < y.shape[-3] < x.shape[-3]
    if not grouped:
        return x @ y
    groups = x.shape[-3] // y.shape[-3]
    rows = x.reshape((*x.shape[:-3], y.shape[-3], groups * x.shape[-2], x.shape[-1]))
    product = rows @ y
    return product.reshape((*product.shape[:-3], *x.shape[-3:-1], y.shape[-1]))


def _weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The softmax over keys; zeros for a query that sees none."""
    if mask is None or not scores.shape[-1]:
        return functions.softmax(scores, axis=-1)
    broadcast_shapes("scaled_dot_product_attention", (scores, mask))
    if mask.dtype is bool_:
        scores = where(mask, scores, -math.inf)
    else:
        scores = scores + mask.astype(scores.dtype)
    # a row of -inf alone would be NaN; a NaN in the scores stays one
    sees = scores.max(axis=-1, keepdims=True) != -math.inf
    shares = functions.softmax(where(sees, scores, 0.0), axis=-1)
    return where(sees, shares, 0.0)
