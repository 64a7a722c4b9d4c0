"""Holders: by whom an object is kept alive, as the way from a variable to it.

The heap is searched backwards from the object, level by level: each level is one look at all
objects (`gc.get_referrers`). The way found is the shortest one. What the search itself holds is
left out, and so are the frames of this folder. It ends after MAX_LEVELS, MAX_SEEN or its seconds.
"""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from bedplate.inspect.frames import NOT_SHOWN, namespaces, running_variables

MAX_LEVELS = 60  # a term of a summed loss is held through three links for each later term
MAX_SEEN = 20_000
MAX_WIDTH = 64  # objects of a level whose holders are asked for at once


@dataclass
class Way:
    """How an object is held.

    root     a `Variable`, (module, name), a class, or None if nobody was found
    objects  from the first that the root holds (or is) to the object itself
    runs     the code of the module that is the root runs on this thread
    """

    root: Any
    objects: list[Any] = field(repr=False)
    runs: bool = False

    def find(self, kind: type | tuple[type, ...]) -> Any:
        """The first object of a type on the way, or None."""
        return next((x for x in self.objects if issubclass(type(x), kind)), None)


class Search:
    """Finds ways; what runs and which modules there are is looked up once.

    top      the innermost frame of whoever asks
    seconds  of work, after which no further level is looked at, over all ways
    """

    def __init__(self, top: Any, seconds: float) -> None:
        self.until = time.thread_time() + seconds
        self.variables = running_variables(top)
        self.namespaces = namespaces(top)
        self._own: dict[int, Any] = {}  # kept, so that nothing else gets their identities
        self.leave_out(self, vars(self), self._own, self.variables, self.namespaces)

    def leave_out(self, *objects: Any) -> None:
        """Objects that hold others only for the one who searches."""
        for each in objects:
            self._own[id(each)] = each

    @property
    def is_late(self) -> bool:
        return time.thread_time() > self.until

    def way_to(self, target: Any) -> Way:
        """The shortest way from a root to an object."""
        parent_of: dict[int, Any] = {}  # object -> what it holds, on the way to the target
        seen: dict[int, Any] = {id(target): target}
        level = [target]
        self.leave_out(parent_of, seen, level)
        found: Any = target
        for _ in range(MAX_LEVELS):
            for found in level:
                root, runs = self._root(found)
                if root is not None:
                    return Way(root, self._chain(found, target, parent_of), runs)
            if self.is_late or len(seen) > MAX_SEEN or not level:
                break
            level = self._above(level, parent_of, seen)
        return Way(None, self._chain(found, target, parent_of))

    def _chain(self, found: Any, target: Any, below: dict[int, Any]) -> list[Any]:
        chain = [found]
        while chain[-1] is not target:
            chain.append(below[id(chain[-1])])
        return chain

    def _root(self, found: Any) -> tuple[Any, bool]:
        space = self.namespaces.get(id(found))
        if space is not None:
            return space[0], space[1]
        known = self.variables.get(id(found))
        if known:
            return known[0], False
        return (found, False) if issubclass(type(found), type) else (None, False)

    def _above(self, level: list[Any], below: dict[int, Any], seen: dict[int, Any]) -> list[Any]:
        """Who refers to the objects of a level and was not seen yet."""
        above: list[Any] = []
        self.leave_out(above)
        for first in range(0, len(level), MAX_WIDTH):
            part = level[first : first + MAX_WIDTH]
            held = {id(x): x for x in part}
            referrers = gc.get_referrers(*part)
            self.leave_out(part, held, referrers)
            for holder in referrers:
                if id(holder) in seen or id(holder) in self._own or self._is_own(holder):
                    continue
                child = next((held[id(x)] for x in gc.get_referents(holder) if id(x) in held), None)
                if child is None:
                    continue  # it let go in between
                below[id(holder)] = child
                seen[id(holder)] = holder
                above.append(holder)
            if self.is_late:
                break
        return above

    def _is_own(self, holder: Any) -> bool:
        """A frame of the search, or what a plain search would run into: all modules."""
        code = getattr(holder, "f_code", None) if type(holder) is FrameType else None
        if code is not None:
            return code.co_filename.startswith(NOT_SHOWN)
        return holder is sys.modules
