"""The tape: what was computed from what, and the walk back along it.

The tape is a graph, not a list. A tensor that depends on a leaf that requires a gradient
points to the `Entry` that made it; an entry points to the entries of its inputs. Nothing
points forward, so that reference counts alone free whatever nobody can reach:

    tensor --> Entry --> sources: Entry | Leaf | None, one per input     (and their nodes)
    leaf tensor --> Leaf ..> the leaf tensor (weak)

An entry keeps the nodes of its inputs and its output, which never change: a tensor that is
bound to another value later cannot disturb a gradient.

A walk runs each entry once, after all its consumers. Gradients are graph nodes; with
`create_graph` they are tensors, recorded themselves. A walk claims the graph first, so that a
second one finds it freed, in whatever thread it runs. The file is a little long, because entries
and the walk rely on each other's every field.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Container, Iterable
from typing import Any

from bedplate.errors import GradientError
from bedplate.forks import renewed
from bedplate.graph.node import Attributes, Node
from bedplate.graph.pending import LOCAL, ThreadState, user_site
from bedplate.observer import hooks
from bedplate.ops.build import number
from bedplate.ops.record import NoGradient, Op

Hook = Callable[[Any], Any]
Wrap = Callable[[Node, Any], Any]  # (node, entry) -> tensor


class Session:
    """The mark that a tape leaves on its entries; `reset` closes it."""

    __slots__ = ("closed",)

    def __init__(self) -> None:
        self.closed = False


MAX_SEARCHED = 1000  # values that an error message looks through
FREED = Session()  # of an entry whose graph a walk has claimed


class Leaf:
    """Where gradients end: a tensor that was not computed and requires a gradient.

    tensor  weak reference to it; the tensor holds this object
    hooks   functions of the gradient that may replace it
    """

    __slots__ = ("hooks", "tensor")
    sources = ()

    def __init__(self, tensor: Any) -> None:
        self.tensor = weakref.ref(tensor)
        self.hooks: list[Hook] = []


class Entry:
    """One application of an op: `output = op(*inputs, **attributes)`.

    op       an `Op`, or an `Operation` (one instance per application)
    inputs   nodes
    sources  the Entry or Leaf behind each input, None where no gradient is wanted
    output   node; of an operation with several outputs, a tuple of them
    session  see `Session`
    hooks    functions of the output's gradient, or None
    """

    __slots__ = ("attributes", "hooks", "inputs", "op", "output", "session", "sources")

    def __init__(
        self,
        op: Any,
        attributes: Attributes,
        inputs: tuple[Any, ...],
        sources: tuple[Any, ...],
        output: Any,
        session: Session,
    ) -> None:
        self.op: Any = op
        self.attributes = attributes
        self.inputs = inputs
        self.sources = sources
        self.output = output
        self.session = session
        self.hooks: list[Hook] | None = None

    def release(self) -> None:
        """Let go of all that was saved; only the name of the op remains."""
        if not isinstance(self.op, Op):  # an operation keeps values of its own
            self.op = _Freed(self.op.name)
        self.inputs = self.sources = ()
        self.output = self.hooks = None

    @property
    def site(self) -> Any:
        """Where it was applied; see `Node.site`."""
        output: Any = self.output[0] if isinstance(self.output, tuple) else self.output
        return None if output is None else output.site

    @property
    def line(self) -> str:
        output: Any = self.output[0] if isinstance(self.output, tuple) else self.output
        return "a line that is no longer known" if output is None else output.line()


class _Freed:
    """What remains of an operation whose entry was freed."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


_claiming = renewed(threading.Lock())


def _claim(root: Any, retain: bool, ends: Container[Any]) -> dict[Any, int]:
    """Every entry behind `root`, up to `ends`, and how many consumers each has.

    Unless it is retained the graph belongs to the caller from here on, but for the ends: whoever
    comes next finds it freed.
    raises  GradientError if a part of it was freed, in which case nothing is claimed
    """
    waiting: dict[Any, int] = {root: 0}
    stack = [root]
    with _claiming:
        while stack:
            entry = stack.pop()
            if entry in ends:
                continue
            if isinstance(entry, Entry):
                _check_usable(entry)
            for source in entry.sources:
                if source is None:
                    continue
                if source in waiting:
                    waiting[source] += 1
                else:
                    waiting[source] = 1
                    stack.append(source)
        if not retain:
            for entry in waiting:
                if isinstance(entry, Entry) and entry not in ends:
                    entry.session = FREED
    return waiting


def _check_usable(entry: Entry) -> None:
    if entry.session is FREED:
        raise GradientError(
            f"backward: the graph behind {entry.op.name} was freed by an earlier backward; "
            "keep it with backward(retain_graph=True) the first time"
        )
    if entry.session.closed:
        raise GradientError(
            f"backward: {entry.op.name} at {entry.line} was recorded before the tape was reset"
        )


