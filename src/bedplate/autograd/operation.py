"""Operation: an op of a user's own, with a gradient of its own.

The gradient function works on tensors. Where a gradient is differentiated again, what
`forward` saved takes part: the operations inside `forward` are recorded, so that a saved value
is known to depend on the inputs. What cannot be known to (it went through NumPy, `item()`,
`detach()` or `no_grad`) is refused then, because the second derivative would be wrong without
a sign.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bedplate.autograd.tape import Entry, Part, current_session
from bedplate.errors import GradientError
from bedplate.graph.node import NO_ATTRIBUTES
from bedplate.graph.pending import LOCAL


class _Apply:
    """`apply` on the class makes an instance first; on an instance it works on a copy."""

    def __get__(self, instance: Any, owner: type[Operation]) -> Callable[..., Any]:
        if instance is None:
            return lambda *inputs: _apply(owner(), inputs, owner)
        return lambda *inputs: _apply(copy.copy(instance), inputs, instance)


def _missing(signature: str) -> Callable[..., Any]:
    def method(self: Operation, *arguments: Any) -> Any:
        raise GradientError(f"{self.name}: {signature} is not defined")

    return method


class Operation:
    """The base of custom ops: subclass it, and call `apply`.

    forward(*inputs)   returns a tensor, or a tuple of them; may keep what it needs on `self`
    grad_fn(grad)      returns the gradient of each input, or None; a single one may stand alone.
                       It is given the gradient of each output: zeros where none came back
    constants          names of attributes that do not depend on the inputs, for second
                       derivatives; only needed for values that left the graph in `forward`

    Each application has an instance of its own: a new one, or a copy of the one that `apply`
    was called on.

    >>> import bedplate as bp
    >>> class Square(bp.Operation):
    ...     def forward(self, x):
    ...         self.x = x
    ...         return x * x
    ...     def grad_fn(self, grad):
    ...         return 2 * self.x * grad
    >>> x = bp.tensor([3.0], requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad.tolist()
    [6.0]
    """

    constants: tuple[str, ...] = ()
    apply: Any = _Apply()
    # attributes and not methods, so that a type checker lets subclasses choose the arguments
    forward: Callable[..., Any] = _missing("forward(self, *inputs)")
    grad_fn: Callable[..., Any] = _missing("grad_fn(self, grad)")
    _lost: tuple[str, ...] = ()  # what forward kept that the tape does not know

    @property
    def name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def input_gradients(self, *grads: Any, sources: tuple[Any, ...]) -> tuple[Any, ...]:
        """What `grad_fn` gives, as a tuple; checked where it is to be differentiated again."""
        before = LOCAL.state.cuts
        found = self.grad_fn(*grads)
        gradients = tuple(found) if isinstance(found, tuple | list) else (found,)
        if LOCAL.state.recording:
            fault = self._fault(gradients, LOCAL.state.cuts != before)
            if fault:
                behind = (*(grad._entry for grad in grads), *sources)
                return tuple(None if g is None else _refused(g, fault, behind) for g in gradients)
        return gradients

    def _fault(self, gradients: tuple[Any, ...], has_cut: bool) -> str:
        """Why the gradients cannot be differentiated again; empty if they can."""
        if self._lost:
            names = ", ".join(f"self.{name}" for name in self._lost)
            return (
                f"{self.name}: {names} was computed in forward from values that left the graph "
                "(numpy(), item(), detach() or no_grad), so a second derivative would be wrong\n"
                "  compute it with tensor operations, or save the inputs and compute it in "
                f"grad_fn; if it does not depend on the inputs, list it in {self.name}.constants"
            )
        if has_cut and any(g is not None and g._entry is None for g in gradients):
            return (
                f"{self.name}: grad_fn took values out of the graph (numpy(), item(), "
                "detach() or no_grad), so its result cannot be differentiated again\n"
                "  compute the gradient with tensor operations"
            )
        return ""


class _Refusal:
    """An op of the tape that stands behind a gradient which must not be differentiated."""

    __slots__ = ("_fault",)
    name = "gradient"

    def __init__(self, fault: str) -> None:
        self._fault = fault

    def input_gradients(self, grad: Any, *, sources: tuple[Any, ...]) -> tuple[Any, ...]:
        raise GradientError(self._fault)


def _refused(gradient: Any, fault: str, behind: tuple[Any, ...]) -> Any:
    """The gradient, which raises when somebody differentiates it."""
    node = gradient._node
    nodes = (node,) * len(behind)
    entry = Entry(_Refusal(fault), NO_ATTRIBUTES, nodes, behind, node, current_session())
    return gradient._wrap(node, entry)


def _apply(operation: Operation, inputs: tuple[Any, ...], source: Any) -> Any:
    """Run `forward`, and record it if a gradient may be wanted.

    source  the class or instance that `apply` was called on
    """
    tensors = [x for x in inputs if hasattr(x, "_node")]
    if not tensors:
        raise TypeError(f"{operation.name}.apply: expected at least one tensor")
    state = LOCAL.state
    if state.watcher is not None:
        state.watcher.applied(source)
    cuts, known = state.cuts, set(vars(operation))
    # aliases: forward may assign to its arguments without changing the caller's tensors
    given = tuple(x._alias() if hasattr(x, "_node") else x for x in inputs)
    found = operation.forward(*given)
    several = isinstance(found, tuple | list)
    outputs = list(found) if several else [found]
    _check_outputs(operation, outputs)
    sources = tuple(getattr(x, "_entry", None) for x in inputs)
    wanted = state.recording and any(source is not None for source in sources)
    if not wanted or not any(output.dtype.kind in "fc" for output in outputs):
        made = [tensors[0]._from_node(output._node) for output in outputs]
        return tuple(made) if several else made[0]
    if state.cuts != cuts:
        operation._lost = tuple(_lost(operation, known, given))
    nodes = tuple(getattr(x, "_node", None) for x in inputs)
    results = tuple(output._node for output in outputs)
    entry = Entry(
        operation, NO_ATTRIBUTES, nodes, sources, results if several else results[0],
        current_session(),
    )  # fmt: skip
    if not several:
        return tensors[0]._wrap(results[0], entry)
    return tuple(_part(tensors[0], entry, results, index) for index in range(len(results)))


def _part(like: Any, entry: Entry, results: tuple[Any, ...], index: int) -> Any:
    """Output number `index` as a tensor; only floats have a history."""
    node = results[index]
    if node.dtype.kind not in "fc":
        return like._from_node(node)
    attributes = {"index": index, "of": len(results)}
    return like._wrap(node, Entry(Part, attributes, (), (entry,), node, entry.session))


def _check_outputs(operation: Operation, outputs: list[Any]) -> None:
    for output in outputs:
        if not hasattr(output, "_node"):
            raise TypeError(
                f"{operation.name}: forward must return a tensor, got {type(output).__name__}"
            )
    if not outputs:
        raise TypeError(f"{operation.name}: forward must return a tensor, got none")


def state_of(source: Any) -> tuple[Any, ...]:
    """What the attributes of an operation, or of its class, stand for: equal if they are alike.

    Numbers, strings and arrays, alone or in lists and dicts, by value; anything else by identity.
    """
    kind = source if isinstance(source, type) else type(source)
    tables = [vars(c) for c in kind.__mro__[: kind.__mro__.index(Operation)]]
    tables += [] if isinstance(source, type) else [vars(source)]
    return tuple(
        (name, _shown(value))
        for table in tables
        for name, value in table.items()
        if not name.startswith("__")
    )


def _shown(value: Any) -> Any:
    if isinstance(value, bool | int | float | complex | str | bytes | type(None)):
        return type(value), repr(value)
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, list | tuple):
        return type(value), tuple(_shown(part) for part in value)
    if isinstance(value, dict):
        return tuple((repr(key), _shown(part)) for key, part in value.items())
    return id(value)


def _lost(operation: Operation, known: set[str], given: tuple[Any, ...]) -> Iterator[str]:
    """Names of attributes set in forward that may depend on the inputs unknown to the tape."""
    inputs = {id(x) for x in given}
    for name, value in vars(operation).items():
        if name in known or name in operation.constants:
            continue
        if any(_is_lost(part) and id(part) not in inputs for part in _parts(value)):
            yield name


def _parts(value: Any) -> Iterator[Any]:
    """The value, or what a list, tuple or dict of values holds."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)
    else:
        yield value


def _is_lost(value: Any) -> bool:
    if hasattr(value, "_node"):
        return value._entry is None and value.dtype.kind in "fc"
    return isinstance(value, float | np.floating) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "fcV"
    )
