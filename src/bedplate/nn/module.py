"""Module: a function with parameters, built of smaller modules.

A module is what its attributes are: a `Parameter` among them is trained, a `Module` is a
part, a tensor given to `register_buffer` is saved with them. There is no second table that
could disagree; the order of everything is the order of assignment in `__init__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from bedplate.errors import CheckpointError
from bedplate.graph.pending import LOCAL
from bedplate.nn.parameter import Parameter
from bedplate.ops.record import refuse_foreign
from bedplate.tensor import Tensor, no_grad

Self = TypeVar("Self", bound="Module")


class Module:
    """Subclass it, assign parameters and modules in `__init__`, and write `forward`.

    >>> class Scale(Module):
    ...     def __init__(self):
    ...         self.factor = Parameter([2.0])
    ...
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> [name for name, _ in Scale().named_parameters()]
    ['factor']
    """

    training: bool = True
    _buffers: tuple[str, ...] = ()

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """What the module computes; each subclass has its own."""
        raise TypeError(f"{type(self).__name__} has no forward: write one")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        watcher = LOCAL.state.watcher
        if watcher is not None:
            return watcher.call(self, inputs, options)
        try:
            return self.forward(*inputs, **options)
        except AttributeError as error:
            if any(error.obj is given for given in inputs):
                refuse_foreign(type(self).__name__, (error.obj,))
            raise

    def register_buffer(self, name: str, value: Tensor) -> None:
        """Keep a tensor that is saved and moved with the module, but not trained."""
        setattr(self, name, value)
        self._buffers = (*self._buffers, name)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly inside this one, by attribute."""
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all inside it, by dotted path; each once."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module
            children = [(f"{path}.{n}" if path else n, c) for n, c in module.named_children()]
            stack.extend(reversed(children))

    def modules(self) -> Iterator[Module]:
        """This module and all inside it; each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(
        self, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Trained tensors by dotted path; one that is shared comes once, unless asked for."""
        seen: set[int] = set()
        for path, module in self.named_modules(prefix):
            for name, value in vars(module).items():
                if not isinstance(value, Parameter) or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield f"{path}.{name}" if path else name, value

    def parameters(self) -> Iterator[Parameter]:
        """Trained tensors, each once."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Tensors that are saved but not trained, by dotted path."""
        for path, module in self.named_modules(prefix):
            for name in module._buffers:
                yield f"{path}.{name}" if path else name, getattr(module, name)

    def buffers(self) -> Iterator[Tensor]:
        """Tensors that are saved but not trained."""
        return (buffer for _, buffer in self.named_buffers())

    def state_dict(self) -> dict[str, Tensor]:
        """Every parameter and buffer by dotted path, without history; shared ones once."""
        tensors = [*self.named_parameters(), *self.named_buffers()]
        return {name: tensor.detach() for name, tensor in tensors}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Give parameters and buffers the values of `state`, cast to the dtypes they have.

        strict   every name must be on both sides
        raises   CheckpointError that lists what is missing, unexpected or of another shape;
                 nothing has been changed then
        """
        mine: dict[str, Tensor] = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        faults = _name_faults(mine, state) if strict else []
        shared = mine.keys() & state.keys()
        faults += [
            f"{name}: the module has {mine[name].shape}, the state {tuple(state[name].shape)}"
            for name in sorted(shared)
            if tuple(state[name].shape) != mine[name].shape
        ]
        if faults:
            raise CheckpointError(
                "load_state_dict: the state does not fit\n  " + "\n  ".join(faults)
            )
        with no_grad():
            for name in shared:
                value = state[name] if isinstance(state[name], Tensor) else Tensor(state[name])
                mine[name].assign(value.detach().astype(mine[name].dtype))

    def train(self: Self, mode: bool = True) -> Self:
        """Switch to training behaviour (dropout drops), here and in every part."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Switch to behaviour in use (dropout does nothing), here and in every part."""
        return self.train(False)

    def apply(self: Self, function: Callable[[Module], object]) -> Self:
        """Call `function` with every part, innermost first, then with this module."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def to(self: Self, target: Any) -> Self:
        """Move every parameter and buffer to a device, or cast the floating ones to a dtype."""
        for tensor in [*self.parameters(), *self.buffers()]:
            moved = tensor.detach().to(target)
            if moved.dtype is tensor.dtype or tensor.dtype.is_float:
                tensor._rebind(moved._node)
                tensor.grad = None
        return self

    def zero_grad(self) -> None:
        """Forget the gradients of every parameter."""
        for parameter in self.parameters():
            parameter.grad = None

    def extra_repr(self) -> str:
        """What `repr` shows between the brackets of a module without parts."""
        return ""

    def __repr__(self) -> str:
        parts = [f"{name}: {child!r}" for name, child in self.named_children()]
        if not parts:
            return f"{type(self).__name__}({self.extra_repr()})"
        body = "\n".join(parts).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {body}\n)"


def _name_faults(mine: Mapping[str, Any], state: Mapping[str, Any]) -> list[str]:
    missing = [f"{name}: missing from the state" for name in mine if name not in state]
    return missing + [f"{name}: no such name in the module" for name in state if name not in mine]
