"""What stands between a user's call and the function of an op, for every function alike.

Inside the library functions call each other as they are: this is paid for once a call of a user,
and what goes wrong is looked at only after it went wrong.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from bedplate.ops.record import REGISTRY, refuse_foreign

OTHER_WORDS = {"dim": "axis", "keepdim": "keepdims"}  # PyTorch's, and ours
KNOWN: set[str] = set()  # the names of all that is public
# how messages of Python, of constants and of several() begin, which know of no op
NAMELESS = ("'", "the Python", "the complex", "unknown dtype", "expected an integer or several")
Function = TypeVar("Function", bound=Callable[..., Any])
VALUES = ("Value", "Value | None", "Tensor", "Tensor | None")  # annotations of what is a tensor


def public(function: Function, module: str, name: str = "") -> Function:
    """`function` as users call it; an elementwise op, which asks all this itself, as it is.

    `dim` and `keepdim`, as PyTorch users type them, are understood for `axis` and `keepdims`.
    Nested lists and arrays are taken where a tensor is expected beside one. An error of an op
    inside comes out under the name that the user called.

    module   where users find it
    name     its name there; by default its own, without the underscore
    raises   TypeError where something that must be a tensor is none
    """
    if hasattr(function, "op"):
        return function
    words = other_words(function)
    plain = name.rpartition(".")[2] or function.__name__.strip("_")
    KNOWN.add(plain)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if named and words:
            _in_our_words(plain, named, words)
        try:
            return function(*arguments, **named)
        except Exception as error:
            given = _with_tensors(plain, function, arguments, named, error)
            if given is None:
                _rename(error, plain)
                raise
        return _again(plain, function, given)

    call.__module__ = module
    call.__qualname__ = name or plain
    call.__name__ = plain
    return cast(Function, call)


def _again(name: str, function: Callable[..., Any], given: inspect.BoundArguments) -> Any:
    """Call with arguments that were made tensors."""
    try:
        return function(*given.args, **given.kwargs)
    except AttributeError:
        refuse_foreign(name, tuple(_values(given).values()))
        raise
    except Exception as error:
        _rename(error, name)
        raise


def _rename(error: Exception, name: str) -> None:
    """Begin the message with the name that the user called, if it begins with that of an op.

    Only once: a function that the user gave to another has told its own name.
    """
    said = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    if isinstance(error, TypeError) and said.startswith(NAMELESS):
        said = f"{name}: {said}"
    op, colon, rule = said.partition(": ")
    if colon and (op in REGISTRY or op in KNOWN) and not hasattr(error, "called"):
        error.args = (f"{name}: {rule}", *error.args[1:])
        error.called = name  # type: ignore[attr-defined]


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
    made = {key: like._lift(value) for key, value in values.items() if _is_data(value)}
    if not made:
        if isinstance(error, AttributeError):
            refuse_foreign(name, tuple(values.values()))
        return None
    for (parameter, place), value in made.items():
        if place is None:
            given.arguments[parameter] = value
        else:
            before = given.arguments[parameter]
            given.arguments[parameter] = (*before[:place], value, *before[place + 1 :])
    return given


def _is_data(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


def _values(given: inspect.BoundArguments) -> dict[tuple[str, int | None], Any]:
    """The arguments that must be tensors, without those that may be left out and are.

    returns  {(parameter, place if it takes several): value}
    """
    values: dict[tuple[str, int | None], Any] = {}
    for name, value in given.arguments.items():
        parameter = given.signature.parameters[name]
        if parameter.annotation not in VALUES:
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            values |= {(name, place): part for place, part in enumerate(value)}
        elif value is not parameter.default:
            values[name, None] = value
    return values


def _says_so(error: Exception) -> bool:
    return "expected a tensor" in str(error)
