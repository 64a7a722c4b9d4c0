"""Every example that is printed anywhere runs: docstrings, README, the pages of the site."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import bedplate

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = ["bedplate", *(m.name for m in pkgutil.walk_packages(bedplate.__path__, "bedplate."))]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_session(text: str, name: str, names: dict[str, Any], first_line: int = 0) -> None:
    """Run `>>>` examples; what they bind stays in `names`."""
    examples = doctest.DocTestParser().get_doctest(text, names, name, name, first_line)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(examples, out=report.append, clear_globs=False)
    names.update(examples.globs)
    assert not report, "".join(report)


def run_page(text: str, name: str) -> int:
    """Run the python and pycon blocks of a page, in order, as one program; gives their number."""
    names: dict[str, Any] = {"__name__": "__page__"}
    blocks = [match for match in FENCE.finditer(text) if match[1] in ("python", "pycon")]
    for match in blocks:
        line = text.count("\n", 0, match.start()) + 1
        if match[1] == "pycon":
            run_session(match[2], name, names, line)
        else:
            exec(compile("\n" * line + match[2], name, "exec"), names)
    return len(blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page.read_text(encoding="utf-8"), str(page))


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    for found in _docstrings(module):
        names = {**found.globs, "bp": bedplate}
        runner = doctest.DocTestRunner(optionflags=OPTIONS)
        report: list[str] = []
        found.globs = names
        runner.run(found, out=report.append)
        assert not report, "".join(report)


def _docstrings(module: ModuleType) -> list[doctest.DocTest]:
    if "written by tools/namespace.py" in (module.__doc__ or "").lower():
        return []  # its functions are those of the ops, whose examples run where they stand
    return [test for test in doctest.DocTestFinder().find(module) if test.examples]


def test_a_wrong_session_is_caught() -> None:
    with pytest.raises(AssertionError, match="Expected"):
        run_page("```pycon\n>>> 1 + 1\n3\n```\n", "page")


def test_a_failing_block_is_caught() -> None:
    with pytest.raises(ZeroDivisionError):
        run_page("```python\n1 / 0\n```\n", "page")


def test_blocks_of_a_page_share_their_names() -> None:
    assert run_page("```python\nx = 20\n```\n\n```pycon\n>>> x + 1\n21\n```\n", "page") == 2
