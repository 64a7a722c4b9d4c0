"""Initialisers: random weights whose spread keeps signals at one scale through depth.

Weights are laid out (out, in, *window), so a unit of a product or a convolution sums over
fan_in = in * prod(window) inputs, and an input reaches fan_out = out * prod(window) units.
"""

from __future__ import annotations

import math
from typing import Any

from bedplate.dtypes import float32
from bedplate.errors import SettingError, ShapeError
from bedplate.tensor import Tensor, random

Shape = tuple[int, ...]
MODES = ("fan_in", "fan_out", "fan_avg")
GAINS = {
    "linear": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "silu": math.sqrt(2.0),
    "gelu": math.sqrt(2.0),
    "selu": 0.75,
}


def fans(shape: Shape) -> tuple[int, int]:
    """(fan_in, fan_out) of weights laid out (out, in, *window).

    raises  ShapeError for fewer than two axes
    >>> fans((64, 3, 7, 7))
    (147, 3136)
    """
    if len(shape) < 2:
        raise ShapeError(
            f"fans: a weight of shape {shape} has no fan in and fan out\n"
            "  give (out, in) or (out, in, *window)"
        )
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def gain_of(nonlinearity: str, slope: float = 0.0) -> float:
    """What keeps the scale behind a nonlinearity: sqrt(2) for ReLU, which halves the power.

    slope   of a leaky ReLU's negative side
    raises  SettingError for a name that is not known
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1.0 + slope**2))
    if nonlinearity not in GAINS:
        names = ", ".join([*GAINS, "leaky_relu"])
        raise SettingError(f"gain_of: unknown nonlinearity {nonlinearity!r}; there are {names}")
    return GAINS[nonlinearity]


def kaiming_init(
    shape: Shape,
    mode: str = "fan_in",
    *,
    nonlinearity: str = "relu",
    gain: float | None = None,
    distribution: str = "normal",
    correction: float = 1.0,
    dtype: Any = float32,
) -> Tensor:
    """Random weights that keep the second moment of signals behind ReLU.

    spread = correction * gain / sqrt(fan)

    shape          (out, in, *window)
    mode           "fan_in" keeps activations, "fan_out" keeps gradients, "fan_avg" is between
    nonlinearity   gives the gain, unless `gain` is given
    distribution   "normal", or "uniform" of the same spread
    correction     an experimental factor on the spread
    returns        shape, dtype
    raises         ShapeError for fewer than two axes; SettingError for an unknown name
    source         He et al. 2015, arXiv:1502.01852
    >>> kaiming_init((8, 4)).shape
    (8, 4)
    """
    gain = gain_of(nonlinearity) if gain is None else gain
    spread = correction * gain / math.sqrt(max(1.0, _fan(shape, mode)))
    return _draw(shape, spread, distribution, dtype)


def _fan(shape: Shape, mode: str) -> float:
    fan_in, fan_out = fans(shape)
    if mode not in MODES:
        raise SettingError(f"kaiming_init: unknown mode {mode!r}; there are {', '.join(MODES)}")
    return {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]


def xavier_init(
    shape: Shape, *, gain: float = 1.0, distribution: str = "uniform", dtype: Any = float32
) -> Tensor:
    """Random weights between keeping activations and keeping gradients.

    spread = gain * sqrt(2 / (fan_in + fan_out))

    shape          (out, in, *window)
    distribution   "uniform", or "normal" of the same spread
    returns        shape, dtype
    raises         ShapeError for fewer than two axes; SettingError for an unknown distribution
    source         Glorot and Bengio 2010
    >>> xavier_init((8, 4)).shape
    (8, 4)
    """
    return _draw(shape, gain / math.sqrt(_fan(shape, "fan_avg")), distribution, dtype)


def lecun_init(shape: Shape, *, distribution: str = "normal", dtype: Any = float32) -> Tensor:
    """Random weights that keep the second moment behind a linear layer.

    spread = 1 / sqrt(fan_in)

    shape          (out, in, *window)
    distribution   "normal", or "uniform" of the same spread
    returns        shape, dtype
    raises         ShapeError for fewer than two axes; SettingError for an unknown distribution
    source         LeCun et al. 1998
    >>> lecun_init((8, 4)).shape
    (8, 4)
    """
    return kaiming_init(shape, gain=1.0, distribution=distribution, dtype=dtype)


def normal_init(
    shape: Shape, mean: float = 0.0, spread: float = 1.0, *, dtype: Any = float32
) -> Tensor:
    """Normally distributed values; drawn in float32 and rounded once.

    spread    their standard deviation
    returns   shape, dtype
    >>> normal_init((2,), mean=3.0, spread=0.0).tolist()
    [3.0, 3.0]
    """
    return (random.normal(shape, dtype=float32) * spread + mean).astype(dtype)


def uniform_init(
    shape: Shape, low: float = 0.0, high: float = 1.0, *, dtype: Any = float32
) -> Tensor:
    """Values spread evenly over [low, high); drawn in float32 and rounded once.

    returns   shape, dtype
    >>> uniform_init((2,), 3.0, 3.0).tolist()
    [3.0, 3.0]
    """
    return (random.uniform(shape, dtype=float32) * (high - low) + low).astype(dtype)


def _draw(shape: Shape, spread: float, distribution: str, dtype: Any) -> Tensor:
    if distribution == "normal":
        return normal_init(shape, 0.0, spread, dtype=dtype)
    if distribution == "uniform":
        bound = math.sqrt(3.0) * spread
        return uniform_init(shape, -bound, bound, dtype=dtype)
    raise SettingError(f"init: unknown distribution {distribution!r}; there are normal and uniform")
