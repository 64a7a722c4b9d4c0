"""rematerialise: give each user its own copy of what costs no more to compute than to read.

Needs explicit broadcasting; leaves elementwise values that stand on one leaf (a cast, a
comparison with a number) with one user each. A copy in the kernel of each user reads the leaf
in place of a stored value, and ties no kernels together: the mask of valid targets, used by
the rows of a loss and by their count, must not make the count wait for the rows. Copies that
end up in one kernel are computed once there.
"""

from __future__ import annotations

from bedplate.compiler.access import is_alias
from bedplate.compiler.cost import Exact, emission_size
from bedplate.compiler.rewrite import Roots, use_counts, with_inputs
from bedplate.graph.node import Node, topological_order

EXPENSIVE = 8  # instructions above which a value is stored rather than computed twice
MAX_CHAIN = 4  # cheap ops on one leaf; a longer chain is stored


def rematerialise(roots: Roots) -> Roots:
    """The graph with cheap values on single leaves copied for each user."""
    order = topological_order(roots)
    uses = use_counts(roots, order)
    length = _chains(order)
    new: dict[Node, Node] = {}
    for node in order:
        inputs = tuple([new[each] for each in node.inputs])
        if not is_alias(node):  # a view is copied together with the value behind it
            pairs = zip(inputs, node.inputs, strict=True)
            inputs = tuple([_own(current, old, length, uses) for current, old in pairs])
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        new[node] = node if same else with_inputs(node, inputs)
    return [new[root] for root in roots]


def _chains(order: list[Node]) -> dict[Node, int]:
    """For each value that stands on at most one leaf in memory: how many cheap ops up it is."""
    length: dict[Node, int] = {}
    leaf: dict[Node, Node | None] = {}
    for node in order:
        if node.op.kind == "leaf":
            constant = node.op.name in ("constant", "scalar", "iota")
            length[node], leaf[node] = 0, None if constant else node
        elif is_alias(node) and node.inputs[0] in length:
            length[node], leaf[node] = length[node.inputs[0]], leaf[node.inputs[0]]
        elif node.op.kind == "elementwise" and is_cheap(node):
            _measure(node, length, leaf)
    return length


def is_cheap(node: Node) -> bool:
    """Whether computing a value again costs no more than reading it."""
    if node.op.name == "checked_index":
        return False
    dtypes = tuple(source.dtype for source in node.inputs)
    return emission_size(node.op, Exact(node.attributes), dtypes, node.dtype) <= EXPENSIVE


def _measure(node: Node, length: dict[Node, int], leaf: dict[Node, Node | None]) -> None:
    if not all(source in length for source in node.inputs):
        return
    leaves = {id(found): found for source in node.inputs if (found := leaf[source]) is not None}
    above = 1 + max((length[source] for source in node.inputs), default=0)
    if len(leaves) <= 1 and above <= MAX_CHAIN:
        length[node] = above
        leaf[node] = next(iter(leaves.values()), None)


def _own(current: Node, old: Node, length: dict[Node, int], uses: dict[Node, int]) -> Node:
    """A copy of a cheap value, and of the views above it, if others use it too."""
    chain = []
    value = old
    while is_alias(value):
        chain.append(value)
        value = value.inputs[0]
    shared = any(uses[each] > 1 for each in (*chain, value))
    if not length.get(value) or not shared:
        return current
    return _copy(current)


def _copy(node: Node) -> Node:
    """The cheap values and views from `node` down to their leaves, anew."""
    if node.op.kind == "leaf":
        return node
    return with_inputs(node, tuple([_copy(source) for source in node.inputs]))
