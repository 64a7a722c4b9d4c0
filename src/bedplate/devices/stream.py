"""Streams and events: the order in which a device works.

Work is started on the stream of the calling thread, which it has on each device without asking, or
on the one that `with stream:` names. A stream works in order; streams do not wait for each other
unless `wait` says so, but for values: whatever reads a value starts after it is there.

On the CPU and the reference device work is done by the call that asks for it, so a stream is
always idle when the call returns, and an event is reached as soon as it is recorded. One script
serves every device.

What fails on a stream is told to whoever waits for it, or reads a value that depends on it, each
time, until the stream is reset.
"""

from __future__ import annotations

import time
from typing import Any

from bedplate.devices.device import Device, current_device
from bedplate.errors import DeviceError
from bedplate.later import deferred
from bedplate.owners import Owner

runtimes = deferred("bedplate.devices.runtime", "runtimes")


class Event(Owner):
    """A point in a stream's work.

    >>> start, end = Event(), Event()
    >>> stream = Stream("cpu"); stream.record(start); stream.record(end)
    >>> end.is_reached, start.seconds_to(end) >= 0
    (True, True)
    """

    # the work behind which it stands; on a device of the host the time at which it was recorded
    __slots__ = ("_time", "_work")

    def __init__(self) -> None:
        self._time: float | None = None
        self._work: Any = None

    @property
    def is_reached(self) -> bool:
        """Whether the work before it is done, well or badly."""
        return self._time is not None or (self._work is not None and self._work.is_reached())

    def wait(self) -> None:
        """Wait until the work before it is done.

        raises  DeviceError if the event was never recorded; what made that work fail
        """
        if self._work is not None:
            self._work.wait()
        elif self._time is None:
            raise DeviceError("Event.wait: the event was never recorded; use stream.record(event)")

    def seconds_to(self, later: Event) -> float:
        """The time between two events that were reached; waits for them.

        raises  DeviceError if one was never recorded, or they are of different devices
        """
        _require_event("seconds_to", later)
        self.wait()
        later.wait()
        start, end = self._work, later._work
        if start is None and end is None:
            return (later._time or 0.0) - (self._time or 0.0)
        if start is None or end is None or start.queue.runtime is not end.queue.runtime:
            raise DeviceError("Event.seconds_to: the events are of different devices")
        return start.queue.runtime.driver.seconds_between(start.event, end.event)


class Stream(Owner):
    """An ordered sequence of work on one device.

    device  by default that of `default_device`
    >>> import bedplate as bp
    >>> with Stream("cpu") as stream:
    ...     y = (bp.ones(3) + 1).realise()
    >>> stream.synchronize()
    """

    __slots__ = ("_queue", "device")

    def __init__(self, device: Device | str | None = None) -> None:
        self.device = current_device() if device is None else Device(device)
        runtime = self.device.runtime
        self._queue = None if runtime is None else runtime.new_queue()

    def __enter__(self) -> Stream:
        if self._queue is not None:
            self._queue.runtime.enter(self._queue)
        return self

    def __exit__(self, *_: object) -> None:
        if self._queue is not None:
            self._queue.runtime.leave()

    def record(self, event: Event) -> None:
        """Put an event behind the work so far.

        raises  TypeError for what is no event
        """
        _require_event("record", event)
        if self._queue is None:
            event._time, event._work = time.perf_counter(), None
        else:
            event._time, event._work = None, self._queue.mark()

    def wait(self, event: Event) -> None:
        """Let later work of this stream start after `event`; of another device: wait for it here.

        raises  DeviceError if the event was never recorded; TypeError for what is no event
        """
        _require_event("wait", event)
        work, queue = event._work, self._queue
        if work is None or queue is None or work.queue.runtime is not queue.runtime:
            event.wait()
        elif not work.is_settled:
            queue.runtime.driver.wait(queue.handle, work.event)

    def synchronize(self) -> None:
        """Wait until all work of this stream is done.

        raises  what made work of it fail, each time until `reset`
        """
        if self._queue is not None:
            self._queue.synchronise()

    def reset(self) -> None:
        """Forget what failed. Values that depend on failed work stay without value."""
        if self._queue is not None:
            self._queue.reset()

    def __repr__(self) -> str:
        return f"Stream({str(self.device)!r})"


def _require_event(where: str, event: Any) -> None:
    if not isinstance(event, Event):
        raise TypeError(f"{where}: expected an Event, got {type(event).__name__}")


def current_stream(device: Device | str | None = None) -> Stream:
    """The stream on which the calling thread's work on a device is started.

    device  by default that of `default_device`
    >>> current_stream("cpu").device
    Device('cpu')
    """
    place = current_device() if device is None else Device(device)
    stream = Stream.__new__(Stream)
    stream.device = place
    stream._queue = None if place.runtime is None else place.runtime.queue
    return stream


def synchronize_devices(device: Device | None = None) -> None:
    """Wait for all work on a device, or on all.

    raises  what made some of it fail, each time until its stream is reset
    """
    if device is not None:
        if device.runtime is not None:
            device.runtime.synchronise()
        return
    for runtime in runtimes():
        runtime.synchronise()


def reset(device: Device | str) -> None:
    """Forget what failed on any stream of a device.

    >>> reset("cpu")
    """
    runtime = Device(device).runtime
    if runtime is not None:
        runtime.reset()
