"""A device for tests: this machine's own processor, used as if it were far away.

Its memory lies in mappings of its own, and its addresses are those of the mappings plus 2^56, which
no memory has: code of the host that takes one for its own cannot go unnoticed. Work is done by a
thread for each queue, after random delays, so that a missing wait shows in the values; fresh memory
is full of a pattern. Kernels are machine code of the processor, in parts of random size.
"""

from __future__ import annotations

import bisect
import ctypes
import queue as queues
import random
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.errors import DeviceError
from bedplate.kernel.lower import lower, symbol_of
from bedplate.kernel.native import load_code
from bedplate.kernel.target import host
from bedplate.memory.mapping import Mapping

OFFSET = 1 << 56
SPAN = 1 << 48  # addresses of mappings lie below
PATTERN = 0xCB
MOST_DELAY_SECONDS = 300e-6
_Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class LoopbackBackend:
    """The back end; see the head of this file.

    name            of the devices
    devices         how many there are
    capacity_bytes  of the memory of each
    delays          whether work waits for random times
    """

    description = "this processor, used as if it were far away"

    def __init__(
        self, name: str = "loopback", devices: int = 1, capacity_bytes: int = 1 << 32,
        delays: bool = True, n_workers: int = 3,
    ) -> None:  # fmt: skip
        self.name = name
        self.devices = devices
        self.capacity_bytes = capacity_bytes
        self.delays = delays
        self.n_workers = n_workers
        self.drivers: list[LoopbackDriver] = []

    def count(self) -> int:
        return self.devices

    def open(self, index: int) -> LoopbackDriver:
        driver = LoopbackDriver(self)
        self.drivers.append(driver)
        return driver


class Event:
    """An event: set by the thread of its queue."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.failure: str | None = None
        self.seconds = 0.0


class _Queue:
    """A queue: its thread ends with it."""

    def __init__(self, driver: LoopbackDriver) -> None:
        self.jobs: queues.SimpleQueue[Any] = queues.SimpleQueue()
        threading.Thread(
            target=_work, args=(self.jobs, driver.generator, driver.delays), daemon=True
        ).start()
        weakref.finalize(self, self.jobs.put, None).atexit = False


def _work(jobs: queues.SimpleQueue[Any], generator: random.Random, delays: bool) -> None:
    """The life of a queue's thread. After a failure nothing more runs but events."""
    failure: str | None = None
    while (job := jobs.get()) is not None:
        if delays and generator.random() < 0.5:
            time.sleep(generator.random() * MOST_DELAY_SECONDS)
        if isinstance(job, Event):
            job.failure = failure
            job.seconds = time.perf_counter()
            job.reached.set()
        elif failure is None:
            try:
                job()
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
        job = None


class LoopbackDriver:
    """The driver of one device; see `bedplate.devices.backend.Driver`."""

    host_can_address = False

    def __init__(self, backend: LoopbackBackend) -> None:
        self.target = host()
        self.n_workers = backend.n_workers
        self.delays = backend.delays
        self.generator = random.Random(7)
        self.room_bytes = backend.capacity_bytes
        self.n_launches = 0
        self._failures: list[str] = []
        self._lock = threading.Lock()
        self._mappings: dict[int, Mapping] = {}
        self._starts: list[int] = []  # of the mappings, in order
        self._written: dict[int, int] = {}  # address -> bytes of the last copy from the host

    def fail_next_launch(self, reason: str) -> None:
        """Let the next kernel that is started fail."""
        self._failures.append(reason)

    # memory

    def allocate(self, nbytes: int) -> int:
        with self._lock:
            if nbytes > self.room_bytes:
                raise MemoryError(f"{self.room_bytes} bytes are left")
            mapping = Mapping(nbytes)
            self.room_bytes -= nbytes
            ctypes.memset(mapping.address, PATTERN, nbytes)
            self._mappings[mapping.address] = mapping
            bisect.insort(self._starts, mapping.address)
        return mapping.address + OFFSET

    def free(self, address: int) -> None:
        with self._lock:
            mapping = self._mappings.pop(address - OFFSET)
            self._starts.remove(mapping.address)
            self.room_bytes += mapping.nbytes

    def _real(self, address: int, nbytes: int) -> int:
        """The address in this process of memory that was allocated.

        raises  DeviceError for what was not
        """
        real = address - OFFSET
        with self._lock:
            place = bisect.bisect_right(self._starts, real) - 1
            mapping = self._mappings[self._starts[place]] if place >= 0 else None
        if mapping is None or not real + nbytes <= mapping.address + mapping.nbytes:
            raise DeviceError(f"{nbytes} bytes at {address:#x} are no memory of this device")
        return real

    # queues

    def make_queue(self) -> _Queue:
        return _Queue(self)

    def write(self, queue: _Queue, address: int, source: Any) -> None:
        real = self._real(address, source.nbytes)

        def job() -> None:
            ctypes.memmove(real, source.ctypes.data, source.nbytes)
            with self._lock:
                self._written[address] = source.nbytes

        queue.jobs.put(job)

    def read(self, queue: _Queue, into: Any, address: int) -> None:
        real = self._real(address, into.nbytes)
        queue.jobs.put(lambda: ctypes.memmove(into.ctypes.data, real, into.nbytes))

    def copy(self, queue: _Queue, to: int, source: int, nbytes: int) -> None:
        here, there = self._real(to, nbytes), self._real(source, nbytes)
        queue.jobs.put(lambda: ctypes.memmove(here, there, nbytes))

    def compile(self, program: Any, symbol: str) -> tuple[Callable[..., None], Any]:
        text = lower(program, self.target)
        address, keep = load_code(text, symbol_of(program.name), self.target)
        return _Task(address), keep

    def launch(self, queue: _Queue, executable: Any, arguments: int, items: int) -> None:
        function, _ = executable
        failure = self._failures.pop() if self._failures else None
        self.n_launches += 1
        real = self._real(arguments, 8)

        def job() -> None:
            if failure is not None:
                raise DeviceError(failure)
            self._translate(arguments, real)
            cuts = sorted(self.generator.randint(0, items) for _ in range(self.n_workers - 1))
            parts = list(enumerate(zip([0, *cuts], [*cuts, items], strict=True)))
            self.generator.shuffle(parts)
            for worker, (begin, end) in parts:
                function(real, begin, end, worker)

        queue.jobs.put(job)

    def _translate(self, arguments: int, real: int) -> None:
        """Put addresses of this process in the place of the device's, among words as written."""
        with self._lock:
            written = list(self._written.items())
        for address, nbytes in written:
            if address <= arguments < address + nbytes:
                count = (address + nbytes - arguments) // 8
                words = np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(real))
                words[(words >= OFFSET) & (words < OFFSET + SPAN)] -= OFFSET

    # events

    def record(self, queue: _Queue) -> Event:
        event = Event()
        queue.jobs.put(event)
        return event

    def wait(self, queue: _Queue, event: Event) -> None:
        queue.jobs.put(event.reached.wait)

    def is_reached(self, event: Event) -> bool:
        return event.reached.is_set()

    def synchronise(self, event: Event) -> None:
        event.reached.wait()
        if event.failure is not None:
            raise DeviceError(event.failure)

    def seconds_between(self, start: Event, end: Event) -> float:
        return end.seconds - start.seconds
