"""The page of the contract and its tests speak of the same cases."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASE = re.compile(r"\bB\d\d\b")


def cases_of_tests(*paths: Path) -> set[str]:
    """The cases that docstrings of test functions name; comments and other text do not count."""
    found = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.update(CASE.findall(ast.get_docstring(node) or ""))
    return found


def test_every_case_of_the_page_has_a_test() -> None:
    page = set(CASE.findall((ROOT / "docs" / "numeric-contract.md").read_text(encoding="utf-8")))
    assert len(page) >= 39
    assert not page - cases_of_tests(*(ROOT / "tests").rglob("test_*.py"))
    assert not cases_of_tests(*(ROOT / "tests" / "contract").glob("test_*.py")) - page


def test_only_docstrings_of_tests_count(tmp_path: Path) -> None:
    lines = ['"""B01"""', "# B02", "def test_it():", '    """B03, B04"""', "    'B05'  # B06",
             "def helper():", '    """B07"""']  # fmt: skip
    (tmp_path / "test_it.py").write_text("\n".join(lines))
    assert cases_of_tests(tmp_path / "test_it.py") == {"B03", "B04"}
