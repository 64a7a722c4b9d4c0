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


class Signature:
    """The key of a graph, with the inputs and numbers that a run of its plan needs.

    order   the nodes, inputs first; those with a value are the inputs
    roots   the nodes whose values are wanted
    """

    def __init__(self, order: list[Node], roots: list[Node]) -> None:
        self.order = order
        self.roots = roots
        self.inputs: list[Node] = []
        self.scalars: list[float] = []
        self.number: dict[Node, int] = {}
        parts = [self._part(i, node) for i, node in enumerate(order)]
        self.key = (tuple(parts), tuple([self.number[root] for root in roots]))

    def _part(self, i: int, node: Node) -> Any:
        number = self.number
        number[node] = i
        op = node.op
        if is_input(node):
            self.inputs.append(node)
            return node.shape, node.dtype
        if op.name == "constant" and is_scalar(node):
            self.scalars.append(node.attributes["value"])
            return "scalar", node.dtype
        attributes = node.attributes
        return (
            op,
            tuple([number[source] for source in node.inputs]),
            attributes_key(attributes) if attributes else (),
            node.shape,
            node.dtype,
        )

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
