"""Normalisation with trained scales: over rows, groups, images and batches.

Names of parameters and buffers are PyTorch's, so that its checkpoints load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bedplate.dtypes import DType, float32, int64
from bedplate.errors import ShapeError
from bedplate.graph.pending import LOCAL
from bedplate.nn import functional
from bedplate.nn.module import Module
from bedplate.nn.parameter import Parameter
from bedplate.nn.wrapped import Wrapped
from bedplate.ops.build import several
from bedplate.tensor import Tensor, no_grad, ones, zeros

Rows = int | Sequence[int]


class RMSNorm(Module):
    """Divide rows by their root mean square, then scale; all in float32, cast last.

    y = x weight / sqrt(mean(x^2) + eps), the mean over the last axes

    normalized_shape    the sizes of these axes
    eps                 None: the distance from 1 to the next number of the dtype of x
    elementwise_affine  off: without weight
    weight              normalized_shape, ones at first, or None
    >>> import bedplate as bp
    >>> RMSNorm(2, eps=0.0)(bp.tensor([3.0, -3.0])).tolist()
    [1.0, -1.0]
    """

    def __init__(
        self, normalized_shape: Rows, eps: float | None = None, elementwise_affine: bool = True,
        dtype: DType = float32,
    ) -> None:  # fmt: skip
        self.normalized_shape, self.eps = several(normalized_shape), eps
        weight = Parameter(ones(self.normalized_shape, dtype=dtype)) if elementwise_affine else None
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class LayerNorm(Module):
    """Give rows mean 0 and variance 1, then scale and shift.

    y = (x - mean) / sqrt(var + eps) weight + bias, mean and var over the last axes

    normalized_shape    the sizes of these axes
    elementwise_affine  off: without weight and bias; `bias` off: without bias
    weight              normalized_shape, ones at first, or None
    bias                normalized_shape, zeros at first, or None
    >>> import bedplate as bp
    >>> LayerNorm((2, 2), eps=0.0)(bp.tensor([[[1.0, 1.0], [3.0, 3.0]]])).tolist()
    [[[-1.0, -1.0], [1.0, 1.0]]]
    """

    def __init__(
        self, normalized_shape: Rows, eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, dtype: DType = float32,
    ) -> None:  # fmt: skip
        self.normalized_shape, self.eps = several(normalized_shape), eps
        shape = self.normalized_shape
        self.weight = Parameter(ones(shape, dtype=dtype)) if elementwise_affine else None
        self.bias = Parameter(zeros(shape, dtype=dtype)) if elementwise_affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """Give groups of channels of each image mean 0 and variance 1; see `functional.group_norm`.

    num_groups    divides num_channels
    weight, bias  (num_channels,), ones and zeros at first; None if `affine` is off
    x             (N, num_channels, ...)
    raises        ShapeError if the groups do not divide the channels
    >>> import bedplate as bp
    >>> GroupNorm(2, 4, eps=0.0)(bp.tensor([[1.0, 3.0, 5.0, 9.0]])).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        dtype: DType = float32,
    ) -> None:  # fmt: skip
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(
                f"GroupNorm: {num_groups} groups do not divide {num_channels} channels"
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter(ones((num_channels,), dtype=dtype)) if affine else None
        self.bias = Parameter(zeros((num_channels,), dtype=dtype)) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class _Running(Module):
    """What batch and instance normalisation share: scales, and statistics that follow batches.

    running_mean         (num_features,) zeros at first, running_var ones, num_batches_tracked 0:
                         buffers, None if `track_running_stats` is off
    weight, bias         (num_features,), ones and zeros at first; None if `affine` is off
    """

    ndims: tuple[int, ...] = ()
    affine_by_default = True
    running_by_default = True

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool | None = None, track_running_stats: bool | None = None,
        dtype: DType = float32,
    ) -> None:  # fmt: skip
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        affine = self.affine_by_default if affine is None else affine
        tracked = self.running_by_default if track_running_stats is None else track_running_stats
        self.weight = Parameter(ones((num_features,), dtype=dtype)) if affine else None
        self.bias = Parameter(zeros((num_features,), dtype=dtype)) if affine else None
        self.running_mean: Tensor | None = None
        self.running_var: Tensor | None = None
        self.num_batches_tracked: Tensor | None = None
        if tracked:
            self.register_buffer("running_mean", zeros((num_features,), dtype=dtype))
            self.register_buffer("running_var", ones((num_features,), dtype=dtype))
            self.register_buffer("num_batches_tracked", zeros((), dtype=int64))

    def _count(self) -> Any:
        """One more batch; returns the momentum for it: 1 / count without one."""
        if self.num_batches_tracked is None:
            return 0.0 if self.momentum is None else self.momentum
        with no_grad():
            if not LOCAL.state.repeating:
                self.num_batches_tracked.assign(self.num_batches_tracked + 1)
            if self.momentum is None:
                return 1 / self.num_batches_tracked.astype(float32)
        return self.momentum

    def reset_running_stats(self) -> None:
        """Forget the statistics: mean 0, variance 1, no batch."""
        if self.running_mean is not None and self.running_var is not None:
            self.running_mean.zero_()
            self.running_var.assign(ones((self.num_features,)))
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.zero_()

    def _check(self, x: Tensor) -> None:
        if x.ndim not in self.ndims:
            expected = " or ".join(map(str, self.ndims))
            raise ShapeError(
                f"{type(self).__name__}: expected {expected} axes, got x of shape {x.shape}"
            )

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class _BatchNorm(_Running):
    """BatchNorm1d, BatchNorm2d, BatchNorm3d but for the axes."""

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        momentum = self._count() if self.training else 0.0
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or self.running_mean is None, momentum, self.eps,
        )  # fmt: skip


