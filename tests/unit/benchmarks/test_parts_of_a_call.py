"""The parts of a captured call: each is met by the call that has it, and they make up the whole."""

from __future__ import annotations

import pytest

import bedplate as bp
from benchmarks import parts_of_a_call


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_of_a_call, "CALLS", 3)
    monkeypatch.setattr(parts_of_a_call, "ROUNDS", 2)
    monkeypatch.setattr(parts_of_a_call, "REPEATS", 2)


def test_a_step_has_all_parts_and_every_kernel() -> None:
    run, replay = parts_of_a_call.captured_case("dispatch/mlp-step-jit")
    rows = parts_of_a_call.parts_of(run)
    *parts, rest, whole = (text for text, _ in rows)
    assert set(parts) == {text for text, *_ in parts_of_a_call.PARTS}
    assert (rest[:8], whole) == ("the rest", "the whole call")
    took = dict(rows)
    assert sum(took.values()) == pytest.approx(2 * took["the whole call"])
    kernels = parts_of_a_call.kernels_of(replay)
    tasks = [task for region in replay.captured.plan.native.regions for task in region]
    assert [text[4:] for text, _ in kernels] == [task.name for task in tasks]
    assert all(seconds > 0 for _, seconds in kernels)


def test_clocks_are_taken_off_again() -> None:
    run, replay = parts_of_a_call.captured_case("dispatch/add8x8-jit")
    before = [getattr(owner, name) for _, owner, name in parts_of_a_call.PARTS]
    parts_of_a_call.parts_of(run)
    assert [getattr(owner, name) for _, owner, name in parts_of_a_call.PARTS] == before
    assert replay.is_plain
    a = bp.ones((8, 8))
    assert bp.jit(lambda x: x + 1)(a).tolist() == (a + 1).tolist()
