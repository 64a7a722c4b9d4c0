"""Every public function is described on exactly one page, with all that a reader needs."""

from __future__ import annotations

import inspect
import re
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
    assert re.match(r"[^\n]", text), "a sentence comes first"
    assert entry.summary.rstrip().endswith((".", ")", "]", "n", "y")), entry.summary
    assert ">>> " in text, f"{entry.names[0]} has no example"


# what means the same wherever it stands
USUAL = {"x", "a", "b", "z", "dtype", "device", "requires_grad", "more", "dim", "keepdim"}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.names[0])
def test_docstrings_name_every_argument(entry: Any) -> None:
    text = (inspect.getdoc(entry.function) or "").split(">>> ")[0]
    refers = re.search("argument|[Aa]s (for )?`", text)  # to another function's
    names = inspect.signature(entry.function).parameters.keys() - USUAL
    missing = [n for n in names if not re.search(rf"\b{n.removesuffix('s')}s?\b", text)]
    assert refers or not missing, f"{entry.names[0]} says nothing of {missing}"


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