class BatchNorm1d(_BatchNorm):
    """Give each channel of a batch mean 0 and variance 1, then scale and shift.

    In training mean and variance are those of the batch, and running ones follow them; in
    evaluation the running ones are used. See `functional.batch_norm`.

    num_features         channels
    momentum             running = (1 - momentum) running + momentum new; None: the plain average
    affine               whether there are weight and bias (num_features,)
    track_running_stats  off: the statistics are always those of the batch
    x                    (N, C) or (N, C, L)
    >>> import bedplate as bp
    >>> norm = BatchNorm1d(1)
    >>> y = norm(bp.tensor([[1.0], [3.0]]))
    >>> [round(float(value), 6) for value in norm.running_mean]
    [0.2]
    """

    ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Give each channel of a batch of images mean 0 and variance 1; as `BatchNorm1d`.

    x   (N, C, H, W)
    >>> sorted(name for name, _ in BatchNorm2d(3).named_buffers())
    ['num_batches_tracked', 'running_mean', 'running_var']
    """

    ndims = (4,)


class BatchNorm3d(_BatchNorm):
    """Give each channel of a batch of volumes mean 0 and variance 1; as `BatchNorm1d`.

    x   (N, C, D, H, W)
    >>> import bedplate as bp
    >>> BatchNorm3d(2)(bp.ones((1, 2, 2, 2, 2))).shape
    (1, 2, 2, 2, 2)
    """

    ndims = (5,)


class _InstanceNorm(_Running):
    """InstanceNorm1d, InstanceNorm2d, InstanceNorm3d but for the axes."""

    affine_by_default = False
    running_by_default = False

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        own = self.training or self.running_mean is None
        momentum = 0.0 if self.momentum is None else self.momentum
        alone = x.ndim == self.ndims[0]
        y = functional.instance_norm(
            x.expand_dims(0) if alone else x, self.running_mean, self.running_var, self.weight,
            self.bias, own, momentum, self.eps,
        )  # fmt: skip
        return y.squeeze(0) if alone else y


class InstanceNorm1d(_InstanceNorm):
    """Give each channel of each sequence mean 0 and variance 1.

    Neither scales nor running statistics unless asked for by `affine` and `track_running_stats`;
    the other arguments are those of `BatchNorm1d`, but batches are not counted (as in PyTorch).
    See `functional.instance_norm`.

    x   (N, C, L) or (C, L)
    >>> import bedplate as bp
    >>> InstanceNorm1d(1, eps=0.0)(bp.tensor([[[1.0, 3.0]]])).tolist()
    [[[-1.0, 1.0]]]
    """

    ndims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Give each channel of each image mean 0 and variance 1; as `InstanceNorm1d`.

    x   (N, C, H, W) or (C, H, W)
    >>> [len(list(InstanceNorm2d(3, affine=given).parameters())) for given in (False, True)]
    [0, 2]
    """

    ndims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Give each channel of each volume mean 0 and variance 1; as `InstanceNorm1d`.

    x   (N, C, D, H, W) or (C, D, H, W)
    >>> import bedplate as bp
    >>> InstanceNorm3d(2)(bp.ones((2, 2, 2, 2))).shape
    (2, 2, 2, 2)
    """

    ndims = (4, 5)


class LocalResponseNorm(Wrapped):
    """Divide by the energy of neighbouring channels; see `functional.local_response_norm`.

    >>> import bedplate as bp
    >>> LocalResponseNorm(2)(bp.ones((1, 4, 3))).shape
    (1, 4, 3)
    """

    function = staticmethod(functional.local_response_norm)
