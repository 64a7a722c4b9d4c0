"""Frames: the variables of the functions that run, on every thread.

A running function's variables are on the interpreter's own stack, where `gc.get_referrers` does not
look. So they are noted first, by the identity of what they stand for.

Python up to 3.12 answers `frame.f_locals` with a copy that it keeps in the frame, which would hold
what the function lets go of later: it is emptied again.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bedplate.graph.pending import PACKAGE
from bedplate.inspect.objects import size_of
from bedplate.inspect.places import shown_line

HERE = PACKAGE + "inspect" + os.sep  # whose own frames hold what they look at
NOT_SHOWN = (HERE, PACKAGE + "later.py")
OPTIMISED, NEW_LOCALS = 1, 2  # CO_OPTIMIZED, CO_NEWLOCALS: the frame of a function
_COPIES = sys.version_info < (3, 13)


@dataclass(frozen=True)
class Variable:
    """A name in a running function, or in the namespace of a running module.

    frame   its identity
    thread  None for the thread that looks
    size    of a container that it stands for
    """

    name: str
    frame: int
    where: str
    thread: threading.Thread | None = None
    size: int = 0

    def __str__(self) -> str:
        on = "" if self.thread is None else f", on thread {self.thread.name!r}"
        return f"variable {self.name} of {self.where}{on}"


def of_code(code: Any, line: int | None = None) -> str:
    """`name() at file:line` of a function's code."""
    name = getattr(code, "co_qualname", code.co_name)
    where = shown_line(f"{code.co_filename}:{line or code.co_firstlineno}")
    return f"{name}() at {where}" if not name.startswith("<module") else f"the script {where}"


def is_function(frame: Any) -> bool:
    """Whether a frame's variables are its own, not those of a module or a class."""
    wanted = OPTIMISED | NEW_LOCALS
    return frame.f_code.co_flags & wanted == wanted


def variables_of(frame: Any) -> dict[str, Any]:
    """A frame's variables; leaves nothing behind in it."""
    found = frame.f_locals
    copy = dict(found)
    # held by the frame, this name and the call: nobody else has asked for `locals()`
    if _COPIES and is_function(frame) and sys.getrefcount(found) <= 3:
        found.clear()
    return copy


def running(top: Any) -> Iterator[tuple[Any, threading.Thread | None]]:
    """The frames that run: from `top` outwards on this thread, and all of the others."""
    threads = {thread.ident: thread for thread in threading.enumerate()}
    me = threading.get_ident()
    for ident, innermost in list(sys._current_frames().items()):
        thread = None if ident == me else threads.get(ident)
        if ident != me and thread is None:
            continue  # one that is about to end
        frame = top if ident == me else innermost
        while frame is not None:
            if not frame.f_code.co_filename.startswith(NOT_SHOWN):
                yield frame, thread
            frame = frame.f_back


def running_variables(top: Any) -> dict[int, list[Variable]]:
    """The variables of everything that runs, by the identity of their values."""
    found: dict[int, list[Variable]] = {}
    for frame, thread in running(top):
        if not is_function(frame) and frame.f_locals is frame.f_globals:
            continue  # a module: its namespace is found like any other object
        where = of_code(frame.f_code, frame.f_lineno)
        for name, value in variables_of(frame).items():
            found.setdefault(id(value), []).append(
                Variable(name, id(frame), where, thread, size_of(value))
            )
    return found


def namespaces(top: Any) -> dict[int, tuple[str, bool]]:
    """(module, whether its own code runs on this thread) by the identity of each namespace."""
    found: dict[int, tuple[str, bool]] = {}
    for name, module in list(sys.modules.items()):
        if hasattr(module, "__dict__"):
            found.setdefault(id(vars(module)), (name, False))
    for frame, thread in running(top):
        space = frame.f_globals
        runs = thread is None and not is_function(frame) and frame.f_locals is space
        name, known = found.get(id(space), (str(space.get("__name__", "?")), False))
        found[id(space)] = name, known or runs
    return found
