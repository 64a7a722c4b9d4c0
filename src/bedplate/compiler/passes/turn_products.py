"""turn_products: a product that is only read transposed is computed transposed.

    permute(a @ b) -> permute(b) @ permute(a)

Leaves products whose readers walk them as they lie. The gradient of a layer's weight is the case:
`a.T @ grad` is wanted transposed, and what sums its squares, scales it or updates the weight
would else read it across. A product of few rows keeps its shape: it has kernels of its own, which
few columns have not. Each element is the same chain over the inner axis, so the bits stay.
"""

from __future__ import annotations

from bedplate.compiler.rewrite import Roots, like, use_counts, with_inputs
from bedplate.graph.node import Node, topological_order
from bedplate.ops.record import REGISTRY

FEW = 16  # rows or columns of a product up to which it is left alone: FEW_ROWS of matmul/skinny.py


def turn_products(roots: Roots) -> Roots:
    """The graph with transposed products as products of the transposed."""
    order = topological_order(roots)
    uses = use_counts(roots, order)
    new: dict[Node, Node] = {}
    for node in order:
        inputs = tuple([new[each] for each in node.inputs])
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        current = node if same else with_inputs(node, inputs)
        new[node] = _turned(current) if _is_turned(node, uses) else current
    return [new[root] for root in roots]


def _is_turned(node: Node, uses: dict[Node, int]) -> bool:
    """Whether a node is the transposition of a product that nothing else reads."""
    if node.op.name != "permute":
        return False
    product = node.inputs[0]
    if product.op.name != "matmul" or uses[product] > 1 or min(product.shape[-2:]) <= FEW:
        return False
    return node.attributes["axes"] == _swapped(len(product.shape))


def _swapped(n_axes: int) -> tuple[int, ...]:
    return (*range(n_axes - 2), n_axes - 1, n_axes - 2)


def _turned(view: Node) -> Node:
    product = view.inputs[0]
    a, b = product.inputs
    return Node(
        product.op, (_transposed(b), _transposed(a)), product.attributes, view.shape,
        product.dtype, product.device, None, product.site,
    )  # fmt: skip


def _transposed(node: Node) -> Node:
    axes = _swapped(len(node.shape))
    if node.op.name == "permute" and node.attributes["axes"] == axes:
        return node.inputs[0]
    turned = like(node, REGISTRY["permute"], (node,), {"axes": axes})
    turned.shape = tuple([node.shape[axis] for axis in axes])
    return turned
