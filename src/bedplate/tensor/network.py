"""Functions of neural networks that are ops.

Written by tools/namespace.py."""

from bedplate.ops.activations import glu, logsigmoid, mish, softsign, tanhshrink
from bedplate.ops.piecewise import (
    celu,
    elu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    prelu,
    relu6,
    selu,
    softshrink,
    threshold,
)
from bedplate.ops.softmax import softmin

__all__ = [
    "celu",
    "elu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu6",
    "selu",
    "softmin",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
]
