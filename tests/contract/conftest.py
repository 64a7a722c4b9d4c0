"""The numeric contract holds on each device, with fusion on and off, and with all switches off."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conftest import SWEEP

import bedplate as bp
from bedplate.devices.registry import BACKENDS, OPTIONAL, backends

PLAIN = {"fusion": False, "folding": False, "cse": False, "algebra": False, "threads": False}
WAYS: dict[str, dict[str, bool]] = {"": {}, "-unfused": {"fusion": False}, "-plain": PLAIN}
# the reference device computes one operation after the other: there is nothing to switch off
PLACES = [
    (name, way) for name in sorted(BACKENDS) for way in WAYS if not way or name != "reference"
]
# devices with a driver, if this machine has one: in `make sweep` with things switched off too
DRIVEN = [name for name in sorted(OPTIONAL) if name in backends() and backends()[name].count()]
ONE_IN = 6
PLACES += [(name, way) for name in DRIVEN for way in WAYS if not way or SWEEP == "full"]


@pytest.fixture(params=PLACES, ids="".join)
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A device, with what makes it fast switched on or off for the test."""
    name, way = request.param
    with bp.config(opencl_options="-cl-opt-disable", **WAYS[way]):
        yield bp.Device(name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`make test` runs one in ONE_IN of the tests on devices with a driver."""
    driven = [item for item in items if _place(item)[0] in DRIVEN]
    for item in driven:
        item.add_marker(pytest.mark.sweep)
    if SWEEP == "quick":
        left = {item for item in driven if zlib.crc32(item.name.encode()) % ONE_IN}
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=list(left))


def _place(item: pytest.Item) -> tuple[str, str]:
    place = item.callspec.params.get("device") if hasattr(item, "callspec") else None
    return place if isinstance(place, tuple) else ("", "")
