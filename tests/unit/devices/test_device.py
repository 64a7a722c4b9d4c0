"""Devices by name: equal, hashed, refused with what there is; streams and events."""

from __future__ import annotations

import copy
import threading

import pytest

import bedplate as bp
from bedplate.devices import current_device, registry


def test_equal_by_name_and_index() -> None:
    assert bp.Device("cpu") == bp.Device("cpu:0")
    assert bp.Device("cpu") is bp.Device(bp.Device("cpu"))
    assert bp.Device("cpu") != bp.Device("reference")
    assert len({bp.Device("cpu"), bp.Device("cpu:0"), bp.Device("reference")}) == 2
    assert (bp.Device("cpu").name, bp.Device("cpu:0").index) == ("cpu", 0)
    assert copy.deepcopy(bp.Device("cpu")) is bp.Device("cpu")
    assert bp.Device("cpu") != "cpu"


def test_text() -> None:
    assert (repr(bp.Device("cpu:0")), str(bp.Device("reference"))) == ("Device('cpu')", "reference")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere", "'nowhere' is unknown; there is 'cpu', 'reference'"),
        (
            "absent",
            r"'absent' has no back end installed here; pip install 'bedplate\[extra\]'; there is",
        ),
        ("cpu:1", "'cpu:1' is absent, this machine has 1 of 'cpu'"),
        ("cpu:", "is not NAME or NAME:INDEX"),
        ("cpu:x", "is not NAME or NAME:INDEX"),
        ("cpu:-1", "is not NAME or NAME:INDEX"),
        ("", "'' is unknown"),
        (0, r"expected a name such as 'cpu' or 'cpu:0', got 0 \(int\)"),
    ],
)
def test_refused_with_what_there_is(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.OPTIONAL, "absent", ("bedplate.devices.absent", "extra"))
    with pytest.raises(bp.errors.DeviceError, match=text):
        bp.Device(name)


def test_default_device_is_of_this_thread() -> None:
    seen = []
    with bp.default_device("reference") as device:
        assert current_device() is device
        thread = threading.Thread(target=lambda: seen.append(current_device()))
        thread.start()
        thread.join()
    assert seen == [bp.Device("cpu")]
    assert current_device() is bp.Device("cpu")
    with pytest.raises(ZeroDivisionError), bp.default_device("reference"):
        _ = 1 / 0
    assert current_device() is bp.Device("cpu")


def test_devices_do_not_mix() -> None:
    with pytest.raises(bp.errors.DeviceError, match=r"different devices(.|\n)*\.to\(device\)"):
        bp.ones(2) + bp.ones(2, device="reference")


def test_streams_and_events() -> None:
    stream = bp.Stream()
    assert stream.device == bp.Device("cpu")
    start, end = bp.Event(), bp.Event()
    assert not start.is_reached
    with pytest.raises(bp.errors.DeviceError, match="never recorded"):
        start.wait()
    stream.record(start)
    stream.record(end)
    stream.wait(end)
    stream.synchronize()
    assert end.is_reached
    assert start.seconds_to(end) >= 0
