"""A report of leaks names its holder, whatever the objects on the way say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import bedplate as bp
from bedplate.errors import LeakError
from bedplate.inspect.objects import elements_of, is_a, items_of, size_of

keep: list[Any] = []


def lie(*ignored: Any) -> Any:
    raise RuntimeError("a lie")


class NoClass:
    __class__ = property(lie)  # type: ignore[assignment]


class SaysDict:
    __class__ = property(lambda self: dict)  # type: ignore[assignment]


class NoNames(type):
    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError("a lie")


class OfNoNames(metaclass=NoNames):
    pass


class NoAttributes:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("a lie")


class Slotted:
    __slots__ = ("value",)
    __getattribute__ = lie


LIES = {name: lie for name in ("__len__", "__iter__", "__getitem__", "__contains__", "__eq__")}
LIES["__hash__"] = None  # type: ignore[assignment]
List, Dict, Set = (
    type(f"Lying{kind.__name__}", (kind,), {**LIES, "items": lie, "values": lie, "get": lie})
    for kind in (list, dict, set)
)


class LyingKey:
    __repr__ = __str__ = lie  # type: ignore[assignment]


def with_value(made: Any, value: Any) -> Any:
    object.__setattr__(made, "value", value)
    return made


MAKERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no class": (lambda x: with_value(NoClass(), x), ".value"),
    "another class": (lambda x: with_value(SaysDict(), x), ".value"),
    "a metaclass": (lambda x: with_value(object.__new__(OfNoNames), x), ".value"),
    "no attributes": (lambda x: with_value(NoAttributes(), x), ".value"),
    "slots": (lambda x: with_value(Slotted(), x), ".value"),
    "a list": (lambda x: List([x]), "[0]"),
    "a dictionary": (lambda x: Dict(key=x), "['key']"),
    "a set": (lambda x: Set([x]), "an element"),
    "a key": (lambda x: {LyingKey(): x}, "[LyingKey]"),
    "a key in a tuple": (lambda x: {(1, LyingKey()): x}, "[(1, LyingKey)]"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_leak_is_named(name: str) -> None:
    make, text = MAKERS[name]
    keep.clear()
    try:
        with pytest.raises(LeakError) as found, bp.memory.expect_no_leak():
            for _ in range(3):
                keep.append(make(bp.ones((1 << 14,)).realise() + 1))
            bp.ones((3,)).realise()
        assert "test_lying_objects.keep[" in str(found.value)
        assert text in str(found.value)
    finally:
        keep.clear()


def test_objects_are_what_they_are() -> None:
    assert is_a(SaysDict(), SaysDict) and not is_a(SaysDict(), dict)
    assert (size_of(List([1, 2])), size_of(Dict(a=1)), size_of(Set([1])), size_of(3)) == (
        2,
        1,
        1,
        0,
    )
    assert items_of(Dict(a=1)) == [("a", 1)]
    assert list(elements_of(List([1, 2]))) == [1, 2]
