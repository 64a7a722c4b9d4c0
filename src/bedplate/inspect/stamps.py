"""Stamps: the tasks of a plan time themselves, on whichever worker they run.

While a profile runs, the record of each task names `timed_task` in place of its kernel. That reads
the clock, calls the kernel, reads the clock again and leaves an event in the plan's buffer:

    buffer   events so far, room for events, events ...
    event    task, thread, begin, end      (the clock of time.perf_counter_ns)

The runner knows nothing of it, so a run that nobody profiles costs what it did before. A stamped
call takes 50 ns more; a chunk of work takes 4 us or so.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

import numpy as np

from bedplate.devices.cpu import native
from bedplate.devices.cpu.runner import NativePlan, Task
from bedplate.devices.cpu.workers import kept
from bedplate.kernel import (
    Value,
    atomic_add,
    call_pointer,
    extern,
    i32,
    i64,
    kernel,
    load,
    local,
    ptr,
    store,
    when,
    word_int,
    word_pointer,
)

EVENT_WORDS, HEAD_WORDS, TRIPLE_WORDS = 4, 2, 4
TASK, THREAD, BEGIN, END = range(EVENT_WORDS)
# what time.perf_counter_ns reads, where there is more than one worker to tell apart (Linux)
CLOCK = getattr(time, "CLOCK_MONOTONIC", 1)

_clock_gettime = extern("clock_gettime", i32, (i32, ptr(i64)))
_pthread_self = extern("pthread_self", i64, ())


def _now(place: Value) -> Value:
    """The clock in nano-seconds; `place` has room for its two words."""
    _clock_gettime(CLOCK, place)
    return load(place) * 1_000_000_000 + load(place + 1)


def sites_of(task: Task) -> list[Any]:
    """The sites of a task, or of all that it stands for."""
    return [site for part in (task.parts or (task,)) for site in part.sites]


@kernel
def timed_task(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """Call a task's kernel and leave an event: args are function, its args, buffer, task."""
    place = local(i64, 2)
    before = _now(place)
    types = (ptr(i64), i64, i64, i64)
    call_pointer(word_int(args, 0), types, word_pointer(args, 1, i64), begin, end, worker)
    after = _now(place)
    buffer = word_pointer(args, 2, i64)
    number = atomic_add(buffer, 1)
    with when(number < load(buffer + 1)):
        event = buffer + HEAD_WORDS + number * EVENT_WORDS
        for word, value in enumerate((word_int(args, 3), _pthread_self(), before, after)):
            store(event + word, value)


@functools.cache
def _timed_task() -> int:
    return kept(timed_task).address


class StampedPlan:
    """A native plan whose tasks leave events, until `restore`.

    tasks      of all regions, in the order of their numbers
    region_of  the region of each task
    info       what else is known of the plan; see `PlanInfo`
    lock       held from `begin` until the events were taken
    """

    def __init__(self, plan: NativePlan, info: Any = None) -> None:
        self.plan = plan
        self.lock = threading.Lock()
        self.info = info
        self.tasks: list[Task] = [task for region in plan.regions for task in region]
        self.region_of = np.array(
            [number for number, region in enumerate(plan.regions) for _ in region], np.int64
        )
        room = sum(task.n_chunks(plan.n_workers) for task in self.tasks) + len(self.tasks)
        self._buffer = np.zeros(HEAD_WORDS + room * EVENT_WORDS, np.int64)
        self._buffer[1] = room
        records = plan._records
        first = (records.first_task - records._base) // 8
        self._places = [first + n * native.TASK_WORDS for n in range(len(self.tasks))]
        self._triples = np.zeros((len(self.tasks), TRIPLE_WORDS), np.int64)
        self._exchange()

    def _exchange(self) -> None:
        words, triples = self.plan._records._words, self._triples
        row_bytes = TRIPLE_WORDS * 8
        with self.plan._lock:
            for number, place in enumerate(self._places):
                triples[number] = words[place], words[place + 1], self._buffer.ctypes.data, number
                words[place : place + 2] = _timed_task(), triples.ctypes.data + number * row_bytes

    def restore(self) -> None:
        """Give the records their own kernels back."""
        words = self.plan._records._words
        with self.plan._lock:
            for place, triple in zip(self._places, self._triples.tolist(), strict=True):
                words[place : place + 2] = triple[:2]

    def begin(self) -> None:
        """Forget the events of the run before."""
        self._buffer[0] = 0

    def events(self) -> np.ndarray[Any, Any]:
        """The events of the last run, (n, EVENT_WORDS)."""
        count = min(int(self._buffer[0]), int(self._buffer[1]))
        return self._buffer[HEAD_WORDS : HEAD_WORDS + count * EVENT_WORDS].reshape(-1, 4).copy()
