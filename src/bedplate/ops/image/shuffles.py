"""Channels to space and back: pixel_shuffle, pixel_unshuffle, channel_shuffle. All are views."""

from __future__ import annotations

import operator

from bedplate.errors import ShapeError
from bedplate.ops.build import Value
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.views import permute, reshape


def pixel_shuffle(x: Value, upscale_factor: int) -> Value:
    """Turn channels into pixels: an image r times as large from r^2 times the channels.

    y[..., c, h r + i, w r + j] = x[..., c r^2 + i r + j, h, w]

    x               (..., C r^2, H, W)  any dtype
    upscale_factor  r
    returns         (..., C, H r, W r)
    gradient        `pixel_unshuffle`
    raises          ShapeError if r^2 does not divide the channels
    cost            none of its own: an order of reading
    source          Shi et al. 2016, arXiv:1609.05158
    >>> import bedplate as bp
    >>> bp.nn.functional.pixel_shuffle(bp.tensor([[[1]], [[2]], [[3]], [[4]]]), 2).tolist()
    [[[1, 2], [3, 4]]]
    """
    r = operator.index(upscale_factor)
    if len(x.shape) < 3 or r < 1 or x.shape[-3] % (r * r):
        refuse(ShapeError, "pixel_shuffle", f"the channels do not fit a factor of {r}", {"x": x},
               "expected (..., C r^2, H, W)")  # fmt: skip
    *lead, channels, height, width = x.shape
    n = len(lead)
    split = reshape(x, (*lead, channels // (r * r), r, r, height, width))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return reshape(permute(split, order), (*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(x: Value, downscale_factor: int) -> Value:
    """Turn pixels into channels: the inverse of `pixel_shuffle`.

    y[..., c r^2 + i r + j, h, w] = x[..., c, h r + i, w r + j]

    x                 (..., C, H r, W r)  any dtype
    downscale_factor  r
    returns           (..., C r^2, H, W)
    gradient          `pixel_shuffle`
    raises            ShapeError if r does not divide height and width
    cost              none of its own: an order of reading
    >>> import bedplate as bp
    >>> bp.nn.functional.pixel_unshuffle(bp.tensor([[[1, 2], [3, 4]]]), 2).tolist()
    [[[1]], [[2]], [[3]], [[4]]]
    """
    r = operator.index(downscale_factor)
    if len(x.shape) < 3 or r < 1 or x.shape[-1] % r or x.shape[-2] % r:
        refuse(ShapeError, "pixel_unshuffle", f"the image does not fit a factor of {r}", {"x": x},
               "expected (..., C, H r, W r)")  # fmt: skip
    *lead, channels, height, width = x.shape
    n = len(lead)
    split = reshape(x, (*lead, channels, height // r, r, width // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return reshape(permute(split, order), (*lead, channels * r * r, height // r, width // r))


def channel_shuffle(x: Value, groups: int) -> Value:
    """Deal the channels of groups out in turn, so that the next groups see all of these.

    y[n, k g + i] = x[n, i C / g + k]

    x         (N, C, ...)  any dtype
    groups    g, which divides C
    returns   shape of x
    gradient  the same with C / g groups
    raises    ShapeError if the groups do not divide the channels
    cost      none of its own: an order of reading
    source    Zhang et al. 2017, arXiv:1707.01083
    >>> import bedplate as bp
    >>> bp.nn.functional.channel_shuffle(bp.tensor([[[1], [2], [3], [4]]]), 2).tolist()
    [[[1], [3], [2], [4]]]
    """
    g = operator.index(groups)
    if len(x.shape) < 3 or g < 1 or x.shape[1] % g:
        refuse(ShapeError, "channel_shuffle", f"{g} groups do not divide the channels", {"x": x},
               "expected (N, C, ...)")  # fmt: skip
    n, channels, *space = x.shape
    split = reshape(x, (n, g, channels // g, *space))
    order = (0, 2, 1, *range(3, 3 + len(space)))
    return reshape(permute(split, order), x.shape)
