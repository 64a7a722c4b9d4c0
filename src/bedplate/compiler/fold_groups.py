"""fold_groups: spare passes over memory between groups that cannot be one.

Needs final fused groups. A product finishes the element-wise group that alone reads it
(`epilogue`); a value that only a concat reads is stored in its region of the result at once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from bedplate.compiler.access import numel
from bedplate.compiler.domain import compatible, cuts_of
from bedplate.compiler.epilogue import finished_shape, matrix_strides
from bedplate.compiler.groups import ASSEMBLE, FUSED, KERNEL, Group
from bedplate.compiler.uses import Region, region_dims
from bedplate.graph.node import Node

MAX_EPILOGUE = 40  # ops that a product applies to each value


def _readers(fuser: Any) -> dict[Node, list[Group]]:
    """The groups that read each value."""
    readers: dict[Node, list[Group]] = {}
    for group in fuser.groups.values():
        for source in group.sources:
            readers.setdefault(source, []).append(group)
    return readers


def _kept(fuser: Any) -> set[Node]:
    """The values that the caller wants."""
    return {fuser.access_of(root).base for root in fuser.roots}


def fold_epilogues(fuser: Any) -> None:
    """Let products finish the element-wise groups that alone read them."""
    readers, kept = _readers(fuser), _kept(fuser)
    for group in list(fuser.groups.values()):
        product = group.members[0]
        if group.kind != KERNEL or not product.op.epilogue or product in kept:
            continue
        users = readers.get(product, [])
        # a group that reads two products may have been folded into the other one already
        free = len(users) == 1 and fuser.group[users[0].members[0]] is users[0]
        if free and _can_finish(fuser, product, users[0]):
            _fold(fuser, group, users[0])


def _can_finish(fuser: Any, product: Node, group: Group) -> bool:
    """Whether a group is a chain over the elements of a product, with one result."""
    if group.kind != FUSED or group.rows is not None or len(group.stored) != 1:
        return False
    if group.total != numel(product) or len(group.members) > MAX_EPILOGUE:
        return False
    shape = finished_shape(product)
    if shape is None:
        return False
    for node in group.members:
        if node.op.name in ("take", "checked_index") or node.op.kind != "elementwise":
            return False
        for source in node.inputs:
            access = fuser.access_of(source)
            if access.base is product and not access.identity:
                return False
            if matrix_strides(access, shape) is None:
                return False
    return True


def _fold(fuser: Any, group: Group, chain: Group) -> None:
    group.epilogue = chain
    group.stored = chain.stored
    group.sources |= chain.sources - {group.members[0]}
    group.bits |= chain.bits
    group.position = chain.position
    del fuser.groups[id(chain)]
    for node in chain.members:
        fuser.group[node] = group


def store_in_regions(fuser: Any) -> None:
    """Let fused groups store what only one concat reads in its region of the result."""
    readers, kept = _readers(fuser), _kept(fuser)
    for group in fuser.groups.values():
        node = group.members[0]
        if group.kind == ASSEMBLE and node.op.name == "concat":
            uses = Counter(node.inputs)
            for source, starts in concat_parts(node):
                access = fuser.access_of(source)
                base = access.base
                alone = uses[source] == 1 and len(readers.get(base, ())) == 1
                if access.identity and alone and base not in kept:
                    _place(fuser, node, base, source, starts)


def _place(fuser: Any, target: Node, base: Node, source: Node, starts: tuple[int, ...]) -> None:
    """Mark a value to be stored in its region, if its kernel can walk over that."""
    producer = fuser.group.get(base)
    if producer is None or producer.kind != FUSED or base in producer.late:
        return
    if numel(base) != producer.total:
        return
    dims, offset = region_dims(target.shape, source.shape, starts, None)
    if compatible(producer.cuts | cuts_of(dims)):
        producer.regions[base] = Region(base, target, dims, offset)


def concat_parts(node: Node) -> list[tuple[Node, tuple[int, ...]]]:
    """Each input of a concat, and where it starts in the result."""
    axis, start, parts = node.attributes["axis"], 0, []
    for source in node.inputs:
        parts.append((source, tuple(start if a == axis else 0 for a in range(len(node.shape)))))
        start += source.shape[axis]
    return parts
