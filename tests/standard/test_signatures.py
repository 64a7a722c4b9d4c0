"""Every name of the standard is there, and every call that its signature allows is taken.

Ours may allow more: `axis` without its name, sizes one after the other, further keywords.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import array_api_strict as strict
import pytest
from tests.standard import special_cases
from tests.standard.test_properties import PROPERTIES

import bedplate as bp

KIND = inspect.Parameter
OWN = ("strict", "Flags", "Device", "__version__")  # what array_api_strict has of its own
SPACES = ("linalg", "fft")
# of the standard, but left out of `__all__` by array_api_strict 2.6.1
LEFT_OUT = ("linalg.eig", "linalg.eigvals")
# shown to be right elsewhere: constants, dtypes, and the two that take no arrays
ELSEWHERE = ("from_dlpack", "__array_namespace_info__")


def names() -> Iterator[str]:
    """Every name of the standard, those of its extensions with their space."""
    for name in strict.__all__:
        if name not in SPACES and not any(part in name for part in OWN):
            yield name
    for space in SPACES:
        yield from (f"{space}.{name}" for name in getattr(strict, space).__all__)
    yield from LEFT_OUT


def found(library: Any, name: str) -> Any:
    for part in name.split("."):
        library = getattr(library, part)
    return library


def is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, strict._dtypes.DType)


NAMES = sorted(set(names()))
FUNCTIONS = [name for name in NAMES if is_function(found(strict, name))]


@pytest.mark.parametrize("name", NAMES)
def test_is_there(name: str) -> None:
    value = found(bp, name)
    if not is_function(found(strict, name)):
        wanted = found(strict, name)
        same = value == wanted or value is wanted or value != value
        assert same or value.name == wanted._np_dtype.name


def calls(function: Callable[..., Any]) -> Iterator[tuple[list[str], list[str]]]:
    """What may stand by place and what by name: as much as possible of either."""
    parameters = inspect.signature(function).parameters.values()
    by_place = [p.name for p in parameters if p.kind is KIND.POSITIONAL_ONLY]
    either = [p.name for p in parameters if p.kind is KIND.POSITIONAL_OR_KEYWORD]
    by_name = [p.name for p in parameters if p.kind is KIND.KEYWORD_ONLY]
    yield by_place + either, by_name
    yield by_place, either + by_name
    needed = [p.name for p in parameters if p.default is KIND.empty and p.name in by_place + either]
    yield needed, []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_takes_every_call_of_the_signature(name: str) -> None:
    ours = inspect.signature(found(bp, name))
    for by_place, by_name in calls(found(strict, name)):
        ours.bind(*by_place, **dict.fromkeys(by_name, 0))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_has_the_defaults_of_the_standard(name: str) -> None:
    ours = inspect.signature(found(bp, name)).parameters
    for parameter in inspect.signature(found(strict, name)).parameters.values():
        given = parameter.default is not KIND.empty and parameter.name in ours
        if given and not hasattr(parameter.default, "UNDEF"):
            assert ours[parameter.name].default == parameter.default, parameter


MEMBERS = sorted(
    name
    for name, member in vars(strict._array_object.Array).items()
    if not (name.startswith("_") and not name.startswith("__"))
    and (callable(member) or isinstance(member, property))
    and name not in ("__new__", "__array__", "__buffer__", "__repr__", "__str__", "__reduce__")
)


@pytest.mark.parametrize("name", MEMBERS)
def test_arrays_have_every_member(name: str) -> None:
    assert hasattr(bp.Tensor, name)


@pytest.mark.parametrize("name", ["to_device", "__array_namespace__", "__dlpack__"])
def test_methods_take_every_call_of_the_signature(name: str) -> None:
    ours = inspect.signature(getattr(bp.Tensor, name))
    for by_place, by_name in calls(getattr(strict._array_object.Array, name)):
        ours.bind(*by_place, **dict.fromkeys(by_name, 0))


def test_every_function_has_a_property() -> None:
    tested = {name for _, name in PROPERTIES}
    assert sorted(set(FUNCTIONS) - tested) == sorted(ELSEWHERE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_says_what_it_does(name: str) -> None:
    assert inspect.getdoc(found(bp, name))


def test_the_version_is_that_of_array_api_strict() -> None:
    assert bp.__array_api_version__ == strict.__array_api_version__


def test_the_page_has_the_counts() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "in-depth" / "standard.md").read_text()
    extensions = sum("." in name for name in FUNCTIONS)
    assert f"  {len(FUNCTIONS)} functions, {extensions} of them in linalg and fft\n" in page
    assert f"  {special_cases.count()} special cases tested" in page
