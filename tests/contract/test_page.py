"""The page of the contract and its tests speak of the same cases."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASE = re.compile(r"\bB\d\d\b")


def cases_in(*paths: Path) -> set[str]:
    return {case for path in paths for case in CASE.findall(path.read_text(encoding="utf-8"))}


def test_every_case_of_the_page_has_a_test() -> None:
    page = cases_in(ROOT / "docs" / "numeric-contract.md")
    tests = cases_in(*(ROOT / "tests").rglob("test_*.py"))
    assert len(page) >= 39
    assert not page - tests
    assert not cases_in(*(ROOT / "tests" / "contract").glob("test_*.py")) - page
