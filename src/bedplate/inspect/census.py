"""Census: all blocks of memory that live, with the nodes and tensors that hold them.

One look at all objects there are, so nothing has to be watched beforehand.
"""

from __future__ import annotations

import bisect
import gc
import weakref
from dataclasses import dataclass, field
from typing import Any

from bedplate.devices.block import ArrivingBlock, DeviceBlock
from bedplate.graph.node import Node
from bedplate.memory import Block, ForeignBlock
from bedplate.memory.mapping import ACCOUNT, Mapping
from bedplate.tensor import Tensor

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made in Python
NOT_COUNTED = (ForeignBlock, ArrivingBlock)  # somebody else's; stands for another block


@dataclass
class Census:
    """What lives, by identity; the objects are held as long as the census is.

    blocks   of our own memory
    nodes    a node that has the block, by the block
    tensors  that have the node, by the node
    mapped   (address, length) of what the allocator has from the system
    """

    blocks: dict[int, Any] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    tensors: dict[int, list[Tensor]] = field(default_factory=dict)
    mapped: list[tuple[int, int]] = field(default_factory=list)

    def site(self, block: Any) -> Any:
        """Where the value in a block was made."""
        node = self.nodes.get(id(block))
        return block.site if node is None or node.site is None else node.site

    def pooled(self) -> int:
        """Bytes that the allocator has from the system and nobody uses."""
        begins = sorted(self.mapped)
        used = 0
        for block in self.blocks.values():
            if isinstance(block, Block):
                number = bisect.bisect_right(begins, (block.address, 1 << 62)) - 1
                if number >= 0 and block.address < sum(begins[number]):
                    used += block.nbytes
        return ACCOUNT.mapped - used

    def device(self, block: Any) -> str:
        """The device whose memory it is."""
        if isinstance(block, DeviceBlock):
            return str(block.runtime.device)
        node = self.nodes.get(id(block))
        return "cpu" if node is None or node.device.runtime is not None else str(node.device)

    def holders(self, block: Any) -> list[Tensor]:
        node = self.nodes.get(id(block))
        return [] if node is None else self.tensors.get(id(node), [])


def take(objects: list[Any] | None = None) -> Census:
    """Count now.

    objects  among which to look; all by default
    """
    found = Census()
    for each in instances((Tensor, Node, Block, DeviceBlock, Mapping), objects):
        if isinstance(each, Tensor):
            if hasattr(each, "_node"):
                found.tensors.setdefault(id(each._node), []).append(each)
        elif isinstance(each, Node):
            for block in blocks_of(each):
                memory = block._memory if isinstance(block, ArrivingBlock) else block
                found.nodes[id(memory)] = each
        elif isinstance(each, Mapping):
            found.mapped.append((each.address, each.extent))
        elif not isinstance(each, NOT_COUNTED):
            found.blocks[id(each)] = each
    return found


def instances(kinds: tuple[type, ...], objects: list[Any] | None = None) -> list[Any]:
    """The objects of these types, among all that there are by default.

    By type, since `isinstance` would ask a dead proxy for its class. An object of a class made
    in Python refers to it, so those are found by asking who does. Only the types of the
    interpreter itself need the list of all objects, which holds half-made tuples of other threads
    too: these cannot be finished meanwhile (CPython before 3.14 wants to be alone for it).
    """
    types = _with_subclasses(kinds)
    if objects is None:
        by_type = all(kind.__flags__ & HEAP_TYPE for kind in types)
        objects = gc.get_referrers(*types) if by_type else gc.get_objects()
    return [x for x in objects if type(x) in types]


def _with_subclasses(kinds: tuple[type, ...]) -> set[type]:
    found: set[type] = set()
    left = list(kinds)
    while left:
        kind = left.pop()
        if kind not in found:
            found.add(kind)
            left += type.__subclasses__(kind)
    return found


def blocks_of(node: Node) -> tuple[Any, ...]:
    """The memory of a node; of an op with several outputs, of each."""
    block = getattr(node, "block", None)
    return block if isinstance(block, tuple) else () if block is None else (block,)


class Known:
    """Objects that lived at one time, without keeping them alive."""

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[Any]] = {}

    def add(self, each: Any) -> None:
        self._references[id(each)] = weakref.ref(each)

    def __contains__(self, each: Any) -> bool:
        reference = self._references.get(id(each))
        return reference is not None and reference() is each
