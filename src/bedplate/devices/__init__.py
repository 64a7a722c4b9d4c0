"""Devices: where values live, and the back ends that compute them."""

from bedplate.devices.device import Device, available, current_device, default_device
from bedplate.devices.stream import Event, Stream

__all__ = ["Device", "Event", "Stream", "available", "current_device", "default_device"]