def walk(
    root: Entry | Leaf,
    seed: Any,
    wrap: Wrap,
    retain: bool = False,
    create: bool = False,
    keep_all: bool = False,
    ends: Container[Any] = (),
) -> dict[Any, Any]:
    """The gradient of each leaf behind `root`, as tensors: {Leaf: gradient}.

    seed      gradient of the root: a tensor
    wrap      makes a tensor of a node and an entry
    retain    keep the graph for another walk
    create    the gradients can be differentiated again
    keep_all  the result has the gradient of every entry, not only of leaves
    ends      entries and leaves that the walk does not enter: it gives their gradients as they come
    raises    GradientError for a freed graph, an op without gradient, or a gradient function
              that breaks its promise
    cost      linear in entries; no recursion
    """
    state = LOCAL.state
    waiting = _claim(root, retain, ends)
    grads: dict[Any, Any] = {root: seed if create else seed._node}
    done: dict[Any, Any] = {}
    ready = [root]
    before, state.recording = state.recording, create
    try:
        while ready:
            entry = ready.pop()
            grad = grads.pop(entry, None)
            if entry in ends:
                if grad is not None:
                    done[entry] = grad
                continue
            if grad is not None:
                if entry.hooks:
                    grad = _with_hooks(entry, grad, wrap, create)
                if keep_all or isinstance(entry, Leaf):
                    done[entry] = grad
                _spread(entry, grad, grads, wrap, create)
            for source in entry.sources:
                if source is not None:
                    waiting[source] -= 1
                    if waiting[source] == 0:
                        ready.append(source)
            if not retain and isinstance(entry, Entry):
                entry.release()
    except BaseException:
        if not retain:  # what was claimed is nobody's any more
            _release_all(entry for entry in waiting if entry not in ends)
        raise
    finally:
        state.recording = before
    return done if create else _as_pending(done, state, wrap)


def _release_all(entries: Iterable[Any]) -> None:
    for entry in entries:
        if isinstance(entry, Entry):
            entry.release()


def _as_pending(found: dict[Any, Any], state: ThreadState, wrap: Wrap) -> dict[Any, Any]:
    """Gradients that are nodes as tensors, which the pending list knows."""
    site = user_site()
    result = {}
    for key, node in found.items():
        if isinstance(node, Node):  # a list has the parts of several outputs: nobody sees it
            if node.block is None:
                state.nodes.append(node)
            if node.site is None:
                node.site = site
            result[key] = wrap(node, None)
    return result


def _spread(entry: Any, grad: Any, grads: dict[Any, Any], wrap: Wrap, create: bool) -> None:
    """Add the gradients of the inputs of `entry` to those of its sources."""
    if isinstance(entry, Leaf):
        return
    if entry.op is Part or entry.op.name == "output":  # the part of a value of several outputs
        source = entry.sources[0]
        count = entry.attributes.get("of") or entry.inputs[0].op.n_outputs
        parts = grads.setdefault(source, [None] * count)
        index = entry.attributes["index"]
        parts[index] = grad if parts[index] is None else parts[index] + grad
        return
    watcher = LOCAL.state.watcher
    if watcher is None:
        found = _input_gradients(entry, grad, wrap, create)
    else:
        before, watcher.differentiating = watcher.differentiating, entry
        try:
            found = _input_gradients(entry, grad, wrap, create)
            watcher.differentiated(entry, grad, found)
        finally:
            watcher.differentiating = before
    for source, gradient in zip(entry.sources, found, strict=True):
        if source is not None and gradient is not None:
            known = grads.get(source)
            grads[source] = gradient if known is None else known + gradient


def _input_gradients(entry: Entry, grad: Any, wrap: Wrap, create: bool) -> tuple[Any, ...]:
    op = entry.op
    if not isinstance(op, Op):
        return _from_operation(entry, grad, wrap, create)
    gradient = op.gradient
    if isinstance(gradient, NoGradient):
        raise GradientError(
            f"{op.name}: has no gradient, because {gradient.reason}\n"
            f"  it was applied at {entry.line}; use .detach() where none is meant"
        )
    inputs: Any = entry.inputs
    output: Any = entry.output
    if create:
        inputs = tuple(map(wrap, inputs, entry.sources))
        output = wrap(output, entry)
    found = gradient(grad, inputs, output, **entry.attributes)
    return _checked(entry, found)


def _from_operation(entry: Entry, grad: Any, wrap: Wrap, create: bool) -> tuple[Any, ...]:
    """An operation of a user takes and gives tensors."""
    grads = _of_each_output(entry, grad, wrap)
    if create:
        return _checked(entry, entry.op.input_gradients(*grads, sources=entry.sources))
    found = _checked(entry, entry.op.input_gradients(*grads, sources=entry.sources))
    return tuple(None if gradient is None else gradient._node for gradient in found)


