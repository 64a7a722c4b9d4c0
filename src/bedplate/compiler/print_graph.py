"""The text of a graph: a numbered line a node, inputs first; equal graphs give equal texts."""

from __future__ import annotations

from collections.abc import Sequence

from bedplate.graph.node import Node, topological_order


def graph_text(roots: Sequence[Node]) -> str:
    """The nodes that `roots` need, and which of them are results."""
    order = topological_order(list(roots))
    number = {node: i for i, node in enumerate(order)}
    lines = [f"%{i} = {node_text(node, number)}" for i, node in enumerate(order)]
    results = ", ".join(f"%{number[root]}" for root in roots)
    return "\n".join([*lines, f"return {results}"])


def node_text(node: Node, number: dict[Node, int]) -> str:
    """One node: op, inputs, attributes, dtype and shape."""
    inputs = [f"%{number[source]}" if source in number else "?" for source in node.inputs]
    attributes = [
        f"{name}={value}" for name, value in node.attributes.items()
        if name not in ("shape", "dtype")
    ]  # fmt: skip
    shape = "x".join(map(str, node.shape)) if node.op.n_outputs == 1 else str(node.shape)
    return f"{node.op.name}({', '.join(inputs + attributes)}) : {node.dtype}[{shape}]"
