"""Moving a value to another device, as the tape sees it."""

from __future__ import annotations

from typing import Any

from bedplate.devices.device import Device


class Transfer:
    """One move from the device `source`; its gradient moves back.

    source  where the value came from
    """

    __slots__ = ("source",)
    name = "to"

    def __init__(self, source: Device) -> None:
        self.source = source

    def input_gradients(self, grad: Any, sources: tuple[Any, ...]) -> tuple[Any]:
        """The gradient, on the device that the value came from."""
        return (grad.to(self.source),)
