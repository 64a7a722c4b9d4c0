"""Special functions: the functions of `bedplate.special`.

Types, written by tools/namespace.py."""

from collections.abc import Sequence
from typing import Any

from bedplate.tensor.tensor import Tensor

def entr(x: Any) -> Tensor: ...
def logit(x: Any, eps: float | None = None) -> Tensor: ...
def xlog1py(x: Any, y: Any) -> Tensor: ...
def xlogy(x: Any, y: Any) -> Tensor: ...

__all__ = [
    "entr",
    "logit",
    "xlog1py",
    "xlogy",
]
