"""Plan: a compiled graph, and how it is run.

A plan is made once for a graph's structure. Running it binds addresses to slots: the arena
of temporaries, the error record, the inputs, the outputs, and the numbers that change from
call to call. Then one native call runs all regions. The file is a little long, because a plan and
the slots that its making gives out stand together.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bedplate.compiler.access import Access, access_of, numel
from bedplate.compiler.builder import BufferRef, Launch, View
from bedplate.compiler.debug import show_run
from bedplate.compiler.fuse import Fuser
from bedplate.compiler.groups import Group
from bedplate.compiler.host import HostTask, line_in, lines_of, place_of
from bedplate.compiler.lower import Lowering
from bedplate.compiler.memory_plan import plan_memory
from bedplate.compiler.merge import merged_tasks
from bedplate.compiler.passes.pipeline import Step, run_passes
from bedplate.compiler.schedule import allow_overwriting, checked_regions, schedule
from bedplate.config import config, settings_of
from bedplate.devices.cpu.runner import NativePlan, Slot, Task, address_of
from bedplate.errors import InternalError
from bedplate.graph.node import Node
from bedplate.kernel.checks import watch
from bedplate.kernel.staging import compile_together
from bedplate.memory import allocate, allocate_all
from bedplate.observer import hooks

ARENA, ERRORS, FIRST_INPUT = 0, 1, 2
ERROR_WORDS = 8
LineOf = Callable[[Node], str]
_settings = settings_of("check", "debug")
_bits_of, _word_of = struct.Struct("d").pack, struct.Struct("q").unpack


@dataclass
class Result:
    """Where a root's value is: output number `index`, or (alias) the block of an input."""

    index: int
    alias: bool


class Temporaries:
    """Stands where a block has its line, for the arena of one plan: many lines share it."""

    __slots__ = ("__weakref__",)

    def __str__(self) -> str:
        return "the temporaries of a step"


class Bound:
    """A frame and its error record, for one run at a time."""

    __slots__ = ("errors", "frame", "slots")

    def __init__(self, native: NativePlan) -> None:
        self.errors = (ctypes.c_int64 * ERROR_WORDS)()
        self.frame = native.new_frame()
        self.slots = self.frame.slots
        self.slots[ERRORS] = ctypes.addressof(self.errors)

    def take_error(self) -> bool:
        """Whether an index was out of range in the last run; the next begins without."""
        found = self.errors[0] != 0
        self.errors[0] = 0
        return found


