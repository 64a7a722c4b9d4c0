"""The worker threads of the CPU: started when first needed, idle without burning CPU.

The workers are plain native threads (pthread_create) that run `native.worker_main` and never
touch Python. A Python thread that enters native code for good would do as well, but it would
show in `threading.enumerate()`, hold a thread state, and be killed at whatever point it is in
when the interpreter ends; a native one needs none of that:

- exit: an `atexit` hook tells the workers to stop and joins them while everything still
  stands. If a daemon thread is in the middle of a plan just then, they are left alone: they
  only run machine code, which is never unloaded, and the process takes them with it.
- fork: the child has no workers, and starts its own when it first needs them. The parent's
  are stopped before a fork and come back lazily, so that no thread is cut off in mid-flight.
- Ctrl-C: the workers block all signals, so the main thread gets them.

Where there is no futex (not Linux) every plan runs on its caller.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import signal
import threading
import time
from typing import Any

from bedplate.config import config, settings_of
from bedplate.devices.cpu import native
from bedplate.errors import DeviceError
from bedplate.memory import Block, allocate

SPIN_SECONDS = 40e-6  # about what it costs to be put to sleep and woken
_settings = settings_of("threads", "num_threads")


@functools.cache
def cores() -> int:
    """Cores that this process may use: its affinity, and its control group's quota."""
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        with open("/sys/fs/cgroup/cpu.max") as text:
            quota, period = text.read().split()
        count = min(count, max(1, round(int(quota) / int(period))))
    return min(count, native.MAX_WORKERS)


def n_workers() -> int:
    """How many workers a plan may use from here: the caller and the threads that help it."""
    threads, asked = _settings()
    if threads and native.HAS_FUTEX:
        return min(asked, native.MAX_WORKERS) if asked else cores()
    return 1


class Workers:
    """The pool: its shared words, and the threads that wait on them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: list[int] = []
        self._starts: list[Block] = []
        self._block = allocate(native.N_POOL_WORDS * native.LINE_BYTES)
        self._reset()

    @property
    def address(self) -> int:
        """Where the words of the pool are; fixed for the life of the process."""
        return self._block.address

    @property
    def n_threads(self) -> int:
        return len(self._threads)

    def _reset(self) -> None:
        self._words = self._block.array("int64", (native.N_POOL_WORDS, native.LINE_BYTES // 8))
        self._words[:] = 0

    def ensure(self, count: int) -> None:
        """Have at least `count` workers, the caller included."""
        if len(self._threads) >= count - 1:
            return
        with self._lock:
            if not self._threads:
                self._words[native.STOP, 0] = 0
                self._words[native.SPINS, 0] = _spins() if count <= cores() else 1
            for index in range(len(self._threads) + 1, count):
                self._start(index)

    def _start(self, index: int) -> None:
        start = allocate(native.START_WORDS * 8)
        start.array("int64", (native.START_WORDS,))[:] = [self.address, index]
        thread = ctypes.c_uint64()
        # asked first: Ctrl-C may come right after the call that blocks it
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            failed = _libc().pthread_create(
                ctypes.byref(thread), None, kept(native.worker_main).address, start.address
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if failed:
            raise DeviceError(
                f"cpu: worker thread {index} cannot be started: {os.strerror(failed)}\n"
                "  allow more threads (ulimit -u), or set BEDPLATE_NUM_THREADS lower"
            )
        self._starts.append(start)
        self._threads.append(thread.value)

    def stop(self) -> None:
        """Stop and join the workers, unless a plan is running; the next plan starts them again."""
        with self._lock:
            if not self._threads or not _take(self.address):
                return
            try:
                kept(native.tell_to_stop)(self.address)
                while self._threads:  # each is joined once, even if Ctrl-C comes in between
                    _libc().pthread_join(ctypes.c_uint64(self._threads.pop()), None)
                self._starts.clear()
            finally:
                self._words[native.BUSY, 0] = 0

    def after_fork(self) -> None:
        """In the child there are no workers, whatever the words say."""
        self._lock = threading.Lock()
        self._threads.clear()
        self._starts.clear()
        self._reset()


def _take(address: int) -> bool:
    return kept(native.take_pool)(address) == 1


@functools.cache
def _libc() -> Any:
    library = ctypes.CDLL(None)
    library.pthread_create.argtypes = [ctypes.c_void_p] * 4
    library.pthread_join.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
    return library


@functools.cache
def kept(kernel: Any) -> Any:
    """The compiled kernel, which lives as long as the process: a thread may be inside it."""
    with config(check=False):  # the runner reaches memory that only it knows
        compiled = kernel.compile()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(compiled))
    return compiled


@functools.cache
def _spins() -> int:
    """How many pauses make up SPIN_SECONDS on this machine."""
    compiled, turns, best = kept(native.spin), 2000, float("inf")
    for _ in range(5):
        before = time.perf_counter()
        compiled(turns)
        best = min(best, time.perf_counter() - before)
    return max(int(turns * SPIN_SECONDS / best), 1)


workers = Workers()
atexit.register(workers.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=workers.stop, after_in_child=workers.after_fork)
