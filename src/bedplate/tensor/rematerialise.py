"""rematerialise: a function whose intermediate values are computed again in place of being kept.

On the tape a call is one entry. Its sources are the histories of the tensor arguments, and of all
that the function closes over (the parameters of a module). The walk back calls the function a
second time, on copies of the arguments that are made when the gradient of the result is known
(see ops/shape/after.py), and walks back through that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from bedplate.autograd import tape
from bedplate.autograd.mode import enable_grad
from bedplate.autograd.stand_in import alias_entry
from bedplate.errors import GradientError
from bedplate.graph.node import NO_ATTRIBUTES
from bedplate.graph.pending import LOCAL
from bedplate.ops.record import apply
from bedplate.ops.shape.after import AFTER
from bedplate.ops.shape.views import reshape
from bedplate.tensor.draws import Draws
from bedplate.tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def rematerialise(function: F) -> F:
    """The same function, which keeps nothing for its gradient but its arguments.

    What it computes on the way is computed again when the gradient is taken: memory for time.
    Values, gradients and second gradients are the same, bit for bit; where a tensor gets
    gradients from inside and from outside of the function, those from inside are added up first.
    Random numbers are drawn again as they were; running statistics of a batch normalisation are
    moved on once.

    function  gives a tensor, or a tuple or list of tensors; does the same each time it is called,
              such as a module. Tensors stand among its arguments themselves (those inside of lists
              are kept as all that it closes over is). What it assigns to a tensor from outside is
              assigned a second time
    raises    TypeError for another result, or if it is no function; GradientError when the gradient
              is taken, if a tensor that it closes over was assigned to since, or if it gives other
              shapes or dtypes or draws another number of random values than before
    cost      one more call of the function for each gradient, and a copy of its tensor arguments
    source    Chen et al. 2016, "Training deep nets with sublinear memory cost", arXiv:1604.06174
    >>> import bedplate as bp
    >>> x = bp.tensor([0.5, 1.0], requires_grad=True)
    >>> bp.rematerialise(lambda x: x.exp() * x)(x).sum().backward()
    >>> [round(v, 4) for v in x.grad.tolist()]
    [2.4731, 5.4366]
    """

    if not callable(function):
        raise TypeError(f"rematerialise: expected a function, got {type(function).__name__}")

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if not LOCAL.state.recording:
            return function(*arguments, **named)
        return _Call(function, arguments, named).run()

    return cast(F, call)


class _Call:
    """One call, as an op of the tape.

    tensors   the tensor arguments by place (a number or a name), without history
    behind    their histories, and those of what the function closes over
    """

    name = "rematerialise"

    def __init__(self, function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.function = function
        self.draws = Draws()
        self.given: dict[Any, Any] = {**dict(enumerate(arguments)), **named}
        self.tensors: list[Any] = [k for k, v in self.given.items() if isinstance(v, Tensor)]
        self.closed: list[Any] = []
        self.kinds: list[Any] = []  # shape and dtype of each result
        self.nodes: list[Any] = []  # of `closed`: leaves that were not assigned to meanwhile

    def run(self) -> Any:
        """The function's value; the entry behind it is this one alone."""
        state = LOCAL.state
        outer, state.session = state.session, tape.Session()
        inner = state.session
        try:
            with self.draws.written():
                found = self._apply(self.given)
        finally:
            state.session = outer
        results = _outputs(self.function, found)
        self.kinds = [(result.shape, result.dtype) for result in results]
        behind = [self.given[place]._entry for place in self.tensors]
        self.closed = [e for e in _outside(results, inner) if e not in behind]
        self.nodes = [_node_of(entry) for entry in self.closed]
        for place in self.tensors:
            self.given[place] = self.given[place]._from_node(self.given[place]._node)
        if not self.closed and not any(entry is not None for entry in behind):
            return found
        return self._recorded(found, results, (*behind, *self.closed))

    def _apply(self, given: dict[Any, Any]) -> Any:
        places = [place for place in given if isinstance(place, int)]
        named = {name: value for name, value in given.items() if isinstance(name, str)}
        return self.function(*[given[place] for place in places], **named)

    def _recorded(self, found: Any, results: list[Any], sources: tuple[Any, ...]) -> Any:
        """The results, each with this call behind it."""
        inputs = (*[self.given[place]._node for place in self.tensors], *self.nodes)
        nodes = tuple([result._node for result in results])
        several = isinstance(found, tuple | list)
        entry = tape.Entry(
            self, NO_ATTRIBUTES, inputs, sources, nodes if several else nodes[0],
            tape.current_session(),
        )  # fmt: skip
        if not several:
            return found._wrap(nodes[0], entry if results[0]._entry is not None else None)
        made: Any = getattr(type(found), "_make", type(found))  # named tuples are made by that
        return made([self._part(entry, r, i) for i, r in enumerate(results)])

    def _part(self, entry: tape.Entry, result: Any, index: int) -> Any:
        if result._entry is None:
            return result
        attributes = {"index": index, "of": len(entry.output or ())}
        part = tape.Entry(tape.Part, attributes, (), (entry,), result._node, entry.session)
        return result._wrap(result._node, part)

    def input_gradients(self, *grads: Any, sources: tuple[Any, ...]) -> tuple[Any, ...]:
        """Call the function again, late, and walk back through that."""
        again = LOCAL.state.recording
        self._check_closed()
        given = dict(self.given)
        stand_ins: list[Any] = []
        for place, source in zip(self.tensors, sources, strict=False):
            given[place] = self._stand_in(given[place], grads, source, again)
            stand_ins.append(given[place]._entry)
        with enable_grad(), self.draws.repeated():
            results = _outputs(self.function, self._apply(given))
            self.draws.require_all()
        self._check_kinds(results)
        ends = {entry for entry in (*stand_ins, *self.closed) if entry is not None}
        joined = _joined(results, grads)
        sums: dict[Any, Any] = {}
        if joined is not None:
            sums = tape.walk(joined, grads[0], results[0]._wrap, again, again, ends=ends)
        return tuple([sums.get(entry) for entry in (*stand_ins, *self.closed)])

    def _check_kinds(self, results: list[Any]) -> None:
        now = [(result.shape, result.dtype) for result in results]
        if now != self.kinds:
            before, after = (", ".join(f"{s} {d}" for s, d in each) for each in (self.kinds, now))
            raise GradientError(
                f"rematerialise: the function gave {before}, and for the gradient {after}\n"
                "  it must do the same each time it is called"
            )

    def _stand_in(self, tensor: Any, grads: tuple[Any, ...], source: Any, again: bool) -> Any:
        """A late copy of an argument, with a history of its own if a gradient is wanted."""
        with enable_grad():
            known = tensor._wrap(tensor._node, source if again else None)
            flat = apply(AFTER, (reshape(known, (-1,)), *[g.detach() for g in grads]))
            late = reshape(flat, tensor.shape)
        if source is None:
            return late
        return late._wrap(late._node, alias_entry(late)) if again else late.requires_grad_()

    def _check_closed(self) -> None:
        for entry, node in zip(self.closed, self.nodes, strict=True):
            if isinstance(entry, tape.Leaf) and node is not None:
                tensor = entry.tensor()
                if tensor is not None and tensor._node is not node:
                    raise GradientError(
                        "rematerialise: a tensor that the function closes over was assigned to "
                        "between its call and the gradient\n"
                        f"  {tensor.shape} {tensor.dtype}   made at {tensor._node.line()}\n"
                        "  take the gradient before the parameters are changed"
                    )


