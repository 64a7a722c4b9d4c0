"""Give nodes their values."""

from __future__ import annotations

from bedplate.devices import reference
from bedplate.graph.node import Node, topological_order


def realise(nodes: list[Node]) -> None:
    """Compute and store the value of each node, by the NumPy references."""
    for node in topological_order(nodes):
        if node.block is None:
            reference.run(node)
