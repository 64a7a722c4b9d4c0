"""Initialisers: random weights whose spread keeps signals at one scale through depth.

Weights are laid out (out, in, *window), so a unit of a product or a convolution sums over
fan_in = in * prod(window) inputs, and an input reaches fan_out = out * prod(window) units. With
groups `in` is that of one group, as in the shape of the weight. The weight of a transposed
convolution is laid out (in, out, *window): there, "fan_out" keeps activations, with a gain larger
by sqrt(stride) an axis, since a unit sums over one stride-th of the window only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import float32, float64
from bedplate.errors import SettingError, ShapeError
from bedplate.tensor import Tensor, eye, full, functions, linalg, random, where

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


def kaiming_normal(shape: Shape, mode: str = "fan_in", **settings: Any) -> Tensor:
    """`kaiming_init` of normal numbers.

    >>> kaiming_normal((8, 4), nonlinearity="tanh").shape
    (8, 4)
    """
    return kaiming_init(shape, mode, distribution="normal", **settings)


def kaiming_uniform(shape: Shape, mode: str = "fan_in", **settings: Any) -> Tensor:
    """`kaiming_init` of numbers spread evenly.

    >>> kaiming_uniform((8, 4), nonlinearity="tanh").shape
    (8, 4)
    """
    return kaiming_init(shape, mode, distribution="uniform", **settings)


def xavier_normal(shape: Shape, gain: float = 1.0, dtype: Any = float32) -> Tensor:
    """`xavier_init` of normal numbers.

    >>> xavier_normal((8, 4)).shape
    (8, 4)
    """
    return xavier_init(shape, gain=gain, distribution="normal", dtype=dtype)


def xavier_uniform(shape: Shape, gain: float = 1.0, dtype: Any = float32) -> Tensor:
    """`xavier_init` of numbers spread evenly.

    >>> xavier_uniform((8, 4)).shape
    (8, 4)
    """
    return xavier_init(shape, gain=gain, distribution="uniform", dtype=dtype)


glorot_normal, glorot_uniform = xavier_normal, xavier_uniform  # the same person's surname


def trunc_normal_init(
    shape: Shape,
    mean: float = 0.0,
    spread: float = 1.0,
    low: float = -2.0,
    high: float = 2.0,
    *,
    dtype: Any = float32,
) -> Tensor:
    """Normally distributed values between two bounds; drawn in float32 and rounded once.

    spread     the standard deviation before what lies outside is left out
    low, high  the bounds, in the unit of the values
    returns    shape, dtype
    >>> trunc_normal_init((2,), mean=3.0, low=2.0, high=4.0).shape
    (2,)
    """
    return random.truncated_normal(shape, mean, spread, low, high).astype(dtype)


def constant_init(shape: Shape, value: float, *, dtype: Any = float32) -> Tensor:
    """One value everywhere.

    >>> constant_init((2,), 0.5).tolist()
    [0.5, 0.5]
    """
    return full(shape, value, dtype=dtype)


def eye_init(shape: Shape, *, dtype: Any = float32) -> Tensor:
    """The identity: a linear layer that hands on its first inputs.

    shape    (out, in)
    raises   ShapeError for another number of axes
    >>> eye_init((2, 3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    if len(shape) != 2:
        raise ShapeError(f"eye_init: the weight of a linear layer is (out, in), got {shape}")
    return eye(*shape, dtype=dtype)


def dirac_init(shape: Shape, groups: int = 1, *, dtype: Any = float32) -> Tensor:
    """The identity for convolutions: 1 in the middle of the window of like channels, else 0.

    shape    (out, in / groups, *window), one to three axes of window
    groups   of the convolution; each hands on its first channels
    raises   ShapeError for another number of axes, or if groups does not divide `out`
    source   Zagoruyko and Komodakis 2017, arXiv:1706.00388
    >>> dirac_init((1, 1, 3)).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    if not 3 <= len(shape) <= 5 or shape[0] % groups:
        raise ShapeError(
            f"dirac_init: the weight of a convolution is (out, in / groups, *window), got {shape}\n"
            f"  with {groups} groups, which must divide its first size"
        )
    window = np.zeros(shape[2:])
    window[tuple(size // 2 for size in shape[2:])] = 1
    channels = np.tile(np.eye(shape[0] // groups, shape[1]), (groups, 1))
    values = channels.reshape((*shape[:2], *(1 for _ in shape[2:]))) * window
    return Tensor(values).astype(dtype)


def orthogonal_init(shape: Shape, gain: float = 1.0, *, dtype: Any = float32) -> Tensor:
    """Rows (or columns, whichever are fewer) of length `gain` at right angles to each other.

    shape    (out, in, *window), taken as a matrix (out, in * prod(window))
    returns  evenly distributed over all such matrices
    raises   ShapeError for fewer than two axes
    source   Saxe et al. 2013, arXiv:1312.6120; Mezzadri 2006, arXiv:math-ph/0609050
    >>> weight = orthogonal_init((2, 3))
    >>> abs(weight @ weight.T - eye(2)).max().item() < 1e-6
    True
    """
    if len(shape) < 2:
        raise ShapeError(f"orthogonal_init: a weight of shape {shape} is no matrix")
    rows, columns = shape[0], math.prod(shape[1:])
    drawn = random.normal((max(rows, columns), min(rows, columns)), dtype=float64)
    q, r = linalg.qr(drawn)
    # QR leaves the signs to chance; those of the diagonal make the distribution even
    q = q * where(functions.diagonal(r) < 0, -1.0, 1.0)
    q = q if rows >= columns else q.T
    return (q * gain).reshape(shape).astype(dtype)


def sparse_init(
    shape: Shape, sparsity: float, spread: float = 0.01, *, dtype: Any = float32
) -> Tensor:
    """Normally distributed values, but for a share of each column that is 0.

    shape     (out, in)
    sparsity  the share of 0 in each column, rounded up
    spread    standard deviation of the others
    raises    ShapeError for another number of axes; SettingError for a share outside [0, 1]
    source    Martens 2010, ICML
    >>> (sparse_init((4, 3), 0.5) == 0).sum(axis=0).tolist()
    [2, 2, 2]
    """
    if len(shape) != 2:
        raise ShapeError(f"sparse_init: the weight of a linear layer is (out, in), got {shape}")
    if not 0 <= sparsity <= 1:
        raise SettingError(f"sparse_init: sparsity = {sparsity} is not in [0, 1]")
    rank = functions.argsort(functions.argsort(random.uniform(shape), axis=0), axis=0)
    n_zeros = math.ceil(sparsity * shape[0])
    return where(rank < n_zeros, 0.0, normal_init(shape, 0.0, spread, dtype=dtype))


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
