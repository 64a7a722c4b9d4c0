"""Plan: a compiled graph, and how it is run.

A plan is made once for a graph's structure: compile_plan.py. Running it binds addresses to slots:
the arena of temporaries, the error record, the inputs, the outputs, and the numbers that change
from call to call. Then one native call runs all regions.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bedplate.compiler.builder import Launch
from bedplate.compiler.debug import show_run
from bedplate.compiler.groups import Group
from bedplate.compiler.host import HostTask, line_in, lines_of
from bedplate.compiler.passes.pipeline import Step
from bedplate.config import config, settings_of
from bedplate.devices.cpu.runner import NativePlan, Slot, address_of
from bedplate.graph.node import Node
from bedplate.kernel.checks import watch
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
        block = allocate(self.output_bytes[0], node.site)
        try:  # as `take_bound`, without a call
            bound = self.spare.pop()
        except IndexError:
            bound = Bound(self.native)
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
