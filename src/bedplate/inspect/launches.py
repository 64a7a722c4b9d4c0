"""Launches: from the events of workers to the time of each launch.

A launch is one task in one run of its plan; its chunks were run by one worker or by several. The
tasks of a region run side by side, so the region's time on the clock is shared out among them by
what each kept the workers busy. The times of all launches therefore add up to the time in which
kernels ran, whatever the number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bedplate.inspect.stamps import BEGIN, END, TASK, THREAD, StampedPlan

MAX_KEPT = 1 << 16  # times of a task that its median is taken of; the sums count all
MAX_TRACED = 200_000  # pieces of work that a trace shows


@dataclass
class TaskTimes:
    """The launches of one task of one plan.

    seconds  of the first MAX_KEPT launches
    workers  that ran the region of each of these
    """

    count: int = 0
    total: float = 0.0
    seconds: list[np.ndarray[Any, Any]] = field(default_factory=list)
    workers: list[np.ndarray[Any, Any]] = field(default_factory=list)
    kept: int = 0

    def of(self, several: bool) -> np.ndarray[Any, Any]:
        """The seconds of launches in whose region one worker was, or several."""
        return np.concatenate(self.seconds)[(np.concatenate(self.workers) > 1) == several]


@dataclass
class Folded:
    """What a trace shows: (plan, task, thread, begin, end) of each worker's part of a launch.

    left_out  parts that came after the first MAX_TRACED
    """

    pieces: list[np.ndarray[Any, Any]] = field(default_factory=list)
    count: int = 0
    left_out: int = 0


def fold(
    stamped: StampedPlan,
    number: int,
    runs: list[tuple[int, np.ndarray[Any, Any]]],
    tasks: dict[tuple[int, int], TaskTimes],
    folded: Folded,
) -> None:
    """Add the runs of one plan to `tasks` and to `folded`.

    number  of the plan
    runs    (begin, events) of each
    """
    events = np.concatenate([events for _, events in runs])
    if not len(events):
        return
    run = np.repeat(np.arange(len(runs)), [len(events) for _, events in runs])
    n_tasks = len(stamped.tasks)
    launch_key, launch_of = np.unique(run * n_tasks + events[:, TASK], return_inverse=True)
    busy = np.bincount(launch_of, weights=events[:, END] - events[:, BEGIN])
    task_of = launch_key % n_tasks
    n_regions = len(stamped.plan.regions)
    region_key = launch_key // n_tasks * n_regions + stamped.region_of[task_of]
    _, region = np.unique(region_key, return_inverse=True)
    first, last = _extents(region[launch_of], events)
    region_busy = np.maximum(np.bincount(region, weights=busy), 1.0)
    seconds = busy * ((last - first) / region_busy)[region] / 1e9
    workers = _workers(region[launch_of], events)[region]
    _note_pieces(number, launch_of, task_of, events, folded)
    for task in np.unique(task_of):
        here = task_of == task
        _add(tasks.setdefault((number, int(task)), TaskTimes()), seconds[here], workers[here])


def _extents(
    groups: np.ndarray[Any, Any], events: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The first begin and the last end of each group of events."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    first = np.minimum.reduceat(events[order, BEGIN], starts)
    return first, np.maximum.reduceat(events[order, END], starts)


def _workers(groups: np.ndarray[Any, Any], events: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """How many workers each group of events had."""
    threads, worker = np.unique(events[:, THREAD], return_inverse=True)
    pairs = np.unique(groups * len(threads) + worker)
    return np.bincount(pairs // len(threads))


def _note_pieces(
    number: int,
    launch_of: np.ndarray[Any, Any],
    task_of: np.ndarray[Any, Any],
    events: np.ndarray[Any, Any],
    folded: Folded,
) -> None:
    """Note what each worker did of each launch, as long as there is room."""
    threads, worker = np.unique(events[:, THREAD], return_inverse=True)
    key, piece_of = np.unique(launch_of * len(threads) + worker, return_inverse=True)
    room = max(MAX_TRACED - folded.count, 0)
    folded.left_out += max(len(key) - room, 0)
    if room:
        first, last = _extents(piece_of, events)
        columns = [np.full(len(key), number), task_of[key // len(threads)],
                   threads[key % len(threads)], first, last]  # fmt: skip
        folded.pieces.append(np.stack(columns, axis=1)[:room])
        folded.count += min(len(key), room)


def _add(times: TaskTimes, seconds: np.ndarray[Any, Any], workers: np.ndarray[Any, Any]) -> None:
    times.count += len(seconds)
    times.total += float(seconds.sum())
    if times.kept < MAX_KEPT:
        times.workers.append(workers[: MAX_KEPT - times.kept])
        times.seconds.append(seconds[: MAX_KEPT - times.kept])
        times.kept += len(times.seconds[-1])
