"""Bedplate: the foundation layer under the OLMo 3 language models.

>>> import bedplate as bp
>>> x = bp.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad.tolist()
[2.0, 4.0]
"""

import importlib
from typing import TYPE_CHECKING, Any

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
from bedplate.tensor import *

if TYPE_CHECKING:
    from bedplate import data, kernel, memory, nn, olmo, optim

__version__ = "0.1.0"

# the floors that a script may not need are imported when they are first named
_LATER = ("cli", "compiler", "data", "kernel", "memory", "nn", "olmo", "optim")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"bedplate.{name}")
    raise AttributeError(f"module 'bedplate' has no attribute {name!r}")
