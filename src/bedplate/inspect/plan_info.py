"""What is known of a plan that was made under watch: what its arena holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bedplate.compiler.builder import BufferRef, Launch
from bedplate.compiler.compile_plan import members_of
from bedplate.compiler.plan import Plan
from bedplate.graph.node import Node
from bedplate.inspect.ledger import TEMPORARY, Share, Temporary, fullest, kind_of
from bedplate.inspect.places import BACKWARD, Site, module_of, phase_of


@dataclass
class PlanInfo:
    """What is known of a plan that was made while it was observed.

    written  share of the bytes that are written, by the number of the task
    """

    temporaries: list[Temporary]
    written: list[float]
    _fullest: list[Share] | None = None
    _kinds: dict[str, int] | None = None

    def fullest(self) -> list[Share]:
        """The temporaries that live at once where they are most."""
        if self._fullest is None:
            self._fullest = fullest(self.temporaries)
        return self._fullest

    def kinds(self) -> list[tuple[str, int]]:
        """The bytes of these by kind."""
        if self._kinds is None:
            found: dict[str, int] = {}
            for share in self.fullest():
                found[share.kind] = found.get(share.kind, 0) + share.nbytes
            self._kinds = found
        return list(self._kinds.items())


def info_of(plan: Plan, regions: list[list[Launch]], buffers: dict[Node, BufferRef]) -> PlanInfo:
    """What is known of a plan that was just made: its regions, and the buffer of each node."""
    nodes = {buffer: node for node, buffer in buffers.items()}
    sites_of = _sites(regions)
    life: dict[BufferRef, list[Any]] = {}
    for number, region in enumerate(regions):
        for launch in region:
            sites = sites_of[id(launch)]
            phases = {BACKWARD if n.site is None else phase_of(n.site)
                      for n in members_of(launch.origin)}  # fmt: skip
            for buffer in (*launch.reads, *launch.writes):
                if buffer.slot is None:
                    found = life.setdefault(buffer, [number, number, set(), _unmarked(sites)])
                    found[1] = number
            for buffer in launch.reads:
                if buffer.slot is None:
                    life[buffer][2].update(phases)
    temporaries = []
    for buffer, (first, last, readers, site) in life.items():
        node = nodes.get(buffer)
        where = node.site if node is not None and node.site is not None else site
        kind = kind_of(where, readers) if node is not None else TEMPORARY
        temporaries.append(Temporary(buffer.nbytes, buffer.offset or 0, first, last, kind, where))
    return PlanInfo(temporaries, _written(plan, regions))


def _unmarked(sites: list[Any]) -> Any:
    """The site of a value that has none, in a launch of these: what is not marked is a gradient."""
    for site in sites:
        if phase_of(site) == BACKWARD:
            return site
    return Site(sites[0][0], sites[0][1], module_of(sites[0]), BACKWARD) if sites else None


def _sites(regions: list[list[Launch]]) -> dict[int, list[Any]]:
    """The sites of each launch; one that has none has that of who reads what it writes."""
    found: dict[int, list[Any]] = {}
    readers: dict[BufferRef, list[Any]] = {}
    for launch in (launch for region in reversed(regions) for launch in reversed(region)):
        sites = [n.site for n in members_of(launch.origin) if n.site is not None]
        for buffer in () if sites else launch.writes:
            sites = sites or readers.get(buffer, [])
        found[id(launch)] = sites
        for buffer in launch.reads:
            readers[buffer] = sites
    return found


def _written(plan: Plan, regions: list[list[Launch]]) -> list[float]:
    """The share of its bytes that each task writes; a merged one as its first launch."""
    written = {}
    for launch in (launch for region in regions for launch in region):
        stored = sum(b.nbytes for b in launch.writes if b.name != "scratch")
        written[launch.name] = min(stored / launch.nbytes, 1.0) if launch.nbytes else 1.0
    return [
        written.get((task.parts or (task,))[0].name, 1.0)
        for region in plan.native.regions
        for task in region
    ]
