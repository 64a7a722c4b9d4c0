"""What moves elements of images about, as modules: resampling, shuffles, patches, shapes."""

from __future__ import annotations

from collections.abc import Sequence

from bedplate.errors import ShapeError
from bedplate.nn import functional
from bedplate.nn.module import Module
from bedplate.nn.wrapped import Wrapped
from bedplate.tensor import Tensor


class Upsample(Wrapped):
    """Images in another resolution; see `functional.interpolate`.

    >>> import bedplate as bp
    >>> Upsample(scale_factor=2, mode="nearest")(bp.tensor([[[1, 2]]])).tolist()
    [[[1, 1, 2, 2]]]
    """

    function = staticmethod(functional.interpolate)


class PixelShuffle(Wrapped):
    """Channels turned into pixels; see `functional.pixel_shuffle`.

    >>> import bedplate as bp
    >>> PixelShuffle(2)(bp.ones((1, 8, 3, 4))).shape
    (1, 2, 6, 8)
    """

    function = staticmethod(functional.pixel_shuffle)


class PixelUnshuffle(Wrapped):
    """Pixels turned into channels; see `functional.pixel_unshuffle`.

    >>> import bedplate as bp
    >>> PixelUnshuffle(2)(bp.ones((1, 2, 6, 8))).shape
    (1, 8, 3, 4)
    """

    function = staticmethod(functional.pixel_unshuffle)


class ChannelShuffle(Wrapped):
    """The channels of groups dealt out in turn; see `functional.channel_shuffle`.

    >>> import bedplate as bp
    >>> ChannelShuffle(2)(bp.tensor([[[1], [2], [3], [4]]])).tolist()
    [[[1], [3], [2], [4]]]
    """

    function = staticmethod(functional.channel_shuffle)


class Unfold(Wrapped):
    """The patches of images as columns; see `functional.unfold`.

    >>> import bedplate as bp
    >>> Unfold(3)(bp.ones((1, 2, 5, 6))).shape
    (1, 18, 12)
    """

    function = staticmethod(functional.unfold)


class Fold(Wrapped):
    """Patches in columns added up to images; see `functional.fold`.

    >>> import bedplate as bp
    >>> Fold((5, 6), 3)(bp.ones((1, 18, 12))).shape
    (1, 2, 5, 6)
    """

    function = staticmethod(functional.fold)


class Flatten(Module):
    """Axes joined to one, by default all but the first.

    >>> import bedplate as bp
    >>> Flatten()(bp.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One axis cut into several.

    raises  ShapeError if the sizes do not multiply to that of the axis
    >>> import bedplate as bp
    >>> Unflatten(1, (3, -1))(bp.ones((2, 12))).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        if not -x.ndim <= self.dim < x.ndim:
            raise ShapeError(f"Unflatten: there is no axis {self.dim} in x of shape {x.shape}")
        axis = self.dim % x.ndim
        return x.reshape((*x.shape[:axis], *self.unflattened_size, *x.shape[axis + 1 :]))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
