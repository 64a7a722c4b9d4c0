"""Rules: which of the memory that was made in a block of code, and still lives, is a leak.

What a program keeps on purpose is bounded: parameters and what they are bound to, gradients, the
state of optimisers, the caches of this package, what the variables of the running code stand for. A
leak is what is held by somebody who is not looked at again, or by something that grows.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from types import GeneratorType, TracebackType
from typing import Any

from bedplate.autograd.tape import Entry, Leaf
from bedplate.inspect.census import Known, instances
from bedplate.inspect.frames import Variable, namespaces, running_variables
from bedplate.inspect.holders import Way
from bedplate.inspect.objects import CONTAINERS, attribute_of, is_a, items_of, size_of
from bedplate.inspect.ways import way_text
from bedplate.nn import Module
from bedplate.optim.optimizer import Optimizer
from bedplate.tensor import Tensor
from bedplate.tensor.jit import Captured
from bedplate.tensor.replay import Replay

GROWING = 3  # from so many different moments the values of one line are something that grows
TEST_RUNNER = ("_pytest", "pluggy")  # holds what a test left for its report, and lets go of it


class Before:
    """What there was when the block of code began. Nothing of it is kept alive.

    top  the innermost frame of whoever asks
    """

    def __init__(self, top: Any) -> None:
        self.tensors, self.optimisers, self.generators = Known(), Known(), Known()
        for each in instances((Tensor, Optimizer, GeneratorType)):
            if is_a(each, Tensor):
                self.tensors.add(each)
            elif is_a(each, Optimizer):
                self.optimisers.add(each)
            else:
                self.generators.add(each)
        self.threads = set(threading.enumerate())
        self.names = {
            (variable.frame, variable.name): (identity, variable.size)
            for identity, variables in running_variables(top).items()
            for variable in variables
        }
        self._note_namespaces(top)
        self._sizes = dict(self.names.values())

    def _note_namespaces(self, top: Any) -> None:
        for space, runs in _spaces(top):
            for name, value in list(space.items()):
                if runs or is_a(value, (Tensor, *CONTAINERS)):
                    self.names[id(space), name] = id(value), size_of(value)

    def has(self, key: Any, value: Any) -> bool:
        """Whether a name stood for this object already."""
        return self.names.get(key, (0, 0))[0] == id(value)

    def has_grown(self, value: Any) -> bool:
        """Whether a container that some name stood for has more in it now."""
        before = self._sizes.get(id(value))
        return before is not None and is_a(value, CONTAINERS) and size_of(value) > before


def _spaces(top: Any) -> list[tuple[dict[str, Any], bool]]:
    """The namespaces of modules, and whether their own code runs on this thread."""
    known = namespaces(top)
    return [(x, known[id(x)][1]) for x in instances((dict,)) if id(x) in known]


def grows(births: Sequence[int], first: int, last: int) -> bool:
    """Whether values that still live come from many moments between `first` and `last`.

    births  moments: steps, or runs of plans
    A window (the last few batches) has only late ones, what is made once only early ones.
    """
    moments = set(births)
    middle = (first + last) / 2
    return len(moments) >= GROWING and min(moments) <= middle <= max(moments)


def constants_of_steps() -> set[int]:
    """The blocks that captured steps keep as constants, by identity."""
    replays = instances((Replay,))
    return {id(block) for replay in replays for block in replay.constants.values()}


def verdict(way: Way, before: Before, growing: bool, more_constants: bool) -> str:
    """The holder in words if the way is one that leaks, else nothing.

    growing         the values of this line come from many moments
    more_constants  so do those of them that are constants of captured steps
    """
    held = way.objects
    if any(_module_of(type(x)).partition(".")[0] in TEST_RUNNER for x in held):
        return ""
    if way.find(Captured) is not None:
        leaks = more_constants  # or they are the captures of a warm-up
    elif way.find((BaseException, TracebackType)) is not None or _has_hook(held):
        leaks = True
    elif (generator := way.find(GeneratorType)) is not None:
        leaks = growing or generator not in before.generators
    elif _is_bounded(held, before):
        leaks = False
    elif is_a(way.root, Variable):
        leaks = _of_variable(way, before, growing)
    elif is_a(way.root, str):
        leaks = _of_module(way, before, growing)
    else:
        leaks = is_a(way.root, type) and not _is_ours(_module_of(way.root))
    return way_text(way) if leaks else ""


def _has_hook(held: list[Any]) -> bool:
    """Whether a gradient hook is on the way."""
    return any(
        is_a(holder, Entry | Leaf) and is_a(hooks, list)
        for holder, hooks in itertools.pairwise(held[:-1])
    )


def _is_bounded(held: list[Any], before: Before) -> bool:
    """Whether a tensor that was there already has the value, a module or an optimiser."""
    for holder, inner in itertools.pairwise(held):
        if is_a(holder, Tensor) and holder in before.tensors:
            return inner is holder._node or inner is holder._grad
        if is_a(holder, Optimizer) and holder in before.optimisers:
            return True
        if is_a(holder, Module):
            tensors = {id(t) for _, t in (*holder.named_parameters(), *holder.named_buffers())}
            if any(id(x) in tensors for x in held):
                return True
    return False


def _of_variable(way: Way, before: Before, growing: bool) -> bool:
    root, first = way.root, way.objects[0]
    if root.thread is not None:
        return growing or root.thread not in before.threads
    return _of_name((root.frame, root.name), first, way, before, growing)


def _of_module(way: Way, before: Before, growing: bool) -> bool:
    space = way.objects[0]
    if _is_ours(way.root) or len(way.objects) < 2:
        return False
    first = way.objects[1]
    key = next((name for name, value in list(space.items()) if value is first), "?")
    if _is_history(space, key, first):
        return True
    if way.runs:
        return _of_name((id(space), key), first, way, before, growing)
    name = id(space), key
    if is_a(first, Tensor):
        replaced = name in before.names
    else:  # a value of a table that was there already
        replaced = before.has(name, first) and not before.has_grown(first)
        replaced = replaced and len(way.objects) > 2 and is_a(way.objects[2], Tensor)
    return growing or not replaced


def _of_name(key: Any, first: Any, way: Way, before: Before, growing: bool) -> bool:
    """What the running code's own variable holds is a leak if it grows."""
    if any(map(before.has_grown, way.objects)):
        return True
    graph = any(is_a(x, Entry) for x in way.objects)
    return growing and (before.has(key, first) or graph)


def _is_history(space: Any, key: str, first: Any) -> bool:
    history = space.get("_oh", space.get("Out"))
    if not is_a(history, dict):
        return False
    return first is history or any(value is first for _, value in items_of(history))


def _module_of(kind: type) -> str:
    return str(attribute_of(kind, "__module__"))


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "bedplate"
