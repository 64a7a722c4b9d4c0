"""Replay: a captured step ready to run again.

Each call puts the addresses of today's values in the plan's slots, runs it, and binds the
results. A tensor that the step updates is written where it lies if nobody else holds its
value (by reference count) and no argument shows it; else it gets fresh memory. So an earlier
result is never overwritten while somebody holds it.
"""

from __future__ import annotations

import sys
from typing import Any

from bedplate.autograd.operation import state_of
from bedplate.autograd.stand_in import captured_entry
from bedplate.compiler.capture import CapturedPlan
from bedplate.compiler.plan import FIRST_INPUT
from bedplate.errors import CaptureError
from bedplate.graph.pending import LOCAL
from bedplate.memory import ForeignBlock, allocate
from bedplate.ops.leaves import buffer
from bedplate.tensor.arguments import history, unpack
from bedplate.tensor.capturing import Argument, GradientOf, Recording
from bedplate.tensor.tensor import Tensor, wrap
from bedplate.tensor.values import flush


class _Probe:
    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = _Probe.__new__(_Probe)


def _references_of_one_holder() -> int:
    """What getrefcount says of an object with one holder, read as `_place_outputs` does."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return -1  # counts of other threads may lag behind: never write in place
    probe = _Probe()
    held = probe.held
    return sys.getrefcount(held)


ALONE = _references_of_one_holder()


class Replay:
    """One captured step; see the head of this file.

    met  argument number -> the tensor that the step also knows from outside
    """

    def __init__(
        self, made: Recording, arguments: list[Tensor], met: dict[int, Tensor] | None = None
    ) -> None:
        donate = [(root, node) for owner, root in made.states for node in _inputs_of(owner, made)]
        self.captured = CapturedPlan(made.roots, donate)
        self.shapes = [(node.shape, node.dtype, node.device) for node in made.roots]
        self._sources(made)
        self.results = self.captured.plan.results
        self.states = list(made.states)
        self.gradients = list(made.gradients)
        self.expected = made.expected
        self.aliases = made.aliases
        self.result = made.result
        self.operations = made.operations
        self._choose_places(made)
        self._note_outside(made)
        self.met = met or {}
        self.key = (
            self.captured.key, made.constants, tuple(_name(owner) for _, owner in self.inputs),
            tuple((_name(owner), root) for owner, root in made.states),
            tuple((_name(owner), root) for owner, root in made.gradients), repr(made.result),
            tuple(state for _, state in made.operations),
        )  # fmt: skip
        made.roots.clear()
        made.inputs.clear()
        self.captured.forget_nodes()

    def _sources(self, made: Recording) -> None:
        """Where the address of each input slot comes from."""
        self.arguments: list[tuple[int, int]] = []
        self.inputs: list[tuple[int, Any]] = []
        self.constants: dict[int, Any] = {}
        for i, node in enumerate(self.captured.inputs):
            slot = FIRST_INPUT + i
            owner = made.inputs.get(node)
            if owner is None:
                self.constants[slot] = node.block  # keeps the memory
                self.captured.slots[slot] = node.block.address
            elif isinstance(owner, int):
                self.arguments.append((slot, owner))
            else:
                self.inputs.append((slot, owner))

    def _choose_places(self, made: Recording) -> None:
        """Outputs: those written over a tensor's memory if it is free, and the others."""
        plan = self.captured.plan
        inputs = {slot - FIRST_INPUT: owner for slot, owner in self.inputs}
        over: dict[int, Tensor] = {}
        for output, source in plan.granted:
            owner = inputs.get(source)
            if isinstance(owner, Tensor) and any(
                o is owner and self.results[r].index == output for o, r in made.states
            ):
                over.setdefault(output, owner)
        self.over = list(over.items())
        self.written = over
        self.owners = dict(self.inputs)
        self.fresh = [(i, nbytes) for i, nbytes in enumerate(plan.output_bytes) if i not in over]

    def _note_outside(self, made: Recording) -> None:
        """The tensors that the step knows from outside, and which of them are tracked."""
        owners = [owner for _, owner in self.inputs]
        owners += [owner for owner, _ in (*self.states, *self.gradients, *self.expected)]
        found = [o.tensor if isinstance(o, GradientOf) else o for o in owners] + made.read
        tensors = {id(o): o for o in found if isinstance(o, Tensor)}
        self.outside = frozenset(tensors)
        self.histories = [(tensor, history(tensor)) for tensor in tensors.values()]

    def meets(self, arguments: list[Tensor]) -> dict[int, Tensor]:
        """The arguments that the step knows from outside too, by number."""
        outside = self.outside
        return {i: tensor for i, tensor in enumerate(arguments) if id(tensor) in outside}

    def fits(self, arguments: list[Tensor]) -> bool:
        """Whether the tensors are related to each other, and tracked, as at the capture."""
        for owner, was_none in self.expected:
            if (_tensor(owner, arguments)._grad is None) != was_none:
                return False
        for tensor, was in self.histories:
            if history(tensor) != was:
                return False
        for i, tensor in self.met.items():
            if arguments[i] is not tensor:
                return False
        if not self.outside.isdisjoint(map(id, arguments)):
            return False
        if any(state_of(operation) != was for operation, was in self.operations):
            return False
        return all(a._node is b._node for a, b in self.aliases)

    def run(self, arguments: list[Tensor]) -> Any:
        """Run on these arguments; binds states and gradients, gives the result."""
        captured = self.captured
        slots = captured.slots
        blocks: dict[int, Any] = {}
        for slot, index in self.arguments:
            blocks[slot] = block = _block(arguments[index])
            slots[slot] = block.address
        shown = [block.address for block in blocks.values()]
        for slot, owner in self.inputs:
            tensor = owner if isinstance(owner, Tensor) else _source(owner, arguments)
            block = tensor._node.block
            if block is None:
                block = _block(tensor)
            slots[slot] = block.address
        block = None
        outputs = self._place_outputs(shown)
        captured.run()
        return self._bind(outputs, blocks, arguments)

    def _place_outputs(self, shown: list[int]) -> dict[int, Any]:
        """Addresses for the outputs; gives the fresh blocks."""
        slots, first = self.captured.slots, self.captured.first_output
        sizes = self.captured.plan.output_bytes
        count = sys.getrefcount
        outputs = {}
        for output, tensor in self.over:
            node = tensor._node
            block = node.block
            address = block.address
            alone = count(node) <= ALONE and count(block) <= ALONE
            if alone and address not in shown and type(block) is not ForeignBlock:
                slots[first + output] = address
            else:
                block = outputs[output] = allocate(sizes[output])
                slots[first + output] = block.address
        for output, nbytes in self.fresh:
            block = outputs[output] = allocate(nbytes)
            slots[first + output] = block.address
        return outputs

    def _bind(
        self, outputs: dict[int, Any], blocks: dict[int, Any], arguments: list[Tensor]
    ) -> Any:
        """Bind states and gradients to their new values; gives the result."""
        values = _Values(self, outputs, blocks, arguments)
        result = unpack(self.result, lambda source: _part(source, values, arguments))
        bound = [(owner, values.node(root)) for owner, root in self.states]
        gradients = [(o, None if r is None else wrap(values.node(r))) for o, r in self.gradients]
        for owner, node in bound:
            _tensor(owner, arguments)._node = node
        for owner, gradient in gradients:
            _tensor(owner, arguments)._grad = gradient
        return result


