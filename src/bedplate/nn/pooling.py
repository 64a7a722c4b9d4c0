"""Pooling as modules, to stand in a Sequential: a row each, with the settings of its function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bedplate.nn import functional
from bedplate.nn.module import Module
from bedplate.nn.wrapped import Wrapped
from bedplate.tensor import Tensor

Sizes = int | Sequence[int]


class _MaxPool(Wrapped):
    """The order of settings is that of PyTorch's modules, which differs from its functions'."""

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
        dilation: Sizes = 1, return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, dilation, ceil_mode, return_indices)


class MaxPool1d(_MaxPool):
    """The greatest element of each window of (N, C, L).

    >>> import bedplate as bp
    >>> MaxPool1d(2)(bp.tensor([[1.0, 3.0, 2.0, 0.0]])).tolist()
    [[3.0, 2.0]]
    """

    function = staticmethod(functional.max_pool1d)


class MaxPool2d(_MaxPool):
    """The greatest element of each window of (N, C, H, W).

    >>> import bedplate as bp
    >>> MaxPool2d(3, stride=2, padding=1)(bp.zeros((1, 2, 8, 9))).shape
    (1, 2, 4, 5)
    """

    function = staticmethod(functional.max_pool2d)


class MaxPool3d(_MaxPool):
    """The greatest element of each window of (N, C, D, H, W).

    >>> import bedplate as bp
    >>> MaxPool3d((1, 2, 2))(bp.zeros((1, 2, 3, 8, 8))).shape
    (1, 2, 3, 4, 4)
    """

    function = staticmethod(functional.max_pool3d)


class AvgPool1d(Wrapped):
    """The mean of each window of (N, C, L).

    >>> import bedplate as bp
    >>> AvgPool1d(2)(bp.tensor([[1.0, 3.0, 2.0, 0.0]])).tolist()
    [[2.0, 1.0]]
    """

    function = staticmethod(functional.avg_pool1d)


class AvgPool2d(Wrapped):
    """The mean of each window of (N, C, H, W).

    >>> import bedplate as bp
    >>> AvgPool2d(2)(bp.zeros((1, 2, 8, 9))).shape
    (1, 2, 4, 4)
    """

    function = staticmethod(functional.avg_pool2d)


class AvgPool3d(Wrapped):
    """The mean of each window of (N, C, D, H, W).

    >>> import bedplate as bp
    >>> AvgPool3d(2)(bp.zeros((1, 2, 4, 8, 8))).shape
    (1, 2, 2, 4, 4)
    """

    function = staticmethod(functional.avg_pool3d)


class LPPool1d(Wrapped):
    """The p-norm of each window of (N, C, L).

    >>> import bedplate as bp
    >>> LPPool1d(2, 2)(bp.tensor([[3.0, 4.0]])).tolist()
    [[5.0]]
    """

    function = staticmethod(functional.lp_pool1d)


class LPPool2d(Wrapped):
    """The p-norm of each window of (N, C, H, W).

    >>> import bedplate as bp
    >>> LPPool2d(2, 2)(bp.ones((1, 1, 2, 2))).tolist()
    [[[[2.0]]]]
    """

    function = staticmethod(functional.lp_pool2d)


class LPPool3d(Wrapped):
    """The p-norm of each window of (N, C, D, H, W).

    >>> import bedplate as bp
    >>> LPPool3d(1, 2)(bp.ones((1, 1, 2, 2, 2))).tolist()
    [[[[[8.0]]]]]
    """

    function = staticmethod(functional.lp_pool3d)


class AdaptiveAvgPool1d(Wrapped):
    """The means of `output_size` parts of (N, C, L).

    >>> import bedplate as bp
    >>> AdaptiveAvgPool1d(1)(bp.tensor([[1.0, 3.0]])).tolist()
    [[2.0]]
    """

    function = staticmethod(functional.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(Wrapped):
    """The means of `output_size` parts of (N, C, H, W).

    >>> import bedplate as bp
    >>> AdaptiveAvgPool2d((1, None))(bp.zeros((2, 3, 7, 5))).shape
    (2, 3, 1, 5)
    """

    function = staticmethod(functional.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(Wrapped):
    """The means of `output_size` parts of (N, C, D, H, W).

    >>> import bedplate as bp
    >>> AdaptiveAvgPool3d(2)(bp.zeros((2, 3, 5, 7, 5))).shape
    (2, 3, 2, 2, 2)
    """

    function = staticmethod(functional.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(Wrapped):
    """The greatest of each of `output_size` parts of (N, C, L).

    >>> import bedplate as bp
    >>> AdaptiveMaxPool1d(1)(bp.tensor([[1.0, 3.0]])).tolist()
    [[3.0]]
    """

    function = staticmethod(functional.adaptive_max_pool1d)


class AdaptiveMaxPool2d(Wrapped):
    """The greatest of each of `output_size` parts of (N, C, H, W).

    >>> import bedplate as bp
    >>> AdaptiveMaxPool2d(2)(bp.zeros((2, 3, 7, 5))).shape
    (2, 3, 2, 2)
    """

    function = staticmethod(functional.adaptive_max_pool2d)


class AdaptiveMaxPool3d(Wrapped):
    """The greatest of each of `output_size` parts of (N, C, D, H, W).

    >>> import bedplate as bp
    >>> AdaptiveMaxPool3d(2)(bp.zeros((2, 3, 4, 7, 5))).shape
    (2, 3, 2, 2, 2)
    """

    function = staticmethod(functional.adaptive_max_pool3d)


class _MaxUnpool(Module):
    """MaxUnpool1d, MaxUnpool2d, MaxUnpool3d but for the function."""

    function: Any = None

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def forward(
        self, x: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        function = type(self).function
        return function(x, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """The values of MaxPool1d back where they were found; see `functional.max_unpool1d`.

    >>> import bedplate as bp
    >>> MaxUnpool1d(2)(*MaxPool1d(2, return_indices=True)(bp.tensor([[1, 3, 5, 4]]))).tolist()
    [[0, 3, 5, 0]]
    """

    function = staticmethod(functional.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """The values of MaxPool2d back where they were found; see `functional.max_unpool2d`.

    >>> import bedplate as bp
    >>> MaxUnpool2d(2)(*MaxPool2d(2, return_indices=True)(bp.ones((1, 4, 6)))).shape
    (1, 4, 6)
    """

    function = staticmethod(functional.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """The values of MaxPool3d back where they were found; see `functional.max_unpool3d`.

    >>> import bedplate as bp
    >>> MaxUnpool3d(2)(*MaxPool3d(2, return_indices=True)(bp.ones((1, 2, 4, 6)))).shape
    (1, 2, 4, 6)
    """

    function = staticmethod(functional.max_unpool3d)
