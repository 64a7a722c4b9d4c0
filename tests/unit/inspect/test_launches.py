"""From the events of workers to launches: their times add up to the time in which kernels ran."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bedplate.inspect import launches
from bedplate.inspect.launches import Folded, TaskTimes, fold


def stamped(*region_of: int) -> Any:
    """A plan whose tasks lie in these regions."""
    plan = SimpleNamespace(regions=[[]] * (max(region_of) + 1))
    return SimpleNamespace(tasks=list(region_of), region_of=np.array(region_of), plan=plan)


def run(*events: tuple[int, int, int, int]) -> tuple[int, np.ndarray[Any, Any]]:
    """A run of (task, thread, begin, end) in micro-seconds."""
    table = np.array(events, np.int64)
    table[:, 2:] *= 1000
    return int(table[0, 2]), table


def folded(plan: Any, runs: list[Any]) -> tuple[dict[tuple[int, int], TaskTimes], Folded]:
    tasks: dict[tuple[int, int], TaskTimes] = {}
    pieces = Folded()
    fold(plan, 7, runs, tasks, pieces)
    return tasks, pieces


def seconds(times: TaskTimes) -> list[float]:
    return [round(s * 1e6, 3) for part in times.seconds for s in part.tolist()]


def test_a_task_alone_takes_its_time_on_the_clock() -> None:
    # two workers, two chunks each, 10 us from the first begin to the last end
    tasks, _ = folded(stamped(0), [run((0, 1, 0, 5), (0, 2, 1, 6), (0, 1, 5, 9), (0, 2, 6, 10))])
    assert seconds(tasks[7, 0]) == [10.0]
    assert tasks[7, 0].of(several=True).tolist() == pytest.approx([10e-6])


def test_tasks_side_by_side_share_the_time_of_their_region() -> None:
    tasks, _ = folded(stamped(0, 0), [run((0, 1, 0, 6), (1, 2, 0, 3), (1, 2, 3, 6))])
    assert seconds(tasks[7, 0]) == seconds(tasks[7, 1]) == [3.0]
    assert len(tasks[7, 0].of(several=False)) == 0  # each had a worker, but the region two


def test_a_region_of_one_worker() -> None:
    tasks, _ = folded(stamped(0, 1), [run((0, 1, 0, 4), (1, 1, 5, 6)), run((0, 2, 0, 4))])
    assert len(tasks[7, 0].of(several=False)) == 2


def test_regions_and_runs_stay_apart() -> None:
    first = run((0, 1, 0, 4), (1, 1, 5, 6))
    second = run((0, 1, 20, 28), (1, 1, 30, 33))
    tasks, _ = folded(stamped(0, 1), [first, second])
    assert seconds(tasks[7, 0]) == [4.0, 8.0]
    assert seconds(tasks[7, 1]) == [1.0, 3.0]
    assert tasks[7, 1].count == 2
    assert round(tasks[7, 1].total * 1e6, 3) == 4.0


def test_pieces_are_what_each_worker_did(monkeypatch: Any) -> None:
    runs = [run((0, 1, 0, 5), (0, 2, 1, 6), (0, 1, 5, 9))]
    _, pieces = folded(stamped(0), runs)
    assert pieces.pieces[0].tolist() == [[7, 0, 1, 0, 9000], [7, 0, 2, 1000, 6000]]
    monkeypatch.setattr(launches, "MAX_TRACED", 1)
    _, pieces = folded(stamped(0), runs)
    assert (pieces.count, pieces.left_out) == (1, 1)


def test_many_launches_count_in_the_sum_and_not_all_in_the_median(monkeypatch: Any) -> None:
    monkeypatch.setattr(launches, "MAX_KEPT", 3)
    tasks, _ = folded(stamped(0), [run((0, 1, n * 10, n * 10 + 2)) for n in range(8)])
    assert tasks[7, 0].count == 8
    assert seconds(tasks[7, 0]) == [2.0] * 3
    assert round(tasks[7, 0].total * 1e6, 3) == 16.0


def test_a_run_without_events_is_nothing() -> None:
    tasks, _ = folded(stamped(0), [(0, np.zeros((0, 4), np.int64))])
    assert tasks == {}
