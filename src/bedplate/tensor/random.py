"""Random tensors: a value depends on the seed, on how many draws came before, on its place.

Not on the order in which values are read, nor on fusion or threads: the numbers come from a
counter (see ops/random/draws.py), and the state of the counter is a tensor, so that a captured step
draws new numbers each time.

All threads share one default generator. For numbers that do not depend on what other threads
draw, make a `Generator` of your own. The file is a little long: half of it says what each
distribution is.
"""

from __future__ import annotations

import functools
import inspect
import operator
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from bedplate.devices.device import Device, current_device
from bedplate.dtypes import float32, float64, int64
from bedplate.errors import ShapeError
from bedplate.forks import renewed
from bedplate.ops.random import draws as ops
from bedplate.ops.random import philox, sampling
from bedplate.tensor.creation import new_shape
from bedplate.tensor.draws import drawn, known_state
from bedplate.tensor.tensor import Tensor

Shape = Any
P = ParamSpec("P")
R = TypeVar("R")


def _state(seed: int, device: Device) -> Tensor:
    """The state of a seed, before any draw."""
    number = operator.index(seed)
    if not 0 <= number < 2**64:
        raise ValueError(f"seed: an integer in [0, 2^64), got {number}")
    return Tensor(np.array(philox.seed_words(number), np.uint32), device)


