"""What drives a device that has memory of its own: its driver, queues, memory and kernels.

There is one `Runtime` a device and process. Each thread has a queue of its own on it, which is
made when the thread first needs one; copies between host and device have two more, so that they
run beside the work of the others.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bedplate.devices.pool import Pool
from bedplate.devices.queue import Queue
from bedplate.errors import DeviceError, KernelError

if TYPE_CHECKING:
    from bedplate.devices.backend import Backend, Driver
    from bedplate.devices.device import Device

_NO_SYMBOL = re.compile(r"\W")


class _Here(threading.local):
    """The calling thread's queue on each device, and what it was before each `with stream:`."""

    def __init__(self) -> None:
        self.queues: dict[int, Queue] = {}
        self.entered: list[tuple[int, Queue]] = []


_here = _Here()


class Runtime:
    """A device that was opened.

    uploads      the queue of copies from the host
    downloads    the queue of copies to the host
    open_queues  by number, those with work that is not settled or a fault: they outlive their
                 thread or stream, because the device still uses memory that they keep, and a fault
                 is told until it is forgotten
    """

    def __init__(self, device: Device, driver: Driver) -> None:
        self.device = device
        self.driver = driver
        self.pool = Pool(self)
        self._lock = threading.RLock()
        self._all: weakref.WeakSet[Queue] = weakref.WeakSet()
        self._made = 0
        self.open_queues: dict[int, Queue] = {}
        self._executables: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self.uploads = self.new_queue()
        self.downloads = self.new_queue()

    def new_queue(self) -> Queue:
        """Another queue; those that nobody has any more and that are done are let go."""
        for queue in list(self.open_queues.values()):
            queue.settle_done()
        with self._lock:
            self._made += 1
            queue = Queue(self, self._made)
            self._all.add(queue)
        return queue

    @property
    def queue(self) -> Queue:
        """The queue on which the calling thread's work is started."""
        key = id(self)
        found = _here.queues.get(key)
        if found is None:
            found = _here.queues[key] = self.new_queue()
        return found

    def enter(self, queue: Queue) -> None:
        """Start the calling thread's work on `queue` until it leaves."""
        _here.entered.append((id(self), self.queue))
        _here.queues[id(self)] = queue

    @staticmethod
    def leave() -> None:
        """Go on with the queue that the thread used before it entered this one.

        raises  DeviceError if the thread entered none
        """
        if not _here.entered:
            raise DeviceError(
                "Stream: this thread entered none\n  use `with stream:`, which leaves it where it "
                "was entered"
            )
        key, before = _here.entered.pop()
        _here.queues[key] = before

    @contextmanager
    def starting(self, queue: Queue, *kept: Any) -> Iterator[None]:
        """Start work that uses memory of the host: if that is cut short it is waited for.

        kept  what stays alive meanwhile
        """
        try:
            yield
        except BaseException:
            queue.started(kept=kept)
            queue.settle_all()
            raise

    def queues(self) -> list[Queue]:
        """All queues that are still there."""
        with self._lock:
            return sorted(self._all, key=lambda queue: queue.number)

    def settle_all(self) -> None:
        """Wait for all work on the device, whatever becomes of it."""
        for queue in self.queues():
            queue.settle_all()

    def synchronise(self) -> None:
        """Wait for all work on the device.

        raises  the first fault that was not forgotten by a reset
        """
        self.settle_all()
        for queue in self.queues():
            queue.synchronise()

    def reset(self) -> None:
        """Forget the faults of all queues."""
        for queue in self.queues():
            queue.reset()

    def after_fork(self) -> None:
        """Other threads may have held locks when the process forked."""
        self._lock = threading.RLock()
        self.pool.after_fork()
        for queue in list(self._all):
            queue.after_fork()

    def executables(
        self, kernels: Sequence[Any], place: Callable[[Any], str] = lambda kernel: ""
    ) -> list[Any]:
        """What the driver launches for each kernel, made at its first use and kept.

        place   names the user's operation and line for which a kernel is made
        raises  DeviceError for what the device cannot do
        """
        with self._lock:
            missing = [k for k in dict.fromkeys(kernels) if k not in self._executables]
            many = getattr(self.driver, "compile_many", None)
            if many is not None and len(missing) > 1:
                made = many([(kernel.ir, _symbol(kernel)) for kernel in missing])
                self._executables.update(zip(missing, made, strict=True))
            else:
                for kernel in missing:
                    self._executables[kernel] = self._compiled(kernel, place)
            return [self._executables[kernel] for kernel in kernels]

    def _compiled(self, kernel: Any, place: Callable[[Any], str]) -> Any:
        try:
            return self.driver.compile(kernel.ir, _symbol(kernel))
        except (DeviceError, KernelError) as error:
            raise DeviceError(
                f"{self.device}: kernel {kernel.name} cannot be made: {error}{place(kernel)}"
            ) from None


def _symbol(kernel: Any) -> str:
    return _NO_SYMBOL.sub("_", kernel.name)


_runtimes: list[Runtime] = []


def open_runtime(device: Device, backend: Backend) -> Runtime:
    """Open a device.

    raises  DeviceError that says what the driver said
    """
    try:
        driver = backend.open(device.index)
        runtime = Runtime(device, driver)
    except DeviceError:
        raise
    except Exception as error:
        raise DeviceError(
            f"Device: '{device.name}:{device.index}' cannot be opened: "
            f"{type(error).__name__}: {error}"
        ) from error
    _runtimes.append(runtime)
    return runtime


class _LeftBehind:
    """The driver in a child of fork: drivers keep threads and handles that a child has not."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        raise DeviceError(
            f"{self._device}: it was opened before this process was forked, and is not there in "
            "the child\n  start processes by spawn, or use the device in one process only"
        )


def _after_fork() -> None:
    for runtime in _runtimes:
        runtime.driver = _LeftBehind(runtime.device)  # type: ignore[assignment]
        runtime.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def runtimes() -> list[Runtime]:
    """The devices that were opened."""
    return list(_runtimes)
