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
    leaves: list[Any] = []
    arguments, named = (_as_leaves(part, leaves) for part in call)
    if not leaves:  # an example in integers: its first tensor as floats, if the function allows
        arguments = _first_as_leaf(arguments, leaves)
    try:
        return _found(function(*arguments, **named), leaves) if leaves else ""
    except GradientError as error:
        return "none: " + str(error).split("\n")[0].split("because ")[-1]
    except (TypeError, ValueError, IndexError):
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
    names = {**vars(inspect.getmodule(function)), "bp": bedplate, function.__name__: note}
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


def _as_leaves(value: Any, leaves: list[Any]) -> Any:
    """The same arguments with each float tensor a leaf of its own."""
    if isinstance(value, bedplate.Tensor):
        if value.dtype.kind not in "fc":
            return value
        leaves.append(bedplate.Tensor(value).requires_grad_())
        return leaves[-1]
    if isinstance(value, tuple | list):
        return type(value)(_as_leaves(item, leaves) for item in value)
    if isinstance(value, dict):
        return {name: _as_leaves(item, leaves) for name, item in value.items()}
    return value


def _first_as_leaf(value: Any, leaves: list[Any]) -> Any:
    """The same arguments with the first tensor among them as floats, a leaf."""
    if isinstance(value, bedplate.Tensor) and not leaves:
        leaves.append(bedplate.Tensor(value, dtype=bedplate.float32).requires_grad_())
        return leaves[-1]
    if isinstance(value, tuple | list):
        return type(value)([_first_as_leaf(item, leaves) for item in value])
    return value


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, bedplate.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
