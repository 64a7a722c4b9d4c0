"""NativePlan: regions of tasks in native records, run by one call.

The regions run in order with a barrier between them; the items of all tasks of a region are
spread over the workers in chunks. What an item computes never depends on who runs it or on how
the items are cut, so the results have the same bits for any number of workers.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any

from bedplate.config import config, settings_of
from bedplate.devices.cpu import native
from bedplate.devices.cpu.caches import cache_bytes
from bedplate.devices.cpu.workers import kept, n_workers, workers
from bedplate.errors import InternalError
from bedplate.kernel import f32
from bedplate.kernel.target import host
from bedplate.observer import hooks

# Rough speed of one core, for the choice of chunks and of who runs them only: arithmetic for each
# lane of a float32 vector (two multiply-adds a cycle make 12 at 3 GHz; small kernels reach half of
# it: 6.1 in a product of 32x64x64), and memory traffic.
FLOPS_PER_NS_AND_LANE = 6.0
BYTES_PER_NS = 15.0
CACHED_BYTES_PER_NS = 45.0  # of a task whose memory fits the second level of caches
CHUNK_NS = 4_000  # taking a chunk costs 0.1-0.2 us
CHUNKS_PER_WORKER = 64
UNKNOWN_NS = 100_000


@functools.cache
def flops_per_ns() -> float:
    """About what one core of this machine computes."""
    return FLOPS_PER_NS_AND_LANE * host().lanes(f32)


@dataclass(frozen=True, slots=True)
class Slot:
    """A word that is set at each run, to slots[index] + offset_bytes."""

    index: int
    offset_bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One kernel over `items` work items.

    compiled   kernel (args: ptr(i64), begin: i64, end: i64, worker: i64)
    words      its args: numbers (a float as the bits of a float64), and slots
    flops      arithmetic of the whole task; with nbytes it decides who runs it
    nbytes     memory traffic of the whole task
    weight_ns  what the whole task takes on one core, where the rates of arithmetic and memory
               do not tell; all three 0: not known
    parts      the tasks that it stands for, if it runs several by a table
    sites      of the nodes that it computes: (code, instruction) of the lines that made them
    wide       its elements have 8 bytes or more
    """

    compiled: Any
    words: list[int | float | Slot]
    items: int
    name: str = ""
    flops: float = 0.0
    nbytes: float = 0.0
    weight_ns: float = 0.0
    parts: tuple[Task, ...] = ()
    sites: tuple[Any, ...] = ()
    wide: bool = False

    @property
    def cost_ns(self) -> int:
        """About what the task takes on one core."""
        if self.items <= 0:
            return 0
        if not self.flops and not self.nbytes and not self.weight_ns:
            return UNKNOWN_NS
        rate = CACHED_BYTES_PER_NS if self.nbytes <= cache_bytes(2) // 2 else BYTES_PER_NS
        return int(max(self.weight_ns, self.flops / flops_per_ns(), self.nbytes / rate))

    def n_chunks(self, n_workers: int) -> int:
        """Into how many chunks the items are cut: enough to balance, each worth taking."""
        most = min(max(self.cost_ns // CHUNK_NS, 1), n_workers * CHUNKS_PER_WORKER)
        return min(max(self.items, 0), max(most, n_workers))


class NativePlan:
    """Regions of tasks, ready to run.

    regions   run in order, each after all of the one before it
    n_slots   how many addresses `run` is given
    checks    region -> slot: the run ends behind it if the word at that address is not 0

    The plan may use as many workers as there were when it was made, so scratch memory that is
    indexed by worker is sized by `n_workers`.
    """

    def __init__(
        self, regions: list[list[Task]], n_slots: int, checks: dict[int, int] | None = None
    ) -> None:
        self.regions = regions
        self.n_slots = n_slots
        self.n_workers = n_workers()
        self.region_seconds: list[float] = []  # of the last run at config.debug >= 2
        self._lock = threading.RLock()
        self._inside = False  # the thread that has the lock is in a call
        self._checks = checks or {}
        self._records = _Records(regions, self.n_workers, n_slots, self._checks)
        self._run = _run_plan()
        self._call = (ctypes.c_int64 * native.CALL_WORDS)()
        self._call_address = ctypes.addressof(self._call)
        self._n_regions = len(regions)
        self._alone = (ctypes.c_int64 * native.CALL_WORDS)(
            self._records.plan, 0, 0, self._n_regions, 1
        )
        self._alone_address = ctypes.addressof(self._alone)
        self._is_shared = self.n_workers > 1 and self._records.cost_ns >= native.WORTH_SHARING_NS
        _plans.add(self)

    @property
    def extent(self) -> tuple[int, int]:
        """(address, bytes) of the records, where the tasks' words are."""
        return self._records.extent

    def run(self, slots: Any, first: int = 0, stop: int | None = None) -> None:
        """Run the plan; the interpreter's lock is released meanwhile.

        slots        a ctypes or NumPy array of n_slots int64 addresses
        first, stop  which regions; all by default
        """
        self._run_regions(_address(slots), first, self._n_regions if stop is None else stop)

    def run_at(self, address: int) -> None:
        """As `run`, all regions, with the address of the slots."""
        if self._is_shared:
            self._run_regions(address, 0, self._n_regions)
        else:
            with self._lock:
                if self._inside:
                    self._apart(address, 0, self._n_regions, 1)
                    return
                self._inside = True
                try:
                    self._alone[1] = address
                    self._run(self._alone_address)
                finally:
                    self._inside = False

    def is_watched(self) -> bool:
        """Whether somebody wants to see the regions one by one: then `run_at` is not for them."""
        return hooks.run is not None or _debug() != (0,)

    def _run_regions(self, address: int, first: int, end: int) -> None:
        limit = 1
        if self._is_shared:
            limit = min(n_workers(), self.n_workers)
            workers.ensure(limit)
        if config.debug >= 2:
            self._run_timed(address, limit, first, end)
        elif (run := hooks.run) is not None:
            run(self, address, first, end, limit)
        else:
            self.call(address, first, end, limit)

    def call(self, address: int, first: int, end: int, limit: int) -> None:
        """The native call: regions first..end with up to `limit` workers."""
        with self._lock:
            if self._inside:
                self._apart(address, first, end, limit)
                return
            self._inside = True
            try:
                _pack(self._call, 0, self._records.plan, address, first, end, limit)
                self._run(self._call_address)
            finally:
                self._inside = False

    def _apart(self, address: int, first: int, end: int, limit: int) -> None:
        """A call in the middle of another of this thread: from a signal's handler, a finaliser.

        It has records of its own, because those of the plan are just being filled.
        """
        NativePlan(self.regions, self.n_slots, self._checks).call(address, first, end, limit)

    def _run_timed(self, address: int, limit: int, first: int, end: int) -> None:
        seconds = self.region_seconds[:first]
        for region in range(first, end):
            before = time.perf_counter()
            self.call(address, region, region + 1, limit)
            seconds.append(time.perf_counter() - before)
        self.region_seconds = seconds

    def after_fork(self) -> None:
        """Another thread may have been in a run when the process forked."""
        self._lock = threading.RLock()
        self._inside = False


class _Records:
    """The native records of a plan in one array of words; see the head of native.py."""

    def __init__(
        self, regions: list[list[Task]], n_workers: int, n_slots: int, checks: dict[int, int]
    ) -> None:
        n_tasks = sum(len(tasks) for tasks in regions)
        n_words = sum(len(task.words) for tasks in regions for task in tasks)
        patches = [
            word
            for tasks in regions for task in tasks for word in task.words
            if isinstance(word, Slot)
        ]  # fmt: skip
        sizes = (
            native.PLAN_WORDS, len(regions) * native.REGION_WORDS, n_tasks * native.TASK_WORDS,
            len(patches) * native.PATCH_WORDS, n_words,
        )  # fmt: skip
        self._words = (ctypes.c_int64 * sum(sizes))()
        base = ctypes.addressof(self._words)
        starts = [base + 8 * sum(sizes[:n]) for n in range(len(sizes))]
        self.plan, self._region, self._task, self._patch, self._args = starts
        self.first_task = starts[2]  # whoever times tasks finds their records from here
        self._base = base
        self._n_workers = n_workers
        self._n_slots = n_slots
        self.cost_ns = sum(
            self._add_region(tasks, checks.get(number, -1)) for number, tasks in enumerate(regions)
        )
        self._put(self.plan, workers.address, starts[1], starts[3], len(patches), self.cost_ns)

    @property
    def extent(self) -> tuple[int, int]:
        return self._base, ctypes.sizeof(self._words)

    def _put(self, address: int, *values: int) -> int:
        """Store words; returns the address behind them."""
        at = (address - self._base) // 8
        self._words[at : at + len(values)] = values
        return address + 8 * len(values)

    def _add_region(self, tasks: list[Task], check: int) -> int:
        first_task, n_chunks, cost_ns = self._task, 0, 0
        for task in tasks:
            count = task.n_chunks(self._n_workers)
            self._task = self._put(
                self._task, task.compiled.address, self._args, max(task.items, 0), n_chunks, count
            )
            self._add_words(task)
            n_chunks += count
            cost_ns += task.cost_ns
        self._region = self._put(self._region, first_task, len(tasks), n_chunks, cost_ns, check)
        return cost_ns if n_chunks > 1 and cost_ns >= native.WORTH_SHARING_NS else 0

    def _add_words(self, task: Task) -> None:
        for word in task.words:
            if isinstance(word, Slot):
                if not 0 <= word.index < self._n_slots:
                    raise InternalError(f"task {task.name}: slot {word.index} of {self._n_slots}")
                self._patch = self._put(self._patch, self._args, word.index, word.offset_bytes)
                value = 0
            elif isinstance(word, float):
                (value,) = struct.unpack("<q", struct.pack("<d", word))
            else:
                value = (int(word) + (1 << 63)) % (1 << 64) - (1 << 63)
            self._args = self._put(self._args, value)


@functools.cache
def _run_plan() -> Any:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kept(native.run_plan).address)


def _address(slots: Any) -> int:
    if isinstance(slots, ctypes.Array):
        return ctypes.addressof(slots)
    return slots.__array_interface__["data"][0]


_debug = settings_of("debug")
_pack = struct.Struct(f"{native.CALL_WORDS}q").pack_into
_plans: weakref.WeakSet[NativePlan] = weakref.WeakSet()


def _after_fork() -> None:
    for plan in _plans:
        plan.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
