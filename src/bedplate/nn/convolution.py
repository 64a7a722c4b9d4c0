"""Convolution with trained weights, in one to three dimensions, and transposed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bedplate.dtypes import DType, float32
from bedplate.errors import ShapeError
from bedplate.nn import functional
from bedplate.nn.init import fans, uniform_init
from bedplate.nn.linear import Initialiser, uniform_by_fan_in
from bedplate.nn.module import Module
from bedplate.nn.parameter import Parameter
from bedplate.ops.convolution.windows import per_axis
from bedplate.tensor import Tensor

Sizes = int | Sequence[int]


class _Convolution(Module):
    """What the modules below share: the weights and the numbers of the window.

    weight   from init(shape, dtype); by default, like the bias, uniform within 1 / sqrt(fan in)
    bias     (out_channels,), or None
    """

    rank = 0

    def _start(
        self, channels: tuple[int, int], rows: tuple[int, int], kernel_size: Sizes,
        groups: int, bias: bool, dtype: DType, init: Initialiser | None,
    ) -> None:  # fmt: skip
        """Make the parameters; rows are the first two sizes of the weight."""
        name = type(self).__name__
        self.in_channels, self.out_channels = channels
        self.kernel_size = per_axis(name, "kernel_size", kernel_size, self.rank, 1)
        self.groups = groups
        if groups < 1 or any(count % groups for count in channels):
            raise ShapeError(f"{name}: groups={groups} does not divide the channels {channels}")
        shape = (*rows, *self.kernel_size)
        self.weight = Parameter((init or uniform_by_fan_in)(shape, dtype))
        bound = 1 / math.sqrt(max(1, fans(shape)[0]))
        values = uniform_init((self.out_channels,), -bound, bound, dtype=dtype) if bias else None
        self.bias = None if values is None else Parameter(values)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"


class _Convolve(_Convolution):
    """Conv1d, Conv2d, Conv3d but for the rank.

    padding_mode   "zeros", "reflect", "replicate" or "circular": what stands around x
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: DType = float32,
        init: Initialiser | None = None,
    ) -> None:
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.padding_mode = padding_mode
        rows = (out_channels, in_channels // max(groups, 1))
        self._start((in_channels, out_channels), rows, kernel_size, groups, bias, dtype, init)

    def forward(self, x: Tensor) -> Tensor:
        function = (functional.conv1d, functional.conv2d, functional.conv3d)[self.rank - 1]
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            x, padding = functional.pad(x, self._widths(), self.padding_mode), 0
        return function(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _widths(self) -> list[int]:
        """(before, after) of the last axis, of the one before it, ..."""
        name = type(self).__name__
        if isinstance(self.padding, str):
            apart = per_axis(name, "dilation", self.dilation, self.rank, 1)
            same = self.padding == "same"
            totals = [d * (k - 1) * same for d, k in zip(apart, self.kernel_size, strict=True)]
            pairs = [(total // 2, total - total // 2) for total in totals]
        else:
            pairs = [(p, p) for p in per_axis(name, "padding", self.padding, self.rank, 0)]
        return [width for pair in reversed(pairs) for width in pair]


class Conv1d(_Convolve):
    """Convolution of (N, C, L) with a trained weight (out, in / groups, K); see `bp.conv1d`.

    >>> import bedplate as bp
    >>> Conv1d(2, 4, 3, padding="same")(bp.zeros((1, 2, 5))).shape
    (1, 4, 5)
    """

    rank = 1


class Conv2d(_Convolve):
    """Convolution of (N, C, H, W) with a trained weight (out, in / groups, K, K); see `bp.conv2d`.

    >>> import bedplate as bp
    >>> Conv2d(2, 4, 3, stride=2, padding=1)(bp.zeros((1, 2, 5, 8))).shape
    (1, 4, 3, 4)
    """

    rank = 2


class Conv3d(_Convolve):
    """Convolution of (N, C, D, H, W) with a trained weight (out, in / groups, K, K, K).

    >>> import bedplate as bp
    >>> Conv3d(2, 4, (1, 3, 3))(bp.zeros((1, 2, 2, 5, 8))).shape
    (1, 4, 2, 3, 6)
    """

    rank = 3


class _ConvolveTransposed(_Convolution):
    """ConvTranspose1d, ConvTranspose2d, ConvTranspose3d but for the rank."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        dtype: DType = float32,
        init: Initialiser | None = None,
    ) -> None:
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.output_padding = output_padding
        rows = (in_channels, out_channels // max(groups, 1))
        self._start((in_channels, out_channels), rows, kernel_size, groups, bias, dtype, init)

    def forward(self, x: Tensor) -> Tensor:
        functions = (
            functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d
        )  # fmt: skip
        return functions[self.rank - 1](
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding,
            self.groups, self.dilation,
        )  # fmt: skip


class ConvTranspose1d(_ConvolveTransposed):
    """Transposed convolution of (N, C, L) with a trained weight (in, out / groups, K).

    >>> import bedplate as bp
    >>> ConvTranspose1d(2, 4, 4, stride=2, padding=1)(bp.zeros((1, 2, 5))).shape
    (1, 4, 10)
    """

    rank = 1


class ConvTranspose2d(_ConvolveTransposed):
    """Transposed convolution of (N, C, H, W) with a trained weight (in, out / groups, K, K).

    >>> import bedplate as bp
    >>> ConvTranspose2d(2, 4, 2, stride=2)(bp.zeros((1, 2, 3, 5))).shape
    (1, 4, 6, 10)
    """

    rank = 2


class ConvTranspose3d(_ConvolveTransposed):
    """Transposed convolution of (N, C, D, H, W) with a trained weight (in, out / groups, K, K, K).

    >>> import bedplate as bp
    >>> ConvTranspose3d(2, 4, 2, stride=2)(bp.zeros((1, 2, 1, 3, 5))).shape
    (1, 4, 2, 6, 10)
    """

    rank = 3
