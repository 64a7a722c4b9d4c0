"""DevicePlan: a compiled graph on a device that has memory of its own.

The words of all launches lie in one piece of memory of the device, behind the error record. A run
fills in today's addresses, starts to write that piece, starts one launch after the other, and
returns: nothing is waited for but by what NumPy computes in between. The queue works in order, so
regions need no barrier. An index out of range is found when somebody waits for the run or reads
what it wrote: what depends on an index stays without value, and so does all that is computed from
it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bedplate.compiler.builder import Launch
from bedplate.compiler.compile_plan import (
    Launches,
    forget,
    members_of,
    plan_launches,
    stops_of,
    word_of,
)
from bedplate.compiler.host import HostTask
from bedplate.compiler.plan import ERROR_WORDS, FIRST_INPUT, LineOf, double_bits, index_error
from bedplate.devices.block import DeviceBlock
from bedplate.devices.cpu.runner import Slot
from bedplate.devices.device import Device
from bedplate.devices.queue import Queue, Work
from bedplate.errors import InternalError
from bedplate.graph.node import Node, topological_order
from bedplate.memory import line_of

SHOWN_OPS = 6


@dataclass(frozen=True, slots=True)
class Piece:
    """Launches, and what NumPy computes behind them.

    launches  (executable, place of its words, items)
    """

    launches: list[tuple[Any, int, int]]
    tasks: list[HostTask]


class DevicePlan:
    """A compiled graph, ready to be started on `device`; for what else it has see `Plan`.

    sources  what each root depends on: see `sources_of`
    """

    def __init__(self, device: Device, made: Launches, sources: Sequence[int]) -> None:
        runtime = device.runtime
        if runtime is None:
            raise InternalError(f"{device} has no memory of its own")
        self.runtime = runtime
        self.results = made.results
        self.output_bytes = made.output_bytes
        self.arena_bytes = made.arena_bytes
        self.sites = made.lowering.sites
        self.regions = made.regions
        self._sources = [0] * len(made.output_bytes)  # of each output
        for result, bits in zip(made.results, sources, strict=True):
            if not result.alias:
                self._sources[result.index] |= bits
        self.granted: list[tuple[int, int]] = []  # results always have fresh memory
        self._n_slots = made.n_slots
        self._words: list[int] = [0] * ERROR_WORDS
        self._patches: list[tuple[int, int]] = []
        self.pieces = self._pieces(made.regions)
        self.has_host_tasks = any(piece.tasks for piece in self.pieces)
        self._template = np.array(self._words, np.int64)
        patches = np.array(self._patches, np.int64).reshape(-1, 2)
        self._patched, self._slots = patches[:, 0].copy(), patches[:, 1].copy()

    def written_late(self) -> set[int]:
        """See `Plan`: none, since work that was started before may still read any memory."""
        return set()

    def _pieces(self, regions: list[list[Launch]]) -> list[Piece]:
        launches = [x for region in regions for x in region if x.host is None and x.items > 0]
        made = self.runtime.executables(
            [launch.kernel for launch in launches], lambda kernel: _place_of(kernel, launches)
        )
        executables = {id(x): one for x, one in zip(launches, made, strict=True)}
        pieces, first = [], 0
        for end, tasks in [*stops_of(regions, False), (len(regions), [])]:
            started = [
                (executables[id(launch)], self._add_words(launch), launch.items)
                for region in regions[first:end] for launch in region if id(launch) in executables
            ]  # fmt: skip
            pieces.append(Piece(started, tasks))
            first = end
        return pieces

    def _add_words(self, launch: Launch) -> int:
        place = len(self._words)
        for word in map(word_of, launch.words):
            if isinstance(word, Slot):
                self._patches.append((len(self._words), word.index))
                self._words.append(word.offset_bytes)
            elif isinstance(word, float):
                self._words.append(struct.unpack("<q", struct.pack("<d", word))[0])
            else:
                self._words.append((int(word) + (1 << 63)) % (1 << 64) - (1 << 63))
        return place

    def run(
        self, inputs: Sequence[Any], scalars: Sequence[float], line: LineOf, what: Callable[[], str]
    ) -> list[Any]:
        """Start it, and give the blocks of the results; see `start`."""
        outputs = self.start(inputs, scalars, line, what)
        return [(inputs if r.alias else outputs)[r.index] for r in self.results]

    def start(
        self, inputs: Sequence[Any], scalars: Sequence[float], line: LineOf, what: Callable[[], str]
    ) -> list[Any]:
        """Start it, and give the blocks of the outputs.

        inputs   blocks of the device, in the order of the placeholders
        scalars  the run-time numbers, in order
        line     names the user's line of a node that failed; called when the run is waited for
        what     names the run in the user's words, then too
        raises   LinAlgError; IndexError or DeviceError where NumPy reads what failed
        """
        queue = self.runtime.queue
        outputs = [DeviceBlock(nbytes, queue) for nbytes in self.output_bytes]
        arena = DeviceBlock(self.arena_bytes, queue) if self.arena_bytes else None
        memory = DeviceBlock(self._template.nbytes, queue)
        slots = self._bound(arena, memory, inputs, outputs, scalars)
        run = _Run(self, queue, slots, memory.address, line, what)
        spoilt = run.wait_for(inputs)
        sure, work = run.start(
            self._template, self._patched, self._slots,
            not all(bits & spoilt for bits in self._sources) or not spoilt,
        )  # fmt: skip
        for block in inputs:
            block.used_by(work)
        for block, bits in zip(outputs, self._sources, strict=True):
            block.work = work if bits & spoilt else sure
        return outputs

    def _bound(
        self, arena: Any, memory: DeviceBlock, inputs: Sequence[Any], outputs: Sequence[Any],
        scalars: Sequence[float],
    ) -> list[int]:  # fmt: skip
        """The slots; see the head of plan.py."""
        slots = [0 if arena is None else arena.address, memory.address]
        for block in inputs:
            if type(block) is not DeviceBlock or block.runtime is not self.runtime:
                raise InternalError(f"{block!r} is no memory of {self.runtime.device}")
            slots.append(block.address)
        slots += [block.address for block in outputs]
        slots += [double_bits(number) for number in scalars]
        if len(slots) != self._n_slots or len(slots) < FIRST_INPUT:
            raise InternalError(f"a plan of {self._n_slots} slots was given {len(slots)}")
        return slots


class _Run:
    """One run of a plan while it is started."""

    def __init__(
        self, plan: DevicePlan, queue: Queue, slots: list[int], address: int, line: LineOf,
        what: Callable[[], str],
    ) -> None:  # fmt: skip
        self.plan, self.queue, self.slots = plan, queue, slots
        self.driver = plan.runtime.driver
        self.address = address
        self.line, self.what = line, what
        self.needs: tuple[Work, ...] = ()
        self.sure_needs: tuple[Work, ...] = ()

    def wait_for(self, inputs: Sequence[Any]) -> int:
        """Let the queue wait for what writes the inputs.

        returns  which sources an index may spoil, as `sources_of` counts them: inputs whose work
                 had indices and is not known to be right, and indices of this plan
        """
        needs: dict[int, Work] = {}
        spoilt = (1 << len(inputs)) if self.plan.sites else 0
        for number, block in enumerate(inputs):
            work = block.work
            if work is not None and not work.is_settled and work.is_reached():
                work.queue.settle(work)  # it does not wait: what comes before it is done too
            if work is None or (work.is_settled and work.fault is None):
                continue
            spoilt |= work.may_spoil << number
            if id(work) not in needs and work.queue is not self.queue and not work.is_settled:
                self.driver.wait(self.queue.handle, work.event)
            needs[id(work)] = work
        self.needs = tuple(needs.values())
        self.sure_needs = tuple([work for work in self.needs if not work.may_spoil])
        return spoilt

    def start(self, template: Any, patched: Any, slots: Any, apart: bool) -> tuple[Work, Work]:
        """Start everything; gives the work of results that no index can spoil, and of the others.

        apart  there are such results, or there is no such index
        """
        driver, handle = self.driver, self.queue.handle
        words = template.copy()
        words[patched] += np.array(self.slots, np.int64)[slots]
        errors = np.zeros(ERROR_WORDS, np.int64)
        kept = (words, errors)
        with self.plan.runtime.starting(self.queue, *kept):
            driver.write(handle, self.address, words.view(np.uint8))
            for piece in self.plan.pieces:
                for executable, place, items in piece.launches:
                    driver.launch(handle, executable, self.address + 8 * place, items)
                if piece.tasks:
                    self._call_numpy(piece.tasks, kept)
            sure = work = None
            if apart:
                sure = work = self.queue.started(self.sure_needs, kept, what=self.what)
            if self.plan.sites:
                driver.read(handle, errors.view(np.uint8), self.address)
                work = self.queue.started(self.needs, kept, self._finder(errors), self.what)
            elif work is None or len(self.sure_needs) < len(self.needs):
                work = self.queue.started(self.needs, kept, what=self.what)
        return sure or work, work

    def _finder(self, errors: Any) -> Callable[[], Exception | None]:
        sites, line = self.plan.sites, self.line
        return lambda: index_error(sites, errors, line) if errors[0] else None

    def _call_numpy(self, tasks: list[HostTask], kept: tuple[Any, ...]) -> None:
        """Wait, and call NumPy on copies of the inputs; its results are written back."""
        self.queue.started(self.needs, kept, what=self.what).wait()
        if self.plan.sites:
            errors = self._read(self.address, 8 * ERROR_WORDS).view(np.int64)
            if errors[0]:
                raise index_error(self.plan.sites, errors, self.line)
        for task in tasks:
            arrays = [self._input(place) for place in task.inputs]
            for place, result in zip(task.outputs, task.call(arrays, self.line), strict=True):
                self._output(place, result)

    def _input(self, place: Any) -> Any:
        if 0 in place.shape:
            return np.zeros(place.shape, place.dtype)
        return place.over(self._read(*place.span(self.slots)).data)

    def _output(self, place: Any, result: Any) -> None:
        if 0 in place.shape:
            return
        address, size = place.span(self.slots)
        memory = np.empty(size, np.uint8)
        place.over(memory.data)[...] = result  # outputs are contiguous: every byte is written
        self.driver.write(self.queue.handle, address, memory)
        self.queue.started(kept=(memory,))

    def _read(self, address: int, nbytes: int) -> Any:
        into = np.empty(nbytes, np.uint8)
        with self.plan.runtime.starting(self.queue, into):
            self.driver.read(self.queue.handle, into, address)
            work = self.queue.started(kept=(into,))
        work.wait()
        return into


def compile_for(device: Device, roots: list[Node], n_inputs: int, n_scalars: int) -> DevicePlan:
    """Compile a graph of placeholders for a device with memory of its own; see `compile_plan`.

    raises  DeviceError for what the device cannot do
    """
    driver = None if device.runtime is None else device.runtime.driver
    workers, target = (1, None) if driver is None else (driver.n_workers, driver.target)
    made = plan_launches(roots, n_inputs, n_scalars, n_workers=workers, target=target)
    plan = DevicePlan(device, made, sources_of(roots, n_inputs))
    forget(made.regions, made.groups)
    return plan


def sources_of(roots: list[Node], n_inputs: int) -> list[int]:
    """What each root depends on, as bits: the inputs by number, and behind them, whether it depends
    on an index that is checked."""
    found: dict[Node, int] = {}
    for node in topological_order(roots):
        bits = 1 << node.attributes["index"] if node.op.name == "placeholder" else 0
        if _checks_an_index(node):
            bits |= 1 << n_inputs
        for source in node.inputs:
            bits |= found[source]
        found[node] = bits
    return [found[root] for root in roots]


def _checks_an_index(node: Node) -> bool:
    """Whether a node, or what a composed op is made of, compares an index with a size."""
    if node.op.name == "checked_index":
        return True
    if node.op.kind != "composed" or node.op.expand is None:
        return False
    made = node.op.expand(node.inputs, node.attributes)
    stack = list(made) if isinstance(made, tuple) else [made]
    seen = set(node.inputs)
    while stack:
        each = stack.pop()
        if each not in seen:
            seen.add(each)
            if _checks_an_index(each):
                return True
            stack += each.inputs
    return False


def _place_of(kernel: Any, launches: list[Launch]) -> str:
    """For which operations and lines a kernel is, as an error says it."""
    nodes = [node for x in launches if x.kernel is kernel for node in members_of(x.origin)]
    return f"\n  for {named([(node.op.name, node.site) for node in nodes])}" if nodes else ""


def named(ops: Sequence[tuple[str, Any]]) -> str:
    """Operations by name and the line of the last of them, given as (name, site), in words."""
    names = list(dict.fromkeys(name for name, _ in ops))
    more = ", ..." if len(names) > SHOWN_OPS else ""
    return f"{', '.join(names[:SHOWN_OPS])}{more}, made at {line_of(ops[-1][1])}"
