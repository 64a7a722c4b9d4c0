"""broadcast: make implicit broadcasting explicit.

Needs no composed nodes; leaves elementwise nodes whose inputs all have the node's shape, by
way of reshape (for missing axes) and expand, takes whose indices have the shape of the
output, and one `output` node for each output of an op that has several.
"""

from __future__ import annotations

from bedplate.compiler.rewrite import Roots, like, rebuilt, with_inputs
from bedplate.graph.node import Node, Shape
from bedplate.ops.record import REGISTRY


def broadcast(roots: Roots) -> Roots:
    """The graph with an expand wherever an elementwise input is smaller than the output."""
    done: dict[tuple[Node, Shape], Node] = {}
    outputs: dict[tuple[Node, int], Node] = {}

    def visit(node: Node) -> Node:
        if node.op.name == "output":
            return outputs.setdefault((node.inputs[0], node.attributes["index"]), node)
        if node.op.name == "take":
            return _take(node)
        if node.op.kind != "elementwise":
            return node
        shape = node.shape
        if all(source.shape == shape for source in node.inputs):
            return node
        return with_inputs(node, tuple([_to_shape(each, shape, done) for each in node.inputs]))

    return rebuilt(roots, visit)


def _take(node: Node) -> Node:
    """take whose indices have the shape of the output, so that they are read like any input."""
    source, indices = node.inputs
    if indices.shape == node.shape:
        return node
    axis = node.attributes["axis"]
    behind = len(node.shape) - axis - len(indices.shape)
    placed = reshaped(indices, (1,) * axis + tuple(indices.shape) + (1,) * behind)
    return with_inputs(node, (source, expanded(placed, node.shape)))


def _to_shape(node: Node, shape: Shape, done: dict[tuple[Node, Shape], Node]) -> Node:
    if node.shape == shape:
        return node
    key = (node, shape)
    if key not in done:
        done[key] = expanded(node, shape)
    return done[key]


def expanded(node: Node, shape: Shape) -> Node:
    """`node` broadcast to `shape` by explicit views."""
    missing = len(shape) - len(node.shape)
    if missing:
        padded = (1,) * missing + tuple(node.shape)
        node = reshaped(node, padded)
    if node.shape == shape:
        return node
    shape = tuple(shape)
    result = like(node, REGISTRY["expand"], (node,), {"shape": shape})
    result.shape = shape
    return result


def reshaped(node: Node, shape: Shape) -> Node:
    """`node` with another shape of as many elements."""
    result = like(node, REGISTRY["reshape"], (node,), {"shape": shape})
    result.shape = shape
    return result
