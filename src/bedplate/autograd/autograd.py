"""Autograd: the tape as users see it.

Operations record themselves: a tensor computed from one that requires a gradient carries its
history, and `Autograd.current()` is this thread's view of that. `Autograd()` is a separate
tape, which records what it is told to and nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from bedplate.autograd import tape
from bedplate.autograd.tape import Leaf
from bedplate.errors import GradientError
from bedplate.graph.node import NO_ATTRIBUTES, Attributes
from bedplate.graph.pending import LOCAL
from bedplate.ops.record import REGISTRY, Op


class Gradients:
    """The table that `Autograd.backward` returns: gradients, looked up by tensor.

    `table[x]` raises KeyError if no gradient reached x; `table.get(x)` gives None.
    """

    __slots__ = ("_by_entry", "_tape")

    def __init__(self, by_entry: dict[Any, Any], of: Autograd) -> None:
        self._by_entry = by_entry
        self._tape = of

    def get(self, tensor: Any, default: Any = None) -> Any:
        """The gradient of `tensor`, or `default`."""
        return self._by_entry.get(self._tape._entry_of(tensor), default)

    def __getitem__(self, tensor: Any) -> Any:
        found = self.get(tensor)
        if found is None:
            raise KeyError(
                f"no gradient for the tensor of shape {tensor.shape} made at "
                f"{tensor._node.line()}: the root does not depend on it, or it does not require "
                "a gradient"
            )
        return found

    def __contains__(self, tensor: Any) -> bool:
        return self.get(tensor) is not None

    def __len__(self) -> int:
        return len(self._by_entry)

    def __iter__(self) -> Iterator[Any]:
        """The leaves that got a gradient and are still there."""
        leaves = (key.tensor() for key in self._by_entry if isinstance(key, Leaf))
        return (tensor for tensor in leaves if tensor is not None)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """(leaf, gradient) for each leaf that is still there."""
        return ((tensor, self[tensor]) for tensor in self)


class Autograd:
    """A tape: what was computed from what, by which op.

    >>> import bedplate as bp
    >>> x = bp.tensor([3.0], requires_grad=True)
    >>> y = x * x
    >>> bp.Autograd.current().backward(y)[x].tolist()
    [6.0]

    A separate tape records what it is told, whether it requires a gradient or not:

    >>> own = bp.Autograd()
    >>> a = bp.tensor([3.0])
    >>> b = own.record("multiply", (a, a), a * a)
    >>> own.backward(b)[a].tolist()
    [6.0]
    """

    __slots__ = ("_made", "_session")
    _threads = threading.local()

    def __init__(self) -> None:
        # tensor -> (its node when it was recorded, entry); None: history stands on the tensors
        self._made: dict[Any, tuple[Any, Any]] | None = {}
        self._session = tape.Session()

    @staticmethod
    def current() -> Autograd:
        """The tape of this thread."""
        found = getattr(Autograd._threads, "tape", None)
        if found is None:
            found = Autograd._threads.tape = Autograd()
            found._made = None
        return found

    def record(
        self, op: Any, inputs: Any, output: Any, attributes: Attributes = NO_ATTRIBUTES
    ) -> Any:
        """Record that `op` computed `output` from `inputs`; returns `output`.

        op          an op's record, name or function, or an instance of an `Operation`
        inputs      tensors; whatever else is among them has no gradient
        attributes  of the op, by name
        raises      TypeError if op is none of these
        """
        op = _as_op(op)
        inputs = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
        if not LOCAL.state.recording:
            return output
        sources = tuple(self._source(x) for x in inputs)
        entry = tape.make_entry(op, attributes, inputs, sources, output)
        if self._made is None:
            output._entry = entry
        else:
            entry.session = self._session
            self._made[output] = (output._node, entry)
        return output

    def _source(self, tensor: Any) -> Any:
        """The entry or leaf behind an input; a tensor that has none becomes a leaf."""
        if not hasattr(tensor, "_node") or tensor.dtype.kind not in "fc":
            return None
        known = self._entry_of(tensor)
        if known is None:
            known = Leaf(tensor)
            if self._made is None:
                tensor._entry = known
            else:
                self._made[tensor] = (tensor._node, known)
        return known

    def _entry_of(self, tensor: Any) -> Any:
        if self._made is None:
            return tensor._entry
        node, entry = self._made.get(tensor, (None, None))
        return entry if node is tensor._node else None

    def backward(
        self,
        root: Any,
        grad: Any = None,
        retain_graph: bool = False,
        create_graph: bool = False,
    ) -> Gradients:
        """The gradients of `root` as a table, looked up by tensor; `.grad` is left alone.

        grad          gradient of the root; ones by default, whatever its shape
        retain_graph  keep the graph for another backward
        create_graph  the gradients can be differentiated again; keeps the graph
        raises        GradientError for a root without history, a freed or reset graph, or an op
                      without gradient
        """
        entry = self._entry_of(root)
        if entry is None:
            raise GradientError(
                "backward: the root was not recorded on this tape\n"
                f"  root  {root.shape} {root.dtype}   made at {root._node.line()}\n  "
                + (
                    tape.why_no_history(root._node)
                    or "nothing that it was computed from has requires_grad=True, or the tape was "
                    "reset"
                )
            )
        seed = root._seed(grad, any_shape=True)
        retain = retain_graph or create_graph
        found = tape.walk(entry, seed, root._wrap, retain, create_graph, keep_all=True)
        return Gradients(found, self)

    def reset(self) -> None:
        """Forget everything that was recorded so far: a later backward through it raises."""
        if self._made is None:
            tape.reset()
        else:
            self._made.clear()
            self._session.closed = True
            self._session = tape.Session()


def _as_op(op: Any) -> Any:
    if isinstance(op, Op) or hasattr(op, "input_gradients"):
        if isinstance(op, type):
            raise TypeError(f"record: {op.__name__} is a class; give an instance, {op.__name__}()")
        return op
    name = op if isinstance(op, str) else getattr(op, "__name__", "").rstrip("_")
    found = getattr(op, "op", None) or REGISTRY.get(name)
    if not isinstance(found, Op):
        raise TypeError(f"record: {op!r} is no op; give a record, its name or an Operation")
    return found
