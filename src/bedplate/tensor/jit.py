"""jit: capture what a step computes, and replay it without building a graph.

The first calls run the function under watch: tensors among the arguments become placeholders,
tensors from outside that are read become inputs whose value of the day is used at each call,
and what is assigned to tensors and to `.grad` is done again at each call. Other arguments
specialise by value, tensors by shape and dtype. A step is replayed once it has been captured
twice alike, so that what the function changes on the side (a counter, a state that it makes
at its first call) is noticed: `step.report()` tells why it was captured again.

Globals and variables of closures that stand for tensors, numbers or strings are seen too: when
one stands for something else the step is captured again. What is not seen are attributes of
objects that change after that (a flag of a module). Pass them as arguments.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bedplate.config import PLAN_SETTINGS, settings_of
from bedplate.devices.device import Device, current_device
from bedplate.errors import CaptureError
from bedplate.graph.node import topological_order as order_of
from bedplate.graph.pending import LOCAL
from bedplate.later import Later
from bedplate.tensor.arguments import Guard, described, guard_of, history, rebuilt, sharing
from bedplate.tensor.tensor import Tensor

if TYPE_CHECKING:
    from bedplate.compiler import across
    from bedplate.compiler import explain as explaining
    from bedplate.tensor import capturing, device_replay, outside
    from bedplate.tensor import replay as replaying
    from bedplate.tensor.capturing import Recording
    from bedplate.tensor.outside import Names
    from bedplate.tensor.replay import Replay
else:
    across = Later("bedplate.compiler.across")
    explaining = Later("bedplate.compiler.explain")
    capturing = Later("bedplate.tensor.capturing")
    device_replay = Later("bedplate.tensor.device_replay")
    outside = Later("bedplate.tensor.outside")
    replaying = Later("bedplate.tensor.replay")

MAX_CAPTURES = 16  # of one specialisation that never comes out the same twice
MAX_SPECIALISATIONS = 64
MAX_REPORT = 200  # lines
MAX_REPLAYS = 8  # of one specialisation, which differ in what they met outside
_settings = settings_of("jit", *PLAN_SETTINGS)


def jit(function: Callable[..., Any] | None = None) -> Any:
    """Capture a function of tensors, and replay it without its Python.

    function  takes and gives tensors (also in lists, tuples, dicts) and hashable values; may
              assign to tensors from outside (parameters, optimiser state) and to `.grad`
    returns   a function of the same arguments; its results equal the uncaptured ones bit for
              bit, and carry no gradient history: a backward from outside that comes to one raises
    raises    CaptureError where the function reads a value (`.item()`, `if tensor:`)
    cost      about 4 us a call and 0.5 us for each tensor that enters or leaves
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
    """The captures for one kind of arguments.

    guard    knows these arguments again, where that is quick
    context  under which they came: settings, recording, device
    """

    def __init__(self, guard: Guard | None, context: Any) -> None:
        self.guard = guard
        self.context = context
        self.replays: list[tuple[Replay, Names]] = []
        self.last_key: Any = None
        self.captures = 0  # since the last one that is replayed
        self.count = 0

    def replay(self, tensors: list[Tensor]) -> Replay | None:
        """The one that was captured under what holds now."""
        for replay, names in self.replays:
            if (replay.fits_all or replay.fits(tensors)) and (not names.values or names.hold()):
                return replay
        return None

    def add(self, replay: Replay, names: Names) -> None:
        """Count a capture, and keep it if it is the second alike."""
        self.captures += 1
        self.count += 1
        if self.last_key == replay.key:
            self.replays = [*self.replays[1 - MAX_REPLAYS :], (replay, names)]
            self.captures = 0
        self.last_key = replay.key


