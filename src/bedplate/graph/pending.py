"""What each thread has built and not yet computed, and how it builds.

Every node that a tensor operation makes is appended to its thread's pending list. When a
value is needed the whole list is run at once: nodes that somebody still holds are stored,
those that others need on the way are computed, the rest is dropped.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol

from bedplate.graph.node import Attributes, Node, Shape
from bedplate.observer import hooks

if TYPE_CHECKING:
    from bedplate.devices.device import Device

# the pending list is compared with its bound each time it has grown by this many nodes
CHECK_EVERY = 64
# as the code objects of this package spell it: links and relative paths are left alone
PACKAGE = os.path.dirname(os.path.dirname((lambda: None).__code__.co_filename)) + os.sep


class Watcher(Protocol):
    """Whoever watches a thread's tensors, as the capture of a step does.

    applies          operations are applied by `apply`, not by the tensor itself
    differentiating  the entry of the tape whose gradient is being made, or None
    """

    applies: bool
    differentiating: Any

    def apply(self, tensor: Any, op: Any, inputs: Any, attributes: Any) -> Any:
        """Apply `op` in place of `tensor`."""

    def call(self, module: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call a module."""

    def differentiated(self, entry: Any, grad: Any, found: tuple[Any, ...]) -> None:
        """The gradient of an entry was made: `found` from `grad`, nodes or tensors."""

    def read(self, tensor: Any) -> None:
        """An operation takes `tensor`, whose value is known already, as an input."""

    def read_constant(self, tensor: Any) -> None:
        """An operation takes `tensor`, which is one number in a shape and not computed."""

    def rebinding(self, tensor: Any) -> None:
        """`tensor` is about to be bound to another node."""

    def grad_read(self, tensor: Any) -> None:
        """`tensor.grad` was asked for."""

    def grad_setting(self, tensor: Any) -> None:
        """`tensor.grad` is about to be assigned."""

    def value_read(self, tensor: Any) -> None:
        """The value of `tensor` is about to be read; raise here to refuse it."""

    def applied(self, operation: Any) -> None:
        """A user's operation, an instance or a class, is about to be applied."""


class ThreadState:
    """How one thread builds graphs.

    nodes       made and not yet computed, oldest first
    leaf_bytes  of data that entered the graph since the list was last run
    recording   gradients are recorded
    session     the tape's mark on what it records; see autograd/tape.py
    watcher     who watches this thread's tensors, or None
    repeating   what is computed was computed before: state that counts calls stays as it is
    cuts        how often a tracked value has left the graph: read, detached, or
                computed with recording off
    """

    __slots__ = ("cuts", "leaf_bytes", "nodes", "recording", "repeating", "session", "watcher")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.leaf_bytes = 0
        self.recording = True
        self.repeating = False
        self.session: Any = None
        self.watcher: Watcher | None = None
        self.cuts = 0

    def take(self) -> list[Node]:
        """The pending nodes; the thread starts a new list."""
        nodes = self.nodes
        self.nodes = []
        self.leaf_bytes = 0
        return nodes


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


LOCAL = _Local()


def thread_state() -> ThreadState:
    """The state of the calling thread."""
    return LOCAL.state


_inside: dict[str, bool] = {}


def is_inside_package(filename: str) -> bool:
    """Whether a code object's file is one of this package."""
    found = _inside[filename] = filename.startswith(PACKAGE)
    return found


def user_site(depth: int = 2) -> tuple[Any, int] | None:
    """(code, instruction) of the innermost frame outside this package, for `Node.line`.

    depth  frames that are known to be inside
    cost   about 0.1 us, and 0.04 us a frame inside
    """
    frame = sys._getframe(depth)
    site = hooks.site  # read once: another thread may stop listening
    if site is not None:
        return site(frame)
    inside = _inside
    while frame is not None:
        code = frame.f_code
        filename = code.co_filename
        known = inside.get(filename)
        if known is None:
            known = is_inside_package(filename)
        if not known:
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def pend(
    state: ThreadState, op: Any, inputs: tuple[Node, ...], attributes: Attributes, shape: Shape,
    dtype: Any, device: Device,
) -> Node:  # fmt: skip
    """A node that waits for its value, made at the user's line.

    state  of the calling thread
    """
    node = _new(Node)  # field by field: to call its `__init__` takes 0.15 us more
    node.op = op
    node.inputs = inputs
    node.attributes = attributes
    node.shape = shape
    node.dtype = dtype
    node.device = device
    node.block = None
    frame = _frame(3)  # 1 is what applies the op, 2 the operator or function that users call
    site = hooks.site  # read once: another thread may stop listening
    if site is not None:
        node.site = site(frame)
    else:  # as `user_site` does, without a call
        while (inside := _inside.get(frame.f_code.co_filename)) and frame.f_back is not None:
            frame = frame.f_back
        node.site = user_site(3) if inside is not False else (frame.f_code, frame.f_lasti)
    state.nodes.append(node)
    return node


_new, _frame = object.__new__, sys._getframe
