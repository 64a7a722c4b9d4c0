"""Replay: a captured step ready to run again.

Each call puts the addresses of today's values in the plan's slots, runs it, and binds the
results. A tensor that the step updates, from outside or an argument, is written where it lies if
nobody else holds its value (by reference count) and no other argument shows it; else it gets fresh
memory. So an earlier result is never overwritten while somebody holds it.
"""

from __future__ import annotations

import sys
from typing import Any

from bedplate.autograd.operation import state_of
from bedplate.autograd.stand_in import captured_entry
from bedplate.compiler.capture import CapturedPlan
from bedplate.compiler.plan import FIRST_INPUT
from bedplate.errors import CaptureError
from bedplate.graph.node import NO_ATTRIBUTES, Node
from bedplate.graph.pending import LOCAL
from bedplate.memory import ForeignBlock, allocate, allocate_all
from bedplate.ops.leaves import BUFFER, buffer
from bedplate.tensor.arguments import Part, history, unpack
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
        supplied = _inputs_of_each(made)
        donate = [(root, node) for o, root in made.states for node in supplied.get(_same(o), ())]
        self.captured = CapturedPlan(made.roots, donate)
        self.results = self.captured.plan.results
        self.roots = [
            (node.shape, node.dtype, node.device, result.index, result.alias)
            for node, result in zip(made.roots, self.results, strict=True)
        ]
        self._sources(made)
        self.states = list(made.states)
        self.gradients = list(made.gradients)
        self.expected = made.expected
        self.aliases = made.aliases
        self.result = made.result
        self.operations = made.operations
        self._choose_places(made)
        self._note_outside(made)
        self.met = met or {}
        self.fits_all = not (
            self.expected or self.histories or self.outside or self.met or self.operations
            or self.aliases
        )  # fmt: skip
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
        inputs = {slot - FIRST_INPUT: owner for slot, owner in (*self.inputs, *self.arguments)}
        over: dict[int, Tensor | int] = {}
        states = {(_name(owner), self.results[root].index) for owner, root in made.states}
        for output, source in plan.granted:
            owner = inputs.get(source)
            if isinstance(owner, Tensor | int) and (_name(owner), output) in states:
                over.setdefault(output, owner)
        self.over = list(over.items())
        self.written = over
        self.fresh = [i for i in range(len(plan.output_bytes)) if i not in over]
        self.fresh_bytes = [plan.output_bytes[i] for i in self.fresh]

    def _note_outside(self, made: Recording) -> None:
        """The tensors that the step knows from outside, and which of them are tracked."""
        owners = [owner for _, owner in self.inputs]
        owners += [owner for owner, _ in (*self.states, *self.gradients, *self.expected)]
        found = [o.tensor if isinstance(o, GradientOf) else o for o in owners] + made.read
        tensors = {id(o): o for o in found if isinstance(o, Tensor)}
        self.outside = frozenset(tensors)
        self.histories = [(t, type(t._entry), history(t)) for t in tensors.values()]

    def meets(self, arguments: list[Tensor]) -> dict[int, Tensor]:
        """The arguments that the step knows from outside too, by number."""
        outside = self.outside
        return {i: tensor for i, tensor in enumerate(arguments) if id(tensor) in outside}

    def fits(self, arguments: list[Tensor]) -> bool:
        """Whether the tensors are related to each other, and tracked, as at the capture."""
        for owner, was_none in self.expected:
            if (_tensor(owner, arguments)._grad is None) != was_none:
                return False
        for tensor, kind, was in self.histories:
            if type(tensor._entry) is not kind and history(tensor) != was:
                return False
        for i, tensor in self.met.items():
            if arguments[i] is not tensor:
                return False
        if self.outside and not self.outside.isdisjoint(map(id, arguments)):
            return False
        if self.operations and any(state_of(each) != was for each, was in self.operations):
            return False
        return not self.aliases or all(a._node is b._node for a, b in self.aliases)

    def run(self, arguments: list[Tensor]) -> Any:
        """Run on these arguments; binds states and gradients, gives the result."""
        captured = self.captured
        slots = captured.slots
        blocks: dict[int, Any] = {}
        for slot, index in self.arguments:
            block = arguments[index]._node.block
            if block is None:
                block = _block(arguments[index])
            blocks[slot] = block
            slots[slot] = block.address
        for slot, owner in self.inputs:
            tensor = owner if type(owner) is Tensor else _source(owner, arguments)
            block = tensor._node.block
            if block is None:
                block = _block(tensor)
            slots[slot] = block.address
        block = None
        outputs = self._place_outputs(arguments)
        captured.run()
        return self._bind(outputs, blocks, arguments)

    def _place_outputs(self, arguments: list[Tensor]) -> list[Any]:
        """Addresses for the outputs; gives the fresh blocks, None for what is written in place."""
        slots, first = self.captured.slots, self.captured.first_output
        if not self.over:
            fresh = allocate_all(self.fresh_bytes)
            for slot, block in enumerate(fresh, first):
                slots[slot] = block.address
            return fresh
        outputs: list[Any] = [None] * len(self.captured.plan.output_bytes)
        count, alone = sys.getrefcount, ALONE
        for output, owner in self.over:
            if isinstance(owner, int):  # `run` holds the blocks of arguments too
                node, holders = arguments[owner]._node, alone + 1
            else:
                node, holders = owner._node, alone
            block = node.block
            if count(node) <= alone and count(block) <= holders and type(block) is not ForeignBlock:
                slots[first + output] = block.address
            else:
                block = outputs[output] = allocate(self.captured.plan.output_bytes[output])
                slots[first + output] = block.address
        for output, block in zip(self.fresh, allocate_all(self.fresh_bytes), strict=True):
            outputs[output] = block
            slots[first + output] = block.address
        return outputs

    def _bind(self, outputs: list[Any], blocks: dict[int, Any], arguments: list[Tensor]) -> Any:
        """Bind states and gradients to their new values; gives the result."""
        nodes = []
        for shape, dtype, device, index, alias in self.roots:
            block = outputs[index] if not alias else self._input(index, blocks, arguments)
            if block is None:
                node = _tensor(self.written[index], arguments)._node
                if node.shape != shape:
                    node = buffer(node.block, shape, dtype, device)
            else:
                node = Node(BUFFER, (), NO_ATTRIBUTES, shape, dtype, device, block)
            nodes.append(node)
        part = self.result
        if type(part) is Part:
            result = _part(part.source, nodes, arguments)
        else:
            result = unpack(part, lambda source: _part(source, nodes, arguments))
        for owner, root in self.states:
            _tensor(owner, arguments)._node = nodes[root]
        for owner, number in self.gradients:
            gradient = None if number is None else wrap(nodes[number])
            _tensor(owner, arguments)._grad = gradient
        return result

    def _input(self, index: int, blocks: dict[int, Any], arguments: list[Tensor]) -> Any:
        """The block of an input that is a result as it is."""
        slot = FIRST_INPUT + index
        if slot in blocks:
            return blocks[slot]
        if slot in self.constants:
            return self.constants[slot]
        return _block(_source(dict(self.inputs)[slot], arguments))


def _part(source: Any, nodes: list[Node], arguments: list[Tensor]) -> Tensor:
    """A tensor of the result."""
    if type(source) is Argument:
        return arguments[source.index]
    node = nodes[source.index]
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


def _inputs_of_each(made: Recording) -> dict[Any, list[Any]]:
    """The leaf nodes whose value an owner supplies, by what `_same` gives for it."""
    found: dict[Any, list[Any]] = {}
    for node, owner in made.inputs.items():
        found.setdefault(_same(owner), []).append(node)
    return found


def _same(owner: Any) -> Any:
    """Equal for owners that are one: tensors by identity, arguments by number."""
    return owner if type(owner) is int else ("object", id(owner))


def _name(owner: Any) -> Any:
    """Who an input, a state or a gradient belongs to, comparable between captures."""
    if isinstance(owner, GradientOf):
        return "gradient", _name(owner.tensor)
    return owner if isinstance(owner, int) else ("tensor", id(owner))
