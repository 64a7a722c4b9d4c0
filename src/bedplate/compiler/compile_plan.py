"""compile_plan: a graph of placeholders becomes a plan.

Passes, fusion, lowering, schedule, memory plan, one after the other; then each value has its slot,
and each kernel its machine code. What a device with memory of its own makes of the launches
instead: device_plan.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bedplate.compiler.access import Access, access_of, numel
from bedplate.compiler.builder import BufferRef, Launch, View
from bedplate.compiler.fuse import Fuser
from bedplate.compiler.groups import Group
from bedplate.compiler.host import HostTask, place_of
from bedplate.compiler.lower import Lowering
from bedplate.compiler.memory_plan import plan_memory
from bedplate.compiler.merge import merged_tasks
from bedplate.compiler.passes.pipeline import Step, run_passes
from bedplate.compiler.plan import ARENA, ERRORS, FIRST_INPUT, Plan, Result
from bedplate.compiler.schedule import allow_overwriting, checked_regions, schedule
from bedplate.config import config
from bedplate.devices.cpu.runner import NativePlan, Slot, Task
from bedplate.errors import InternalError
from bedplate.graph.node import Node
from bedplate.kernel import Target
from bedplate.kernel.staging import compile_together
from bedplate.observer import hooks


def compile_plan(
    roots: list[Node],
    n_inputs: int,
    n_scalars: int,
    wishes: Sequence[tuple[int, int]] = (),
    keep_steps: bool = False,
) -> Plan:
    """Compile a graph of placeholders.

    roots       the values to compute; leaves are placeholders, constants, iotas, scalars
    wishes      pairs (root, input): the root's value may be written over the input
    keep_steps  keep the graphs between passes, for inspection
    """
    made = plan_launches(roots, n_inputs, n_scalars, wishes, keep_steps)
    regions = made.regions
    compile_together([x.kernel for region in regions for x in region if x.host is None])
    stops = stops_of(regions, bool(made.granted))
    checks = {number - 1: ERRORS for number, _ in stops}
    native = NativePlan([_tasks(region) for region in regions], made.n_slots, checks)
    plan = Plan(
        native, n_inputs, n_scalars, made.output_bytes, made.results, made.arena_bytes,
        made.lowering.sites, regions, made.groups, made.steps, made.granted, stops,
    )  # fmt: skip
    if (planned := hooks.planned) is not None and not keep_steps:
        planned(plan, regions, made.lowering.buffers)
    if not keep_steps:
        forget(regions, made.groups)
    return plan


@dataclass
class Launches:
    """What a graph became, before a device makes kernels of it; for the fields see `Plan`."""

    regions: list[list[Launch]]
    results: list[Result]
    output_bytes: list[int]
    arena_bytes: int
    granted: list[tuple[int, int]]
    groups: list[Group]
    steps: list[Step]
    lowering: Lowering
    n_slots: int


def plan_launches(
    roots: list[Node],
    n_inputs: int,
    n_scalars: int,
    wishes: Sequence[tuple[int, int]] = (),
    keep_steps: bool = False,
    n_workers: int | None = None,
    target: Target | None = None,
) -> Launches:
    """The launches of a graph and where each value lies; see `compile_plan`.

    n_workers, target  of the device that runs them; by default the CPU's
    """
    steps: list[Step] = []
    final = run_passes(roots, steps if keep_steps else None)
    known: dict[Node, Access | None] = {}
    access = accessor(known)
    results, slots, output_bytes = _results(final, access, n_inputs)
    groups = Fuser(final, access).run()
    scalars = {i: Slot(FIRST_INPUT + n_inputs + len(output_bytes) + i) for i in range(n_scalars)}
    projections = _projections(groups, final)
    lowering = Lowering(access, slots, scalars, projections, n_workers, target)
    builder = lowering.run(groups)
    regions = schedule(builder.launches)
    granted = _granted(regions, wishes, results, lowering, final, access)
    arena_bytes = plan_memory(regions)
    n_slots = FIRST_INPUT + n_inputs + len(output_bytes) + n_scalars
    return Launches(
        regions, results, output_bytes, arena_bytes, granted, groups, steps, lowering, n_slots
    )


def forget(regions: list[list[Launch]], groups: list[Group]) -> None:
    """Let go of what only explanations need: a plan may live as long as the process."""
    groups.clear()
    for region in regions:
        for launch in region:
            launch.words, launch.reads, launch.writes = [], [], []
            launch.in_place, launch.origin, launch.host = [], None, None


def stops_of(regions: list[list[Launch]], grants: bool) -> list[tuple[int, list[HostTask]]]:
    """See `Plan`: where host tasks are called, and the last check if a result overwrites."""
    stops = []
    last_check = checked_regions(regions) if grants else 0
    for number, region in enumerate(regions, 1):
        tasks = [_host_task(*launch.host) for launch in region if launch.host is not None]
        if tasks or number == last_check:
            stops.append((number, tasks))
    return stops


def _host_task(node: Node, inputs: list[View], outputs: list[View]) -> HostTask:
    read, written = ([place_of(v, word_of(v)) for v in views] for views in (inputs, outputs))
    return HostTask(node, tuple(read), tuple(written))


def _granted(
    regions: list[list[Launch]], wishes: Sequence[tuple[int, int]], results: list[Result],
    lowering: Lowering, roots: list[Node], access: Callable[[Node], Access],
) -> list[tuple[int, int]]:  # fmt: skip
    """The wishes that the order of the launches allows, or can be made to allow."""
    kept = {result.index for result in results if result.alias}
    buffers = {b.slot: b for b in lowering.buffers.values() if b.slot is not None}
    pairs: dict[tuple[int, int], tuple[BufferRef, BufferRef]] = {}
    for root, source in wishes:
        result = results[root]
        old = buffers.get(FIRST_INPUT + source)
        if result.alias or source in kept or old is None:
            continue
        new = lowering.buffer_of(access(roots[root]).base)
        if new.nbytes == old.nbytes:
            pairs[result.index, source] = (new, old)
    allowed = allow_overwriting(regions, list(pairs.values()))
    return [pair for pair, ok in zip(pairs, allowed, strict=True) if ok]


def accessor(known: dict[Node, Access | None]) -> Callable[[Node], Access]:
    """A function that gives the access of any node after `views`."""

    def find(node: Node) -> Access:
        found = known.get(node)
        if found is None:
            found = access_of(node, known)
            if found is None:
                raise InternalError("views leaves an access for every node")
        return found

    return find


def _results(
    roots: list[Node], access: Callable[[Node], Access], n_inputs: int
) -> tuple[list[Result], dict[Node, int], list[int]]:
    """Where each root is, the slots of inputs and outputs, and the bytes of the outputs."""
    slots: dict[Node, int] = {}
    results: list[Result] = []
    output_bytes: list[int] = []
    outputs: dict[Node, int] = {}
    for root in roots:
        base = access(root).base
        if base.op.name == "placeholder":
            results.append(Result(base.attributes["index"], True))
            continue
        if base not in outputs:
            outputs[base] = len(output_bytes)
            slots[base] = FIRST_INPUT + n_inputs + len(output_bytes)
            output_bytes.append(numel(base) * base.dtype.itemsize)
        results.append(Result(outputs[base], False))
    return results, _InputSlots(slots), output_bytes


class _InputSlots(dict[Node, int]):
    """Slots by node; a placeholder's follows from its index."""

    def get(self, node: Node, default: Any = None) -> Any:  # type: ignore[override]
        if node.op.name == "placeholder":
            return FIRST_INPUT + node.attributes["index"]
        return super().get(node, default)


