"""The programs of `benchmarks.tracking` run, and are watched in every other turn."""

from __future__ import annotations

import pytest

from bedplate.inspect.tracker import running
from benchmarks.tracking import PROGRAMS, compare


def test_turns_are_watched_by_turns() -> None:
    seen = []
    compare(lambda: seen.append(running() is not None), 2, 0.0)
    assert {True, False} == set(seen)
    assert running() is None


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "demo" not in name])
def test_programs_run_watched_and_not(name: str) -> None:
    plain, watched = compare(PROGRAMS[name](), 1, 0.0)
    assert plain > 0 and watched > 0
