"""The tables of accuracy: what they say of each way to accumulate, and their place in the page."""

from __future__ import annotations

import pytest

import bedplate as bp
from benchmarks import accuracy


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_compensated_results_are_rounded_as_if_once() -> None:
    made = accuracy.tables(lengths=(2000,), blocks=(4096,), depths=(50,))
    for row in [*rows(made["reductions"]), *rows(made["products"])]:
        *_, plain, _, compensated = row
        assert number(compensated) <= 1.0, row
        assert number(compensated) <= number(plain) or number(plain) <= 1.0, row


def test_units_count_from_the_exact_result() -> None:
    assert accuracy.units(1.0, 1.0, bp.float32) == 0.0
    assert accuracy.units(1 + 2**-23, 1.0, bp.float32) == 1.0
    assert accuracy.units(6.0, 5.0, bp.float64) == 2**50


def test_tables_go_to_their_places() -> None:
    page = "a\n<!-- x -->\nold\n<!-- end -->\nb\n<!-- y -->\n<!-- end -->\n"
    once = accuracy.written(page, {"x": "new", "y": "more"})
    assert once == "a\n<!-- x -->\nnew\n<!-- end -->\nb\n<!-- y -->\nmore\n<!-- end -->\n"
    assert accuracy.written(once, {"x": "new"}) == once
    with pytest.raises(ValueError, match="no place for the table 'z'"):
        accuracy.written(page, {"z": ""})
