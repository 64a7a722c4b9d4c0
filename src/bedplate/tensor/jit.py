"""jit: capture what a step computes, and replay it without building a graph.

The first calls run the function under watch: tensors among the arguments become placeholders,
tensors from outside that are read become inputs whose value of the day is used at each call,
and what is assigned to tensors and to `.grad` is done again at each call. Other arguments
specialise by value, tensors by shape and dtype. A step is replayed once it has been captured
twice alike, so that what the function changes on the side (a counter, a state that it makes
at its first call) is noticed: `step.report()` tells why it was captured again.

What is not seen: Python values that the function reads from elsewhere and that change after
that (a flag of a module). Pass them as arguments.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from bedplate.compiler.explain import schedule_text
from bedplate.config import config
from bedplate.errors import CaptureError
from bedplate.graph.pending import LOCAL
from bedplate.tensor.capturing import Part, placeholders, record
from bedplate.tensor.replay import Replay
from bedplate.tensor.tensor import Tensor

MAX_CAPTURES = 16  # of one specialisation that never comes out the same twice
MAX_SPECIALISATIONS = 64


def jit(function: Callable[..., Any] | None = None) -> Any:
    """Capture a function of tensors, and replay it without its Python.

    function  takes and gives tensors (also in lists, tuples, dicts) and hashable values; may
              assign to tensors from outside (parameters, optimiser state) and to `.grad`
    returns   a function of the same arguments; its results equal the uncaptured ones bit for
              bit, and carry no gradient history
    raises    CaptureError where the function reads a value (`.item()`, `if tensor:`)
    cost      about 10 us a call and 1 us for each tensor that enters or leaves
    >>> import bedplate as bp
    >>> @bp.jit
    ... def scaled(x, k):
    ...     return x * k
    >>> [scaled(bp.tensor([1.0, 2.0]), k).tolist() for k in (1, 2, 3)]
    [[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]
    """
    if function is None:
        return jit
    return Captured(function)


class _Specialisation:
    """The captures for one kind of arguments."""

    def __init__(self) -> None:
        self.replays: list[Replay] = []
        self.last_key: Any = None
        self.captures = 0


class Captured:
    """A function under `jit`; see there."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._known: dict[Any, _Specialisation] = {}
        self._lock = threading.RLock()
        self._log: list[str] = []

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        state = LOCAL.state
        if state.watcher is not None or not config.jit or config.check:
            return self.function(*arguments, **named)
        tensors: list[Tensor] = []
        key = (
            _flatten(arguments, tensors),
            _flatten(named, tensors) if named else None,
            state.recording,
        )
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                for replay in found.replays:
                    if replay.fits(tensors):
                        return replay.run(tensors)
            return self._capture(key, found, tensors, arguments, named)

    def report(self) -> str:
        """Each capture: for which arguments, and why."""
        return "\n".join(self._log) or f"{self._name}: not called yet"

    def schedule(self) -> str:
        """The regions and launches of each capture that is replayed."""
        parts = []
        for key, found in self._known.items():
            for replay in found.replays:
                plan = replay.captured.plan
                parts.append(f"{self._name} for {_shown(key)}:")
                parts.append(schedule_text(plan.regions, plan.arena_bytes))
        return "\n".join(parts) or f"{self._name}: nothing is replayed yet"

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", "step")

    def _capture(
        self,
        key: Any,
        found: _Specialisation | None,
        tensors: list[Tensor],
        arguments: Any,
        named: Any,
    ) -> Any:
        if found is None:
            found = self._known[key] = _Specialisation()
            if len(self._known) > MAX_SPECIALISATIONS:
                self._known.pop(next(iter(self._known)))
        if found.captures >= MAX_CAPTURES:
            return self.function(*arguments, **named)
        stand_ins = placeholders(tensors)
        rest = iter(stand_ins)
        call_arguments = _rebuilt(arguments, rest)
        call_named = _rebuilt(named, rest)
        made = record(lambda: self.function(*call_arguments, **call_named), stand_ins, pack)
        if any(node.device.name == "reference" for node in made.roots):
            found.captures = MAX_CAPTURES  # there is nothing to plan: each op runs by itself
            self._log.append(f"{self._name}: on the reference device; it runs uncaptured")
            return self.function(*arguments, **named)
        replay = Replay(made, tensors)
        self._note(key, found, replay)
        result = replay.run(tensors)
        found.captures += 1
        if found.last_key == replay.key:
            found.replays.append(replay)
        found.last_key = replay.key
        return result

    def _note(self, key: Any, found: _Specialisation, replay: Replay) -> None:
        name = self._name
        if found.captures == 0:
            others = len(self._known) - 1
            reason = (
                "first call" if not others else f"new arguments (there were {others} other kinds)"
            )
        elif found.last_key == replay.key:
            reason = "the same as before: replayed from now on"
        elif found.replays:
            reason = "gradients, or tensors that share a value, are not as they were"
        else:
            reason = "not the same as before: the function changed something on the side"
        self._log.append(f"{name}: capture {found.captures + 1} for {_shown(key)}: {reason}")
        if found.captures + 1 == MAX_CAPTURES:
            self._log.append(f"{name}: never the same twice; it runs uncaptured from now on")


def _flatten(value: Any, tensors: list[Tensor]) -> Any:
    """A hashable description of arguments; their tensors go to the list."""
    kind = type(value)
    if kind is tuple:
        return tuple([_flatten(item, tensors) for item in value])
    if isinstance(value, Tensor):
        tensors.append(value)
        node = value._node
        return node.shape, node.dtype, node.device, value._entry is not None
    if kind is list:
        return "list", tuple([_flatten(item, tensors) for item in value])
    if kind is dict:
        return "dict", tuple([(name, _flatten(item, tensors)) for name, item in value.items()])
    try:
        hash(value)
    except TypeError:
        raise CaptureError(
            f"jit: an argument of type {kind.__name__} cannot specialise a captured step\n"
            "  pass tensors (bp.tensor(array)), numbers, strings, or containers of these"
        ) from None
    return kind, value, str(value) if kind is float else None


def _rebuilt(value: Any, tensors: Any) -> Any:
    """The arguments with the next tensors in the place of theirs."""
    if isinstance(value, Tensor):
        return next(tensors)
    if type(value) in (tuple, list):
        return type(value)([_rebuilt(item, tensors) for item in value])
    if type(value) is dict:
        return {name: _rebuilt(item, tensors) for name, item in value.items()}
    return value


def pack(value: Any, of_tensor: Callable[[Tensor], Any]) -> Any:
    """What a function gave back, with each tensor replaced."""
    if isinstance(value, Tensor):
        return Part(of_tensor(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[pack(item, of_tensor) for item in value])
    if type(value) in (tuple, list):
        return type(value)([pack(item, of_tensor) for item in value])
    if type(value) is dict:
        return {name: pack(item, of_tensor) for name, item in value.items()}
    return value


def _shown(key: Any) -> str:
    text = str(key[0])
    return text if len(text) <= 200 else text[:200] + "..."
