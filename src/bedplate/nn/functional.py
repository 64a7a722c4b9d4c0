"""Functions of neural networks: those of the ops floor by name, and what is built of them."""

from __future__ import annotations

from bedplate.nn.attention import attention
from bedplate.nn.noise import dropout, gumbel_softmax, rrelu
from bedplate.ops.activations import gelu, relu, sigmoid, silu, softplus
from bedplate.ops.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from bedplate.ops.gather import embedding
from bedplate.ops.losses import cross_entropy
from bedplate.ops.regression_losses import mse_loss
from bedplate.ops.rope import rope, swiglu
from bedplate.ops.softmax import log_softmax, logsumexp, softmax
from bedplate.ops.trigonometry import tanh
from bedplate.tensor import Tensor, network
from bedplate.tensor.network import *


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply by a matrix, and add a vector: y = x @ weight.T + bias.

    x        (..., in_features)
    weight   (out_features, in_features)
    bias     (out_features,), or None
    returns  (..., out_features)
    raises   ShapeError if the sizes do not match
    """
    y = x @ weight.transpose(-1, -2)
    return y if bias is None else y + bias


__all__ = [
    "attention",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "gumbel_softmax",
    "linear",
    "log_softmax",
    "logsumexp",
    "mse_loss",
    "relu",
    "rope",
    "rrelu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "swiglu",
    "tanh",
]
__all__ += network.__all__
