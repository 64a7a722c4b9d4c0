"""Give nodes their values."""

from __future__ import annotations

from typing import Any

from bedplate.errors import InternalError
from bedplate.graph.node import Node, topological_order


def realise(nodes: list[Node]) -> None:
    """Compute and store the value of each node, by the NumPy references."""
    for node in topological_order(nodes):
        if node.block is None:
            run_reference(node)


def run_reference(node: Node) -> None:
    """Compute one node from its realised inputs."""
    if node.op.reference is None:
        raise InternalError(f"{node.op.name} has no reference")
    arrays: list[Any] = [source.block for source in node.inputs]
    node.realise(node.op.reference(*arrays, **node.attributes))
