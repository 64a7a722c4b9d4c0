"""The tools of passes: copy a node with other inputs, rebuild a graph, count uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bedplate.errors import InternalError
from bedplate.graph.node import Node, topological_order

Roots = list[Node]
Visit = Callable[[Node], Node]


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The same operation on other inputs of the same shapes and dtypes."""
    return Node(
        node.op, inputs, node.attributes, node.shape, node.dtype, node.device, None, node.site
    )


def like(node: Node, op: Any, inputs: tuple[Node, ...], attributes: dict[str, Any]) -> Node:
    """A node of another operation that takes the place of `node`: its shape, dtype and line."""
    return Node(op, inputs, attributes, node.shape, node.dtype, node.device, None, node.site)


def rebuilt(roots: Roots, visit: Visit) -> Roots:
    """The graph with `visit` applied to each node once its inputs are done.

    visit   gets a node whose inputs have been replaced, and gives the node to use instead
    """
    new: dict[Node, Node] = {}
    for node in topological_order(roots):
        inputs = node.inputs
        for source in inputs:
            if new[source] is not source:
                node_now = with_inputs(node, tuple([new[each] for each in inputs]))
                break
        else:
            node_now = node
        result = visit(node_now)
        changed = result.shape != node.shape or result.dtype is not node.dtype
        if changed and node.op.n_outputs == 1:
            _refuse_change(node, result)
        new[node] = result
    return [new[root] for root in roots]


def _refuse_change(node: Node, result: Node) -> None:
    raise InternalError(
        f"a pass replaced {node.op.name} {node.shape} {node.dtype} "
        f"by {result.op.name} {result.shape} {result.dtype}"
    )


def use_counts(roots: Roots, order: Sequence[Node]) -> dict[Node, int]:
    """How often each node is an input of another or a root."""
    counts = dict.fromkeys(order, 0)
    for node in order:
        for source in node.inputs:
            counts[source] += 1
    for root in roots:
        counts[root] += 1
    return counts
