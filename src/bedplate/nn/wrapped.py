"""A function as a module: what it is given beside its inputs are the settings of the module."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from bedplate.nn.module import Module
from bedplate.ops.public import OTHER_WORDS
from bedplate.tensor import Tensor


class Wrapped(Module):
    """The base of modules that are a row: a function, and how many inputs it has.

    settings  by name or in the order of the function's arguments after its inputs; tensors among
              them are buffers
    raises    TypeError for a setting that the function does not have, or lacks
    """

    function: ClassVar[Callable[..., Any]]
    n_inputs: ClassVar[int] = 1

    def __init__(self, *arguments: Any, **named: Any) -> None:
        named = {OTHER_WORDS.get(name, name): value for name, value in named.items()}
        inputs = (None,) * self.n_inputs
        bound = inspect.signature(self.function).bind(*inputs, *arguments, **named)
        self.settings: tuple[str, ...] = tuple(bound.arguments)[self.n_inputs :]
        for name in self.settings:
            value = bound.arguments[name]
            if isinstance(value, Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Tensor) -> Tensor:
        settings = {name: getattr(self, name) for name in self.settings}
        return type(self).function(*inputs, **settings)

    def extra_repr(self) -> str:
        plain = [name for name in self.settings if name not in self._buffers]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in plain)
