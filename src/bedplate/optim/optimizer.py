"""Optimizer: parameters in groups, each with its settings; state by parameter.

What changes while training (learning rate, weight decay, step count, moments) is kept in
tensors and changed by `assign`. A captured step therefore reads today's value, and capturing
again is never needed. All other settings stay as they were given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bedplate.dtypes import float32, float64, real_dtype
from bedplate.errors import CheckpointError, DeviceError, SettingError
from bedplate.graph.pending import thread_state
from bedplate.tensor import Tensor, no_grad, tensor, zeros
from bedplate.tensor.functions import as_complex, as_real
from bedplate.tensor.values import compute_pending

CHANGEABLE = ("lr", "weight_decay")


def as_floats(x: Tensor) -> Tensor:
    """Complex numbers as pairs along a last axis, each part of which has a step of its own."""
    return as_real(x) if x.dtype.kind == "c" else x


def once(shared: dict[str, Tensor], name: str, make: Callable[[], Tensor]) -> Tensor:
    """What is the same for many parameters of a step: made for the first of them."""
    found = shared.get(name)
    if found is None:
        found = shared[name] = make()
    return found


class ParameterGroup(dict[str, Any]):
    """The settings of one group: "params" and what the optimiser takes.

    `group["lr"] = 1e-3` assigns to the tensor that holds the learning rate, so that a captured
    step sees it; `group["lr"].item()` reads it.
    """

    def __setitem__(self, key: str, value: Any) -> None:
        if key in CHANGEABLE and isinstance(self.get(key), Tensor):
            new = value if isinstance(value, Tensor) else tensor(float(value), dtype=float64)
            self[key].assign(new.detach().astype(float64))
        elif key in self:
            raise SettingError(
                f"optimizer: {key!r} is fixed once the optimiser is made\n"
                f"  what may change is {', '.join(CHANGEABLE)}; make a new optimiser for the rest"
            )
        else:
            super().__setitem__(key, value)


class Optimizer:
    """The base of all optimisers.

    params     tensors, (name, tensor) pairs, or groups: tables with "params" and settings that
               differ from the defaults
    raises     SettingError if there are no parameters, one comes twice, or a rate is negative;
               TypeError for what is no tensor
    """

    # names of the state tensors each parameter has, in its master dtype
    state_names: tuple[str, ...] = ()

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.param_groups: list[ParameterGroup] = []
        self.names: list[str] = []
        self._adopted: set[int] = set()  # of the parameters that are in a group
        self.state: list[dict[str, Tensor]] = []  # by position over all groups
        self.step_count = tensor(0.0, dtype=float64)
        self._placed = 0  # parameters whose state is known to be where they are
        given = list(params)
        if not given:
            raise SettingError("optimizer: got no parameters\n  give it model.parameters()")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add parameters that have settings of their own."""
        unknown = group.keys() - self.defaults.keys() - {"params"}
        if unknown:
            raise SettingError(
                f"optimizer: unknown setting {min(unknown)!r}; there are {', '.join(self.defaults)}"
            )
        settings = {**self.defaults, **group}
        for key in CHANGEABLE:
            if key in settings:
                settings[key] = tensor(_not_negative(key, settings[key]), dtype=float64)
        settings["params"] = [self._adopt(item) for item in _listed(group["params"])]
        self.param_groups.append(ParameterGroup(settings))

    def _adopt(self, item: Any) -> Tensor:
        """Take in one parameter, with fresh state."""
        name, parameter = (
            item if isinstance(item, tuple) else (f"parameter {len(self.state)}", item)
        )
        if not isinstance(parameter, Tensor):
            raise TypeError(
                f"optimizer: {name} is a {type(parameter).__name__}, not a tensor\n"
                "  give it model.parameters(), or a list of tensors or of groups"
            )
        if id(parameter) in self._adopted:
            raise SettingError(f"optimizer: {name} comes twice\n  each parameter is updated once")
        self._adopted.add(id(parameter))
        self.names.append(name)
        self.state.append(self._fresh_state(parameter))
        return parameter

    def _fresh_state(self, parameter: Tensor) -> dict[str, Tensor]:
        narrow = parameter.dtype.itemsize < 4
        shape = as_floats(parameter.detach()).shape
        dtype = float32 if narrow else real_dtype(parameter.dtype)
        # memory of its own from the start, so that the first step is like all others
        place = parameter.device
        state = {n: zeros(shape, dtype=dtype, device=place).realise() for n in self.state_names}
        if narrow:
            # small steps would vanish in the rounding of bfloat16 and float16
            state["master"] = parameter.detach().astype(float32)
        return state

    def _parameters(self) -> list[tuple[ParameterGroup, Tensor, dict[str, Tensor]]]:
        """(group, parameter, state) for every parameter, in order."""
        pairs = [(group, p) for group in self.param_groups for p in group["params"]]
        return [(group, p, state) for (group, p), state in zip(pairs, self.state, strict=True)]

    def step(self) -> None:
        """Update every parameter that has a gradient; if that fails, all of them stay as they were.

        raises  OutOfMemoryError, and whatever else computing the gradients and the update raises
        """
        with self._whole():
            self._update(self._begin())

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A step without recording: it happens, or leaves everything as it was."""
        captured = thread_state().watcher is not None  # what runs it puts back what it took itself
        before = [] if captured else [(tensor, tensor._node) for tensor in self._changing()]
        with no_grad():
            try:
                yield
            except BaseException:
                for tensor, node in before:
                    tensor._rebind(node)
                raise

    def _changing(self) -> Iterator[Tensor]:
        """What a step changes."""
        for _, parameter, state in self._parameters():
            yield parameter
            yield from state.values()
        yield from self.extra_state().values()

    def _update(self, shared: dict[str, Tensor]) -> None:
        for group, parameter, state in self._parameters():
            if parameter.grad is not None:
                weight = as_floats(state.get("master", parameter).detach())
                grad = as_floats(parameter.grad.detach()).astype(weight.dtype)
                self._store(parameter, state, self._updated(group, weight, grad, state, shared))
        if thread_state().watcher is None:
            # at once: every step has the same plan then, and what is pending stays bounded
            compute_pending()

    def _follow(self) -> None:
        """Move the state to the device of the parameters, if they were moved since the last step.

        raises  DeviceError if they are on several devices
        """
        device = self.param_groups[0]["params"][0].device
        if self.step_count.device is device and self._placed == len(self.state):
            return
        for name, (_, parameter, _) in zip(self.names, self._parameters(), strict=True):
            if parameter.device != device:
                raise DeviceError(
                    f"optimizer: {self.names[0]} is on {device}, {name} on {parameter.device}\n"
                    "  move the model to one device, or make an optimiser for each"
                )
        for own in self._own_tensors().values():
            if own.device is not device:
                own._rebind(own.detach().to(device)._node)
        self._placed = len(self.state)

    def _begin(self) -> dict[str, Tensor]:
        """What is done once a step; gives what all parameters' updates share, by name."""
        self._follow()
        self.step_count.assign(self.step_count + 1.0)
        return {}

    def _updated(
        self,
        group: ParameterGroup,
        weight: Tensor,
        grad: Tensor,
        state: dict[str, Tensor],
        shared: dict[str, Tensor],
    ) -> dict[str, Tensor]:
        """The new "weight" and the new state by name; each optimiser has its own."""
        raise TypeError(f"{type(self).__name__} has no rule: write _updated")

    def _store(self, parameter: Tensor, state: dict[str, Tensor], new: dict[str, Tensor]) -> None:
        weight = new.pop("weight")
        if parameter.dtype.kind == "c":
            weight = as_complex(weight)
        for name, value in new.items():
            state[name].assign(value)
        if "master" in state:
            state["master"].assign(weight)
        parameter.assign(weight.astype(parameter.dtype))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of every parameter.

        set_to_none   as PyTorch users write it; gradients are always forgotten, never zeros
        """
        for _, parameter, _ in self._parameters():
            parameter.grad = None

    def extra_state(self) -> dict[str, Tensor]:
        """State that belongs to no parameter, by name."""
        return {"step_count": self.step_count}

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, as tensors by name."""
        return {name: value.detach() for name, value in self._own_tensors().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where `state_dict` was taken.

        raises  CheckpointError if a name is missing or unknown, or a shape differs
        """
        mine = self._own_tensors()
        for name in mine.keys() ^ state.keys():
            side = "missing from the state" if name in mine else "unknown to this optimiser"
            raise CheckpointError(f"optimizer: {name} is {side}")
        for name, own in mine.items():
            value = state[name] if isinstance(state[name], Tensor) else Tensor(state[name])
            if value.shape != own.shape:
                raise CheckpointError(f"optimizer: {name} is {value.shape}, expected {own.shape}")
        for name, own in mine.items():
            value = state[name] if isinstance(state[name], Tensor) else Tensor(state[name])
            own.assign(value.detach().astype(own.dtype))

    def _own_tensors(self) -> dict[str, Tensor]:
        tensors = {f"optimizer.{name}": value for name, value in self.extra_state().items()}
        for index, group in enumerate(self.param_groups):
            tensors |= {f"group.{index}.{key}": group[key] for key in CHANGEABLE if key in group}
        for name, state in zip(self.names, self.state, strict=True):
            tensors |= {f"state.{name}.{key}": value for key, value in state.items()}
        return tensors


def _not_negative(key: str, value: Any) -> float:
    number = float(value)
    if not number >= 0:
        raise SettingError(f"optimizer: {key} = {number} is not 0 or more")
    return number


def _listed(params: Any) -> list[Any]:
    return [params] if isinstance(params, Tensor) else list(params)
