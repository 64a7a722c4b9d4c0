"""Census: all blocks of memory that live, with the nodes and tensors that hold them.

One look at all objects there are, so nothing has to be watched beforehand.
"""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field
from typing import Any

from bedplate.graph.node import Node
from bedplate.memory import Block, ForeignBlock
from bedplate.tensor import Tensor


@dataclass
class Census:
    """What lives, by identity; the objects are held as long as the census is.

    blocks   of our own memory
    nodes    a node that has the block, by the block
    tensors  that have the node, by the node
    """

    blocks: dict[int, Block] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    tensors: dict[int, list[Tensor]] = field(default_factory=dict)

    def site(self, block: Block) -> Any:
        """Where the value in a block was made."""
        node = self.nodes.get(id(block))
        return block.site if node is None or node.site is None else node.site

    def holders(self, block: Block) -> list[Tensor]:
        node = self.nodes.get(id(block))
        return [] if node is None else self.tensors.get(id(node), [])


def take(objects: list[Any] | None = None) -> Census:
    """Count now.

    objects  among which to look; all by default
    """
    found = Census()
    for each in gc.get_objects() if objects is None else objects:
        kind = type(each)  # `isinstance` would ask a dead proxy for its class
        if kind is Tensor or issubclass(kind, Tensor):
            if hasattr(each, "_node"):
                found.tensors.setdefault(id(each._node), []).append(each)
        elif kind is Node or issubclass(kind, Node):
            for block in blocks_of(each):
                found.nodes[id(block)] = each
        elif issubclass(kind, Block) and not issubclass(kind, ForeignBlock):
            found.blocks[id(each)] = each
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
