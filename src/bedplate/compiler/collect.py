"""collect: what a pending list computes, found in one walk.

This stands between a user's asking for a value and the plan that computes it, at every step of an
uncaptured program; so the walk numbers the nodes, makes the key, counts who holds what and drops
what nobody needs, all at once. What it does not cover goes the long way round, see realise.py.

Reference counts decide only which values are kept, never what a value is: where an interpreter
counts otherwise, too low a count costs computing a node again, too high a one memory.
"""

from __future__ import annotations

import sys
from typing import Any

from bedplate.compiler.passes.cse import attributes_key
from bedplate.compiler.signature import Parts, Signature, is_scalar
from bedplate.graph.node import Node
from bedplate.ops.leaves import CONSTANT


def collected(nodes: list[Node]) -> Signature | None:
    """The graph of those nodes of a list that somebody holds; whoever wants one value puts it last.

    returns  None where there are leaves in the list, ops with several outputs, moves between
             devices, nodes of a device without plans, or nodes that no wanted one needs
    cost     about 1 us a node
    """
    if not nodes or not nodes[-1].device.is_planned:
        return None
    drop_unheld(nodes)
    walk = _Walk()
    if not walk.enter(nodes):
        return None
    held = walk.held(nodes)
    if len(held) < len(walk.made) and not walk.are_all_needed(held):
        return None
    return Signature.of_parts(walk.parts, walk.order, held)


def key_of_one(node: Node, inputs: tuple[Node, ...]) -> tuple[Any, list[Any], list[float]] | None:
    """What the plan of one op depends on, if its inputs, one or two, are known.

    inputs   of the node, read once: another thread may compute it meanwhile
    returns  (key, blocks of the inputs, run-time numbers), in the order in which a walk finds
             them; None for any other node. Keys of ops that no single plan computes are found
             nowhere
    cost     0.4 us
    """
    attributes = node.attributes
    key = attributes_key(attributes) if attributes else ()
    if len(inputs) == 2:
        a, b = inputs
        if a.op is CONSTANT or b.op is CONSTANT:
            return _key_with_number(node, a, b, key)
        if a.block is None or b.block is None:
            return None
        if a is b:
            return (node.op, key, node.shape, node.dtype, a.shape, a.dtype, 2), [a.block], []
        return (
            (node.op, key, node.shape, node.dtype, a.shape, a.dtype, b.shape, b.dtype),
            [a.block, b.block],
            [],
        )
    if len(inputs) != 1:
        return None
    a = inputs[0]
    if a.block is None or a.op is CONSTANT:
        return None
    return (node.op, key, node.shape, node.dtype, a.shape, a.dtype), [a.block], []


def _key_with_number(node: Node, a: Node, b: Node, key: Any) -> Any:
    """The key where one of two inputs is a constant."""
    first = a.op is CONSTANT
    number, other = (a, b) if first else (b, a)
    if other.op is CONSTANT or other.block is None:
        return None
    as_given = is_scalar(number)
    value = number.attributes["value"]
    exact = "scalar" if as_given else attributes_key(number.attributes)
    kind = (node.op, key, node.shape, node.dtype, other.shape, other.dtype)
    return (*kind, first, exact, number.dtype), [other.block], [value] if as_given else []


def is_of_one_plan(node: Node) -> bool:
    """Whether it has one value, which a plan of the CPU computes."""
    return node.op.is_plain and node.device.is_native


def drop_unheld(nodes: list[Node]) -> None:
    """Take from a list those nodes that nothing else refers to, but for the last.

    From the last to the first, so that a chain of results that were all dropped is gone without
    being walked over.
    """
    count, own = sys.getrefcount, _LISTED_REFERENCES
    some = False
    for at in range(len(nodes) - 2, -1, -1):
        if count(nodes[at]) == own:
            nodes[at] = None  # type: ignore[call-overload] - a hole, closed below
            some = True
    if some:
        nodes[:] = [node for node in nodes if node is not None]


class _Walk:
    """Nodes in an order that has inputs first.

    uses  for each node, how often the nodes walked over have it as an input
    made  the numbers of the nodes without value, leaves left out
    """

    __slots__ = ("made", "order", "parts", "uses")

    def __init__(self) -> None:
        self.parts = Parts()
        self.order: list[Node] = []
        self.uses: list[int] = []
        self.made: list[int] = []

    def enter(self, nodes: list[Node]) -> bool:
        """Walk over nodes and what they need; False if something is nothing for this walk."""
        parts, order, uses, made = self.parts.parts, self.order, self.uses, self.made
        number, add_leaf = self.parts.number, self.parts.add
        device = nodes[-1].device
        stack = nodes[::-1]
        while stack:
            node = stack[-1]
            if node in number or node.block is not None:
                if node.block is None and not node.inputs:
                    return False
                stack.pop()
                continue
            sources: list[int] = []
            for source in node.inputs:
                at = number.get(source)
                if at is None:
                    if source.block is None and source.inputs:
                        stack.append(source)
                        break
                    at = add_leaf(source, [])
                    order.append(source)
                    uses.append(0)
                uses[at] += 1
                sources.append(at)
            else:
                stack.pop()
                op, attributes = node.op, node.attributes
                if not sources or node.device is not device or not op.is_plain:
                    return False
                number[node] = at = len(order)
                key = attributes_key(attributes) if attributes else ()
                parts.append((op, tuple(sources), key, node.shape, node.dtype))
                made.append(at)
                order.append(node)
                uses.append(0)
                continue
            for at in sources:  # it is looked at again once that input is known
                uses[at] -= 1
        return True

    def held(self, nodes: list[Node]) -> list[int]:
        """The numbers of the nodes that somebody outside the graph refers to.

        The graph itself refers to a node once for each use as an input; the list, this walk and
        this function hold it a known number of times. Whoever is above that is somebody else.
        """
        number, order, uses = self.parts.number, self.order, self.uses
        for node in nodes:
            if node.block is None:
                uses[number[node]] += 1
        last = number.get(nodes[-1])
        node = None  # the loop above leaves its last
        count, own = sys.getrefcount, _OWN_REFERENCES
        return [at for at in self.made if count(order[at]) > uses[at] + own or at == last]

    def are_all_needed(self, held: list[int]) -> bool:
        """Whether the wanted nodes need all others."""
        parts: Any = self.parts.parts
        needed = bytearray(len(parts))
        for at in held:
            needed[at] = 1
        for at in reversed(self.made):
            if not needed[at]:
                return False
            for source in parts[at][1]:
                needed[source] = 1
        return True


def _own_references() -> int:
    """What getrefcount says of an object that a walk holds, read as `held` does."""
    order = [object()]
    number = {order[0]: 0}
    count = sys.getrefcount
    return next(iter([count(order[at]) for at in number.values()]))


_OWN_REFERENCES = _own_references()


def _listed_references() -> int:
    """What getrefcount says of an object that one list holds, read as `drop_unheld` does."""
    listed = [object()]
    return sys.getrefcount(listed[0])


_LISTED_REFERENCES = _listed_references()