class _Joined:
    """What stands behind several results, as an op of the tape: one walk goes back through all.

    So that values which several of them come from have all of their gradient, hooks included.
    """

    name = "rematerialise"

    def __init__(self, gradients: tuple[Any, ...]) -> None:
        self.gradients = gradients

    def input_gradients(self, *_: Any, sources: tuple[Any, ...]) -> tuple[Any, ...]:
        return self.gradients


def _joined(results: list[Any], grads: tuple[Any, ...]) -> Any:
    """An entry whose gradients are `grads`, in front of those results that have a history."""
    pairs = [(r, g) for r, g in zip(results, grads, strict=True) if r._entry is not None]
    if not pairs:
        return None
    return tape.Entry(
        _Joined(tuple([grad for _, grad in pairs])), NO_ATTRIBUTES,
        tuple([result._node for result, _ in pairs]),
        tuple([result._entry for result, _ in pairs]), results[0]._node, tape.current_session(),
    )  # fmt: skip


def _outputs(function: Any, found: Any) -> list[Any]:
    results = list(found) if isinstance(found, tuple | list) else [found]
    for result in results:
        if not isinstance(result, Tensor):
            name = getattr(function, "__name__", type(function).__name__)
            raise TypeError(
                f"rematerialise: {name} must give a tensor, or a tuple or list of tensors, "
                f"got {type(result).__name__}"
            )
    return results


def _outside(results: list[Any], inner: tape.Session) -> list[Any]:
    """The entries and leaves behind results that were not recorded in session `inner`."""
    found: dict[Any, None] = {}
    seen = set()
    stack = [result._entry for result in results if result._entry is not None]
    while stack:
        entry = stack.pop()
        if entry in seen:
            continue
        seen.add(entry)
        if isinstance(entry, tape.Entry) and entry.session is inner:
            stack.extend(source for source in entry.sources if source is not None)
        else:
            found[entry] = None
    return list(found)


def _node_of(entry: Any) -> Any:
    """The node whose gradient an entry or a leaf takes; None if it has several outputs."""
    if isinstance(entry, tape.Entry):
        return None if isinstance(entry.output, tuple) else entry.output
    tensor = entry.tensor()
    return None if tensor is None else tensor._node
