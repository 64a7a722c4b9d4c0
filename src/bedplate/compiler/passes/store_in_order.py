"""store_in_order: a kernel's result that is read in another order of its axes is stored in it.

    permute(output(kernel), axes) -> output(kernel, order=axes)

Leaves `output` nodes with an `order`, for those results that their op can store so (the record
says which). Attention computes heads, and the product behind it reads positions: without this
a copy would stand between. Readers that take strides see the result through a permutation back;
if one wants it as computed, and reads it side by side, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from bedplate.compiler.rewrite import Roots, like, with_inputs
from bedplate.graph.node import Node, topological_order
from bedplate.ops.record import REGISTRY

Axes = tuple[int, ...]


def store_in_order(roots: Roots) -> Roots:
    """The graph with permutations moved into the kernels that they read from."""
    order = topological_order(roots)
    orders = _orders(order, set(roots))
    if not orders:
        return roots
    new: dict[Node, Node] = {}
    for node in order:
        inputs = tuple([new[each] for each in node.inputs])
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        if node in orders:
            new[node] = _stored(node, inputs[0], orders[node])
        elif node.op.name == "permute" and node.inputs[0] in orders:
            new[node] = inputs[0].inputs[0]  # its order is the stored one
        else:
            new[node] = node if same else with_inputs(node, inputs)
    return [new[root] for root in roots]


def _orders(order: Sequence[Node], roots: set[Node]) -> dict[Node, Axes]:
    """The results to store in another order, and that order."""
    readers: dict[Node, list[Node]] = {}
    results: dict[tuple[Node, int], list[Node]] = {}
    for node in order:
        for source in node.inputs:
            readers.setdefault(source, []).append(node)
        if node.op.name == "output" and node.attributes["index"] in node.inputs[0].op.any_order:
            results.setdefault((node.inputs[0], node.attributes["index"]), []).append(node)
    found = {}
    for nodes in results.values():
        axes = _common_order(readers.get(nodes[0], ()))
        if len(nodes) == 1 and nodes[0] not in roots and axes is not None:
            found[nodes[0]] = axes
    return found


def _common_order(readers: Sequence[Node]) -> Axes | None:
    """The order in which all readers want a value, but for kernels, which take any strides."""
    wanted = {node.attributes["axes"] for node in readers if node.op.name == "permute"}
    others = [node for node in readers if node.op.name != "permute" and node.op.kind != "kernel"]
    if len(wanted) != 1 or others:
        return None
    (axes,) = wanted
    return axes if axes[-1] == len(axes) - 1 else None  # rows stay rows


def _stored(node: Node, kernel: Node, axes: Axes) -> Node:
    """A result stored in an order of its axes, seen as it was computed."""
    shape = tuple([node.shape[axis] for axis in axes])
    stored = Node(
        node.op, (kernel,), {**node.attributes, "order": axes}, shape, node.dtype, node.device,
        None, node.site,
    )  # fmt: skip
    back = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    return like(node, REGISTRY["permute"], (stored,), {"axes": back})
