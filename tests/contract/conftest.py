"""The numeric contract holds on each device, with fusion on and off, and with all switches off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import bedplate as bp
from bedplate.devices.registry import BACKENDS

PLAIN = {"fusion": False, "folding": False, "cse": False, "algebra": False, "threads": False}
WAYS: dict[str, dict[str, bool]] = {"": {}, "-unfused": {"fusion": False}, "-plain": PLAIN}
# the reference device computes one operation after the other: there is nothing to switch off
PLACES = [
    (name, way) for name in sorted(BACKENDS) for way in WAYS if not way or name != "reference"
]


@pytest.fixture(params=PLACES, ids="".join)
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A device, with what makes it fast switched on or off for the test."""
    name, way = request.param
    with bp.config(**WAYS[way]):
        yield bp.Device(name)
