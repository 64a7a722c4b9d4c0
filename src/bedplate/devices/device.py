"""Device: where a value lives and which back end computes it.

There is one object a name and index, so that devices compare by identity:

>>> Device("cpu") is Device("cpu:0")
True
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bedplate.errors import DeviceError

KNOWN = ("cpu", "reference", "cuda", "opencl")


@dataclass(frozen=True)
class Backend:
    """What a kind of device offers.

    name         the first part of a device's name
    count        () -> how many such devices this machine has
    description  one line for people
    """

    name: str
    count: Callable[[], int]
    description: str


BACKENDS: dict[str, Backend] = {
    "cpu": Backend("cpu", lambda: 1, "SIMD kernels on all cores"),
    "reference": Backend("reference", lambda: 1, "the NumPy reference of each operation"),
}


class Device:
    """A device by name, such as "cpu", "cpu:0" or "reference".

    raises  DeviceError for an unknown or absent device; it says what there is
    >>> Device("cpu"), Device("cpu") == Device("cpu:0"), Device("reference").index
    (Device('cpu'), True, 0)
    """

    __slots__ = ("_hash", "index", "name")
    _made: dict[tuple[str, int], Device] = {}
    name: str
    index: int
    _hash: int

    def __new__(cls, name: str | Device = "cpu") -> Device:
        if isinstance(name, Device):
            return name
        key = _parse(name)
        found = cls._made.get(key)
        if found is None:
            _check_present(*key)
            found = super().__new__(cls)
            found.name, found.index = key
            found._hash = hash(key)
            found = cls._made.setdefault(key, found)
        return found

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


def _parse(text: Any) -> tuple[str, int]:
    if not isinstance(text, str):
        raise DeviceError(
            f"Device: expected a name such as 'cpu' or 'cpu:0', got {text!r} "
            f"({type(text).__name__}); there is {available()}"
        )
    name, colon, index = text.partition(":")
    if colon and not (index.isascii() and index.isdigit()):
        raise DeviceError(f"Device: {text!r} is not NAME or NAME:INDEX; there is {available()}")
    return name, int(index or 0)


def _check_present(name: str, index: int) -> None:
    backend = BACKENDS.get(name)
    if backend is None:
        fault = "has no back end installed here" if name in KNOWN else "is unknown"
        raise DeviceError(f"Device: {name!r} {fault}; there is {available()}")
    if index >= backend.count():
        raise DeviceError(
            f"Device: '{name}:{index}' is absent, this machine has {backend.count()} of {name!r}; "
            f"there is {available()}"
        )


def available() -> str:
    """The devices of this machine, as text.

    >>> available()
    "'cpu', 'reference'"
    """
    names = [
        repr(name if index == 0 else f"{name}:{index}")
        for name, backend in BACKENDS.items()
        for index in range(backend.count())
    ]
    return ", ".join(names)


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
