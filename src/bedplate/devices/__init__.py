"""Devices: where values live, and the back ends that compute them."""

from bedplate.devices.device import Device, current_device, default_device
from bedplate.devices.registry import available, backends, broken, register
from bedplate.devices.stream import Event, Stream, current_stream, reset

__all__ = [
    "Device",
    "Event",
    "Stream",
    "available",
    "backends",
    "broken",
    "current_device",
    "current_stream",
    "default_device",
    "register",
    "reset",
]
