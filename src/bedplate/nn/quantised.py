"""QuantisedLinear: a layer whose weights are whole numbers of 8 or 4 bits, for use alone."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from bedplate.dtypes import float32
from bedplate.errors import SettingError, ShapeError
from bedplate.nn import functional
from bedplate.nn.linear import Linear
from bedplate.nn.module import Module
from bedplate.nn.parameter import Parameter
from bedplate.ops.matmul.quantised_format import BITS, packed_shapes, quantised
from bedplate.tensor import Tensor, no_grad, tensor, zeros

Self = TypeVar("Self", bound="QuantisedLinear")


class QuantisedLinear(Module):
    """Multiply by a matrix of whole numbers with a scale for every 32, and add a vector.

    y = x @ w.T + bias, with w = scale * q, q from -128 to 127 or -8 to 7

    packed   the numbers, uint8, and `scales`, uint16: buffers that no cast of the module touches;
             see `bp.nn.functional.quantised_linear`. They get no gradient, x does.
    bias     (out_features,) as in the layer that it was made of, or None
    x        (..., in_features) -> (..., out_features)
    raises   SettingError for bits other than 8 and 4, ShapeError for rows of another width
    >>> layer = QuantisedLinear.of(Linear(64, 10), bits=4)
    >>> layer(zeros((2, 64))).shape, layer.packed.nbytes + layer.scales.nbytes
    ((2, 10), 2304)
    """

    packed: Tensor
    scales: Tensor

    def __init__(self, in_features: int, out_features: int, bits: int = 8) -> None:
        if type(bits) is not int or bits not in BITS:
            raise SettingError(f"QuantisedLinear: bits = {bits!r}; there are 8 and 4")
        self.in_features, self.out_features, self.bits = in_features, out_features, bits
        packed, scales = packed_shapes(out_features, in_features, bits)
        self.register_buffer("packed", zeros(packed, dtype="uint8"))
        self.register_buffer("scales", zeros(scales, dtype="uint16"))
        self.bias: Parameter | None = None

    @classmethod
    def of(cls: type[Self], linear: Linear, bits: int = 8) -> Self:
        """Round the weights of a layer, each to the nearest multiple of its group's scale.

        raises  SettingError for weights that are not finite, TypeError for another kind of layer
        """
        if not isinstance(linear, Linear):
            raise TypeError(
                f"QuantisedLinear: expected a Linear layer, got a {type(linear).__name__}\n"
                "  quantise the layer that still has its weights"
            )
        layer = cls(linear.in_features, linear.out_features, bits)
        with no_grad():
            weight = linear.weight.detach().astype(float32).numpy()
            if not np.isfinite(weight).all():
                row, column = np.argwhere(~np.isfinite(weight))[0]
                raise SettingError(
                    "QuantisedLinear: a weight is infinite or NaN\n"
                    f"  weight[{row}, {column}] is {weight[row, column]}; mend it first"
                )
            packed, scales = quantised(weight, bits)
            layer.packed, layer.scales = tensor(packed), tensor(scales)
        layer.bias = linear.bias
        return layer

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1:] != (self.in_features,):  # a group of 32 hides how many columns it has
            raise ShapeError(
                f"QuantisedLinear: the last size of x {x.shape} {x.dtype} does not fit\n"
                f"  expected (..., {self.in_features}), as in_features says"
            )
        y = functional.quantised_linear(x, self.packed, self.scales, self.out_features)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        bias = "" if self.bias is not None else ", bias=False"
        return f"{self.in_features}, {self.out_features}, bits={self.bits}{bias}"
