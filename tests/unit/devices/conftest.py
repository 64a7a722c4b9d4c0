"""A device for tests: the processor as if it were far away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import bedplate as bp
from bedplate.devices import backends, register
from bedplate.testing import LoopbackBackend


@pytest.fixture
def loopback() -> Iterator[bp.Device]:
    """The device, without faults that another test left behind."""
    if "loopback" not in backends():
        register(LoopbackBackend("loopback"))
    device = bp.Device("loopback")
    bp.devices.reset(device)
    yield device
    bp.devices.reset(device)


@pytest.fixture
def driver(loopback: bp.Device) -> Any:
    """Its driver."""
    runtime: Any = loopback.runtime
    return runtime.driver
