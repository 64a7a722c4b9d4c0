"""Replay: a captured step ready to run again.

Each call puts the addresses of today's values in the plan's slots, runs it, and binds the
results. A tensor that the step updates, from outside or an argument, is written where it lies if
nobody else holds its value (by reference count), no other argument shows it and no other thread
computes; else it gets fresh memory. So an earlier result is never overwritten while somebody holds
it.

While it is written the tensor has another node, which has no value yet (`Taken`): who comes to it
from another thread waits for the lock that the run holds, as for any value that is being computed.
Only then is the count looked at: whoever could reach the old node had it before, and is counted.
The file is a little long, because what a replay checks, writes over and binds is one list.
"""

from __future__ import annotations

import sys
from typing import Any

from bedplate.autograd.operation import state_of
from bedplate.autograd.stand_in import captured_entry
from bedplate.compiler.capture import CapturedPlan
from bedplate.compiler.plan import FIRST_INPUT
from bedplate.compiler.realise import TURN
from bedplate.errors import CaptureError
from bedplate.graph.node import NO_ATTRIBUTES, Node, Taken
from bedplate.graph.pending import LOCAL
from bedplate.memory import Block, ForeignBlock, allocate, allocate_all
from bedplate.ops.leaves import BUFFER
from bedplate.ops.record import REGISTRY
from bedplate.tensor.arguments import Part, unpack
from bedplate.tensor.capturing import Argument, GradientOf, Recording, Root
from bedplate.tensor.tensor import Tensor, wrap
from bedplate.tensor.values import flush

_new = object.__new__


class _Probe:
    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = _Probe.__new__(_Probe)


