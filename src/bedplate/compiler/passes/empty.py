"""empty: values without elements, and reductions over nothing.

Needs no composed nodes; leaves no value without elements but leaves and what is made of a
constant by views, and no reduction over an empty axis: it has its initial value.
"""

from __future__ import annotations

from bedplate.compiler.passes.fold import filled
from bedplate.compiler.rewrite import Roots, rebuilt
from bedplate.graph.node import Node


def empty(roots: Roots) -> Roots:
    """The graph in which nothing is computed that has no elements."""
    return rebuilt(roots, _settled)


def _settled(node: Node) -> Node:
    if node.op.kind in ("leaf", "view") or node.op.n_outputs > 1:
        return node
    if 0 in node.shape:
        return filled(node, 0)
    if node.op.kind == "reduce" and 0 in node.inputs[0].shape and node.op.initial is not None:
        return filled(node, node.op.initial(node.dtype))
    return node