class Captured:
    """A function under `jit`; see there."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._known: dict[Any, _Specialisation] = {}
        self._last: tuple[Guard, _Specialisation] | None = None  # what was replayed last
        self._lock = threading.RLock()
        self._inside = False  # the thread that has the lock is in a replay
        self._log: deque[str] = deque(maxlen=MAX_REPORT)
        _all.add(self)

    def after_fork(self) -> None:
        """Another thread may have been in a call when the process forked."""
        self._lock = threading.RLock()
        self._inside = False

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        state = LOCAL.state
        settings = _settings()
        if state.watcher is not None or settings[1] or not settings[0]:
            return self.function(*arguments, **named)
        context = (settings, state.recording, current_device())
        last = self._last
        if last is not None and not named and context == last[1].context:
            tensors = last[0].tensors(arguments)
            if tensors is not None:
                with self._lock:
                    replay = None if self._inside else last[1].replay(tensors)
                    if replay is not None:
                        return self._run(replay, tensors)
        return self._found(arguments, named, context)

    def _run(self, replay: Replay, tensors: list[Tensor]) -> Any:
        self._inside = True
        try:
            return replay.run(tensors)
        finally:
            self._inside = False

    def _found(self, arguments: tuple[Any, ...], named: dict[str, Any], context: Any) -> Any:
        """A call whose arguments are not of the kind that came last."""
        tensors: list[Tensor] = []
        key = (
            described(arguments, tensors),
            described(named, tensors) if named else None,
            sharing(tensors),
            context,
        )
        with self._lock:
            if self._inside:  # a signal's handler or a finaliser, in the middle of a replay
                return self.function(*arguments, **named)
            found = self._known.get(key)
            replay = None if found is None else found.replay(tensors)
            if found is not None and replay is not None:
                self._last = None if found.guard is None else (found.guard, found)
                return self._run(replay, tensors)
            if found is None:
                guard = guard_of(arguments) if not named and key[2] is None else None
                found = self._known[key] = _Specialisation(guard, context)
                if len(self._known) > MAX_SPECIALISATIONS:
                    self._known.pop(next(iter(self._known)))
            if found.captures < MAX_CAPTURES:
                return self._capture(key, found, tensors, arguments, named)
        return self.function(*arguments, **named)

    def report(self) -> str:
        """Each capture: for which arguments, and why."""
        with self._lock:
            lines = list(self._log)
        return "\n".join(lines) or f"{self._name}: not called yet"

    def schedule(self) -> str:
        """The regions and launches of each capture that is replayed."""
        parts = []
        with self._lock:
            known = list(self._known.items())
        for key, found in known:
            for replay, _ in found.replays:
                plan = replay.captured.plan
                parts.append(f"{self._name} for {_shown(key)}:")
                parts.append(explaining.schedule_text(plan.regions, plan.arena_bytes))
        return "\n".join(parts) or f"{self._name}: nothing is replayed yet"

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", "step")

    def _capture(
        self,
        key: Any,
        found: _Specialisation,
        tensors: list[Tensor],
        arguments: Any,
        named: Any,
    ) -> Any:
        names = outside.Names(self.function)
        made = self._recorded(tensors, {}, arguments, named)
        device = across.device_of_plan(order_of(made.roots)) if made.roots else Device("cpu")
        if device is None:
            # there is not one plan that could be replayed; a first step may move state, later ones
            # do not, so it is tried again a few times
            found.captures += MAX_CAPTURES // 4
            self._log.append(
                f"{self._name}: this call was on several devices, or on one without plans; "
                "it ran uncaptured"
            )
            return self.function(*arguments, **named)
        kind = replaying.Replay if device.runtime is None else device_replay.DeviceReplay
        replay = kind(made, tensors)
        met = replay.meets(tensors)
        if met:  # an argument that the function knows by another name too: as itself
            replay = kind(self._recorded(tensors, met, arguments, named), tensors, met)
        names.drop_changed()
        self._note(key, found, replay)
        result = self._run(replay, tensors)
        found.add(replay, names)
        return result

    def _recorded(
        self, tensors: list[Tensor], met: dict[int, Tensor], arguments: Any, named: Any
    ) -> Recording:
        """What the function does; the arguments in `met` are passed as they are."""
        stand_ins = [met.get(i, t) for i, t in enumerate(capturing.placeholders(tensors))]
        rest = iter(stand_ins)
        call_arguments = rebuilt(arguments, rest)
        call_named = rebuilt(named, rest)
        made = capturing.record(lambda: self.function(*call_arguments, **call_named), stand_ins)
        _check_gradients(made, tensors)
        return made

    def _note(self, key: Any, found: _Specialisation, replay: Replay) -> None:
        name = self._name
        if found.count == 0:
            others = len(self._known) - 1
            reason = (
                "first call" if not others else f"new arguments (there were {others} other kinds)"
            )
        elif found.last_key == replay.key:
            reason = "the same as before: replayed from now on"
        elif found.replays:
            reason = "gradients, shared tensors or outer names are not as they were"
        else:
            reason = "not the same as before: the function changed something on the side"
        self._log.append(f"{name}: capture {found.count + 1} for {_shown(key)}: {reason}")
        if found.captures + 1 == MAX_CAPTURES:
            self._log.append(f"{name}: never the same twice; it runs uncaptured from now on")


def _check_gradients(made: Recording, tensors: list[Tensor]) -> None:
    """Refuse gradients that should go on into the history of an argument."""
    for owner, root in made.gradients:
        if isinstance(owner, int) and root is not None and history(tensors[owner]) == "computed":
            tensor = tensors[owner]
            raise CaptureError(
                "jit: backward inside a captured step came to an argument that was itself "
                "computed from what requires a gradient\n"
                f"  argument tensor {owner}  {tensor.shape} {tensor.dtype}   "
                f"made at {tensor._node.line()}\n"
                "  the step cannot go on into that history: compute the argument inside the step, "
                "or pass .detach() of it"
            )


def _shown(key: Any) -> str:
    text = str(key[0])
    return text if len(text) <= 200 else text[:200] + "..."


_all: weakref.WeakSet[Captured] = weakref.WeakSet()


def _after_fork() -> None:
    for each in _all:
        each.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
