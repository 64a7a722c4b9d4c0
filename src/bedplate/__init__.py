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
from bedplate.dtypes import bool_ as bool
from bedplate.later import __dir__ as __dir__
from bedplate.later import __getattr__ as __getattr__
from bedplate.tensor import (
    Autograd,
    Generator,
    Operation,
    Tensor,
    TensorOps,
    __array_api_version__,
    __array_namespace_info__,
    arange,
    asarray,
    broadcast_shapes,
    can_cast,
    e,
    empty,
    enable_grad,
    eye,
    finfo,
    from_dlpack,
    from_numpy,
    full,
    functions,
    grad,
    gradcheck,
    gradgradcheck,
    hessian,
    iinfo,
    inf,
    isdtype,
    jacobian,
    jit,
    jvp,
    linspace,
    load,
    manual_seed,
    nan,
    newaxis,
    no_grad,
    ones,
    pi,
    random,
    rematerialise,
    result_type,
    save,
    synchronize,
    tensor,
    value_and_grad,
    vjp,
    zeros,
)
from bedplate.tensor.functions import *

if TYPE_CHECKING:
    from bedplate import data, inspect, kernel, memory, nn, olmo, optim
    from bedplate.compiler.explain import explain
    from bedplate.inspect import profile
    from bedplate.memory import MemoryManager, ThreadLocalPool
    from bedplate.tensor import fft, linalg, special
    from bedplate.tensor.check_operation import check_operation
    from bedplate.tensor.detect import detect_nan

__version__ = "0.1.0"

__all__ = [
    "Autograd",
    "DType",
    "Device",
    "Event",
    "Generator",
    "MemoryManager",
    "Operation",
    "Stream",
    "Tensor",
    "TensorOps",
    "ThreadLocalPool",
    "__array_api_version__",
    "__array_namespace_info__",
    "arange",
    "asarray",
    "available",
    "bfloat16",
    "bool",
    "bool_",
    "broadcast_shapes",
    "can_cast",
    "check_operation",
    "complex64",
    "complex128",
    "config",
    "data",
    "default_device",
    "detect_nan",
    "e",
    "empty",
    "enable_grad",
    "errors",
    "explain",
    "eye",
    "fft",
    "finfo",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "full",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "hessian",
    "iinfo",
    "inf",
    "inspect",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "jacobian",
    "jit",
    "jvp",
    "kernel",
    "linalg",
    "linspace",
    "load",
    "manual_seed",
    "memory",
    "nan",
    "newaxis",
    "nn",
    "no_grad",
    "olmo",
    "ones",
    "optim",
    "pi",
    "profile",
    "promote",
    "random",
    "rematerialise",
    "result_type",
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