class _Values:
    """The nodes of roots after a run."""

    def __init__(
        self,
        replay: Replay,
        outputs: dict[int, Any],
        blocks: dict[int, Any],
        arguments: list[Tensor],
    ) -> None:
        self.replay = replay
        self.outputs = outputs
        self.blocks = blocks
        self.arguments = arguments
        self.made: dict[int, Any] = {}

    def node(self, root: int) -> Any:
        """The node that holds the value of a root."""
        found = self.made.get(root)
        if found is None:
            found = self.made[root] = self._make(root)
        return found

    def _make(self, root: int) -> Any:
        shape, dtype, device = self.replay.shapes[root]
        result = self.replay.results[root]
        if result.alias:
            return buffer(self._input_block(FIRST_INPUT + result.index), shape, dtype, device)
        block = self.outputs.get(result.index)
        if block is not None:
            return buffer(block, shape, dtype, device)
        node = self.replay.written[result.index]._node
        return node if node.shape == shape else buffer(node.block, shape, dtype, device)

    def _input_block(self, slot: int) -> Any:
        if slot in self.blocks:
            return self.blocks[slot]
        owner = self.replay.owners.get(slot)
        if owner is None:
            return self.replay.constants[slot]
        return _block(_source(owner, self.arguments))


def _part(source: Any, values: _Values, arguments: list[Tensor]) -> Tensor:
    """A tensor of the result."""
    if isinstance(source, Argument):
        return arguments[source.index]
    node = values.node(source.index)
    return wrap(node, captured_entry(node) if source.tracked else None)


def _block(tensor: Tensor) -> Any:
    """The memory of a tensor's value, which is computed if need be."""
    node = tensor._node
    if node.block is None:
        flush(LOCAL.state, node)
    return node.block


def _tensor(owner: Any, arguments: list[Tensor]) -> Tensor:
    return arguments[owner] if isinstance(owner, int) else owner


def _source(owner: Any, arguments: list[Tensor]) -> Tensor:
    """The tensor whose value is an input: itself, or the gradient of another."""
    if isinstance(owner, GradientOf):
        gradient = _tensor(owner.tensor, arguments)._grad
        if gradient is None:
            raise CaptureError("jit: a gradient that the captured step adds to is gone")
        return gradient
    return _tensor(owner, arguments)


def _inputs_of(owner: Any, made: Recording) -> list[Any]:
    """The leaf nodes whose value a tensor supplies."""
    return [node for node, source in made.inputs.items() if source is owner]


def _name(owner: Any) -> Any:
    """Who an input, a state or a gradient belongs to, comparable between captures."""
    if isinstance(owner, GradientOf):
        return "gradient", _name(owner.tensor)
    return owner if isinstance(owner, int) else ("tensor", id(owner))
