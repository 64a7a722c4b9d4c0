"""Random tensors: a value depends on the seed, on how many draws came before, on its place.

Not on the order in which values are read, nor on fusion or threads: the numbers come from a
counter (see ops/random.py), and the state of the counter is a tensor, so that a captured step
draws new numbers each time.

All threads share one default generator. For numbers that do not depend on what other threads
draw, make a `Generator` of your own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.devices.device import Device, current_device
from bedplate.dtypes import float32, int64
from bedplate.errors import ShapeError
from bedplate.ops import random as ops
from bedplate.tensor.creation import new_shape
from bedplate.tensor.tensor import Tensor

Shape = Any


class Generator:
    """A source of random numbers.

    seed    an integer; equal seeds give equal numbers on every device
    state   (4,) uint32: the seed and the number of draws; may be saved and assigned
    >>> a, b = Generator(1), Generator(1)
    >>> bool((a.normal((3,)) == b.normal((3,))).all())
    True
    """

    def __init__(self, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self.state = Tensor(np.array(ops.seed_words(seed), np.uint32), Device("cpu"))

    def manual_seed(self, seed: int) -> Generator:
        """Start anew from a seed; returns the generator itself."""
        self.set_state(Tensor(np.array(ops.seed_words(seed), np.uint32), self.state.device))
        return self

    def get_state(self) -> Tensor:
        """The state, for `set_state`."""
        return self.state._alias()

    def set_state(self, state: Tensor) -> None:
        """Continue from a state that `get_state` gave.

        raises  ShapeError unless it is (4,) uint32
        """
        if state.shape != (4,) or state.dtype.name != "uint32":
            raise ShapeError(f"a state is (4,) uint32, not {state.shape} {state.dtype}")
        with self._lock:
            self.state._rebind(state._node)

    def draw(
        self, function: Callable[..., Any], *arguments: Any, device: Any = None, **keywords: Any
    ) -> Any:
        """`function(state, *arguments)` for one draw; see ops/random.py for such functions."""
        place = current_device() if device is None else Device(device)
        with self._lock:
            result = function(self.state.to(place), *arguments, **keywords)
            self.state._rebind(ops.advanced(self.state)._node)
        return result

    def uniform(
        self,
        shape: Shape,
        low: float = 0.0,
        high: float = 1.0,
        dtype: Any = float32,
        device: Any = None,
    ) -> Tensor:
        """Uniform numbers in [low, high)."""
        sizes = new_shape("uniform", (shape,))
        return self.draw(ops.uniform, sizes, low, high, dtype, device=device)

    def normal(
        self,
        shape: Shape,
        mean: float = 0.0,
        std: float = 1.0,
        dtype: Any = float32,
        device: Any = None,
    ) -> Tensor:
        """Normal numbers."""
        sizes = new_shape("normal", (shape,))
        return self.draw(ops.normal, sizes, mean, std, dtype, device=device)

    def randint(
        self, low: int, high: int, shape: Shape, dtype: Any = int64, device: Any = None
    ) -> Tensor:
        """Uniform integers in [low, high)."""
        sizes = new_shape("randint", (shape,))
        return self.draw(ops.randint, sizes, low, high, dtype, device=device)

    def bernoulli(self, shape: Shape, probability: float = 0.5, device: Any = None) -> Tensor:
        """True with the given probability."""
        return self.draw(
            ops.bernoulli, new_shape("bernoulli", (shape,)), probability, device=device
        )

    def dropout(self, x: Tensor, probability: float = 0.5) -> Tensor:
        """Elements of x set to 0 with the given probability, the others scaled to keep the mean."""
        return self.draw(ops.dropout, x, probability, device=x.device)


_default: list[Generator] = []
_making = threading.Lock()


def default_generator() -> Generator:
    """The generator that the functions of this module draw from; seeded with 0 at first."""
    if not _default:
        with _making:
            if not _default:
                _default.append(Generator(0))
    return _default[0]


def manual_seed(seed: int) -> None:
    """Start the default generator anew.

    >>> import bedplate as bp
    >>> bp.manual_seed(7)
    >>> a = bp.random.uniform((2,)).tolist()
    >>> bp.manual_seed(7)
    >>> a == bp.random.uniform((2,)).tolist()
    True
    """
    default_generator().manual_seed(seed)


def get_state() -> Tensor:
    """The state of the default generator, for `set_state`."""
    return default_generator().get_state()


def set_state(state: Tensor) -> None:
    """Continue the default generator from a state that `get_state` gave."""
    default_generator().set_state(state)


def uniform(
    shape: Shape, low: float = 0.0, high: float = 1.0, dtype: Any = float32, device: Any = None
) -> Tensor:
    """Uniform numbers in [low, high).

    >>> import bedplate as bp
    >>> bp.random.uniform((2, 3)).shape
    (2, 3)
    """
    return default_generator().uniform(shape, low, high, dtype, device)


def normal(
    shape: Shape, mean: float = 0.0, std: float = 1.0, dtype: Any = float32, device: Any = None
) -> Tensor:
    """Normal numbers.

    >>> import bedplate as bp
    >>> bp.random.normal((2, 3)).dtype
    bedplate.float32
    """
    return default_generator().normal(shape, mean, std, dtype, device)


def randint(low: int, high: int, shape: Shape, dtype: Any = int64, device: Any = None) -> Tensor:
    """Uniform integers in [low, high)."""
    return default_generator().randint(low, high, shape, dtype, device)


def bernoulli(shape: Shape, probability: float = 0.5, device: Any = None) -> Tensor:
    """True with the given probability."""
    return default_generator().bernoulli(shape, probability, device)


def dropout(x: Tensor, probability: float = 0.5) -> Tensor:
    """Elements of x set to 0 with the given probability, the others scaled to keep the mean."""
    return default_generator().dropout(x, probability)


def rand(*shape: Any, dtype: Any = float32, device: Any = None) -> Tensor:
    """Uniform numbers in [0, 1); sizes one after the other."""
    return uniform(new_shape("rand", shape), dtype=dtype, device=device)


def randn(*shape: Any, dtype: Any = float32, device: Any = None) -> Tensor:
    """Standard normal numbers; sizes one after the other."""
    return normal(new_shape("randn", shape), dtype=dtype, device=device)
