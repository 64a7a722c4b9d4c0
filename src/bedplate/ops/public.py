"""What stands between a user's call and the function of an op, for every function alike.

Inside the library functions call each other as they are: this is paid for once a call of a user,
and what goes wrong is looked at only after it went wrong.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.ops.record import refuse_foreign

OTHER_WORDS = {"dim": "axis", "keepdim": "keepdims"}  # PyTorch's, and ours
VALUES = ("Value", "Value | None", "Tensor", "Tensor | None")  # annotations of what is a tensor


def public(function: Callable[..., Any], module: str, name: str = "") -> Callable[..., Any]:
    """`function` as users call it; an elementwise op, which asks all this itself, as it is.

    `dim` and `keepdim`, as PyTorch users type them, are understood for `axis` and `keepdims`.
    Nested lists and arrays are taken where a tensor is expected beside one.

    module   where users find it
    name     its name there; by default its own, without the underscore
    raises   TypeError where something that must be a tensor is none
    """
    if hasattr(function, "op"):
        return function
    words = other_words(function)
    plain = name.rpartition(".")[2] or function.__name__.strip("_")

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if named and words:
            _in_our_words(plain, named, words)
        try:
            return function(*arguments, **named)
        except Exception as error:
            given = _with_tensors(plain, function, arguments, named, error)
            if given is None:
                raise
        try:
            return function(*given.args, **given.kwargs)
        except AttributeError:
            refuse_foreign(plain, tuple(_values(given).values()))
            raise

    call.__module__ = module
    call.__qualname__ = name or plain
    call.__name__ = plain
    return call


def other_words(function: Callable[..., Any]) -> dict[str, str]:
    """The words that `public` adds: {PyTorch's: ours}."""
    code = inspect.unwrap(function).__code__  # a signature would take longer to make
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {
        theirs: ours
        for theirs, ours in OTHER_WORDS.items()
        if ours in parameters and theirs not in parameters and not hasattr(function, "op")
    }


def _in_our_words(name: str, named: dict[str, Any], words: dict[str, str]) -> None:
    for theirs, ours in words.items():
        if theirs in named:
            if ours in named:
                raise TypeError(f"{name}: {ours} and {theirs} are one argument; give one")
            named[ours] = named.pop(theirs)


def _with_tensors(
    name: str,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    error: Exception,
) -> inspect.BoundArguments | None:
    """The arguments of a call that failed, with lists and arrays made tensors.

    returns  None if there is nothing to make of them
    raises   TypeError if that no argument is a tensor explains the error
    """
    try:
        given = inspect.signature(function).bind(*arguments, **named)
    except TypeError:
        return None
    values = _values(given)
    like = next((value for value in values.values() if hasattr(value, "_apply")), None)
    if like is None and not _says_so(error):
        refuse_foreign(name, tuple(values.values()))
    if like is None or not isinstance(error, AttributeError | TypeError):
        return None
    made = {
        key: like._lift(value)
        for key, value in values.items()
        if isinstance(value, list | tuple | np.ndarray)
    }
    if not made:
        if isinstance(error, AttributeError):
            refuse_foreign(name, tuple(values.values()))
        return None
    given.arguments.update(made)
    return given


def _values(given: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments that must be tensors, without those that may be left out and are."""
    parameters = given.signature.parameters
    return {
        name: value
        for name, value in given.arguments.items()
        if parameters[name].annotation in VALUES
        and parameters[name].kind is not inspect.Parameter.VAR_POSITIONAL
        and value is not parameters[name].default
    }


def _says_so(error: Exception) -> bool:
    return "expected a tensor" in str(error)
