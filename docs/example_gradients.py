"""Whether a function has a gradient, asked of the function itself: by the call of its own example.

The example is run up to the first call of the function, whose arguments are noted. The function is
then called with its floats as leaves, and the gradient of what it gives is built; nothing of it is
computed, since values are lazy.
"""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import bedplate
from bedplate.errors import GradientError


class _Seen(Exception):
    """Ends an example at the call that was looked for."""


def gradient_of(function: Callable[..., Any], spaces: list[tuple[Any, str]]) -> str:
    """In words: a gradient and a second one, one whose second is 0, or none and why.

    spaces   (namespace, name) wherever the function stands
    returns  "" for a function whose example has no floats, or does not call it
    """
    call = example_call(function, spaces)
    if call is None:
        return ""
    arguments, named = call
    # an example in integers: all of them as floats, or the first, as far as the function allows
    for kinds, most in (("fc", None), ("fciu", None), ("fciu", 1)):
        leaves = _Leaves(kinds, most)
        try:
            given = function(*leaves.put(arguments), **leaves.put(named))
            if leaves.made:
                return _found(given, leaves.made)
        except GradientError as error:
            return "none: " + str(error).split("\n")[0].split("because ")[-1]
        except (TypeError, ValueError, IndexError):
            continue
    return ""


def _found(given: Any, leaves: list[Any]) -> str:
    results = [x for x in _tensors(given) if x.requires_grad]
    if not results:
        return "none: its values do not vary smoothly with its arguments"
    for result in results:
        total = (abs(result) if result.dtype.kind == "c" else result).sum()
        total.backward(retain_graph=True, create_graph=True)
    curved = any(leaf.grad is not None and leaf.grad.requires_grad for leaf in leaves)
    return "yes, and a second one" if curved else "yes; the second is 0"


def example_call(
    function: Callable[..., Any], spaces: list[tuple[Any, str]]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments with which a function's docstring calls it first."""
    noted: list[Any] = []

    def note(*arguments: Any, **named: Any) -> Any:
        noted.append((arguments, named))
        raise _Seen

    text = inspect.getdoc(function) or ""
    module = inspect.getmodule(inspect.unwrap(function))
    names = {**vars(module), "bp": bedplate, function.__name__: note}
    with _replaced(spaces, note):
        for example in doctest.DocTestParser().get_examples(text):
            try:
                exec(compile(example.source, "example", "single"), names)
            except _Seen:
                return noted[0]
    return None


@contextmanager
def _replaced(spaces: list[tuple[Any, str]], note: Callable[..., Any]) -> Iterator[None]:
    before = [getattr(space, name) for space, name in spaces]
    for space, name in spaces:
        setattr(space, name, note)
    try:
        yield
    finally:
        for (space, name), function in zip(spaces, before, strict=True):
            setattr(space, name, function)


class _Leaves:
    """Puts leaves in the place of the tensors of some kinds among arguments, `most` at most."""

    def __init__(self, kinds: str, most: int | None) -> None:
        self.kinds, self.most = kinds, most
        self.made: list[Any] = []

    def put(self, value: Any) -> Any:
        """The same arguments with leaves."""
        if isinstance(value, bedplate.Tensor):
            full = self.most is not None and len(self.made) >= self.most
            if full or value.dtype.kind not in self.kinds:
                return value
            dtype = None if value.dtype.kind in "fc" else bedplate.float32
            self.made.append(bedplate.Tensor(value, dtype=dtype).requires_grad_())
            return self.made[-1]
        if isinstance(value, tuple | list):
            return type(value)([self.put(item) for item in value])
        if isinstance(value, dict):
            return {name: self.put(item) for name, item in value.items()}
        return value


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, bedplate.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
