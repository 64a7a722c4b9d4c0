"""Functions that draw random numbers: from a generator of one's own, or from the default one."""

from __future__ import annotations

from bedplate.ops.pointwise.piecewise import leaky_relu
from bedplate.tensor import Generator, Tensor, functions, random, where


def dropout(
    x: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None
) -> Tensor:
    """Zero each element with probability p, scale the others by 1 / (1 - p).

    x          any shape; floating point
    p          the probability, in [0, 1]
    training   off: x as it is
    generator  where the random numbers come from; the default generator unless given
    returns    shape and dtype of x
    raises     ValueError for a probability outside [0, 1]
    source     Srivastava et al. 2014, JMLR 15
    >>> import bedplate as bp
    >>> bp.nn.functional.dropout(bp.ones((3,)), 0.5, training=False).tolist()
    [1.0, 1.0, 1.0]
    """
    return _source(generator).dropout(x, p) if training and p != 0 else x


def _source(generator: Generator | None) -> Generator:
    if generator is None:
        return random.default_generator()
    if not isinstance(generator, Generator):
        kind = type(generator).__name__
        raise TypeError(f"generator: expected a bp.Generator, got {kind}")
    return generator


def rrelu(
    x: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Flatter below 0, by random slopes: y = x if x > 0 else slope x.

    x             any shape; floating point
    lower, upper  between which each element's slope is drawn
    training      off: the slope is (lower + upper) / 2 everywhere
    generator     where the random numbers come from; the default generator unless given
    raises        ValueError for bounds in the wrong order
    source        Xu et al. 2015, arXiv:1505.00853
    >>> import bedplate as bp
    >>> bp.nn.functional.rrelu(bp.tensor([-4.0, 2.0]), 0.25, 0.75).tolist()
    [-2.0, 2.0]
    """
    if not lower <= upper:
        raise ValueError(f"rrelu: lower = {lower} is above upper = {upper}")
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    slopes = _source(generator).uniform(x.shape, lower, upper, x.dtype, x.device)
    return where(x > 0, x, x * slopes)


def gumbel_softmax(
    logits: Tensor,
    tau: float = 1.0,
    hard: bool = False,
    axis: int = -1,
    generator: Generator | None = None,
) -> Tensor:
    """Draw shares that are near a random choice: y = softmax((logits + g) / tau).

    g are Gumbel numbers, drawn in float32 or better: the largest logit + g is a draw from
    softmax(logits).

    logits     any shape; floating point
    tau        positive; the smaller, the nearer to a choice
    hard       give the choice itself, 0 and 1, with the gradient of the shares
    axis       along which one is chosen; `dim` works too
    generator  where the random numbers come from; the default generator unless given
    returns    shape and dtype of logits
    raises     ValueError for a tau that is not positive
    source     Jang et al. 2016, arXiv:1611.01144
    >>> import bedplate as bp
    >>> bp.nn.functional.gumbel_softmax(bp.tensor([0.0, 1000.0]), hard=True).tolist()
    [0.0, 1.0]
    """
    if not tau > 0:
        raise ValueError(f"gumbel_softmax: tau must be positive, got {tau}")
    noise = _source(generator).gumbel(logits.shape, dtype=logits.dtype, device=logits.device)
    shares = functions.softmax(logits.add(noise) / tau, axis)
    if not hard:
        return shares
    chosen = functions.one_hot(functions.argmax(shares, axis), logits.shape[axis], shares.dtype)
    return functions.moveaxis(chosen, -1, axis) + (shares - shares.detach())
