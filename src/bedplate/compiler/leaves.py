"""The compiler's own leaf: a number that is known only when the plan runs."""

from __future__ import annotations

from typing import Any

from bedplate.graph.node import Node
from bedplate.ops.record import Op

SCALAR = Op(
    "scalar",
    "leaf",
    lambda inputs, attributes: ((), attributes["dtype"]),
    doc="Number `index` among those that change from run to run.",
)


def scalar(index: int, dtype: Any, device: Any) -> Node:
    """The node of run-time number `index`."""
    return Node(SCALAR, (), {"index": index, "dtype": dtype}, (), dtype, device)
