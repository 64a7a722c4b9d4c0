"""What users hold: Tensor, the functions of all ops, creation, random numbers, files."""

from bedplate.autograd import (
    Autograd,
    Operation,
    enable_grad,
    grad,
    gradcheck,
    gradgradcheck,
    hessian,
    jacobian,
    jvp,
    no_grad,
    value_and_grad,
    vjp,
)
from bedplate.tensor import functions, random
from bedplate.tensor.creation import (
    arange,
    asarray,
    empty,
    eye,
    from_dlpack,
    from_numpy,
    full,
    linspace,
    ones,
    tensor,
    zeros,
)
from bedplate.tensor.data_types import (
    broadcast_shapes,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from bedplate.tensor.files import load, save
from bedplate.tensor.functions import *
from bedplate.tensor.jit import jit
from bedplate.tensor.primitives import TensorOps
from bedplate.tensor.random import Generator, manual_seed
from bedplate.tensor.rematerialise import rematerialise
from bedplate.tensor.standard import (
    __array_api_version__,
    __array_namespace_info__,
    e,
    inf,
    nan,
    newaxis,
    pi,
)
from bedplate.tensor.tensor import Tensor
from bedplate.tensor.values import synchronize

__all__ = [
    "Autograd",
    "Generator",
    "Operation",
    "Tensor",
    "TensorOps",
    "__array_api_version__",
    "__array_namespace_info__",
    "arange",
    "asarray",
    "broadcast_shapes",
    "can_cast",
    "e",
    "empty",
    "enable_grad",
    "eye",
    "finfo",
    "from_dlpack",
    "from_numpy",
    "full",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "hessian",
    "iinfo",
    "inf",
    "isdtype",
    "jacobian",
    "jit",
    "jvp",
    "linspace",
    "load",
    "manual_seed",
    "nan",
    "newaxis",
    "no_grad",
    "ones",
    "pi",
    "random",
    "rematerialise",
    "result_type",
    "save",
    "synchronize",
    "tensor",
    "value_and_grad",
    "vjp",
    "zeros",
]  # fmt: skip
__all__ += functions.__all__
