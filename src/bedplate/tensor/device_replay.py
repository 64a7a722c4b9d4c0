"""DeviceReplay: a captured step on a device with memory of its own.

A call starts the plan on today's blocks and binds the results, without waiting for them; nothing
is written where it lies, since the device may still read it.
"""

from __future__ import annotations

from typing import Any

from bedplate.compiler.capture import CapturedDevicePlan
from bedplate.compiler.plan import FIRST_INPUT
from bedplate.graph.node import Node
from bedplate.tensor.replay import Replay
from bedplate.tensor.tensor import Tensor


class DeviceReplay(Replay):
    """See `Replay`."""

    def _planned(self, roots: list[Node], donate: list[tuple[int, Node]]) -> Any:
        captured = CapturedDevicePlan(roots, roots[0].device)
        self._n_inputs = len(captured.inputs)
        return captured

    def run(self, arguments: list[Tensor]) -> Any:
        """Start it on these arguments; binds states and gradients, gives the result."""
        blocks = self._inputs(arguments)
        constants = self.constants
        given = [
            blocks[slot] if slot in blocks else constants[slot]
            for slot in range(FIRST_INPUT, FIRST_INPUT + self._n_inputs)
        ]
        return self._bind(None, self.captured.start(given), blocks, arguments)