@dataclass
class Plan:
    """A compiled graph.

    results      one for each root
    output_bytes of each output, in slot order
    sites        the checked indices, by number
    granted      pairs (output, input): the output may be written over the input
    stops        (regions, host tasks): after so many regions the run looks whether an index was
                 out of range, and calls the tasks. Nothing granted is written before the last
    """

    native: NativePlan
    n_inputs: int
    n_scalars: int
    output_bytes: list[int]
    results: list[Result]
    arena_bytes: int
    sites: list[Node]
    regions: list[list[Launch]]
    groups: list[Group] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    granted: list[tuple[int, int]] = field(default_factory=list)
    stops: list[tuple[int, list[HostTask]]] = field(default_factory=list)
    spare: list[Bound] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.has_host_tasks = any(tasks for _, tasks in self.stops)
        self.arena_site = Temporaries()
        self.gives_one = (
            len(self.results) == len(self.output_bytes) == 1 and not self.results[0].alias
        )

    def written_late(self) -> set[int]:
        """The outputs that are not touched before a run can fail no more."""
        if self.has_host_tasks:
            return set()
        last = self.stops[-1][0] if self.stops else len(self.native.regions)
        early = self.native.regions[: last if self.sites else 0]
        touched = {
            word.index
            for region in early for task in region for word in task.words
            if isinstance(word, Slot)
        }  # fmt: skip
        first = FIRST_INPUT + self.n_inputs
        return {i for i in range(len(self.output_bytes)) if first + i not in touched}

    def take_bound(self) -> Bound:
        """Slots that nobody else has; `spare` takes them back after a run that went well."""
        try:
            return self.spare.pop()
        except IndexError:
            return Bound(self.native)

    def run_one(self, inputs: Sequence[Any], scalars: Sequence[float], node: Node) -> Any:
        """As `run`, for a plan of one op that `gives_one`, has no host tasks and is not watched.

        node     names the user's line if an index was out of range
        returns  the block of the result
        """
        block = allocate(self.output_bytes[0])
        bound = self.take_bound()
        slots, position = bound.slots, FIRST_INPUT
        for each in inputs:
            slots[position] = each.address
            position += 1
        slots[position] = block.address
        for number in scalars:
            position += 1
            slots[position] = double_bits(number)
        if self.arena_bytes:
            arena = allocate(self.arena_bytes, self.arena_site)  # freed when this returns
            slots[ARENA] = arena.address
        native = self.native
        if native.is_alone:
            native.start(bound.frame.argument)
        else:
            native.run_frame(bound.frame)
        if self.sites and bound.take_error():
            self.raise_index_error(bound.errors, partial(line_in, lines_of([node])))
        self.spare.append(bound)
        return block

    def run(
        self, inputs: Sequence[Any], scalars: Sequence[float], line: LineOf = Node.line
    ) -> list[Any]:
        """The blocks of the results.

        inputs   blocks, in the order of the placeholders
        scalars  the run-time numbers, in order
        line     names the user's line of a node that failed
        raises   IndexError if an index was out of range, LinAlgError
        """
        outputs = allocate_all(self.output_bytes)
        bound = self.take_bound()
        slots = bound.slots
        arena = allocate(self.arena_bytes, self.arena_site) if self.arena_bytes else None
        if arena is not None:
            slots[ARENA] = arena.address
        position = FIRST_INPUT
        for blocks in (inputs, outputs):
            for block in blocks:
                slots[position] = block.address
                position += 1
        for number in scalars:
            slots[position] = double_bits(number)
            position += 1
        check, debug = _settings()
        if check:
            self._run_watched(slots, [*inputs, *outputs, arena], bound.errors, line)
        elif self.has_host_tasks or debug or hooks.run is not None:
            self.launch(slots, bound.errors, line)
        else:
            self.native.run_frame(bound.frame)
        if bound.take_error():
            self.raise_index_error(bound.errors, line)
        self.spare.append(bound)
        if self.gives_one:
            return outputs
        return [(inputs if r.alias else outputs)[r.index] for r in self.results]

    def _run_watched(self, slots: Any, blocks: list[Any], errors: Any, line: LineOf) -> None:
        """Run kernels that check each access against the memory that the plan was given."""
        memory = [(block.address, block.nbytes) for block in blocks if block is not None]
        memory += [(address_of(x), memoryview(x).nbytes) for x in (slots, errors)]
        with watch([*memory, self.native.extent]):
            self.launch(slots, errors, line)

    def launch(self, slots: Any, errors: Any, line: LineOf = Node.line) -> None:
        """Run on bound slots.

        errors   the error record; a run whose indices were wrong ends at the next stop
        raises   LinAlgError
        """
        first = 0
        for regions, tasks in self.stops:
            self.native.run(slots, first, regions)
            first = regions
            if errors[0]:
                return
            started = time.perf_counter()
            for task in tasks:
                if hooks.host is None:
                    task.run(slots, line)
                else:
                    _run_observed(task, slots, line)
            if config.debug >= 2:
                self.native.region_seconds[regions - 1] += time.perf_counter() - started
        self.native.run(slots, first)
        if config.debug:
            show_run(self.regions, self.native.region_seconds)

    def raise_index_error(self, errors: Any, line: LineOf = Node.line) -> None:
        """Name the index that was out of range, and the line that used it."""
        raise index_error(self.sites, errors, line)


def index_error(sites: list[Node], errors: Any, line: LineOf) -> IndexError:
    """What an error record tells: the index that was out of range, and the line that used it."""
    node = sites[errors[1]]
    return IndexError(
        f"{node.attributes['what']}: index {errors[2]} is out of range for size {errors[3]}\n"
        f"  used at {line(node)}"
    )


def _run_observed(task: HostTask, slots: Any, line: LineOf) -> None:
    begin = time.perf_counter_ns()
    try:
        task.run(slots, line)
    finally:
        if (host := hooks.host) is not None:
            host(task, begin, time.perf_counter_ns())


def double_bits(number: float) -> int:
    """A number as the word that kernels read."""
    return _word_of(_bits_of(number))[0]


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
) -> Launches:
    """The launches of a graph and where each value lies; see `compile_plan`.

    n_workers  of the device that runs them; by default the CPU's
    """
    steps: list[Step] = []
    final = run_passes(roots, steps if keep_steps else None)
    known: dict[Node, Access | None] = {}
    access = accessor(known)
    results, slots, output_bytes = _results(final, access, n_inputs)
    groups = Fuser(final, access).run()
    scalars = {i: Slot(FIRST_INPUT + n_inputs + len(output_bytes) + i) for i in range(n_scalars)}
    lowering = Lowering(access, slots, scalars, _projections(groups, final), n_workers)
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
