"""How growth is fitted, flagged and shown; one point and one first step that are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import first_steps, growth, scaling, scaling_page, scaling_point

PRODUCT = growth.SERIES[0]


def points(power: float, memory: float) -> list[scaling.Point]:
    return [{"value": n, "seconds": 1e-9 * n**power, "bytes": 8.0 * n**memory}
            for n in PRODUCT.points]  # fmt: skip


def test_a_power_law_is_found_again() -> None:
    fit = scaling.fitted(PRODUCT, points(3.0, 2.0))
    assert fit.time == (pytest.approx(3.0), pytest.approx(3.0))
    assert fit.memory == (pytest.approx(2.0), pytest.approx(2.0))
    assert fit.worse == []


def test_what_grows_faster_than_the_algorithm_is_flagged() -> None:
    assert scaling.fitted(PRODUCT, points(3.3, 2.0)).worse == ["time"]
    assert scaling.fitted(PRODUCT, points(2.5, 2.2)).worse == ["memory"]


def test_threads_divide_the_work() -> None:
    series = next(series for series in growth.SERIES if series.threads)
    one, two = (series.growth(n) for n in (1, 2))
    assert one[0] == 2 * two[0] and one[1] == two[1]


@pytest.mark.parametrize("series", growth.SERIES, ids=lambda s: s.name)
def test_the_algorithm_grows_with_what_grows(series: growth.Series) -> None:
    first, last = (series.growth(value) for value in (series.points[0], series.points[-1]))
    assert series.threads or last > first


def test_a_window_makes_attention_linear() -> None:
    series = next(series for series in growth.SERIES if "window" in series.name)
    counted = [series.growth(value)[0] for value in series.points]
    assert scaling.exponent(list(series.points), counted) < 1.3


def test_a_point_is_measured() -> None:
    job = {"kind": "matmul", "parameters": PRODUCT.make(8), "budget": 0.01}
    found = scaling_point.measured(job)
    assert found["seconds"] > 0 and found["first_seconds"] > 0
    assert found["bytes"] >= 3 * 8 * 8 * 4


def test_a_first_step_is_measured_and_a_new_size_after_it() -> None:
    seconds = first_steps.measure(1)
    assert len(seconds) == len(first_steps.SIZES) and min(seconds) > 0


def test_series_are_kept_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "KEPT", tmp_path / "scaling.json")
    about = {"machine": "A", "cpus": 2, "threads": 2, "commit": "abc"}
    scaling.keep({"product": points(3.0, 2.0)}, about)
    scaling.keep({"attention": points(2.0, 1.0)[:1]}, about)
    assert set(scaling.read()["series"]) == {"product", "attention"}
    made = scaling_page.text(scaling.read())
    assert "| product | size | 128 - 2048 | 3.00 (" in made
    assert "| attention |" not in made  # a single point has no exponent
    scaling.keep({"product": points(3.0, 2.0)}, {**about, "machine": "B"})
    assert set(scaling.read()["series"]) == {"product"}


def test_the_page_is_made_from_what_is_kept() -> None:
    kept = scaling.read()
    assert scaling_page.PAGE.read_text(encoding="utf-8") == scaling_page.text(kept)
    for fit in scaling.fits(kept):
        assert (scaling_page.PICTURES / f"{scaling_page.slug(fit.name)}.svg").exists()
