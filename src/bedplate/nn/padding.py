"""Padding as modules: the last one, two or three axes, in each mode of `functional.pad`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from bedplate.nn import functional
from bedplate.nn.module import Module
from bedplate.ops.convolution.windows import per_axis
from bedplate.tensor import Tensor

Sizes = int | Sequence[int]


class _Pad(Module):
    """Padding of the last axes; see `functional.pad`.

    padding  (before, after) of the last axis, then of the one before it, ...; one number for all
    """

    rank: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Sizes) -> None:
        self.padding = per_axis(type(self).__name__, "padding", padding, 2 * self.rank, -(2**31))

    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x, self.padding, self.mode)

    def extra_repr(self) -> str:
        return str(self.padding)


class _ConstantPad(_Pad):
    """Padding with a number."""

    mode = "constant"

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x, self.padding, "constant", self.value)


class ConstantPad1d(_ConstantPad):
    """A number put around the last axis.

    >>> import bedplate as bp
    >>> ConstantPad1d((1, 2), 7)(bp.tensor([[1, 2, 3]])).tolist()
    [[7, 1, 2, 3, 7, 7]]
    """

    rank = 1


class ConstantPad2d(_ConstantPad):
    """A number put around the last two axes.

    >>> import bedplate as bp
    >>> ConstantPad2d((1, 2, 0, 1), 7)(bp.ones((1, 3, 4))).shape
    (1, 4, 7)
    """

    rank = 2


class ConstantPad3d(_ConstantPad):
    """A number put around the last three axes.

    >>> import bedplate as bp
    >>> ConstantPad3d(1, 7)(bp.ones((1, 3, 4, 5))).shape
    (1, 5, 6, 7)
    """

    rank = 3


class ZeroPad1d(_Pad):
    """Zeros put around the last axis.

    >>> import bedplate as bp
    >>> ZeroPad1d((1, 2))(bp.tensor([[1, 2, 3]])).tolist()
    [[0, 1, 2, 3, 0, 0]]
    """

    rank = 1
    mode = "constant"


class ZeroPad2d(_Pad):
    """Zeros put around the last two axes.

    >>> import bedplate as bp
    >>> ZeroPad2d((1, 2, 0, 1))(bp.ones((1, 3, 4))).shape
    (1, 4, 7)
    """

    rank = 2
    mode = "constant"


class ZeroPad3d(_Pad):
    """Zeros put around the last three axes.

    >>> import bedplate as bp
    >>> ZeroPad3d(1)(bp.ones((1, 3, 4, 5))).shape
    (1, 5, 6, 7)
    """

    rank = 3
    mode = "constant"


class ReflectionPad1d(_Pad):
    """What stands beside the border, mirrored, put around the last axis.

    >>> import bedplate as bp
    >>> ReflectionPad1d((1, 2))(bp.tensor([[1, 2, 3]])).tolist()
    [[2, 1, 2, 3, 2, 1]]
    """

    rank = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """What stands beside the border, mirrored, put around the last two axes.

    >>> import bedplate as bp
    >>> ReflectionPad2d((1, 2, 0, 1))(bp.ones((1, 3, 4))).shape
    (1, 4, 7)
    """

    rank = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """What stands beside the border, mirrored, put around the last three axes.

    >>> import bedplate as bp
    >>> ReflectionPad3d(1)(bp.ones((1, 3, 4, 5))).shape
    (1, 5, 6, 7)
    """

    rank = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """The border repeated around the last axis.

    >>> import bedplate as bp
    >>> ReplicationPad1d((1, 2))(bp.tensor([[1, 2, 3]])).tolist()
    [[1, 1, 2, 3, 3, 3]]
    """

    rank = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """The border repeated around the last two axes.

    >>> import bedplate as bp
    >>> ReplicationPad2d((1, 2, 0, 1))(bp.ones((1, 3, 4))).shape
    (1, 4, 7)
    """

    rank = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """The border repeated around the last three axes.

    >>> import bedplate as bp
    >>> ReplicationPad3d(1)(bp.ones((1, 3, 4, 5))).shape
    (1, 5, 6, 7)
    """

    rank = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    """The other end put around the last axis.

    >>> import bedplate as bp
    >>> CircularPad1d((1, 2))(bp.tensor([[1, 2, 3]])).tolist()
    [[3, 1, 2, 3, 1, 2]]
    """

    rank = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """The other end put around the last two axes.

    >>> import bedplate as bp
    >>> CircularPad2d((1, 2, 0, 1))(bp.ones((1, 3, 4))).shape
    (1, 4, 7)
    """

    rank = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """The other end put around the last three axes.

    >>> import bedplate as bp
    >>> CircularPad3d(1)(bp.ones((1, 3, 4, 5))).shape
    (1, 5, 6, 7)
    """

    rank = 3
    mode = "circular"
