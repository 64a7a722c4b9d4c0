"""What users hold: Tensor, the functions of all ops, creation, random numbers, files."""

from bedplate.autograd import (
    Autograd,
    Operation,
    check_operation,
    enable_grad,
    grad,
    gradcheck,
    gradgradcheck,
    jvp,
    no_grad,
    value_and_grad,
    vjp,
)
from bedplate.compiler.explain import explain
from bedplate.tensor import functions, random
from bedplate.tensor.creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    linspace,
    ones,
    tensor,
    zeros,
)
from bedplate.tensor.files import load, save
from bedplate.tensor.functions import *
from bedplate.tensor.jit import jit
from bedplate.tensor.primitives import TensorOps
from bedplate.tensor.random import Generator, manual_seed
from bedplate.tensor.tensor import Tensor
from bedplate.tensor.values import synchronize

__all__ = [
    "Autograd",
    "Generator",
    "Operation",
    "Tensor",
    "TensorOps",
    "arange",
    "asarray",
    "check_operation",
    "empty",
    "empty_like",
    "enable_grad",
    "explain",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "jit",
    "jvp",
    "linspace",
    "load",
    "manual_seed",
    "no_grad",
    "ones",
    "random",
    "save",
    "synchronize",
    "tensor",
    "value_and_grad",
    "vjp",
    "zeros",
]  # fmt: skip
__all__ += functions.__all__
