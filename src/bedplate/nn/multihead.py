"""Attention with trained projections, several heads side by side, as PyTorch's module.

Letters in the comments: B batch, T queries, S keys, E embed_dim, H heads, D = E / H.
"""

from __future__ import annotations

import math

from bedplate.dtypes import DType, bool_, float32
from bedplate.errors import ShapeError
from bedplate.nn.functional import linear
from bedplate.nn.init import constant_init, xavier_uniform
from bedplate.nn.linear import Linear
from bedplate.nn.module import Module
from bedplate.nn.parameter import Parameter
from bedplate.nn.scaled_attention import attention_weights, scaled_dot_product_attention
from bedplate.tensor import Tensor, where


class MultiheadAttention(Module):
    """Attention of queries over keys and values, each projected, H heads side by side.

    in_proj_weight  (3 E, E)  of queries, keys and values, one below the other; in_proj_bias (3 E,)
    out_proj        Linear(E, E)
    batch_first     inputs are (B, T, E) and not (T, B, E); without a batch (T, E)
    raises          ShapeError if the heads do not divide E
    source          Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2
    >>> from bedplate.tensor import ones
    >>> out, weights = MultiheadAttention(4, 2)(ones((3, 4)), ones((5, 4)), ones((5, 4)))
    >>> out.shape, weights.shape
    ((3, 4), (3, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
        dtype: DType = float32,
    ) -> None:
        if num_heads < 1 or embed_dim % num_heads:
            raise ShapeError(f"MultiheadAttention: {num_heads} heads do not divide {embed_dim}")
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.dropout, self.batch_first = dropout, batch_first
        self.in_proj_weight = Parameter(xavier_uniform((3 * embed_dim, embed_dim), dtype=dtype))
        zeros = constant_init((3 * embed_dim,), 0.0, dtype=dtype) if bias else None
        self.in_proj_bias = None if zeros is None else Parameter(zeros)
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(out, weights), the latter None unless asked for, which lets the fused kernel run.

        query, key, value     (T, B, E), (S, B, E), (S, B, E); or as `batch_first` says
        key_padding_mask      (B, S) bool, True where a key is left out; or a float that is added
        attn_mask             (T, S) or (B H, T, S) bool, True where a query does not see a key
                              (as in PyTorch's module, and unlike its function); or a float
        average_attn_weights  weights (B, T, S), the mean over the heads; otherwise (B, H, T, S)
        is_causal             query i sees the keys up to i; besides the masks
        """
        alone = query.ndim == 2
        if alone:
            query, key, value = (x.reshape((1, *x.shape)) for x in (query, key, value))
        elif not self.batch_first:
            query, key, value = (x.swapaxes(0, 1) for x in (query, key, value))
        q, k, v = self._heads(query, key, value)
        mask = self._mask(q, k, key_padding_mask, attn_mask)
        if is_causal and mask is not None:
            mask = _joined(mask, _causal(q, k))
        p = self.dropout if self.training else 0.0
        causal = is_causal and mask is None
        weights = None
        if need_weights:
            shares = attention_weights(q, k, mask, p, causal, 1 / math.sqrt(q.shape[-1]))
            y = (shares @ v.astype(shares.dtype)).astype(v.dtype)
            weights = shares.mean(axis=1) if average_attn_weights else shares
        else:
            y = scaled_dot_product_attention(q, k, v, mask, p, causal)
        y = y.swapaxes(1, 2).reshape((*query.shape[:2], self.embed_dim))  # (B, T, E)
        out = self.out_proj(y)
        if alone:
            return out[0], None if weights is None else weights[0]
        return out if self.batch_first else out.swapaxes(0, 1), weights

    def _heads(self, *inputs: Tensor) -> list[Tensor]:
        """The projections, (B, H, T, D) each."""
        weights = self.in_proj_weight.chunk(3)
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        result = []
        for x, weight, bias in zip(inputs, weights, biases, strict=True):
            y = linear(x, weight, bias)
            split = (*y.shape[:2], self.num_heads, self.embed_dim // self.num_heads)
            result.append(y.reshape(split).swapaxes(1, 2))
        return result

    def _mask(
        self, q: Tensor, k: Tensor, padding: Tensor | None, mask: Tensor | None
    ) -> Tensor | None:
        """Both masks as one that broadcasts to (B, H, T, S), True where a key is seen."""
        if mask is not None:
            mask = ~mask if mask.dtype is bool_ else mask
            if mask.ndim == 3:
                mask = mask.reshape((*q.shape[:2], q.shape[2], k.shape[2]))
        if padding is None:
            return mask
        padding = padding.reshape((-1, 1, 1, k.shape[2]))
        padding = ~padding if padding.dtype is bool_ else padding
        return padding if mask is None else _joined(mask, padding)

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, num_heads={self.num_heads}"


def _causal(q: Tensor, k: Tensor) -> Tensor:
    ones = q._lift(True).broadcast_to((q.shape[2], k.shape[2]))
    return ones.tril()


def _joined(a: Tensor, b: Tensor) -> Tensor:
    """One mask that shows what both show: bool, or what is added to the scaled products."""
    if a.dtype is bool_ and b.dtype is bool_:
        return a & b
    parts = [where(x, 0.0, -math.inf) if x.dtype is bool_ else x for x in (a, b)]
    return parts[0] + parts[1]