def _require_tensor(op: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        kind = type(value).__name__
        raise TypeError(f"{op}: expected a tensor, got {kind}; make one with bp.tensor(...)")


class Generator:
    """A source of random numbers.

    seed    an integer in [0, 2^64); equal seeds give equal numbers on every device
    state   (4,) uint32: the seed and the number of draws; may be saved and assigned
    raises  ValueError for another seed
    >>> a, b = Generator(1), Generator(1)
    >>> bool((a.normal((3,)) == b.normal((3,))).all())
    True
    """

    def __init__(self, seed: int = 0) -> None:
        self._lock = renewed(threading.Lock())
        self.state = _state(seed, Device("cpu"))

    def manual_seed(self, seed: int) -> Generator:
        """Start anew from a seed in [0, 2^64); returns the generator itself."""
        self.set_state(_state(seed, self.state.device))
        return self

    def get_state(self) -> Tensor:
        """The state, for `set_state`."""
        return self.state._alias()

    def set_state(self, state: Tensor) -> None:
        """Continue from a state that `get_state` gave.

        raises  ShapeError unless it is (4,) uint32
        """
        _require_tensor("set_state", state)
        if state.shape != (4,) or state.dtype.name != "uint32":
            raise ShapeError(f"a state is (4,) uint32, not {state.shape} {state.dtype}")
        with self._lock:
            self.state._rebind(state._node)

    def draw(
        self, function: Callable[..., Any], *arguments: Any, device: Any = None, **keywords: Any
    ) -> Any:
        """`function(state, *arguments)` for one draw; they stand in ops/random/draws.py."""
        place = current_device() if device is None else Device(device)
        with self._lock:
            known = known_state()
            state = self.state._alias() if known is None else known
            result = function(state.to(place), *arguments, **keywords)
            drawn(state)
            if known is None:
                self.state._rebind(philox.advanced(self.state)._node)
        return result

    def uniform(
        self,
        shape: Shape,
        low: Any = 0.0,
        high: Any = 1.0,
        dtype: Any = float32,
        device: Any = None,
    ) -> Tensor:
        """Uniform numbers in [low, high).

        shape      sizes
        low, high  numbers, or tensors that broadcast to the shape and get gradients
        dtype      a float; float32 has 24 random bits, float64 53, float16 11, bfloat16 8
        raises     ValueError for bounds that are not finite or fall
        >>> import bedplate as bp
        >>> bp.random.uniform((2, 3)).shape
        (2, 3)
        """
        sizes = new_shape("uniform", (shape,))
        return self.draw(ops.uniform, sizes, low, high, dtype, device=device)

    def normal(
        self,
        shape: Shape,
        mean: Any = 0.0,
        std: Any = 1.0,
        dtype: Any = float32,
        device: Any = None,
    ) -> Tensor:
        """Normal numbers: density exp(-((y - mean) / std)^2 / 2).

        shape      sizes
        mean, std  numbers, or tensors that broadcast to the shape and get gradients
        dtype      a float; the largest float32 is 5.3 standard deviations away, float64 8.2
        raises     ValueError for a negative or infinite std
        >>> import bedplate as bp
        >>> bp.random.normal((2, 3)).dtype
        bedplate.float32
        """
        sizes = new_shape("normal", (shape,))
        return self.draw(ops.normal, sizes, mean, std, dtype, device=device)

    def truncated_normal(
        self,
        shape: Shape,
        mean: float = 0.0,
        std: float = 1.0,
        low: float = -2.0,
        high: float = 2.0,
        dtype: Any = float32,
        device: Any = None,
    ) -> Tensor:
        """Normal numbers under the condition that they lie in [low, high].

        shape      sizes
        mean, std  of the normal numbers before they are bounded
        low, high  the bounds themselves, as in PyTorch: not in standard deviations
        raises     ValueError for an interval that is empty or too far from the mean
        >>> import bedplate as bp
        >>> bool((bp.random.truncated_normal((100,), high=0.5) <= 0.5).all())
        True
        """
        sizes = new_shape("truncated_normal", (shape,))
        return self.draw(ops.truncated_normal, sizes, mean, std, low, high, dtype, device=device)

    def exponential(
        self, shape: Shape, scale: Any = 1.0, dtype: Any = float32, device: Any = None
    ) -> Tensor:
        """Exponential numbers: the density is exp(-x / scale) / scale for x > 0.

        shape    of the result
        scale    the mean: a number, or a tensor that broadcasts to the shape
        raises   ValueError for a negative or infinite scale
        >>> import bedplate as bp
        >>> bool((bp.random.exponential((100,)) > 0).all())
        True
        """
        sizes = new_shape("exponential", (shape,))
        return self.draw(ops.exponential, sizes, scale, dtype, device=device)

    def laplace(
        self,
        shape: Shape,
        mean: Any = 0.0,
        scale: Any = 1.0,
        dtype: Any = float32,
        device: Any = None,
    ) -> Tensor:
        """Laplace numbers: the density is exp(-|x - mean| / scale) / (2 scale).

        shape        of the result
        mean, scale  numbers, or tensors that broadcast to the shape
        raises       ValueError for a negative or infinite scale
        >>> import bedplate as bp
        >>> bp.random.laplace((2,)).shape
        (2,)
        """
        sizes = new_shape("laplace", (shape,))
        return self.draw(ops.laplace, sizes, mean, scale, dtype, device=device)

    def gumbel(
        self,
        shape: Shape,
        mean: Any = 0.0,
        scale: Any = 1.0,
        dtype: Any = float32,
        device: Any = None,
    ) -> Tensor:
        """Gumbel numbers: a share exp(-exp(-(x - mean) / scale)) lies below x.

        shape        of the result
        mean, scale  numbers, or tensors that broadcast to the shape
        raises       ValueError for a negative or infinite scale
        >>> import bedplate as bp
        >>> bp.random.gumbel((2,)).shape
        (2,)
        """
        sizes = new_shape("gumbel", (shape,))
        return self.draw(ops.gumbel, sizes, mean, scale, dtype, device=device)

    def randint(
        self, low: int, high: int, shape: Shape, dtype: Any = int64, device: Any = None
    ) -> Tensor:
        """Uniform integers in [low, high).

        shape    sizes
        dtype    an integer; every number of it may be drawn
        raises   ValueError if there is no integer in [low, high) or it does not fit the dtype
        >>> import bedplate as bp
        >>> bp.random.randint(5, 6, (3,)).tolist()
        [5, 5, 5]
        """
        sizes = new_shape("randint", (shape,))
        low, high = operator.index(low), operator.index(high)
        return self.draw(ops.randint, sizes, low, high, dtype, device=device)

    def bernoulli(self, shape: Shape, probability: Any = 0.5, device: Any = None) -> Tensor:
        """True with the given probability.

        shape        of the result
        probability  a number in [0, 1], or a tensor that broadcasts to the shape
        >>> import bedplate as bp
        >>> bp.random.bernoulli((2,), 1.0).tolist()
        [True, True]
        """
        sizes = new_shape("bernoulli", (shape,))
        return self.draw(ops.bernoulli, sizes, probability, device=device)

    def categorical(self, logits: Tensor, shape: Shape = (), axis: int = -1) -> Tensor:
        """Indices along an axis, each with probability softmax(logits).

        logits   floats; -inf for a category that never occurs; NaN wins, as in argmax
        shape    of the samples: it stands before the axes of the logits
        returns  int64, (*shape, *logits.shape without the axis); no gradient
        raises   ShapeError if there are no categories
        >>> import bedplate as bp
        >>> bp.random.categorical(bp.tensor([0.0, float("-inf")]), (3,)).tolist()
        [0, 0, 0]
        """
        _require_tensor("categorical", logits)
        sizes = new_shape("categorical", (shape,))
        return self.draw(sampling.categorical, logits, sizes, axis, device=logits.device)

    def multinomial(self, weights: Tensor, num_samples: int, replacement: bool = False) -> Tensor:
        """Indices of the last axis, each with a probability in proportion to its weight.

        weights      (..., n): finite, not negative, not all 0; they need not add up to 1; they are
                     checked, hence computed, at once (`categorical` takes log weights unread)
        num_samples  how many of each row
        replacement  whether an index may come again; else they come in the order of drawing
        returns      (..., num_samples) int64; no gradient
        raises       ValueError for wrong weights, or fewer categories than samples; CaptureError
                     within jit
        >>> import bedplate as bp
        >>> bp.random.multinomial(bp.tensor([0.0, 3.0]), 2, replacement=True).tolist()
        [1, 1]
        """
        _require_tensor("multinomial", weights)
        return self.draw(
            sampling.multinomial, weights, num_samples, replacement, device=weights.device
        )

    def permutation(self, x: Any, axis: int = 0, device: Any = None) -> Tensor:
        """The numbers below x, or the slices of a tensor along an axis, in random order.

        x        an integer, or a tensor; its gradient goes back to the slices
        cost     a sort of 64 random bits a slice
        >>> import bedplate as bp
        >>> sorted(bp.random.permutation(4).tolist())
        [0, 1, 2, 3]
        """
        place = x.device if isinstance(x, Tensor) else device
        return self.draw(sampling.permutation, x, axis, device=place)

    def shuffle(self, x: Tensor, axis: int = 0) -> Tensor:
        """Bind x to its slices in random order; returns x itself. See `permutation`.

        axis     along which
        >>> import bedplate as bp
        >>> x = bp.arange(4)
        >>> bp.random.shuffle(x) is x, sorted(x.tolist())
        (True, [0, 1, 2, 3])
        """
        _require_tensor("shuffle", x)
        return x.assign(self.permutation(x, axis))

    def choice(
        self,
        x: Any,
        shape: Shape = (),
        replace: bool = True,
        p: Any = None,
        device: Any = None,
    ) -> Tensor:
        """Elements of a vector, or of the numbers below an integer.

        shape    of the result
        replace  whether one may come again
        p        the probability of each, adding up to 1; equal ones by default; computed at once
        raises   ValueError if there are too few, or p are no probabilities
        >>> import bedplate as bp
        >>> bp.random.choice(bp.tensor([7.0, 7.0]), (3,)).tolist()
        [7.0, 7.0, 7.0]
        """
        place = x.device if isinstance(x, Tensor) else device
        chances = (
            None if p is None else Tensor(p, place, None if isinstance(p, Tensor) else float64)
        )
        sizes = new_shape("choice", (shape,))
        return self.draw(sampling.choice, x, sizes, replace, chances, device=place)

    def dropout(self, x: Tensor, probability: float = 0.5) -> Tensor:
        """Elements of x set to 0 with the given probability, the others scaled to keep the mean.

        >>> import bedplate as bp
        >>> bp.random.dropout(bp.ones(3), 0.0).tolist()
        [1.0, 1.0, 1.0]
        """
        _require_tensor("dropout", x)
        return self.draw(ops.dropout, x, probability, device=x.device)


_default: list[Generator] = []
_making = renewed(threading.Lock())


def default_generator() -> Generator:
    """The generator that the functions of this module draw from; seeded with 0 at first.

    >>> import bedplate as bp
    >>> bp.random.default_generator() is bp.random.default_generator()
    True
    """
    if not _default:
        with _making:
            if not _default:
                _default.append(Generator(0))
    return _default[0]


def manual_seed(seed: int) -> None:
    """Start the default generator anew.

    seed     an integer in [0, 2^64)
    >>> import bedplate as bp
    >>> bp.manual_seed(7)
    >>> a = bp.random.uniform((2,)).tolist()
    >>> bp.manual_seed(7)
    >>> a == bp.random.uniform((2,)).tolist()
    True
    """
    default_generator().manual_seed(seed)


def get_state() -> Tensor:
    """The state of the default generator, for `set_state`.

    returns  four words, uint32
    >>> import bedplate as bp
    >>> state = bp.random.get_state()
    >>> first = bp.random.uniform((2,)).tolist()
    >>> bp.random.set_state(state)
    >>> bp.random.uniform((2,)).tolist() == first
    True
    """
    return default_generator().get_state()


def set_state(state: Tensor) -> None:
    """Continue the default generator from a state that `get_state` gave.

    >>> import bedplate as bp
    >>> bp.random.set_state(bp.random.get_state())
    """
    default_generator().set_state(state)


def _of_default(method: Callable[Concatenate[Generator, P], R]) -> Callable[P, R]:
    """The function that draws from the default generator."""

    @functools.wraps(method)
    def function(*arguments: P.args, **named: P.kwargs) -> R:
        return method(default_generator(), *arguments, **named)

    signature = inspect.signature(method)
    own = [p for name, p in signature.parameters.items() if name != "self"]
    function.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
    function.__qualname__ = function.__name__
    return function


uniform = _of_default(Generator.uniform)
normal = _of_default(Generator.normal)
truncated_normal = _of_default(Generator.truncated_normal)
exponential = _of_default(Generator.exponential)
laplace = _of_default(Generator.laplace)
gumbel = _of_default(Generator.gumbel)
randint = _of_default(Generator.randint)
bernoulli = _of_default(Generator.bernoulli)
categorical = _of_default(Generator.categorical)
multinomial = _of_default(Generator.multinomial)
permutation = _of_default(Generator.permutation)
shuffle = _of_default(Generator.shuffle)
choice = _of_default(Generator.choice)
dropout = _of_default(Generator.dropout)


def rand(*shape: Any, dtype: Any = float32, device: Any = None) -> Tensor:
    """Uniform numbers in [0, 1); sizes one after the other.

    shape    sizes
    returns  the shape
    >>> import bedplate as bp
    >>> bp.random.rand(2, 3).shape
    (2, 3)
    """
    return uniform(new_shape("rand", shape), dtype=dtype, device=device)


def randn(*shape: Any, dtype: Any = float32, device: Any = None) -> Tensor:
    """Standard normal numbers; sizes one after the other.

    shape    sizes
    returns  the shape
    >>> import bedplate as bp
    >>> bp.random.randn(2, 3).shape
    (2, 3)
    """
    return normal(new_shape("randn", shape), dtype=dtype, device=device)


def randperm(count: int, device: Any = None) -> Tensor:
    """The numbers 0 to count - 1 in random order.

    returns  (count,) int64
    >>> import bedplate as bp
    >>> sorted(bp.random.randperm(3).tolist())
    [0, 1, 2]
    """
    return permutation(operator.index(count), device=device)
