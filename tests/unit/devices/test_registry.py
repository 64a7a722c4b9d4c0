"""Back ends by entry point: found at first use, a broken one is told of and harms no other."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest

import bedplate as bp
from bedplate.cli.doctor import devices as shown_devices
from bedplate.devices import registry
from bedplate.errors import DeviceError
from bedplate.testing import LoopbackBackend


class Point:
    """An entry point."""

    def __init__(self, name: str, found: Any) -> None:
        self.name = name
        self.value = f"package.{name}:BACKEND"
        self._found = found

    def load(self) -> Any:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A registry of its own that finds these entry points; gives how often they were read."""
    reads: list[str] = []

    def offer(*points: Point) -> list[str]:
        def entry_points(group: str) -> list[Point]:
            reads.append(group)
            return list(points)

        monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
        monkeypatch.setattr(registry, "_registry", registry._Registry())
        monkeypatch.setattr(registry, "OPTIONAL", {})
        monkeypatch.setattr(bp.Device, "_made", dict(bp.Device._made))
        return reads

    return offer


def test_an_entry_point_is_read_once_and_used_by_name(offered: Any) -> None:
    reads = offered(Point("far", LoopbackBackend("far", devices=2)))
    assert bp.Device("cpu").name == "cpu"
    assert reads == []
    device = bp.Device("far:1")
    assert (device.name, device.index, str(device)) == ("far", 1, "far:1")
    assert device is bp.Device("far:1")
    assert bp.tensor([1.0, 2.0], device=device).tolist() == [1.0, 2.0]
    assert bp.available() == "'cpu', 'reference', 'far', 'far:1'"
    with pytest.raises(DeviceError, match="'far:2' is absent, this machine has 2 of 'far'"):
        bp.Device("far:2")
    assert reads == ["bedplate.backends"]


def test_a_broken_one_is_told_of_and_harms_no_other(offered: Any) -> None:
    offered(
        Point("broken", ImportError("no libtoy.so")),
        Point("empty", object()),
        Point("cpu", LoopbackBackend("cpu")),
        Point("far", LoopbackBackend("far")),
        Point("other", LoopbackBackend("another")),
    )
    with pytest.raises(DeviceError, match=r"'broken' cannot be loaded: package.broken:BACKEND: Im"):
        bp.Device("broken")
    assert bp.Device("far").name == "far"
    assert set(bp.devices.broken()) == {"broken", "empty", "other", "cpu of package.cpu:BACKEND"}
    assert ("broken", "cannot be loaded: package.broken:BACKEND: ImportError: no libtoy.so") in (
        shown_devices()
    )
    with pytest.raises(DeviceError, match=r"'other' cannot be loaded: .* 'another' is offered as"):
        bp.Device("other")


def test_what_is_registered_is_a_back_end(offered: Any) -> None:
    offered()
    backend = LoopbackBackend("mine")
    bp.devices.register(backend)
    bp.devices.register(backend)  # the same again is no second one
    for other, text in (
        (LoopbackBackend("mine"), "there is a back end 'mine' already"),
        (LoopbackBackend("cpu"), "there is a back end 'cpu' already"),
        (LoopbackBackend("a b"), "'a b' is no name of a back end"),
        (object(), "None is no name of a back end"),
    ):
        with pytest.raises(DeviceError, match=text):
            bp.devices.register(other)  # type: ignore[arg-type]


def test_a_device_that_does_not_open_says_why(offered: Any) -> None:
    backend: Any = LoopbackBackend("closed")
    backend.open = lambda index: (_ for _ in ()).throw(OSError("busy"))
    offered(Point("closed", backend))
    for _ in range(2):
        with pytest.raises(DeviceError, match="'closed:0' cannot be opened: OSError: busy"):
            bp.Device("closed")
    backend.devices = 0
    with pytest.raises(DeviceError, match="'closed' has no device on this machine; there is"):
        bp.Device("closed:1")
    assert bp.available() == "'cpu', 'reference'"
