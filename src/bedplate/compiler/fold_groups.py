"""fold_groups: spare passes over memory between groups that cannot be one.

Needs final fused groups. A product finishes the element-wise group that alone reads it
(`epilogue`); what would give that group a second result goes to its reader, if it is cheap; a value
that only a concat reads is stored in its region of the result at once.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from bedplate.compiler.access import numel
from bedplate.compiler.domain import compatible, cuts_of
from bedplate.compiler.epilogue import finished_shape, matrix_strides
from bedplate.compiler.groups import ASSEMBLE, FUSED, KERNEL, Group
from bedplate.compiler.passes.fold import constant_value
from bedplate.compiler.passes.rematerialise import is_cheap
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


def _hand_down_masks(fuser: Any) -> None:
    """Let the reader compute a cheap value that keeps a chain from being an epilogue.

    The mask of relu's gradient, output > 0, would be a second result of bias and relu. Its reader
    takes it from the output, which is stored in any case: 4 bytes for 1 are read, and a pass over
    the product is spared.
    """
    readers, kept = _readers(fuser), _kept(fuser)
    for group in list(fuser.groups.values()):
        users = readers.get(group.members[0], ())
        if group.kind == KERNEL and len(users) == 1 and len(users[0].stored) > 1:
            _hand_down(fuser, group.members[0], users[0], readers, kept)


def _hand_down(fuser: Any, product: Node, chain: Group, readers: Any, kept: set[Node]) -> None:
    last = chain.stored[0]
    inner = {fuser.access_of(source).base for node in chain.members for source in node.inputs}
    for node in chain.stored[1:]:
        takers = readers.get(node, ())
        if node in inner or node in kept or len(takers) != 1 or takers[0].kind != FUSED:
            return
        if not _reads_in_place(fuser, takers[0], node) or not _follows(fuser, node, last):
            return
    rest = [node for node in chain.members if node not in chain.stored[1:]]
    if _can_finish(fuser, product, dataclasses.replace(chain, members=rest, stored=[last])):
        for node in chain.stored[1:]:
            _move(fuser, node, chain, readers[node][0])


def _reads_in_place(fuser: Any, group: Group, node: Node) -> bool:
    """Whether a group reads each element of a node where it computes that element alone."""
    if group.total != numel(node):
        return False
    accesses = [fuser.access_of(source) for each in group.members for source in each.inputs]
    return all(access.identity for access in accesses if access.base is node)


def _follows(fuser: Any, node: Node, source: Node) -> bool:
    """Whether a node is cheap to compute from one value, element by element, and numbers."""
    if node.op.kind != "elementwise" or not is_cheap(node):
        return False
    for each in node.inputs:
        access = fuser.access_of(each)
        if constant_value(each) is None and not (access.base is source and access.identity):
            return False
    return True


def _move(fuser: Any, node: Node, chain: Group, taker: Group) -> None:
    """Take a result from the group that computes it to the one that reads it."""
    bit = 1 << fuser.place[node]
    chain.members.remove(node)
    chain.stored.remove(node)
    chain.bits &= ~bit
    taker.members = sorted([*taker.members, node], key=fuser.place.__getitem__)
    taker.bits |= bit
    taker.sources = (taker.sources - {node}) | {
        fuser.access_of(source).base for source in node.inputs
    }
    fuser.group[node] = taker


def fold_epilogues(fuser: Any) -> None:
    """Let products finish the element-wise groups that alone read them."""
    _hand_down_masks(fuser)
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
