"""Rows that are kept, the page made from them, and what two runs say about a change."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import compare, page, report, results


def row(case: str, peer: str, seconds: float, spread: float = 0.01) -> dict[str, Any]:
    return {
        "case": case, "peer": peer, "median_seconds": seconds, "spread": spread,
        "limit_seconds": None, "tokens_per_second": None, "version": "1.0", "unit": "s",
        "machine": "A (TM) Processor", "cpus": 2, "threads": 2, "commit": "abc",
        "date": "2026-01-02",
    }  # fmt: skip


ROWS = [row("a/b", "bedplate", 1e-3), row("a/b", "numpy", 2e-3), row("a/c", "bedplate", 5.0)]


def test_what_is_kept_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    path = results.keep(ROWS)
    assert path.name == "a-tm-processor-2cpus-2026-01-02.json"
    assert results.read_rows(path) == ROWS
    plain = tmp_path / "plain.json"
    results.write_rows(plain, ROWS)
    assert results.read_rows(plain) == ROWS


def test_a_change_within_the_spreads_is_none() -> None:
    (change,) = compare.changes(ROWS[:1], [row("a/b", "bedplate", 1.015e-3)])
    assert change.time == pytest.approx(1.015)
    assert change.verdict == ""


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [(1e-3, 2e-3, ""), (0.8e-3, 2e-3, "better"), (1e-3, 1e-3, "worse"), (3e-3, 6e-3, "")],
)  # fmt: skip
def test_the_ratio_to_the_peer_decides(ours: float, theirs: float, verdict: str) -> None:
    new = [row("a/b", "bedplate", ours), row("a/b", "numpy", theirs)]
    (change,) = compare.changes(ROWS, new)
    assert change.verdict == verdict


def test_what_became_worse_is_named() -> None:
    out = StringIO()
    new = [row("a/b", "bedplate", 1e-3), row("a/b", "numpy", 1e-3), row("a/c", "bedplate", 5.0)]
    compare.print_comparison(ROWS, new, Console(file=out, width=120))
    assert "worse by more than the spread: a/b\n" in out.getvalue()


def test_the_summary_is_a_geometric_mean_and_names_what_changed_much() -> None:
    old = [row(f"a/{name}", "bedplate", 1e-3) for name in "bcde"]
    new = [
        row("a/b", "bedplate", 0.5e-3), row("a/c", "bedplate", 2e-3, spread=3.0),
        row("a/d", "bedplate", 1.05e-3), row("a/e", "bedplate", 1e-3 / 1.05),
    ]  # fmt: skip
    found = compare.summary(compare.changes(old, new))
    assert found is not None and found.n_cases == 4
    assert found.mean == pytest.approx(1.0)
    assert found.better == ["a/b x 2.00"]
    assert found.worse == ["a/c x 0.50"]
    assert compare.summary([]) is None


def test_units() -> None:
    assert report.shown(3.2e-7) == "320 ns"
    assert report.shown(3 << 30, "B") == "3 GiB"


def test_the_page_is_made_from_what_is_kept() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.text(results.kept_files())


def test_the_page_has_a_line_for_each_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    results.keep(ROWS)
    made = page.text(results.kept_files())
    assert "A (TM) Processor" in made and "`abc`" in made
    assert made.count("| a/b ") == 1 and made.count("| a/c ") == 1
    assert "2.00" in made


def test_kept_files_hold_what_the_page_needs() -> None:
    for path in results.kept_files():
        found = json.loads(path.read_text())
        assert set(found["about"]) == set(results.SHARED), path
        assert {row["peer"] for row in found["rows"]} <= set(found["versions"]), path
