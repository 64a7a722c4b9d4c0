"""Capturing: run a step once on placeholders and note all that it touches.

The watcher sees which tensors are read, bound to new values and given gradients. What it saw
becomes a `Recording`: the graph's roots, and for each root whom it belongs to.
"""

from __future__ import annotations

import hashlib
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bedplate.autograd.operation import state_of
from bedplate.autograd.tape import Leaf, has_history, mark_gradients
from bedplate.compiler.signature import is_input
from bedplate.errors import CaptureError, InternalError
from bedplate.graph.node import Node, topological_order
from bedplate.graph.pending import LOCAL
from bedplate.ops.leaves import placeholder
from bedplate.tensor.arguments import pack
from bedplate.tensor.tensor import Tensor, wrap
from bedplate.tensor.values import flush


@dataclass(frozen=True)
class Argument:
    """A result that is tensor number `index` of the arguments itself."""

    index: int


@dataclass(frozen=True)
class Root:
    """A result that is root number `index`; a tracked one had a gradient history."""

    index: int
    tracked: bool


@dataclass
class Recording:
    """What a step did.

    result     what the function gave back, with tensors replaced: `Part(Argument or Root)`
    roots      nodes whose values are wanted
    inputs     leaf node -> where its value comes from: an argument number, a tensor, or the
               tensor whose gradient it was
    states     (tensor or argument number, root number) for each tensor that was bound anew
    gradients  (tensor or argument number, root number or None) for each gradient that was set
    expected   (tensor, whether its gradient was None), where the step asked
    read       tensors from outside whose value an operation took
    aliases    pairs of tensors that showed one value, and must still
    supposed   (tensor, node): constants that an operation took, which are in the plan as numbers
    constants  digests of values that were made inside from data
    operations (operation of a user, its state) for each that was applied
    """

    result: Any = None
    roots: list[Node] = field(default_factory=list)
    inputs: dict[Node, Any] = field(default_factory=dict)
    states: list[tuple[Any, int]] = field(default_factory=list)
    gradients: list[tuple[Any, int | None]] = field(default_factory=list)
    expected: list[tuple[Any, bool]] = field(default_factory=list)
    read: list[Tensor] = field(default_factory=list)
    aliases: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    supposed: list[tuple[weakref.ref[Tensor], Node]] = field(default_factory=list)
    constants: tuple[bytes, ...] = ()
    operations: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class GradientOf:
    """The value that `tensor.grad` had when the step began."""

    tensor: Any


