"""Device: where a value lives and which back end computes it.

There is one object a name and index, so that devices compare by identity:

>>> Device("cpu") is Device("cpu:0")
True
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bedplate.devices.registry import BACKENDS, available, check_present
from bedplate.errors import DeviceError
from bedplate.forks import renewed
from bedplate.later import deferred

if TYPE_CHECKING:
    from bedplate.devices.runtime import Runtime

open_runtime = deferred("bedplate.devices.runtime", "open_runtime")


class Device:
    """A device by name, such as "cpu", "cpu:0" or "reference".

    raises  DeviceError for an unknown or absent device; it says what there is
    >>> Device("cpu"), Device("cpu") == Device("cpu:0"), Device("reference").index
    (Device('cpu'), True, 0)
    """

    # is_native   plans run on it as machine code of this process
    # is_planned  graphs are compiled for it; if not, each op runs by its NumPy reference
    # runtime     what drives a device with memory of its own; None: values lie in the host's
    __slots__ = ("_hash", "index", "is_native", "is_planned", "name", "runtime")
    _made: dict[tuple[str, int], Device] = {}
    _making = renewed(threading.RLock())
    name: str
    index: int
    is_native: bool
    is_planned: bool
    runtime: Runtime | None
    _hash: int

    def __new__(cls, name: str | Device = "cpu") -> Device:
        if isinstance(name, Device):
            return name
        key = _parse(name)
        found = cls._made.get(key)
        if found is None:
            with cls._making:  # a device is opened once
                found = cls._made.get(key) or cls._make(key)
        return found

    @classmethod
    def _make(cls, key: tuple[str, int]) -> Device:
        backend = check_present(*key)
        made = super().__new__(cls)
        made.name, made.index = key
        made._hash = hash(key)
        if key[0] in BACKENDS:
            made.runtime = None
            made.is_native = made.is_planned = backend.is_native
        else:
            made.runtime = runtime = open_runtime(made, backend)
            made.is_native, made.is_planned = False, runtime.driver.target is not None
        cls._made[key] = made
        return made

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Device):
            return self is other or (self.name == other.name and self.index == other.index)
        return NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"

    def __str__(self) -> str:
        return self.name if self.index == 0 else f"{self.name}:{self.index}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (str(self),)


MOST_DIGITS = 18  # of an index: Python reads no number of thousands of digits


def _parse(text: Any) -> tuple[str, int]:
    if not isinstance(text, str):
        raise DeviceError(
            f"Device: expected a name such as 'cpu' or 'cpu:0', got {text!r} "
            f"({type(text).__name__}); there is {available()}"
        )
    name, colon, index = text.partition(":")
    if colon and not (index.isascii() and index.isdigit() and len(index) <= MOST_DIGITS):
        raise DeviceError(f"Device: {text!r} is not NAME or NAME:INDEX; there is {available()}")
    return name, int(index or 0)


class _Default(threading.local):
    """The device of new tensors, one a thread."""

    device = Device("cpu")


_default = _Default()


def current_device() -> Device:
    """The device on which this thread makes new tensors."""
    return _default.device


@contextmanager
def default_device(device: Device | str) -> Iterator[Device]:
    """Make new tensors on `device` inside the block, in this thread.

    >>> with default_device("reference") as device:
    ...     current_device() is device
    True
    """
    before = _default.device
    _default.device = Device(device)
    try:
        yield _default.device
    finally:
        _default.device = before
