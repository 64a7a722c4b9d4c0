"""Every public function is described on exactly one page, with all that a reader needs."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from typing import Any

import pytest
from docs import function_pages

import bedplate as bp

ENTRIES = [entry for entries in function_pages.by_module().values() for entry in entries]


def test_each_module_is_on_one_page() -> None:
    named = [module for modules in function_pages.pages().values() for module in modules]
    assert len(named) == len(set(named))
    assert set(named) == set(function_pages.by_module()), "name new modules in docs/functions/"


def test_each_page_is_in_the_index() -> None:
    index = (function_pages.PAGES / "index.md").read_text()
    listed = re.findall(r"^[\w-]+$", index, re.MULTILINE)
    assert set(listed) == set(function_pages.pages()) - {"index"}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.names[0])
def test_docstrings_are_whole(entry: Any) -> None:
    text = inspect.getdoc(entry.function) or ""
    first = text.split("\n\n")[0].strip()
    # a sentence; one that ends with a formula may do without the full stop
    assert first.endswith(".") or re.search(r"[:=][^.]*\S$", first), f"no sentence first: {first}"
    assert ">>> " in text, f"{entry.names[0]} has no example"


# `name  text`, `name, name  text`: what a docstring says of an argument, or of what comes out
ROW = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)  +\S", re.MULTILINE)
OUTCOMES = {"returns", "raises", "gradient", "cost", "source", "also", "dtypes"}
# what means the same wherever it stands
USUAL = {"x", "a", "b", "z", "x1", "x2", "dtype", "device", "requires_grad", "more", "keepdims"}
REFERENCE = re.compile(r"(?:[Aa]s(?: for)?|(?:is|are) those of) `([\w.]+)`")
# by all endings of their names: "linalg.trace", "trace", of which those at the top come first
FUNCTIONS: dict[str, Any] = {}
for _entry in sorted(ENTRIES, key=lambda entry: len(entry.names[0])):
    for _name in _entry.names:
        FUNCTIONS.setdefault(_name.removeprefix("bedplate."), _entry.function)
        FUNCTIONS.setdefault(_name.rpartition(".")[2], _entry.function)


def rows(text: str) -> set[str]:
    """The names that have a row."""
    names = {name for found in ROW.findall(text) for name in found.split(", ")}
    return {name.lstrip("*") for name in names}


def explained(text: str) -> set[str]:
    """The arguments that have a row, here or where it says `as for`, or that a formula shows.

    A single letter needs a row: it would be found in any formula.
    """
    prose = "\n\n".join(part for part in text.split("\n\n") if not ROW.search(part))
    shown = {word for word in re.findall(r"\w+", prose) if len(word) > 1}
    others = [FUNCTIONS[name] for name in REFERENCE.findall(text) if name in FUNCTIONS]
    return rows(text) | shown | {name for other in others for name in rows(described(other))}


def described(function: Any) -> str:
    """A docstring without its example."""
    return (inspect.getdoc(function) or "").split(">>> ")[0]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.names[0])
def test_docstrings_explain_the_arguments_that_there_are(entry: Any) -> None:
    text = described(entry.function)
    names = set(inspect.signature(entry.function).parameters)
    missing = names - USUAL - explained(text)
    assert not missing, f"{entry.names[0]} says nothing of {missing}"
    stale = rows(text) - names - OUTCOMES
    assert not stale, f"{entry.names[0]} has no argument {stale}"


def thrown(function: Any) -> set[str]:
    """The errors that a function raises in its own lines."""
    found = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found.add(ast.unparse(node.exc.func))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("refuse", "refuse_inputs"):
            found.add(ast.unparse(node.args[0]))
    return {name.rpartition(".")[2] for name in found}


RAISES = re.compile(r"^raises  +(.*(?:\n  .*)*)", re.MULTILINE)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.names[0])
def test_docstrings_say_what_is_raised(entry: Any) -> None:
    row = RAISES.search(described(entry.function))
    told = set(re.findall(r"\b[A-Z]\w*Error\b", row[1] if row else ""))
    assert all(hasattr(bp.errors, name) or hasattr(builtins, name) for name in told)
    missing = thrown(entry.function) - told - {"TypeError"}  # that an argument is of no use at all
    assert not missing, f"{entry.names[0]} says nothing of {missing}"


def test_docstrings_that_say_too_little_are_seen() -> None:
    def f(x: Any, size: int, k: int, limit: float) -> Any:
        """Do what size says: y = k x.

        limits  of no argument
        returns  y
        >>> size
        """
        raise ValueError("limit")

    text = described(f)
    assert {"x", "size", "k", "limit"} - USUAL - explained(text) == {"k", "limit"}
    assert rows(text) == {"limits", "returns"}
    assert thrown(f) == {"ValueError"}
    assert RAISES.search(text) is None
    assert "padding" in explained("x  as for `conv2d`\n")


def test_rows_are_derived_from_records() -> None:
    rows = function_pages.derived_rows(bp.exp, "")
    assert [row.split()[0] for row in rows] == ["returns", "dtypes", "gradient", "cost"]
    assert function_pages.derived_rows(bp.exp, "cost  none\n") == rows[:3]
    assert any(
        "none: its values are true or false" in r for r in function_pages.derived_rows(bp.less, "")
    )
    assert function_pages.derived_rows(bp.stack, "") == ["gradient  yes; the second is 0"]
    assert function_pages.derived_rows(bp.stack, "its gradient is the sum") == []
    assert "none: " in function_pages.derived_rows(bp.argwhere, "")[0]
    assert "second one" in function_pages.derived_rows(bp.nn.functional.softmin, "")[0]
    assert function_pages.derived_rows(bp.zeros, "") == []


def test_names_that_other_pages_give_exist() -> None:
    for page in ("coming-from", "tensors", "numeric-contract"):
        text = (function_pages.PAGES.parent / f"{page}.md").read_text()
        for name in set(re.findall(r"`bp\.([\w.]*\w)", text)):
            found: Any = bp
            for part in name.split("."):
                assert hasattr(found, part), f"{page}: bp.{name}"
                found = getattr(found, part)


def test_differences_are_read_from_the_peer_test() -> None:
    found = dict(function_pages.differences())
    assert "principal" in found["logcumsumexp-complex128"]
    assert all(reason for _, reason in function_pages.differences())
