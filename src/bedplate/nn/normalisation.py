"""Normalisation over the last axis."""

from __future__ import annotations

from bedplate.dtypes import DType, float32
from bedplate.nn import functional
from bedplate.nn.module import Module
from bedplate.nn.parameter import Parameter
from bedplate.tensor import Tensor, ones, zeros


class RMSNorm(Module):
    """Divide each row by its root mean square, then scale; all in float32, cast last.

    y = (weight * x / sqrt(mean(x**2) + eps))

    weight   (size,), ones at first
    """

    def __init__(self, size: int, eps: float = 1e-5, dtype: DType = float32) -> None:
        self.size, self.eps = size, eps
        self.weight = Parameter(ones((size,), dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.size}, eps={self.eps}"


class LayerNorm(Module):
    """Subtract each row's mean, divide by its standard deviation, scale and shift.

    weight   (size,), ones at first
    bias     (size,), zeros at first, or None
    """

    def __init__(
        self, size: int, eps: float = 1e-5, bias: bool = True, dtype: DType = float32
    ) -> None:
        self.size, self.eps = size, eps
        self.weight = Parameter(ones((size,), dtype=dtype))
        self.bias = Parameter(zeros((size,), dtype=dtype)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.size}, eps={self.eps}"
