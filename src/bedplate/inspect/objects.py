"""Objects as they are, whatever they say of themselves.

A look at all memory meets objects of all kinds: some whose `__class__`, `__len__` or attributes
raise, or tell something else. So types are asked, and the methods of the built-in types are called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

CONTAINERS = (list, dict, set, deque)
_SEQUENCES = (list, tuple, deque)


def is_a(value: Any, kind: Any) -> bool:
    """As `isinstance`, for what the object is and not for what it says.

    >>> class Liar:
    ...     __class__ = property(lambda self: dict)
    >>> isinstance(Liar(), dict), is_a(Liar(), dict)
    (True, False)
    """
    return issubclass(type(value), kind)


def size_of(value: Any) -> int:
    """How much is in a container; 0 for all else."""
    return next((kind.__len__(value) for kind in CONTAINERS if is_a(value, kind)), 0)


def items_of(mapping: Any) -> list[tuple[Any, Any]]:
    """The keys and values of a dictionary, or of the names of a class."""
    return list(dict.items(mapping) if is_a(mapping, dict) else mapping.items())


def elements_of(sequence: Any) -> Iterator[Any]:
    """What a list, a tuple or a deque holds."""
    kind = next(kind for kind in _SEQUENCES if is_a(sequence, kind))
    return kind.__iter__(sequence)


def attribute_of(value: Any, name: str) -> Any:
    """An attribute that an object or a class has without asking its own code; None if none."""
    look = type.__getattribute__ if is_a(value, type) else object.__getattribute__
    try:
        return look(value, name)
    except Exception:  # a property of the user's may raise whatever it likes
        return None


def type_name(value: Any) -> str:
    """The name of an object's type."""
    return str(attribute_of(type(value), "__name__"))
