"""views: bring permutations and slices down to where values are read from memory.

Needs explicit broadcasting; leaves a graph in which every chain of views reads a value that
is in memory, or will be, through one strided access: `access_of` succeeds on every node.

A permutation or slice of an elementwise value that nobody else uses becomes the same
computation on permuted or sliced inputs, so that it costs nothing. An expand of a cheap unary
op (a cast, a sign) of a leaf does the same. Where views have no strided form together, and
where a result of the plan is not contiguous, a copy is put between.
"""

from __future__ import annotations

from bedplate.compiler.access import Access, access_of, by_axes, identity, is_alias, merged
from bedplate.compiler.passes.rematerialise import MAX_CHAIN, is_cheap
from bedplate.compiler.rewrite import Roots, like, use_counts, with_inputs
from bedplate.graph.node import Node, topological_order
from bedplate.ops.record import REGISTRY

PUSHED = frozenset({"permute", "slice"})
NO_MEMORY = frozenset({"constant", "iota", "scalar"})
MAX_DEPTH = 200  # of a chain of values through which one view is pushed; bounds the recursion


def views(roots: Roots) -> Roots:
    """The graph with views pushed down and copies where they cannot be."""
    return _with_copies(_pushed(roots))


def _pushed(roots: Roots) -> Roots:
    order = topological_order(roots)
    uses = use_counts(roots, order)
    strided = _read_by_kernels(order)
    bound = _row_bound(order)
    new: dict[Node, Node] = {}
    for node in order:
        inputs = tuple([new[each] for each in node.inputs])
        current = with_inputs(node, inputs) if _changed(inputs, node.inputs) else node
        uses[current] = uses[node]
        if node in bound:
            bound.add(current)
        if (node.op.name in PUSHED and node not in strided) or (
            node.op.name == "expand" and _stands_on_leaves(current)
        ):
            current = _push(current, uses, bound)
        uses[current] = uses[node]
        new[node] = current
    return [new[root] for root in roots]


def _changed(new: tuple[Node, ...], old: tuple[Node, ...]) -> bool:
    return any(a is not b for a, b in zip(new, old, strict=True))


def _read_by_kernels(order: list[Node]) -> set[Node]:
    """Views that ops with kernels of their own read: they take strides as they come."""
    found: set[Node] = set()
    for node in order:
        if node.op.kind in ("kernel", "host", "assemble"):
            for source in node.inputs:
                while is_alias(source):
                    found.add(source)
                    source = source.inputs[0]
    return found


def _chain(view: Node) -> tuple[list[Node], Node]:
    """The views from `view` down, and the value that they show."""
    chain = []
    node = view
    while is_alias(node):
        chain.append(node)
        node = node.inputs[0]
    return chain, node


def _push(view: Node, uses: dict[Node, int], bound: set[Node], depth: int = 0) -> Node:
    """The chain of views that ends in `view`, applied to the inputs of the value behind it."""
    chain, node = _chain(view)
    inner = [*chain[1:], node]
    if node.op.kind != "elementwise" or node.op.name == "checked_index" or depth > MAX_DEPTH:
        return view
    if any(uses.get(each, 1) > 1 for each in inner) or node in bound:
        return view
    inputs = []
    for source in node.inputs:
        for step in reversed(chain):
            source = viewed(step, source)
            uses[source] = 1
        inputs.append(_push(source, uses, bound, depth + 1))
    result = with_inputs(node, tuple(inputs))
    result.shape = view.shape
    return result


def _row_bound(order: list[Node]) -> set[Node]:
    """Values computed from one value for each row, which something gave that is no leaf.

    They are best computed where the rows are, in their order; then a permutation reads the
    result.
    """
    found: set[Node] = set()
    for node in order:
        if node.op.kind != "elementwise":
            continue
        for source in node.inputs:
            broadcast = False
            while is_alias(source):
                broadcast = broadcast or source.op.name == "expand"
                source = source.inputs[0]
            if source in found or (broadcast and source.op.kind != "leaf"):
                found.add(node)
    return found


def viewed(step: Node, source: Node) -> Node:
    """The view `step` of another value of the same shape as its input."""
    return Node(
        step.op,
        (source,),
        step.attributes,
        step.shape,
        source.dtype,
        source.device,
        None,
        step.site,
    )


def _stands_on_leaves(view: Node) -> bool:
    """Whether a view shows what cheap ops make of leaves, a few deep."""
    return _is_cheap_tree(_chain(view)[1], MAX_CHAIN)


def _is_cheap_tree(node: Node, depth: int) -> bool:
    if node.op.kind != "elementwise" or depth == 0 or not is_cheap(node):
        return False
    values = [_chain(source)[1] for source in node.inputs]
    return all(each.op.kind == "leaf" or _is_cheap_tree(each, depth - 1) for each in values)


def _with_copies(roots: Roots) -> Roots:
    """Put a copy under each view whose access has no strided form, and under strided results."""
    known: dict[Node, Access | None] = {}
    copies: dict[Node, Node] = {}
    new: dict[Node, Node] = {}
    for node in topological_order(roots):
        inputs = tuple([new[each] for each in node.inputs])
        current = with_inputs(node, inputs) if _changed(inputs, node.inputs) else node
        if is_alias(current) and access_of(current, known) is None:
            current = with_inputs(current, (_copy_of(current.inputs[0], copies),))
            known[current.inputs[0]] = identity(current.inputs[0])
            known[current] = access_of(current, {})
        elif current.op.kind in ("kernel", "host", "gather"):
            current = _readable(current, known, copies)
        new[node] = current
    return [_stored(new[root], known) for root in roots]


def _readable(node: Node, known: dict[Node, Access | None], copies: dict[Node, Node]) -> Node:
    """Copies under those inputs of an op that it cannot read by one stride an axis."""
    inputs = []
    for position, source in enumerate(node.inputs):
        indices = node.op.name == "take" and position == 1
        inputs.append(source if indices or _by_strides(source, known) else _copy_of(source, copies))
    return with_inputs(node, tuple(inputs)) if _changed(tuple(inputs), node.inputs) else node


def _by_strides(node: Node, known: dict[Node, Access | None]) -> bool:
    access = access_of(node, known)
    if access is None or access.base.op.name in NO_MEMORY:
        return False
    axes = by_axes(access.dims, node.shape) if 0 not in node.shape else []
    return axes is not None and all(len(merged(axis)) <= 1 for axis in axes)


def _copy_of(node: Node, copies: dict[Node, Node]) -> Node:
    return copies.setdefault(node, copied(node))


def copied(node: Node) -> Node:
    """The value of `node` laid out contiguously."""
    return like(node, REGISTRY["cast"], (node,), {"dtype": node.dtype})


def _stored(root: Node, known: dict[Node, Access | None]) -> Node:
    access = access_of(root, known)
    if access is not None and access.identity and access.base.op.name not in NO_MEMORY:
        return root
    return copied(root)
