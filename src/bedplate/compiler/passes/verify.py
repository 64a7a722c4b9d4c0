"""verify: what must hold for a graph between passes.

Each node's shape and dtype are what its op's rule says of its inputs; elementwise inputs
agree; nothing is realised inside; no node is complex (`legalise_complex`, the first pass, leaves
none); no node is composed (`expand_composed` leaves none).
"""

from __future__ import annotations

from typing import Any

from bedplate.compiler.passes.legalise_complex import is_complex
from bedplate.compiler.rewrite import Roots
from bedplate.errors import InternalError
from bedplate.graph.node import Node, topological_order


def verify(roots: Roots, after: str) -> None:
    """Check a graph.

    after   the pass that made it, for the message
    raises  InternalError with the rule that is broken, the node, its neighbours and the pass
    """
    for node in topological_order(roots):
        fault = _fault(node, after)
        if fault:
            neighbours = "\n".join(f"  input {source!r}" for source in node.inputs)
            raise InternalError(
                f"after pass {after}: {fault}\n  node {node!r} made at {node.line()}\n{neighbours}"
            )


def _fault(node: Node, after: str) -> str:
    if node.block is not None:
        return "a node inside the graph has a block"
    if node.op.kind == "composed" and after != "legalise_complex":
        return "a composed op that was not expanded"
    if is_complex(node):
        return "a complex value that was not taken apart"
    if node.op.kind == "leaf" or node.op.name == "take":
        return ""
    if any(source.device != node.device for source in node.inputs):
        return "inputs on another device"
    try:
        shape, dtype = node.op.infer(node.inputs, node.attributes)
    except Exception as error:  # whatever it is, it belongs into the message
        return f"the op's own rule refuses it: {error}"
    return _compare(node, shape, dtype)


def _compare(node: Node, shape: Any, dtype: Any) -> str:
    if tuple(shape) != tuple(node.shape):
        return f"shape {node.shape} where the rule says {shape}"
    if dtype is not node.dtype and dtype != node.dtype:
        return f"dtype {node.dtype} where the rule says {dtype}"
    return ""