def _references_of_one_holder() -> int:
    """What getrefcount says of an object with one holder, read as `_take` does."""
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
        self.captured: Any = self._planned(made.roots, donate)
        self.results = self.captured.plan.results
        self.roots = [
            (i, node.shape, node.dtype, node.device, result.index, result.alias, node.site)
            for i, (node, result) in enumerate(zip(made.roots, self.results, strict=True))
        ]
        self._sources(made)
        self.states = list(made.states)
        self.gradients = list(made.gradients)
        self.expected = made.expected
        self.aliases = made.aliases
        self.result = made.result
        self.operations = made.operations
        self._choose_places(made)
        self.is_plain = self._gives_one_alone()
        self._note_outside(made)
        self._note_gradients()
        self.met = met or {}
        self.fits_all = not (
            self.expected or self.outer or self.outside or self.met or self.operations
            or self.aliases or self.gradient_inputs or self.supposed
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

    def _gives_one_alone(self) -> bool:
        """Whether a run computes one value from arguments and constants, and does nothing else."""
        more = self.inputs or self.places or self.states or self.gradients
        return (
            not more and len(self.roots) == len(self.all_bytes) == 1
            and type(self.result) is Part and type(self.result.source) is Root
        )  # fmt: skip

    def _planned(self, roots: list[Node], donate: list[tuple[int, Node]]) -> Any:
        return CapturedPlan(roots, donate)

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
        over: dict[int, tuple[Tensor | int, int, int]] = {}
        states = {(_name(o), self.results[root].index): root for o, root in made.states}
        for output, source in plan.granted if ALONE > 0 else ():
            owner = inputs.get(source)
            root = states.get((_name(owner), output))
            if root is None or not isinstance(owner, Tensor | int):
                continue
            if _kind(made.roots[root]) == _kind(self.captured.inputs[source]):
                over.setdefault(output, (owner, FIRST_INPUT + source, root))
        self.over = [(output, *where) for output, where in over.items()]
        self.again = self._gradients_written_again(set(over)) if ALONE > 0 else []
        self.places = [(output, root) for output, *_, root in (*self.over, *self.again)]
        self.spare = [_taken(made.roots[root]) for _, root in self.places]
        self.all_bytes = list(plan.output_bytes)
        again = {output for output, _ in self.places}
        self.fresh = [i for i in range(len(self.all_bytes)) if i not in again]
        self.fresh_bytes = [self.all_bytes[i] for i in self.fresh]
        self.none_taken: list[Node | None] = [None] * len(made.roots)
        self.all_bound = self.roots, self.states, self.gradients
        self.rest_bound = self._without_places()

    def _gradients_written_again(self, outputs: set[int]) -> list[tuple[int, Tensor | int, int]]:
        """(output, owner, root) of gradients that may be written where the last ones lie: nothing
        reads those, and nothing is written before the run can fail no more.

        outputs  that have their places already; those of the result are added
        """
        late = self.captured.plan.written_late()
        read = {_same(owner.tensor) for _, owner in self.inputs if isinstance(owner, GradientOf)}
        found = []
        for owner, root in self.gradients:
            if root is None or _same(owner) in read:
                continue
            result = self.results[root]
            if not result.alias and result.index in late - outputs:
                outputs.add(result.index)
                found.append((result.index, owner, root))
        return found

    def _without_places(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Roots, states and gradients that a run binds which wrote to all places in place."""
        roots = {root for _, root in self.places}
        over = {_same(owner) for _, owner, *_ in self.over}
        again = {_same(owner) for _, owner, _ in self.again}
        return (
            [each for each in self.roots if each[0] not in roots],
            [each for each in self.states if _same(each[0]) not in over],
            [each for each in self.gradients if _same(each[0]) not in again],
        )

    def _note_outside(self, made: Recording) -> None:
        """The tensors that the step knows from outside, of what kind, and which are tracked."""
        owners = [owner for _, owner in self.inputs]
        owners += [owner for owner, _ in (*self.states, *self.gradients, *self.expected)]
        found = [o.tensor if isinstance(o, GradientOf) else o for o in owners] + made.read
        tensors = {id(o): o for o in found if isinstance(o, Tensor)}
        self.outside = frozenset(tensors)
        # those that were made inside the step are gone by now
        self.supposed = [(t, node) for t, node in made.supposed if t() is not None]
        # the type of its entry tells the history of a tensor
        self.outer = [(t, *_kind(t._node), type(t._entry)) for t in tensors.values()]

    def _note_gradients(self) -> None:
        """The gradients that are inputs, and of what kind."""
        self.gradient_inputs = [
            (owner.tensor, _kind(self.captured.inputs[slot - FIRST_INPUT]))
            for slot, owner in self.inputs
            if isinstance(owner, GradientOf)
        ]

    def meets(self, arguments: list[Tensor]) -> dict[int, Tensor]:
        """The arguments that the step knows from outside too, by number."""
        outside = self.outside
        return {i: tensor for i, tensor in enumerate(arguments) if id(tensor) in outside}

    def fits(self, arguments: list[Tensor]) -> bool:
        """Whether the tensors are of the same kind, tracked and related to each other as at the
        capture."""
        for owner, was_none in self.expected:
            tensor: Any = arguments[owner] if type(owner) is int else owner
            if (tensor._grad is None) != was_none:
                return False
        for tensor, shape, dtype, device, kind in self.outer:
            node = tensor._node
            if node.dtype is not dtype or (node.device is not device and node.device != device):
                return False
            if node.shape is not shape and node.shape != shape:
                return False
            if type(tensor._entry) is not kind:
                return False
        for reference, node in self.supposed:
            if (known := reference()) is None or known._node is not node:
                return False
        for owner, kind in self.gradient_inputs:
            gradient = _tensor(owner, arguments)._grad
            if gradient is None or _kind(gradient._node) != kind:
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
        if self.is_plain:
            return self._run_plain(arguments)
        entered = TURN.entered
        if not self.places or entered:
            blocks = self._inputs(arguments)
            captured = self.captured
            outputs = allocate_all(self.all_bytes)
            slots = captured.slots
            for slot, block in enumerate(outputs, captured.first_output):
                slots[slot] = block.address
            captured.run()
            return self._bind(None, outputs, blocks, arguments)
        entered.append(None)
        try:
            with TURN.lock:
                return self._run_in_place(arguments)
        finally:
            entered.pop()

    def _run_plain(self, arguments: list[Tensor]) -> Any:
        """As `run`, where it `is_plain`: in one function, which spares calls and tables."""
        captured = self.captured
        slots, blocks = captured.slots, []
        for slot, index in self.arguments:
            block = arguments[index]._node.block
            if block is None:
                block = _block(arguments[index])
            blocks.append(block)  # held for the run
            slots[slot] = block.address
        ((_, shape, dtype, device, _, _, site),) = self.roots
        slots[captured.first_output] = (block := allocate(self.all_bytes[0], site)).address
        captured.run()
        node = _new(Node)  # as in `_bind`
        node.op, node.inputs, node.attributes = BUFFER, (), NO_ATTRIBUTES
        node.shape, node.dtype, node.device, node.site = shape, dtype, device, site
        node.block = block
        return wrap(node, captured_entry(node) if self.result.source.tracked else None)

    def _inputs(self, arguments: list[Tensor]) -> dict[int, Any]:
        """Put the addresses of the inputs in the slots; the blocks are to be held for the run."""
        slots = self.captured.slots
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
            blocks[slot] = block
            slots[slot] = block.address
        return blocks

    def _run_in_place(self, arguments: list[Tensor]) -> Any:
        captured, slots = self.captured, self.captured.slots
        first = captured.first_output
        blocks = self._inputs(arguments)
        outputs: list[Any] = [None] * len(self.all_bytes)
        taken: list[Node | None] = []
        try:
            nodes = self._take(arguments, blocks, taken, outputs)
            if self.again:
                self._take_gradients(arguments, taken, outputs, nodes)
            # as many as it is long: to have zip compare once more costs 0.1 us
            for output, block in zip(self.fresh, allocate_all(self.fresh_bytes)):  # noqa: B905
                outputs[output] = block
                slots[first + output] = block.address
            captured.run()
            bound = self.all_bound if None in taken else self.rest_bound
            self._settle(taken)
        finally:
            if taken:  # it has failed, before it wrote any of them; or it was interrupted
                self._put_back(taken, arguments)
        return self._bind(nodes, outputs, blocks, arguments, bound)

    def _take(
        self,
        arguments: list[Tensor],
        blocks: dict[int, Any],
        taken: list[Node | None],
        outputs: list[Any],
    ) -> list[Node | None]:
        """Take the values that are written in place out of their tensors, and give the others of
        `over` fresh memory.

        taken    filled, for each of `over`, with the node that the tensor had, or None
        outputs  filled with the blocks
        returns  for each root the node that it will have, or None
        """
        nodes = self.none_taken.copy()
        slots, first = self.captured.slots, self.captured.first_output
        count, also_listed = sys.getrefcount, ALONE + 1
        # as many as there are: to have zip compare once more costs 0.1 us
        for now, (output, owner, slot, root) in zip(self.spare, self.over):  # noqa: B905
            tensor: Any = arguments[owner] if type(owner) is int else owner
            node = tensor._node
            now.inputs = (node,)
            taken.append(node)  # before anything can interrupt
            tensor._node = now
            outputs[output] = block = blocks[slot]
            # the node: here, by `now` and in `taken`; the block: here, by the node, in `blocks` and
            # in `outputs`
            if (
                count(node) <= also_listed
                and count(block) <= also_listed + 1
                and node.block is block
                and type(block) is not ForeignBlock
            ):
                nodes[root] = now
                slots[first + output] = block.address
            else:
                tensor._node = node
                self._give_fresh(len(taken) - 1, taken, outputs)
        return nodes

    def _take_gradients(
        self,
        arguments: list[Tensor],
        taken: list[Node | None],
        outputs: list[Any],
        nodes: list[Node | None],
    ) -> None:
        """As `_take`, the gradients of the call before: nobody may hold the tensor either."""
        slots, first = self.captured.slots, self.captured.first_output
        count, alone, also_listed = sys.getrefcount, ALONE, ALONE + 1
        for output, owner, root in self.again:
            tensor: Any = arguments[owner] if type(owner) is int else owner
            gradient = tensor._grad
            if gradient is None:
                taken.append(None)
                self._give_fresh(len(taken) - 1, taken, outputs)
                continue
            node, now = gradient._node, self.spare[len(taken)]
            now.inputs = (node,)
            taken.append(node)  # before anything can interrupt
            gradient._node = now
            outputs[output] = block = node.block
            if (
                count(gradient) <= alone
                and count(node) <= also_listed
                and count(block) <= also_listed
                and type(block) is Block
                and node.shape == now.shape
                and node.dtype is now.dtype
                and node.device is now.device
                and gradient._entry is None
                and gradient._grad is None
            ):
                nodes[root] = now
                slots[first + output] = block.address
            else:
                gradient._node = node
                self._give_fresh(len(taken) - 1, taken, outputs)

    def _give_fresh(self, number: int, taken: list[Node | None], outputs: list[Any]) -> None:
        """A value that somebody holds stays as it is: the new one has memory of its own."""
        output, _ = self.places[number]
        taken[number] = None
        self.spare[number] = _taken(self.spare[number])  # it may be held, as the old value
        outputs[output] = block = allocate(self.all_bytes[output])
        self.captured.slots[self.captured.first_output + output] = block.address

    def _settle(self, taken: list[Node | None]) -> None:
        """What was written in place is the value of the nodes that stand for it."""
        count, alone, spare = sys.getrefcount, ALONE, self.spare
        number = 0
        for node in taken:
            if node is not None:
                now = spare[number]
                now.block = node.block
                now.inputs = ()
                if type(node) is Taken and count(node) <= alone:  # held here alone: for next time
                    node.block = None
                    spare[number] = node
                else:
                    spare[number] = _taken(now)
            number += 1  # noqa: SIM113  (enumerate would hold the node once more)
        taken.clear()

    def _put_back(self, taken: list[Node | None], arguments: list[Tensor]) -> None:
        for number, node in enumerate(taken):
            if node is not None:
                now, first_again = self.spare[number], len(self.over)
                if number < first_again:
                    tensor: Any = _tensor(self.over[number][1], arguments)
                else:
                    tensor = _tensor(self.again[number - first_again][1], arguments)._grad
                if tensor is not None and tensor._node is now:
                    tensor._node = node
                self.spare[number] = _taken(now)

    def _bind(
        self,
        taken: list[Node | None] | None,
        outputs: list[Any],
        blocks: dict[int, Any],
        arguments: list[Tensor],
        bound: tuple[list[Any], list[Any], list[Any]] | None = None,
    ) -> Any:
        """Bind states and gradients to their new values; gives the result.

        taken  for each root its node if it was written in place, or None
        bound  the roots, states and gradients that are left to bind; all by default
        """
        roots, states, gradients = bound or self.all_bound
        nodes: list[Any] = taken or self.none_taken.copy()
        for root, shape, dtype, device, index, alias, site in roots:
            if nodes[root] is None:
                block = self._input(index, blocks) if alias else outputs[index]
                if not alias:
                    block.site = site
                node = _new(Node)  # field by field: to call its `__init__` takes 0.15 us more
                node.op, node.inputs, node.attributes = BUFFER, (), NO_ATTRIBUTES
                node.shape, node.dtype, node.device, node.site = shape, dtype, device, site
                node.block = block
                nodes[root] = node
        part = self.result
        if type(part) is Part:
            result = _part(part.source, nodes, arguments)
        else:
            result = unpack(part, lambda source: _part(source, nodes, arguments))
        for owner, root in states:
            _tensor(owner, arguments)._node = nodes[root]
        for owner, number in gradients:
            tensor = _tensor(owner, arguments)
            gradient = tensor._grad
            if gradient is None or number is None or gradient._node is not nodes[number]:
                tensor._grad = None if number is None else wrap(nodes[number])
        return result

    def _input(self, index: int, blocks: dict[int, Any]) -> Any:
        """The block of an input that is a result as it is."""
        slot = FIRST_INPUT + index
        return blocks[slot] if slot in blocks else self.constants[slot]


def _taken(like: Node) -> Taken:
    """A node for the value of another, which is being written."""
    attributes = {"shape": like.shape}
    kind = _kind(like)
    return Taken(REGISTRY["reshape"], (), attributes, *kind, None, like.site)


def _kind(node: Node) -> tuple[Any, Any, Any]:
    return node.shape, node.dtype, node.device


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
