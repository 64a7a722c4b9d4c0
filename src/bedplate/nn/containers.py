"""Containers: modules in a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bedplate.nn.module import Module


class ModuleList(Module):
    """A list of modules; their names are their indices."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> None:
        setattr(self, str(len(self)), module)

    def __len__(self) -> int:
        return sum(1 for _ in self.named_children())

    def __iter__(self) -> Iterator[Module]:
        return (module for _, module in self.named_children())

    def __getitem__(self, index: int) -> Module:
        return list(self)[index]


class Sequential(ModuleList):
    """Modules applied one after the other.

    >>> from bedplate.nn import Linear, ReLU
    >>> Sequential(Linear(2, 3), ReLU())
    Sequential(
      0: Linear(2, 3)
      1: ReLU()
    )
    """

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x
