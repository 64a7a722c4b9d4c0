"""Queues of work on a device: what was started, whether it is done, what failed.

A piece of `Work` is what was started together: a plan, a copy. Behind it stands an event. Work is
settled once somebody has waited for it and knows whether it failed: by the driver's word, by the
error record of a plan (an index out of range), or because it read what failed work wrote. A fault
of a queue sticks: whoever waits for the queue, or reads what the failed work or work that depends
on it wrote, gets it again and again, until the queue is reset.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from bedplate.errors import DeviceError

if TYPE_CHECKING:
    from bedplate.devices.runtime import Runtime

# Pieces of work that may be under way on a queue before the host waits for the oldest: enough to
# keep a device busy for milli-seconds, few enough that what they keep alive stays small.
MAX_UNSETTLED = 64
FindFault = Callable[[], Exception | None]


class Work:
    """Something that was started on a queue.

    event       the driver's event behind it
    needs       the work that wrote what this reads, where it may still fail
    kept        host memory that the device reads or writes until the event is reached
    find_fault  looks whether it failed by what it wrote itself, once the event is reached
    what        names it in the words of the user
    may_spoil   it may fail by itself, or what it needs may, while others of its queue are right
    fault       why it failed, once it is settled
    """

    __slots__ = (
        "event", "fault", "find_fault", "is_settled", "kept", "may_spoil", "needs", "queue", "what"
    )  # fmt: skip

    def __init__(
        self,
        queue: Queue,
        event: Any,
        needs: tuple[Work, ...] = (),
        kept: tuple[Any, ...] = (),
        find_fault: FindFault | None = None,
        what: Callable[[], str] | None = None,
    ) -> None:
        self.queue = queue
        self.event = event
        self.needs = needs
        self.kept = kept
        self.find_fault = find_fault
        self.what = what
        self.fault: Exception | None = None
        self.is_settled = False
        self.may_spoil = find_fault is not None or any(need.may_spoil for need in needs)

    def is_reached(self) -> bool:
        """Whether it is done, well or badly."""
        return self.is_settled or self.queue.runtime.driver.is_reached(self.event)

    def wait(self) -> None:
        """Return when it is done.

        raises  DeviceError or IndexError if it failed, or what it read was never right
        """
        if not self.is_settled:
            self.queue.settle(self)
        if self.fault is not None:
            raise_again(self.fault)

    def settle_alone(self) -> None:
        """Wait for it and note how it ended; all before it on its queue is settled.

        Several threads may do so at once: what they find is the same, and the first one's holds.
        """
        needs, find_fault, what = self.needs, self.find_fault, self.what  # they go at the end
        if self.is_settled:
            return
        fault: Exception | None = None
        try:
            self.queue.runtime.driver.synchronise(self.event)
        except DeviceError as error:
            fault = self.queue.broken or self._in_words(error, what)
            self.queue.broken = fault
        for need in needs:
            if not need.is_settled:
                need.queue.settle(need)
            fault = fault or need.fault
        if fault is None and find_fault is not None:
            fault = find_fault()
        if self.is_settled:
            return
        self.fault = fault
        if fault is not None and self.queue.fault is None:
            self.queue.fault = fault
        self.is_settled = True
        self.needs = self.kept = ()
        self.find_fault = self.what = None

    def _in_words(self, error: DeviceError, what: Callable[[], str] | None) -> DeviceError:
        place = f"\n  in {what()}" if what is not None else ""
        return DeviceError(f"{self.queue.runtime.device}: {error}{place}")


class Queue:
    """A queue of the driver's, with the work on it that nobody has waited for yet.

    fault   the first failure since it was made or reset; it sticks
    broken  the failure that the driver told of: what comes behind it failed with it
    last    the newest work, or None if it is settled
    """

    __slots__ = (
        "__weakref__", "_lock", "broken", "fault", "handle", "last", "number", "runtime",
        "unsettled",
    )  # fmt: skip

    def __init__(self, runtime: Runtime, number: int) -> None:
        self.runtime = runtime
        self.number = number
        self.handle = runtime.driver.make_queue()
        self.unsettled: deque[Work] = deque()
        self.fault: Exception | None = None
        self.broken: Exception | None = None
        self.last: Work | None = None
        self._lock = threading.RLock()  # a handler of a signal may start work too

    def started(
        self,
        needs: tuple[Work, ...] = (),
        kept: tuple[Any, ...] = (),
        find_fault: FindFault | None = None,
        what: Callable[[], str] | None = None,
    ) -> Work:
        """The work that consists of all that was started since the last; waits if much is open."""
        with self._lock:  # `last` has the last event, whichever thread starts work here
            event = self.runtime.driver.record(self.handle)
            work = Work(self, event, needs, kept, find_fault, what)
            self.unsettled.append(work)
            self.last = work
            self.runtime.open_queues[self.number] = self
        self.settle_done()
        return work

    def mark(self) -> Work:
        """Work that does nothing: it fails if anything before it did."""
        return self.started(find_fault=lambda: self.fault)

    def settle_done(self) -> None:
        """Settle what is done, and wait where too much is open."""
        unsettled, driver = self.unsettled, self.runtime.driver
        while unsettled:
            first = self._first()
            if first is None:
                return
            if len(unsettled) <= MAX_UNSETTLED and not driver.is_reached(first.event):
                return
            first.settle_alone()
            self._drop(first)

    @staticmethod
    def settle(work: Work) -> None:
        """Settle the work of its queue up to `work`, in order, and before each what it needs.

        Values may wander through any number of queues: what is needed waits in a list, since
        calls in calls would meet Python's limit.
        """
        waiting = [work]
        while waiting:
            last = waiting[-1]
            if last.is_settled:
                waiting.pop()
                continue
            # without a first another thread is just settling it, or the queue was reset
            first = last.queue._first() or last
            needs = [need for need in first.needs if not need.is_settled]
            waiting += needs
            if not needs:
                first.settle_alone()
                first.queue._drop(first)

    def _first(self) -> Work | None:
        try:
            return self.unsettled[0]
        except IndexError:
            return None

    def _drop(self, work: Work) -> None:
        with self._lock:
            if self.unsettled and self.unsettled[0] is work:
                self.unsettled.popleft()
            if self.last is work:
                self.last = None
            self._close()

    def _close(self) -> None:
        """Leave the list of open queues if there is nothing left to be told; the lock is held."""
        if not self.unsettled and self.fault is None:
            self.runtime.open_queues.pop(self.number, None)

    def settle_all(self) -> None:
        """Wait for all work, whatever becomes of it."""
        last = self.last
        if last is not None:
            self.settle(last)

    def synchronise(self) -> None:
        """Wait for all work.

        raises  the fault of the queue, if it has one
        """
        self.settle_all()
        if self.fault is not None:
            raise_again(self.fault)

    def after_fork(self) -> None:
        """Another thread may have held the lock when the process forked."""
        self._lock = threading.RLock()

    def reset(self) -> None:
        """Forget the fault: a new queue of the driver takes the place of the old one."""
        self.settle_all()
        self.handle = self.runtime.driver.make_queue()
        with self._lock:
            self.fault = self.broken = None
            self._close()


def raise_again(fault: Exception) -> NoReturn:
    """Raise a fault that was raised before, without the tracebacks of earlier times."""
    raise type(fault)(*fault.args) from None
