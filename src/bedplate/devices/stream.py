"""Streams and events: the order in which a device works.

On the CPU and the reference device work is done by the call that asks for it, so a stream is
always idle when the call returns, and an event is reached as soon as it is recorded. The
classes are here so that one script serves every device.
"""

from __future__ import annotations

import time

from bedplate.devices.device import Device, current_device
from bedplate.errors import DeviceError


class Event:
    """A point in a stream's work.

    >>> start, end = Event(), Event()
    >>> stream = Stream("cpu"); stream.record(start); stream.record(end)
    >>> end.is_reached, start.seconds_to(end) >= 0
    (True, True)
    """

    __slots__ = ("_time",)

    def __init__(self) -> None:
        self._time: float | None = None

    @property
    def is_reached(self) -> bool:
        """Whether the work before it is done."""
        return self._time is not None

    def wait(self) -> None:
        """Wait until the work before it is done."""
        if self._time is None:
            raise DeviceError("Event.wait: the event was never recorded; use stream.record(event)")

    def seconds_to(self, later: Event) -> float:
        """The time between two events that were reached.

        raises  DeviceError if one was never recorded
        """
        self.wait()
        later.wait()
        return (later._time or 0.0) - (self._time or 0.0)


class Stream:
    """An ordered sequence of work on one device.

    device  by default that of `default_device`
    """

    __slots__ = ("device",)

    def __init__(self, device: Device | str | None = None) -> None:
        self.device = current_device() if device is None else Device(device)

    def record(self, event: Event) -> None:
        """Put an event behind the work so far."""
        event._time = time.perf_counter()

    def wait(self, event: Event) -> None:
        """Let later work of this stream start after `event`."""
        event.wait()

    def synchronize(self) -> None:
        """Wait until all work of this stream is done."""

    def __repr__(self) -> str:
        return f"Stream({str(self.device)!r})"
