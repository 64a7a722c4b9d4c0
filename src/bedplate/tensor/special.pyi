"""Special functions: the functions of `bedplate.special`.

Types, written by tools/namespace.py."""

from collections.abc import Sequence
from typing import Any

from bedplate.tensor.tensor import Tensor


__all__: list[str] = []
