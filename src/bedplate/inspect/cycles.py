"""Cycles: memory that only Python's collector of cycles gave back, and the cycle that held it.

A tensor that stands in a cycle lives until the collector comes by, which may be long after memory
is short. Tensors that merely hang on somebody else's cycle (a traceback's) are no fault of a graph.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

from bedplate.autograd.tape import Entry
from bedplate.inspect.census import take
from bedplate.inspect.ways import links_text
from bedplate.memory import Block
from bedplate.tensor import Tensor

MAX_LOOKED_AT = 200  # tensors and entries of the garbage that may stand in a cycle
MAX_STEPS = 20_000  # objects that a cycle is looked for among


@dataclass(frozen=True)
class InCycle:
    """A block that a cycle held: where its value was made, and the cycle in words."""

    nbytes: int
    site: Any
    text: str


def collect() -> list[InCycle]:
    """Run the collector, and give the blocks that were held by cycles with a tensor in them."""
    garbage = _garbage()
    if not any(issubclass(type(x), Block) for x in garbage):
        return []
    counted = take(garbage)
    wanted = counted.blocks
    found: dict[int, InCycle] = {}
    among = {id(x) for x in garbage}
    looked = 0
    tensors_first = sorted(garbage, key=lambda x: not issubclass(type(x), Tensor))
    for start in tensors_first:
        if len(found) == len(wanted) or looked >= MAX_LOOKED_AT:
            break
        if not issubclass(type(start), Tensor | Entry):
            continue
        looked += 1
        cycle = _cycle(start, among)
        for block in _reachable(start, among, wanted) if cycle else ():
            if id(block) not in found:
                who = "a tensor" if issubclass(type(start), Tensor) else "a graph"
                text = f"a cycle: {who}{links_text(cycle)} -> {who} again"
                found[id(block)] = InCycle(block.nbytes, counted.site(block), text)
    result = list(found.values())
    garbage.clear()
    tensors_first.clear()
    del counted, wanted
    gc.collect()  # what was only looked at can go now
    return result


def _garbage() -> list[Any]:
    """What the collector would free now, freed no longer than the list lives."""
    flags, before = gc.get_debug(), len(gc.garbage)
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(flags)
    garbage = gc.garbage[before:]
    del gc.garbage[before:]
    return garbage


def _cycle(start: Any, among: set[int]) -> list[Any]:
    """The shortest way from an object back to itself, or nothing."""
    before: dict[int, Any] = {}
    level, seen = [start], {id(start)}
    while level and len(seen) < MAX_STEPS:
        above = []
        for holder in level:
            for held in gc.get_referents(holder):
                if held is start:
                    chain = [start, holder]
                    while chain[-1] is not start:
                        chain.append(before[id(chain[-1])])
                    return chain[::-1] if holder is not start else [start, start]
                if id(held) in among and id(held) not in seen:
                    seen.add(id(held))
                    before[id(held)] = holder
                    above.append(held)
        level = above
    return []


def _reachable(start: Any, among: set[int], wanted: dict[int, Block]) -> list[Block]:
    """The wanted blocks that an object holds."""
    stack, seen, found = [start], {id(start)}, []
    while stack and len(seen) < MAX_STEPS:
        for held in gc.get_referents(stack.pop()):
            if id(held) in among and id(held) not in seen:
                seen.add(id(held))
                stack.append(held)
                if id(held) in wanted:
                    found.append(held)
    return found