def _projections(groups: list[Group], roots: list[Node]) -> dict[Node, dict[int, Node]]:
    found: dict[Node, dict[int, Node]] = {}
    nodes = [source for group in groups for source in group.sources] + roots
    for node in nodes:
        while node.op.kind == "view" and node.op.name != "output":
            node = node.inputs[0]
        if node.op.name == "output":
            found.setdefault(node.inputs[0], {})[node.attributes["index"]] = node
    return found


def _tasks(region: list[Launch]) -> list[Task]:
    launches = [launch for launch in region if launch.host is None]
    tasks = [_task(launch) for launch in launches]
    return merged_tasks(launches, tasks) if config.merging else tasks


def _task(launch: Launch) -> Task:
    words = [word_of(word) for word in launch.words]
    compiled = launch.kernel.compile()
    nodes = members_of(launch.origin)
    sites = tuple([node.site for node in nodes if node.site is not None])
    wide = bool(nodes) and getattr(nodes[0].dtype, "itemsize", 4) >= 8
    return Task(
        compiled, words, launch.items, launch.name, launch.flops, launch.nbytes, launch.weight_ns,
        sites=sites, wide=wide,
    )  # fmt: skip


def members_of(group: Group | None) -> list[Node]:
    """The nodes that a launch of a group computes, its epilogue's among them."""
    if group is None:
        return []
    return group.members if group.epilogue is None else group.members + group.epilogue.members


def word_of(word: Any) -> Any:
    if isinstance(word, View):
        return _address(word.buffer, word.offset * word.dtype.itemsize)
    if isinstance(word, BufferRef):
        return _address(word, 0)
    return word


def _address(buffer: BufferRef, offset_bytes: int) -> Slot:
    if buffer.slot is not None:
        return Slot(buffer.slot, offset_bytes)
    return Slot(ARENA, (buffer.offset or 0) + offset_bytes)
