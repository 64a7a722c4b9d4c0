"""expand_composed: replace each composed op by the primitive ops that it stands for.

Needs nothing; leaves a graph without composed nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bedplate.compiler.rewrite import Roots, rebuilt
from bedplate.errors import InternalError
from bedplate.graph.node import Node, topological_order

# an expansion may use composed ops itself; deeper than this it must be going in circles
MAX_DEPTH = 16


def expand_composed(roots: Roots) -> Roots:
    """The graph with every composed op expanded, also those that expansions bring in."""
    return expand_some(roots, lambda node: True)


def expand_some(roots: Roots, wanted: Callable[[Node], bool]) -> Roots:
    """The graph with those composed ops expanded that are wanted."""
    for _ in range(MAX_DEPTH):
        chosen = [n for n in topological_order(roots) if n.op.kind == "composed" and wanted(n)]
        if not chosen:
            return roots
        parts: dict[Node, tuple[Node, ...]] = {}
        roots = rebuilt(roots, lambda node, parts=parts: _expanded(node, parts, wanted))
    raise InternalError("expand_composed: an expansion contains itself")


def _expanded(
    node: Node, parts: dict[Node, tuple[Node, ...]], wanted: Callable[[Node], bool]
) -> Node:
    if node.op.name == "output" and node.inputs[0] in parts:
        return parts[node.inputs[0]][node.attributes["index"]]
    if node.op.kind != "composed" or not wanted(node):
        return node
    result = node.op.expand(node.inputs, node.attributes)
    outputs = result if isinstance(result, tuple) else (result,)
    for output in outputs:
        give_site(output, node, node.inputs)
    if node.op.n_outputs > 1:
        parts[node] = outputs
        return node
    return outputs[0]


def give_site(result: Node, origin: Node, given: Sequence[Node]) -> None:
    """The nodes between `given` and `result`, which replaces `origin`, come from its line."""
    known = {id(source) for source in given}
    stack = [result]
    while stack:
        node = stack.pop()
        if node.site is None and id(node) not in known and node.op.kind != "leaf":
            node.site = origin.site
            known.add(id(node))
            stack.extend(node.inputs)
