"""capture: a plan that is replayed with other values, for `jit`.

A captured graph has inputs (placeholders, and leaves whose values the caller supplies each
time), run-time numbers that stay as they were captured, and results. A result may take the
place of an input (`donate`): when the caller says that nobody else holds the input's memory,
the new value is written over the old one, where the plan's order allows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bedplate.compiler.host import line_in, lines_of
from bedplate.compiler.plan import ARENA, FIRST_INPUT, Bound, Plan, double_bits
from bedplate.compiler.realise import (
    explained,
    find_device_plan,
    find_plan,
    planning,
    project_outputs,
)
from bedplate.compiler.signature import Signature
from bedplate.devices.cpu.runner import is_watched
from bedplate.devices.device import Device
from bedplate.graph.node import Node, topological_order
from bedplate.memory import Block, allocate

# Temporaries up to this size stay allocated between calls, as many captures as there are; a larger
# arena is taken anew from the pool: 0.5 us, where to fill it takes 90 at 45 bytes a nanosecond.
KEPT_ARENA_BYTES = 4 << 20


class CapturedPlan:
    """The plan of a captured graph.

    roots     nodes whose values are results
    donate    pairs (result, input node): the result may overwrite the input
    inputs    the nodes whose blocks each run is given, in the order of their slots
    """

    def __init__(self, roots: list[Node], donate: Sequence[tuple[int, Node]] = ()) -> None:
        project_outputs(roots)
        order = topological_order(roots)
        signature = Signature(order, roots)
        self._lines = lines_of(order)
        self.inputs = signature.inputs
        position = {node: i for i, node in enumerate(self.inputs)}
        wishes = tuple((result, position[node]) for result, node in donate if node in position)
        with planning():
            self.plan: Plan = find_plan(signature, wishes)
        # two captures with equal keys do the same
        self.key: Any = signature.key, tuple([double_bits(x) for x in signature.scalars])
        self.first_output = FIRST_INPUT + len(self.inputs)
        self._bound = Bound(self.plan.native)
        self.slots = self._bound.slots
        self._set_numbers(signature.scalars)
        self._arena = self._new_arena() if self._keeps_arena() else None
        if self._arena is not None:
            self.slots[ARENA] = self._arena.address

    @property
    def granted(self) -> dict[int, int]:
        """Which output (by number) may be written over which input."""
        return dict(self.plan.granted)

    def _keeps_arena(self) -> bool:
        return 0 < self.plan.arena_bytes <= KEPT_ARENA_BYTES

    def _new_arena(self) -> Block:
        return allocate(self.plan.arena_bytes, self.plan.arena_site)

    def forget_nodes(self) -> None:
        """Let go of the captured graph: whoever holds a node keeps its memory from reuse."""
        self.inputs = []

    def _set_numbers(self, scalars: list[float]) -> None:
        first = self.first_output + len(self.plan.output_bytes)
        for slot, number in enumerate(scalars, first):
            self.slots[slot] = double_bits(number)

    def run(self) -> None:
        """Run with the addresses that the caller has put in `slots`; one run at a time.

        raises  IndexError if an index was out of range, LinAlgError
        """
        plan, bound = self.plan, self._bound
        if self._arena is None and plan.arena_bytes:
            arena = self._new_arena()  # freed when this returns
            self.slots[ARENA] = arena.address
        if plan.has_host_tasks or is_watched():
            plan.launch(self.slots, bound.errors, self._line)
        elif plan.native.is_alone:
            plan.native.start(bound.frame.argument)
        else:
            plan.native.run_frame(bound.frame)
        if plan.sites and bound.take_error():
            plan.raise_index_error(bound.errors, self._line)

    def _line(self, node: Node) -> str:
        return line_in(self._lines, node)


class CapturedDevicePlan:
    """As `CapturedPlan`, of a graph on a device with memory of its own.

    slots  the addresses of the inputs, which nobody reads: a run is given blocks
    """

    def __init__(self, roots: list[Node], device: Device) -> None:
        project_outputs(roots)
        signature = Signature(topological_order(roots), roots)
        self.inputs = signature.inputs
        with planning():
            self.plan = find_device_plan(signature, device)
        self._line, self._what = explained(signature, self.plan)
        self._scalars = list(signature.scalars)
        self.key: Any = signature.key, tuple([double_bits(x) for x in signature.scalars])
        self.slots: dict[int, int] = {}

    def forget_nodes(self) -> None:
        """See `CapturedPlan`."""
        self.inputs = []

    def start(self, blocks: Sequence[Any]) -> list[Any]:
        """Start a run on these inputs; gives the blocks of the outputs."""
        return self.plan.start(blocks, self._scalars, self._line, self._what)
