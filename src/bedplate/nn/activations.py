"""Activations and dropout as modules, to stand in a Sequential."""

from __future__ import annotations

from bedplate.errors import SettingError
from bedplate.nn import functional
from bedplate.nn.module import Module
from bedplate.tensor import Tensor


class ReLU(Module):
    """max(x, 0)"""

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x)


class SiLU(Module):
    """x * sigmoid(x)"""

    def forward(self, x: Tensor) -> Tensor:
        return functional.silu(x)


class GELU(Module):
    """x times the normal distribution's cumulative function at x"""

    def forward(self, x: Tensor) -> Tensor:
        return functional.gelu(x)


class Tanh(Module):
    """tanh(x)"""

    def forward(self, x: Tensor) -> Tensor:
        return functional.tanh(x)


class Sigmoid(Module):
    """1 / (1 + exp(-x))"""

    def forward(self, x: Tensor) -> Tensor:
        return functional.sigmoid(x)


class Softmax(Module):
    """exp(x) over its sum along one axis"""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return functional.softmax(x, axis=self.axis)


class Identity(Module):
    """x"""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Dropout(Module):
    """Zero each element with probability p while training, scale the others by 1 / (1 - p).

    raises  SettingError if p is not in [0, 1)
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p < 1:
            raise SettingError(f"Dropout: p = {p} is not in [0, 1)")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
