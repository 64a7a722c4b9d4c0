"""The numeric contract holds in every place: on each device, and with fusion on and off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import bedplate as bp
from bedplate.devices.device import BACKENDS

# the reference device computes one operation after the other: there is nothing to fuse
PLACES = [
    (name, fusion) for name in sorted(BACKENDS) for fusion in (True, False)
    if fusion or name != "reference"
]  # fmt: skip


@pytest.fixture(params=PLACES, ids=lambda place: place[0] + ("" if place[1] else "-unfused"))
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A device, with fusion on or off for the test."""
    name, fusion = request.param
    with bp.config(fusion=fusion):
        yield bp.Device(name)