class Watch:
    """The watcher of one capture; see graph/pending.py."""

    applies = False
    differentiating: Any = None

    def __init__(self) -> None:
        self.readers: dict[Node, Tensor] = {}
        self.twins: list[tuple[Node, weakref.ref[Tensor]]] = []
        self.supposed: dict[int, tuple[weakref.ref[Tensor], Node]] = {}
        self.before: dict[int, tuple[Tensor, Node, Any]] = {}
        self.gradients: dict[int, tuple[Tensor, Tensor | None]] = {}
        self.asked: dict[int, tuple[Tensor, Tensor | None]] = {}
        self.operations: dict[int, tuple[Any, Any]] = {}

    def apply(self, tensor: Tensor, op: Any, inputs: Any, attributes: Any) -> Tensor:
        raise InternalError("a capture applies nothing itself")

    def call(self, module: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return module.forward(*inputs, **options)

    def differentiated(self, entry: Any, grad: Any, found: tuple[Any, ...]) -> None:
        """Gradients have the line of what they are the gradient of, for whoever looks at a plan."""
        mark_gradients(found, entry.site)

    def applied(self, operation: Any) -> None:
        self.operations.setdefault(id(operation), (operation, state_of(operation)))

    def read(self, tensor: Tensor) -> None:
        first = self.readers.setdefault(tensor._node, tensor)
        if first is not tensor:
            self.twins.append((tensor._node, weakref.ref(tensor)))

    def read_constant(self, tensor: Tensor) -> None:
        if id(tensor) not in self.before:  # what the step itself has bound is not from outside
            self.supposed[id(tensor)] = weakref.ref(tensor), tensor._node

    def rebinding(self, tensor: Tensor) -> None:
        self.before.setdefault(id(tensor), (tensor, tensor._node, tensor._entry))

    def grad_read(self, tensor: Tensor) -> None:
        if id(tensor) not in self.gradients:
            self.asked.setdefault(id(tensor), (tensor, tensor._grad))

    def grad_setting(self, tensor: Tensor) -> None:
        self.gradients.setdefault(id(tensor), (tensor, tensor._grad))

    def value_read(self, tensor: Tensor) -> None:
        raise CaptureError(
            "jit: a value was read inside a captured step\n"
            f"  a  {tensor.shape} {tensor.dtype}   made at {tensor._node.line()}\n"
            "  values are known only when the step has run: return the tensor and read it outside, "
            "or write the choice with bp.where; config.jit=False runs the function as it stands"
        )

    def undo(self) -> None:
        """Bind everything as it was."""
        for tensor, node, entry in self.before.values():
            tensor._node, tensor._entry = node, entry
        for tensor, gradient in self.gradients.values():
            tensor._grad = gradient


def placeholders(tensors: list[Tensor]) -> list[Tensor]:
    """A tensor without value for each argument; one for those that are the same tensor."""
    stand_ins: list[Tensor] = []
    known: dict[int, Tensor] = {}
    for index, tensor in enumerate(tensors):
        if id(tensor) in known:
            stand_ins.append(known[id(tensor)])
            continue
        node = tensor._node
        stand_in = wrap(placeholder(index, node.shape, node.dtype, node.device))
        stand_in._node.site = node.site
        if tensor.requires_grad:
            stand_in._entry = Leaf(stand_in)
        known[id(tensor)] = stand_in
        stand_ins.append(stand_in)
    return stand_ins


def record(call: Callable[[], Any], stand_ins: list[Tensor]) -> Recording:
    """Run `call` under watch; everything is bound as before when this returns.

    stand_ins  the tensors that stand for the arguments
    raises     whatever `call` raises, CaptureError if it reads a value
    """
    state = LOCAL.state
    if state.nodes:
        flush(state)
    watch = Watch()
    state.watcher = watch
    try:
        result = call()
    except BaseException:
        watch.undo()
        raise
    finally:
        state.watcher = None
        state.take()
    return _Recorder(watch, stand_ins).recording(result)


class _Recorder:
    """Makes the recording from what the watcher saw."""

    def __init__(self, watch: Watch, stand_ins: list[Tensor]) -> None:
        self.watch = watch
        self.owners: dict[int, Any] = {id(t): i for i, t in enumerate(stand_ins)}
        self.made = Recording()
        self.numbers: dict[Node, int] = {}
        self.stand_ins = stand_ins
        self.nodes = {node for t in stand_ins if (node := self._node_before(t)) is not None}

    def _owner(self, tensor: Tensor) -> Any:
        return self.owners.get(id(tensor), tensor)

    def _root(self, node: Node) -> int:
        if node not in self.numbers:
            self.numbers[node] = len(self.made.roots)
            self.made.roots.append(node)
        return self.numbers[node]

    def recording(self, result: Any) -> Recording:
        """The roots, and what belongs to whom."""
        made, watch = self.made, self.watch
        made.result = pack(result, self._packed)
        for key in watch.before:
            tensor, node, _ = watch.before[key]
            # held by the entry, this name and the call only: it lived inside the step
            passing = key not in self.owners and sys.getrefcount(tensor) <= 3
            if tensor._node is not node and not passing:
                made.states.append((self._owner(tensor), self._root(tensor._node)))
        for tensor, gradient in watch.gradients.values():
            now = tensor._grad
            if now is not gradient:
                number = None if now is None else self._root(now._node)
                made.gradients.append((self._owner(tensor), number))
        for tensor, gradient in watch.asked.values():
            made.expected.append((self._owner(tensor), gradient is None))
        made.operations = list(watch.operations.values())
        made.supposed = list(watch.supposed.values())
        self._inputs()
        watch.undo()
        return made

    def _packed(self, tensor: Tensor) -> Any:
        if id(tensor) in self.owners:
            return Argument(self.owners[id(tensor)])
        return Root(self._root(tensor._node), has_history(tensor._entry))

    def _inputs(self) -> None:
        made, watch = self.made, self.watch
        initial = {
            id(gradient): owner
            for owner, gradient in (*watch.asked.values(), *watch.gradients.values())
            if gradient is not None
        }
        digests = []
        for node in topological_order(made.roots):
            if node.op.name == "placeholder" and node.block is None:
                if node not in self.nodes:
                    raise _kept_inside(node)
                made.inputs[node] = node.attributes["index"]
            elif is_input(node):
                reader = watch.readers.get(node)
                if reader is None or sys.getrefcount(reader) <= 3:  # it was made inside
                    digests.append(_digest(node))
                elif id(reader) in initial:
                    made.inputs[node] = GradientOf(self._owner(initial[id(reader)]))
                else:
                    made.inputs[node] = self._owner(reader)
        made.constants = tuple(digests)
        for reader in watch.readers.values():
            if sys.getrefcount(reader) > 3 and id(reader) not in self.owners:
                made.read.append(reader)
        for node, twin in watch.twins:
            tensor = twin()
            if tensor is not None and id(tensor) not in self.owners:
                made.read.append(tensor)
            if tensor is not None and node in made.inputs and self._node_before(tensor) is node:
                made.aliases.append((watch.readers[node], tensor))

    def _node_before(self, tensor: Tensor) -> Node:
        entry = self.watch.before.get(id(tensor))
        return tensor._node if entry is None else entry[1]


def _kept_inside(node: Node) -> CaptureError:
    return CaptureError(
        "jit: a value of an earlier captured call is used\n"
        f"  an argument {node.shape} {node.dtype} of that call\n"
        "  a tensor that was made in a captured step must leave it as a result, as `.grad`, or by "
        "assign to a tensor from outside; it must not be kept in an attribute or a list"
    )


def _digest(node: Node) -> bytes:
    array = node.array()
    return hashlib.blake2b(memoryview(array.reshape(-1).view("u1")), digest_size=16).digest()
