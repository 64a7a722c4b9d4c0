"""Functions of neural networks: those of the ops floor by name, and what is built of them."""

from __future__ import annotations

from bedplate.nn.attention import attention
from bedplate.nn.noise import dropout, gumbel_softmax, rrelu
from bedplate.nn.scaled_attention import scaled_dot_product_attention
from bedplate.ops.public import public
from bedplate.tensor import Tensor, network
from bedplate.tensor.functions import rope, swiglu
from bedplate.tensor.network import *


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply by a matrix, and add a vector: y = x @ weight.T + bias.

    x        (..., in_features)
    weight   (out_features, in_features)
    bias     (out_features,), or None
    returns  (..., out_features)
    raises   ShapeError if the sizes do not match
    cost     2 in_features out_features flops a row
    >>> import bedplate as bp
    >>> bp.nn.functional.linear(bp.tensor([1.0, 2.0]), bp.tensor([[3.0, 4.0]])).tolist()
    [11.0]
    """
    y = x.matmul(weight.transpose(-1, -2))
    return y if bias is None else y + bias


attention = public(attention, __name__)
dropout = public(dropout, __name__)
gumbel_softmax = public(gumbel_softmax, __name__)
linear = public(linear, __name__)
rrelu = public(rrelu, __name__)
scaled_dot_product_attention = public(scaled_dot_product_attention, __name__)

__all__ = [
    "attention",
    "dropout",
    "gumbel_softmax",
    "linear",
    "rope",
    "rrelu",
    "scaled_dot_product_attention",
    "swiglu",
]
__all__ += network.__all__
