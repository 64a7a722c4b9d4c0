"""Machine code of several kernels, made side by side on all cores.

LLVM works on several modules at once if each has a context and a code generator of its own.
llvmlite lets one thread at a time into the library, which does not matter for the short calls;
the code generator, which takes most of the time, is called around that lock. The objects are the
same whoever makes them. `python -m benchmarks.first_steps` measures it, with `--threads 1` one by
one.
"""

from __future__ import annotations

import ctypes
import functools
import os
import queue
import threading
import time
from typing import Any

from bedplate.config import config
from bedplate.kernel import codegen
from bedplate.kernel.llvm import binding
from bedplate.kernel.target import Target

Made = tuple[bytes, int, int]  # the object, and when it was begun and ready, in ns
IDLE_SECONDS = 10.0  # after which a thread ends unasked: Ctrl-C may have kept its end from it


class SideBySide:
    """Makes objects on threads while the caller goes on; used under `codegen.lock`."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.made: dict[str, Made] = {}
        self._asked: set[str] = set()
        self._most = n_threads()
        self._threads: list[threading.Thread] = []
        self._jobs: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()

    def add(self, key: str, text: str) -> None:
        """Begin to make the object of an LLVM text; `key` names it."""
        if key in self._asked or self._most < 2:
            return
        self._asked.add(key)
        self._jobs.put((key, text))
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name="bedplate-compile")
            self._threads.append(thread)  # first: Ctrl-C may come once it runs
            try:
                thread.start()
            except RuntimeError:  # no more threads: what is not made here is made by who needs it
                self._threads.remove(thread)
                self._most = len(self._threads)

    def close(self) -> dict[str, Made]:
        """Wait for all; the objects by key. What failed is not there: it fails for who asks."""
        self._jobs.put(None)
        for thread in self._threads:
            if thread.is_alive():  # Ctrl-C may have come before it was started
                thread.join()
        return self.made

    def _work(self) -> None:
        machine = codegen.new_machine(self.target)
        while (job := self._next()) is not None:
            key, text = job
            begin = time.perf_counter_ns()
            try:
                module = codegen.optimise(text, machine, binding().create_context())
                image = _emit(machine, module)
            except Exception:  # made again, in its turn, by who needs it, and told there
                continue
            self.made[key] = image, begin, time.perf_counter_ns()

    def _next(self) -> tuple[str, str] | None:
        """The next job; None at the end, which is left there for the other threads."""
        try:
            job = self._jobs.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            return None
        if job is None:
            self._jobs.put(None)
        return job


def n_threads() -> int:
    """How many kernels are compiled at once: one a core, as many as the settings allow."""
    if not config.threads or not can_go_around():
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(cores or 1, config.num_threads or cores or 1)


def _emit(machine: Any, module: Any) -> bytes:
    """machine.emit_object(module), without llvmlite's lock."""
    ffi = binding().ffi
    with ffi.OutputString() as error:
        memory = _code_generator()(machine, module, 1, error)
        if not memory:
            raise RuntimeError(str(error))
    try:
        start = ffi.lib.LLVMPY_GetBufferStart(memory)
        return ctypes.string_at(start, ffi.lib.LLVMPY_GetBufferSize(memory))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)


@functools.cache
def _code_generator() -> Any:
    lib = binding().ffi.lib
    function = ctypes.CDLL(lib._name).LLVMPY_TargetMachineEmitToMemory
    function.argtypes = lib.LLVMPY_TargetMachineEmitToMemory.argtypes
    function.restype = lib.LLVMPY_TargetMachineEmitToMemory.restype
    return function


@functools.cache
def can_go_around() -> bool:
    """Whether this llvmlite has the function where it is looked for."""
    try:
        return _code_generator() is not None
    except (AttributeError, OSError):
        return False
