"""merge: launches of one kernel that stand side by side become one task over a table.

Needs a region of launches as tasks; leaves fewer tasks that do the same work. An optimiser
updates each parameter by the same program, so that a model with hundreds of small parameters
has hundreds of launches side by side, each too small to share. As one task their items are cut
into chunks together. The table is part of the task's words:

    rows | (kernel, place of its words, first item) for each launch | end, end, items | words ...

What an item computes does not depend on how items are cut, so the bits stay.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from bedplate.compiler.builder import Launch
from bedplate.compiler.groups import KERNEL, Group
from bedplate.devices.cpu.runner import Task
from bedplate.kernel import (
    call_pointer,
    constant,
    i64,
    kernel,
    load,
    minimum,
    otherwise,
    ptr,
    var,
    when,
    while_,
    word_int,
)

ROW_WORDS = 3
CODE, PLACE, FIRST = 0, 1, 2
FEWEST = 2  # launches that are worth a table


def merged_tasks(launches: Sequence[Launch], tasks: Sequence[Task]) -> list[Task]:
    """The tasks of a region, those with the same kernel put together.

    launches  that the tasks were made of; ops with kernels of their own stay apart: their items
              may take long, each op's another time
    """
    alike: dict[Any, list[Task]] = {}
    for launch, task in zip(launches, tasks, strict=True):
        own = isinstance(launch.origin, Group) and launch.origin.kind == KERNEL
        if task.items > 0:
            alike.setdefault(launch if own else launch.kernel, []).append(task)
    return [
        table_task(same) if len(same) >= FEWEST else same[0] for same in alike.values()
    ]  # in the order of the first of each kind


def table_task(tasks: Sequence[Task]) -> Task:
    """One task that does the work of several."""
    rows: list[Any] = [len(tasks)]
    words: list[Any] = []
    place, first = 1 + ROW_WORDS * (len(tasks) + 1), 0
    for task in tasks:
        rows += [task.compiled.address, place + len(words), first]
        words += task.words
        first += task.items
    rows += [0, 0, first]
    return Task(
        _run_table().compile(), rows + words, first, f"{tasks[0].name} of {len(tasks)}",
        sum(task.flops for task in tasks), sum(task.nbytes for task in tasks),
        sum(task.weight_ns for task in tasks), tuple(tasks),
    )  # fmt: skip


@functools.cache
def _run_table() -> Any:
    """The kernel that runs the items of a table."""

    @kernel
    def run_table(args: ptr(i64), begin: i64, end: i64, worker: i64) -> None:
        rows = args + 1
        # the last row whose first item is not behind `begin`
        low, high = var(constant(i64, 0)), var(word_int(args, 0))
        for _ in while_(lambda: high.get() - low.get() > 1):
            middle = (low.get() + high.get()) >> 1
            with when(load(rows + middle * ROW_WORDS + FIRST) <= begin):
                low.set(middle)
            with otherwise():
                high.set(middle)
        item = var(begin)
        for _ in while_(lambda: item.get() < end):
            row = rows + low.get() * ROW_WORDS
            first = load(row + FIRST)
            stop = minimum(end, load(row + (ROW_WORDS + FIRST)))
            call_pointer(
                load(row + CODE), (ptr(i64), i64, i64, i64), args + load(row + PLACE),
                item.get() - first, stop - first, worker,
            )  # fmt: skip
            item.set(stop)
            low.set(low.get() + 1)

    return run_table