def _of_each_output(entry: Entry, grad: Any, wrap: Wrap) -> list[Any]:
    """The gradients of the outputs as tensors; zeros where none came back."""
    if not isinstance(entry.output, tuple):
        return [_as_tensor(grad, wrap)]
    return [
        _as_tensor(number(node, 0).broadcast_to(node.shape) if part is None else part, wrap)
        for part, node in zip(grad, entry.output, strict=True)
    ]


def _as_tensor(value: Any, wrap: Wrap) -> Any:
    return wrap(value, None) if isinstance(value, Node) else value


def _checked(entry: Entry, gradients: Any) -> tuple[Any, ...]:
    """The gradients, each with the shape and dtype of its input."""
    inputs: Any = entry.inputs
    if not isinstance(gradients, tuple):
        gradients = (gradients,)
    if len(gradients) != len(inputs):
        raise GradientError(
            f"{entry.op.name}: the gradient function gave {len(gradients)} gradients "
            f"for {len(inputs)} inputs; give one per input, None where there is none"
        )
    for index, (gradient, node) in enumerate(zip(gradients, inputs, strict=True)):
        if gradient is None or node is None:
            continue
        if gradient.shape != node.shape:
            raise GradientError(_wrong_shape(entry, index, gradient, node))
        if gradient.dtype is not node.dtype:
            real = node.dtype.kind != "c" and gradient.dtype.kind == "c"
            converted = (gradient.real if real else gradient).astype(node.dtype)
            gradients = (*gradients[:index], converted, *gradients[index + 1 :])
    if (observe := hooks.gradient) is not None:
        observe(entry, gradients)
    return gradients


def _wrong_shape(entry: Entry, index: int, gradient: Any, node: Node) -> str:
    return (
        f"{entry.op.name}: gradient {index} has the wrong shape\n"
        f"  gradient  {gradient.shape} {gradient.dtype}\n"
        f"  input     {node.shape} {node.dtype}   made at {node.line()}\n"
        f"  a gradient has the shape of its input; sum over the axes that were broadcast"
    )


def _with_hooks(entry: Any, grad: Any, wrap: Wrap, create: bool) -> Any:
    for hook in entry.hooks:
        given = grad if create else wrap(grad, None)
        found = hook(given)
        if found is not None:
            if found.shape != given.shape:
                raise GradientError(
                    f"hook: gave a gradient of shape {found.shape} for one of {given.shape}"
                )
            grad = found if create else found._node
    return grad


class Part:
    """The choice of one output of an operation that has several, as an op of the tape.

    Its attributes: index, and of, the number of outputs.
    """

    name = "part"


def mark_gradients(gradients: Iterable[Any], site: Any) -> None:
    """Give a site to those nodes of gradients that have none."""
    stack = [getattr(gradient, "_node", gradient) for gradient in gradients]
    while stack:
        node = stack.pop()
        if isinstance(node, Node) and node.site is None and node.block is None:
            node.site = site
            stack.extend(node.inputs)


def why_no_history(node: Node) -> str:
    """A line that names the op without gradient that a value comes from; empty if none is known."""
    seen, stack = {node}, [node]
    while stack:
        here = stack.pop()
        gradient = getattr(here.op, "gradient", None)
        if here.op.kind != "leaf" and isinstance(gradient, NoGradient):
            return f"{here.op.name} has no gradient, because {gradient.reason}"
        for source in here.inputs:
            if source not in seen and len(seen) < MAX_SEARCHED:
                seen.add(source)
                stack.append(source)
    return ""


def has_history(entry: Entry | Leaf | None) -> bool:
    """Whether a walk could start here: there is a history, and it was not freed."""
    return isinstance(entry, Leaf) or (entry is not None and entry.session is not FREED)


def leaves_behind(root: Entry | Leaf) -> set[Leaf]:
    """Every leaf that `root` depends on."""
    seen = {root}
    stack = [root]
    while stack:
        for source in stack.pop().sources:
            if source is not None and source not in seen:
                seen.add(source)
                stack.append(source)
    return {entry for entry in seen if isinstance(entry, Leaf)}


def make_entry(
    op: Any, attributes: Attributes, inputs: tuple[Any, ...], sources: tuple[Any, ...], output: Any
) -> Entry:
    """The entry of an application whose inputs come from `sources`."""
    nodes = tuple([getattr(x, "_node", None) for x in inputs])
    return Entry(op, attributes, nodes, sources, output._node, current_session())


def current_session() -> Session:
    """The session of this thread's tape."""
    state = LOCAL.state
    if state.session is None:
        state.session = Session()
    return state.session


def reset() -> None:
    """Close this thread's session: what it recorded can no longer be walked."""
    current_session().closed = True
    LOCAL.state.session = Session()
