"""fold: compute what depends on constants only.

Needs no composed nodes; leaves no elementwise node all of whose inputs are constants. Numbers
that change from call to call are `scalar` leaves, not constants, and are left alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.compiler.passes.broadcast import expanded
from bedplate.compiler.rewrite import Roots, rebuilt
from bedplate.dtypes import rounded
from bedplate.graph.node import Node
from bedplate.ops.leaves import constant


def fold(roots: Roots) -> Roots:
    """The graph with constant subgraphs replaced by their value."""
    return rebuilt(roots, _folded)


def _folded(node: Node) -> Node:
    if node.op.kind == "elementwise" and node.op.name != "checked_index":
        values = [constant_value(source) for source in node.inputs]
        if None not in values:
            return _computed(node, values)
    return node


def constant_value(node: Node) -> Any:
    """The Python number that all elements of a node are, or None."""
    while node.op.name in ("reshape", "expand", "permute", "slice"):
        node = node.inputs[0]
    return node.attributes["value"] if node.op.name == "constant" else None


def _computed(node: Node, values: list[Any]) -> Node:
    arrays = [
        rounded(value, source.dtype.numpy)
        for value, source in zip(values, node.inputs, strict=True)
    ]
    with np.errstate(all="ignore"):
        result = np.asarray(node.op.reference(*arrays, **node.attributes))
    return filled(node, rounded(result, node.dtype.numpy).item())


def filled(node: Node, value: Any) -> Node:
    """A constant in the place of `node`."""
    return expanded(constant(value, node.dtype, node.device), node.shape)
