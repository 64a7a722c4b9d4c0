"""The names that a captured function reads from outside: globals and variables of closures.

A replay does not run the function, so it would not see that such a name has come to stand for
another tensor or another number. `Names` remembers what they stood for.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from bedplate.graph.pending import is_inside_package
from bedplate.tensor.tensor import Tensor

_WATCHED = (Tensor, int, float, complex, bool, str, bytes, type(None))
_ABSENT = object()


class Names:
    """Where a function finds its outer names, and what those of tensors and numbers stand for.

    Functions that it calls by such a name are looked through too; attributes are not.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._places = list(_places(function, set()))
        self.values = [(place, place()) for place in self._places]
        self.values = [(p, value) for p, value in self.values if isinstance(value, _WATCHED)]

    def drop_changed(self) -> None:
        """Forget the names that stand for something else by now: the function binds them."""
        self.values = [(p, value) for p, value in self.values if _is_same(p(), value)]

    def hold(self) -> bool:
        """Whether every name stands for what it stood for."""
        for place, value in self.values:
            now = place()
            if now is not value and not _is_same(now, value):
                return False
        return True


def _is_same(now: Any, value: Any) -> bool:
    if now is value:
        return True
    return type(now) is type(value) and not isinstance(now, Tensor) and repr(now) == repr(value)


def _places(function: Any, seen: set[int]) -> Iterator[Callable[[], Any]]:
    """A function for each outer name, which gives what it stands for."""
    plain = _plain(function)
    if plain is None or id(plain) in seen or is_inside_package(plain.__code__.co_filename):
        return
    seen.add(id(plain))
    found: list[Callable[[], Any]] = [
        functools.partial(plain.__globals__.get, name, _ABSENT)
        for name in sorted(_global_names(plain.__code__))
        if name in plain.__globals__
    ]
    found += [functools.partial(_content, cell) for cell in plain.__closure__ or ()]
    for place in found:
        yield place
        yield from _places(place(), seen)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return _ABSENT


def _plain(function: Any) -> FunctionType | None:
    """The Python function behind a partial, a method or a decorated function."""
    while not isinstance(function, FunctionType):
        inner = getattr(function, "__func__", None) if callable(function) else None
        if isinstance(function, functools.partial):
            inner = function.func
        if inner is None:
            return None
        function = inner
    return function


def _global_names(code: CodeType) -> set[str]:
    """The globals that a function reads, and the functions inside it."""
    names = {
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _global_names(constant)
    return names
