"""Group: nodes that become one kernel, over one domain of rows and columns."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from bedplate.graph.node import Node

FUSED, KERNEL, ASSEMBLE = "fused", "kernel", "assemble"


@dataclass(eq=False, slots=True)
class Group:
    """Nodes computed together.

    kind      "fused": elementwise ops, reductions, takes; "kernel": one op with kernels of its
              own; "assemble": one output put together from regions
    total     elements of the domain: rows * cols once these are known
    rows      None for a group without reductions, whose domain is flat
    cols      elements of one row
    members   in topological order once the groups are final
    split     its rows are so long and few that several items share one
    ordered   something is reduced along its columns, so their order must not change
    reduced   rows that each sum over rows takes; 0 if there is none
    late      reductions whose result needs another launch, so no member may read it
    stored    members whose values other groups, or the caller, read
    epilogue  of a "kernel" group: the fused group that its op applies before it stores
    regions   stored members that go to a region of an assembled value
    sources   values that are read from outside
    cuts      where the accesses cut the domain; see domain.py
    bits      one bit for each node inside; ancestors: of all that must come before
    position  of the last member in the graph
    serial    groups in the order in which they were made
    """

    kind: str
    total: int
    rows: int | None = None
    cols: int | None = None
    split: bool = False
    ordered: bool = False
    reduced: int = 0
    members: list[Node] = field(default_factory=list)
    late: set[Node] = field(default_factory=set)
    stored: list[Node] = field(default_factory=list)
    epilogue: Group | None = None
    regions: dict[Node, Any] = field(default_factory=dict)
    bits: int = 0
    ancestors: int = 0
    sources: set[Node] = field(default_factory=set)
    cuts: frozenset[int] = frozenset()
    position: int = 0
    serial: int = field(default_factory=itertools.count().__next__)

    @property
    def name(self) -> str:
        return "+".join(dict.fromkeys(node.op.name for node in self.members))
