"""The structural key of a graph: what a plan depends on, and nothing that changes from run to run.

Two graphs with equal keys run the same plan. Values of inputs are not part of it, nor are
float constants, which the plan takes as run-time numbers, but for a few (0, 1, ...) that the
passes can use.
"""

from __future__ import annotations

from typing import Any

from bedplate.compiler.leaves import scalar
from bedplate.compiler.passes.cse import attributes_key
from bedplate.graph.node import Node
from bedplate.ops.leaves import placeholder

# float constants that rules and kernels know; all others are numbers of the run
KNOWN_FLOATS = frozenset({0.0, 1.0, -1.0, 2.0, 0.5})


class Parts:
    """What each node of a graph adds to the key, in an order that has inputs first.

    number   of each node
    """

    __slots__ = ("inputs", "number", "parts", "scalars")

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.number: dict[Node, int] = {}
        self.inputs: list[Node] = []
        self.scalars: list[float] = []

    def add(self, node: Node, sources: list[int]) -> int:
        """Enter a node whose inputs have these numbers; gives its own."""
        parts = self.parts
        self.number[node] = at = len(parts)
        op = node.op
        name = op.name
        if (node.block is not None and name != "constant") or name == "placeholder":  # is_input
            self.inputs.append(node)
            parts.append((node.shape, node.dtype))
        elif name == "constant" and is_scalar(node):
            self.scalars.append(node.attributes["value"])
            parts.append(("scalar", node.dtype))
        else:
            attributes = node.attributes
            key = attributes_key(attributes) if attributes else ()
            parts.append((op, tuple(sources), key, node.shape, node.dtype))
        return at


class Signature:
    """The key of a graph, with the inputs and numbers that a run of its plan needs.

    order   the nodes, inputs first; those with a value are the inputs
    roots   the nodes whose values are wanted
    """

    __slots__ = ("inputs", "key", "order", "roots", "scalars")

    def __init__(self, order: list[Node], roots: list[Node]) -> None:
        self.order = order
        self.roots = roots
        parts = Parts()
        for node in order:
            parts.add(node, [parts.number[source] for source in node.inputs])
        self.inputs = parts.inputs
        self.scalars = parts.scalars
        self.key: Any = (tuple(parts.parts), tuple([parts.number[root] for root in roots]))

    @classmethod
    def of_parts(cls, parts: Parts, order: list[Node], roots: list[int]) -> Signature:
        """The signature of a graph that was walked already; roots by number."""
        key = (tuple(parts.parts), tuple(roots))
        return cls.of_key(key, order, [order[at] for at in roots], parts.inputs, parts.scalars)

    @classmethod
    def of_key(
        cls, key: Any, order: list[Node], roots: list[Node], inputs: list[Node],
        scalars: list[float],
    ) -> Signature:  # fmt: skip
        """The signature that has these parts."""
        self = cls.__new__(cls)
        self.key, self.order, self.roots = key, order, roots
        self.inputs, self.scalars = inputs, scalars
        return self

    def lifted(self) -> list[Node]:
        """The roots of the same graph on placeholders and run-time numbers."""
        new: dict[Node, Node] = {}
        n_inputs = n_scalars = 0
        for node in self.order:
            if is_input(node):
                new[node] = placeholder(n_inputs, node.shape, node.dtype, node.device)
                n_inputs += 1
            elif node.op.name == "constant" and is_scalar(node):
                new[node] = scalar(n_scalars, node.dtype, node.device)
                n_scalars += 1
            else:
                inputs = tuple([new[source] for source in node.inputs])
                new[node] = Node(
                    node.op,
                    inputs,
                    node.attributes,
                    node.shape,
                    node.dtype,
                    node.device,
                    None,
                    node.site,
                )
        return [new[root] for root in self.roots]


def is_input(node: Node) -> bool:
    """Whether a run is given the node's value. A constant stays one, even where it has memory."""
    name = node.op.name
    return (node.block is not None and name != "constant") or name == "placeholder"


def is_scalar(node: Node) -> bool:
    """Whether a constant is taken as a run-time number."""
    value = node.attributes["value"]
    return type(value) is float and value not in KNOWN_FLOATS
