"""Bedplate: the foundation layer under the OLMo 3 language models.

>>> import bedplate as bp
>>> x = bp.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad.tolist()
[2.0, 4.0]
"""

from typing import TYPE_CHECKING

from bedplate import errors
from bedplate.config import config
from bedplate.devices import Device, Event, Stream, available, default_device
from bedplate.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote,
    uint8,
    uint16,
    uint32,
    uint64,
)
from bedplate.later import __getattr__ as __getattr__
from bedplate.tensor import (
    Autograd,
    Generator,
    Operation,
    Tensor,
    TensorOps,
    arange,
    asarray,
    check_operation,
    empty,
    empty_like,
    enable_grad,
    explain,
    eye,
    from_dlpack,
    from_numpy,
    full,
    functions,
    grad,
    gradcheck,
    gradgradcheck,
    jit,
    jvp,
    linspace,
    load,
    manual_seed,
    no_grad,
    ones,
    random,
    save,
    synchronize,
    tensor,
    value_and_grad,
    vjp,
    zeros,
)
from bedplate.tensor.functions import *

if TYPE_CHECKING:
    from bedplate import data, kernel, memory, nn, olmo, optim
    from bedplate.tensor import fft, linalg, special

__version__ = "0.1.0"

__all__ = [
    "Autograd",
    "DType",
    "Device",
    "Event",
    "Generator",
    "Operation",
    "Stream",
    "Tensor",
    "TensorOps",
    "arange",
    "asarray",
    "available",
    "bfloat16",
    "bool_",
    "check_operation",
    "complex64",
    "complex128",
    "config",
    "data",
    "default_device",
    "empty",
    "empty_like",
    "enable_grad",
    "errors",
    "explain",
    "eye",
    "fft",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "full",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "int8",
    "int16",
    "int32",
    "int64",
    "jit",
    "jvp",
    "kernel",
    "linalg",
    "linspace",
    "load",
    "manual_seed",
    "memory",
    "nn",
    "no_grad",
    "olmo",
    "ones",
    "optim",
    "promote",
    "random",
    "save",
    "special",
    "synchronize",
    "tensor",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
    "vjp",
    "zeros",
]  # fmt: skip
__all__ += functions.__all__
