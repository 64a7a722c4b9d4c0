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
# A plan up to this long holds the interpreter's lock: others wait less than for any Python
# function, and the caller need not wait for the lock to come back (up to 5 ms, the interpreter's
# switch interval, if another thread computes).
HELD_NS = 5_000


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


class Frame:
    """What a run has for itself, so that several can run one plan at once: whoever has a frame
    alone needs no lock.

    slots     words to be set before each run: addresses, and numbers as their bits
    argument  of the native call
    address   of the slots
    """

    __slots__ = ("_call", "_limit", "_records", "_words", "address", "argument", "slots")

    def __init__(self, records: _Records, n_slots: int, n_regions: int) -> None:
        self._records = records
        self._words = (ctypes.c_int64 * max(n_slots, 1))()
        # set as a view: a word takes 0.03 us, one of an array of ctypes 0.05
        self.slots = memoryview(self._words).cast("B").cast("q")
        self.address = ctypes.addressof(self._words)
        self._call = (ctypes.c_int64 * native.CALL_WORDS)(
            records.plan, self.address, 0, n_regions, 1
        )
        self._limit = memoryview(self._call).cast("B").cast("q")[native.CALL_WORDS - 1 :]
        self.argument = ctypes.byref(self._call)

    def set_limit(self, limit: int) -> None:
        """Let so many workers take part in the next run."""
        self._limit[0] = limit


class NativePlan:
    """Regions of tasks, ready to run.

    regions   run in order, each after all of the one before it
    n_slots   how many addresses `run` is given
    checks    region -> slot: the run ends behind it if the word at that address is not 0
    start     the native call on the argument of a frame
    is_alone  a frame's run needs nothing but `start`: no worker is worth asking for help

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
        self._n_regions = len(regions)
        first = self._new_records()
        self._unused = [first]
        self._general: _Records | None = None
        self._call = (ctypes.c_int64 * native.CALL_WORDS)()
        self._call_argument = ctypes.byref(self._call)
        self.is_alone = self.n_workers == 1 or first.shared_ns < native.WORTH_SHARING_NS
        self._native = _run_plan(holds_lock=False)
        self.start = _run_plan(holds_lock=first.cost_ns <= HELD_NS and self.is_alone)
        _plans.add(self)

    def _new_records(self) -> _Records:
        return _Records(self.regions, self.n_workers, self.n_slots, self._checks)

    def _take_records(self) -> _Records:
        """Records that nobody else has; those that were made to begin with come first."""
        try:
            return self._unused.pop()
        except IndexError:
            return self._new_records()

    def new_frame(self) -> Frame:
        """What `run_frame` takes."""
        return Frame(self._take_records(), self.n_slots, self._n_regions)

    @property
    def _records(self) -> _Records:
        """For runs that name their slots or their regions, or are watched: one at a time."""
        with self._lock:
            if self._general is None:
                self._general = self._take_records()
            return self._general

    @property
    def extent(self) -> tuple[int, int]:
        """(address, bytes) of the records, where the tasks' words are, of runs without frame."""
        return self._records.extent

    def run_frame(self, frame: Frame) -> None:
        """Run all regions on the slots of a frame, which the caller has alone."""
        if not self.is_alone:
            limit = min(n_workers(), self.n_workers)
            workers.ensure(limit)
            frame.set_limit(limit)
        self.start(frame.argument)

    def run(self, slots: Any, first: int = 0, stop: int | None = None) -> None:
        """Run the plan; the interpreter's lock is released meanwhile.

        slots        int64 addresses, n_slots of them: an array of ctypes or NumPy, a memory view
        first, stop  which regions; all by default
        """
        address, end = address_of(slots), self._n_regions if stop is None else stop
        limit = 1
        if not self.is_alone:
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
                self._native(self._call_argument)
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


def is_watched() -> bool:
    """Whether somebody wants to see each run: then frames are not for it."""
    return hooks.run is not None or _debug() != (0,)


class _Records:
    """The native records of a plan in one array of words; see the head of native.py.

    cost_ns    about what the plan takes on one core
    shared_ns  of it, what the regions take that are worth sharing
    """

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
        self.cost_ns = self.shared_ns = 0
        for number, tasks in enumerate(regions):
            self._add_region(tasks, checks.get(number, -1))
        self._put(self.plan, workers.address, starts[1], starts[3], len(patches), self.shared_ns)

    @property
    def extent(self) -> tuple[int, int]:
        return self._base, ctypes.sizeof(self._words)

    def _put(self, address: int, *values: int) -> int:
        """Store words; returns the address behind them."""
        at = (address - self._base) // 8
        self._words[at : at + len(values)] = values
        return address + 8 * len(values)

    def _add_region(self, tasks: list[Task], check: int) -> None:
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
        self.cost_ns += cost_ns
        if n_chunks > 1 and cost_ns >= native.WORTH_SHARING_NS:
            self.shared_ns += cost_ns

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
def _run_plan(holds_lock: bool) -> Any:
    """The runner as a function of `ctypes.byref` of a call.

    holds_lock  of the interpreter, which is released otherwise while the plan runs

    No types of arguments are declared, so that nothing is converted: what byref gives is passed
    on as it is (0.16 us a call; 0.21 from an integer, 0.12 if the lock is held).
    """
    kind = ctypes.PYFUNCTYPE if holds_lock else ctypes.CFUNCTYPE
    return kind(None)(kept(native.run_plan).address)


def address_of(slots: Any) -> int:
    if isinstance(slots, ctypes.Array):
        return ctypes.addressof(slots)
    if isinstance(slots, memoryview):
        return ctypes.addressof(ctypes.c_int64.from_buffer(slots))
    return slots.__array_interface__["data"][0]


_debug = settings_of("debug")
_pack = struct.Struct(f"{native.CALL_WORDS}q").pack_into
_plans: weakref.WeakSet[NativePlan] = weakref.WeakSet()


def _after_fork() -> None:
    for plan in _plans:
        plan.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
