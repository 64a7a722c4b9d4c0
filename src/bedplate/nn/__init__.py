"""Neural networks: modules, their parameters, and the values these start from."""

from bedplate.nn import functional
from bedplate.nn.activations import GELU, Dropout, Identity, ReLU, Sigmoid, SiLU, Softmax, Tanh
from bedplate.nn.containers import ModuleList, Sequential
from bedplate.nn.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from bedplate.nn.init import (
    fans,
    gain_of,
    kaiming_init,
    lecun_init,
    normal_init,
    uniform_init,
    xavier_init,
)
from bedplate.nn.linear import Embedding, Linear
from bedplate.nn.module import Module
from bedplate.nn.normalisation import LayerNorm, RMSNorm
from bedplate.nn.parameter import Parameter

__all__ = [
    "GELU",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "Embedding",
    "Identity",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleList",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "fans",
    "functional",
    "gain_of",
    "kaiming_init",
    "lecun_init",
    "normal_init",
    "uniform_init",
    "xavier_init",
]
