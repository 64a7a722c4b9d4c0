"""Plans on disk: the same values, and nothing that is wrong with a file matters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.compiler import realise, stored_plans
from bedplate.config import PLAN_SETTINGS
from bedplate.kernel import cache

X = np.random.default_rng(7).standard_normal((6, 33)).astype(np.float32)
LENGTH = 120  # ops in a chain: a graph that is worth storing


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path) -> Iterator[None]:
    with bp.config(cache_dir=str(tmp_path), verify=False):
        realise.clear_plans()
        yield
    realise.clear_plans()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An entry for each plan that was made, not found."""
    plans: list[int] = []
    compile_plan = realise.compile_plan

    def counted(*arguments: Any, **named: Any) -> Any:
        plans.append(1)
        return compile_plan(*arguments, **named)

    monkeypatch.setattr(realise, "compile_plan", counted)
    return plans


def value(index: int = 2, factor: float = 1.25) -> np.ndarray[Any, Any]:
    """What a long graph gives: a product, rows, an index, small tensors side by side."""
    x = bp.tensor(X)
    rows = [bp.tensor(X[i]) for i in range(6)]
    y = x
    for step in range(LENGTH):
        y = bp.tanh(y * factor + step)
    y = bp.softmax(y @ x.T, axis=-1)
    picked = bp.take(y, bp.tensor([index, 0]), axis=0)
    many = bp.stack([(row * factor).exp().sum() for row in rows])
    return (picked.sum(axis=0) + many).numpy()


def plan_files(tmp_path: Path) -> list[Path]:
    """The files that hold a plan."""
    return [p for p in tmp_path.glob("kernels/*") if b'{"kernels"' in p.read_bytes()]


def plan_key(tmp_path: Path) -> str:
    """The key of the only stored plan."""
    (found,) = plan_files(tmp_path)
    return found.name.removesuffix(cache.SUFFIX)


def test_a_plan_from_disk_gives_the_same_bits(made: list[int]) -> None:
    first = value()
    count = len(made)
    realise.clear_plans()
    np.testing.assert_array_equal(value(), first)
    assert len(made) == count


def test_numbers_are_those_of_the_run(made: list[int]) -> None:
    first, other = value(), value(factor=0.75)
    realise.clear_plans()
    count = len(made)
    np.testing.assert_array_equal(value(factor=0.75), other)
    np.testing.assert_array_equal(value(), first)
    assert len(made) == count


def test_an_index_out_of_range_is_named_with_its_line() -> None:
    value()
    realise.clear_plans()
    with pytest.raises(
        IndexError, match=r"take: axis 0: index 6 is out of range for size 6\n.*py:"
    ):
        value(index=6)


def test_the_switch_and_a_debugger_see_plans_made(made: list[int], tmp_path: Path) -> None:
    with bp.config(plan_files=False):
        value()
    assert plan_files(tmp_path) == []
    value()
    count = len(made)
    for change in ({"check": True}, {"verify": True}, {"plan_files": False}):
        realise.clear_plans()
        with bp.config(**change):
            value()
        assert len(made) > count
        count = len(made)


def test_other_settings_have_other_plans(made: list[int]) -> None:
    first = value()
    count = len(made)
    for change in ({"fusion": False}, {"merging": False}, {"cse": False}):
        with bp.config(**change):
            np.testing.assert_allclose(value(), first, 1e-4)
    assert len(made) >= count + 3


def test_a_changed_source_is_another_plan(made: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    value()
    count = len(made)
    realise.clear_plans()
    monkeypatch.setattr(stored_plans, "_environment", lambda: "another file")
    value()
    assert len(made) > count


def test_sources_younger_than_the_import_keep_no_plan(
    made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_plans, "IMPORTED_NS", 0)
    stored_plans._environment.cache_clear()
    try:
        value()
        count = len(made)
        realise.clear_plans()
        value()
        assert len(made) > count
    finally:
        stored_plans._environment.cache_clear()


def test_each_setting_of_plans_has_plans_of_its_own() -> None:
    keys = {realise._settings()}
    for name in PLAN_SETTINGS:
        other = "float64" if name == "accumulate" else not getattr(bp.config, name)
        with bp.config(**{name: other}):
            keys.add(realise._settings())
    assert len(keys) == len(PLAN_SETTINGS) + 1
    assert {"fusion", "accumulate", "layout"} <= set(PLAN_SETTINGS)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[]", b"{}", b"null", b'{"kernels":[["0",1]],"regions":[]}',
     b'{"kernels":[],"regions":[[[0,[],1,"x",0,0,0,false]]],"stops":[]}'],
)  # fmt: skip
def test_nonsense_means_planning_again(content: bytes, made: list[int], tmp_path: Path) -> None:
    first = value()
    count = len(made)
    realise.clear_plans()
    key = plan_key(tmp_path)
    cache.write(key, content)
    np.testing.assert_array_equal(value(), first)
    assert len(made) > count


@pytest.mark.parametrize("field", ["kernels", "regions", "slots", "results", "sites", "outputs"])
def test_a_missing_field_means_planning_again(field: str, made: list[int], tmp_path: Path) -> None:
    first = value()
    count = len(made)
    realise.clear_plans()
    key = plan_key(tmp_path)
    record = json.loads(cache.read(key) or b"")
    del record[field]
    cache.write(key, json.dumps(record).encode())
    np.testing.assert_array_equal(value(), first)
    assert len(made) > count


def test_a_slot_out_of_range_means_planning_again(made: list[int], tmp_path: Path) -> None:
    first = value()
    realise.clear_plans()
    key = plan_key(tmp_path)
    record = json.loads(cache.read(key) or b"")
    record["slots"] = 3
    cache.write(key, json.dumps(record).encode())
    np.testing.assert_array_equal(value(), first)
