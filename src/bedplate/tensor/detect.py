"""detect_nan: stop at the operation that makes the first NaN or infinity, and say which it is.

A detector watches its thread. Each operation is computed as it is applied, alone and unfused, and
its result looked at; in a walk back the gradients of each entry of the tape are. An operation is
the *producer* if what it read is free of what it gave; where it is not, the fault lies further up
and was reported there, or came in from outside. For an elementwise operation this is decided place
by place, so a mask of infinities hides nothing beside it.

Some ops give infinities that mean that nothing was there: the largest of no elements, the
probability of no path. The function that applied the op takes them out again, so they, and what
follows from them alone, are a fault only once they have left it: when another line of the user
takes them, their value is read, or a walk back begins at them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from bedplate.errors import CaptureError, NonFiniteError
from bedplate.graph.node import Node
from bedplate.graph.pending import LOCAL, user_site
from bedplate.ops.record import Op
from bedplate.tensor.values import flush

MAX_NAMED = 6  # inputs that a message shows
LEFT = "nothing was there to compute it from, and no later step took it out again"
BEGINS = "what it was computed from has none: this is where it begins"


@dataclass(frozen=True)
class _Rules:
    """What counts.

    enabled   whether anything is looked at
    infinity  infinities count, not only NaN
    allow     names of ops that may make them
    """

    enabled: bool = True
    infinity: bool = True
    allow: frozenset[str] = frozenset()


@contextmanager
def detect_nan(
    enabled: bool = True, *, infinity: bool = True, allow: Sequence[str] = ()
) -> Iterator[None]:
    """Stop at the first operation that makes a NaN or an infinity, forward or backward.

    The error names the producer, not what passed it on: the op, the path of the module that called
    it (`Model.blocks.3.norm`), the line, the shapes, the first bad index and what stood there; for
    a gradient, the op of the forward pass whose gradient it is.

    enabled   False: look away inside this block, as for one that is meant to overflow
    infinity  False: only NaN counts
    allow     names of ops that may make them, such as "log"
    raises    NonFiniteError, a FloatingPointError; CaptureError inside a captured step (around
              the call of one it runs the function uncaptured)
    cost      each op is run and read by itself: a search for a fault, not a way to train
    >>> import bedplate as bp
    >>> with bp.detect_nan():
    ...     (bp.tensor([1.0, 0.0]) / bp.tensor([2.0, 0.0])).sum()
    Traceback (most recent call last):
    bedplate.errors.NonFiniteError: divide: made a NaN in the forward pass...
    """
    state = LOCAL.state
    detector = state.watcher
    if detector is not None and not isinstance(detector, Detector):
        raise CaptureError(
            "detect_nan: it cannot look into a captured step\n"
            "  put it around the call, which then runs the function uncaptured"
        )
    rules = _Rules(enabled, infinity, frozenset(allow))
    if detector is None:
        detector = state.watcher = Detector(rules)
        try:
            yield
        finally:
            state.watcher = None
        return
    before, detector.rules = detector.rules, rules
    try:
        yield
    finally:
        detector.rules = before


class Detector:
    """The watcher of a thread under `detect_nan`; see graph/pending.py."""

    applies = True
    differentiating: Any = None

    def __init__(self, rules: _Rules) -> None:
        self.rules = rules
        self._stack: list[str] = []
        self._names: dict[int, str] = {}
        # values with a NaN or infinity that was allowed, or came in as a mask
        self._known: weakref.WeakSet[Node] = weakref.WeakSet()
        # values with an infinity that means that nothing was there, or that follows from one, and
        # the op that made it
        self._empty: weakref.WeakKeyDictionary[Node, str] = weakref.WeakKeyDictionary()
        self._begins = True  # the next gradient is the first of a walk back
        self._modules: weakref.WeakKeyDictionary[Node, str] = weakref.WeakKeyDictionary()
        # of ops with several outputs, which let go of their inputs when they run
        self._several: weakref.WeakKeyDictionary[Node, Any] = weakref.WeakKeyDictionary()

    # ---- what is of no interest here

    def read(self, tensor: Any) -> None: ...

    def read_constant(self, tensor: Any) -> None: ...

    def rebinding(self, tensor: Any) -> None: ...

    def grad_read(self, tensor: Any) -> None: ...

    def grad_setting(self, tensor: Any) -> None: ...

    def applied(self, operation: Any) -> None: ...

    # ---- modules

    def call(self, module: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call a module; its path is known while it runs."""
        outermost = not self._stack
        kind = type(module).__name__
        if outermost:
            self._names = {id(part): path for path, part in module.named_modules()}
            self._root = kind
        path = self._names.get(id(module))
        named = f"{self._stack[-1]}.{kind}" if path is None else ".".join([self._root, path])
        self._stack.append(named.rstrip("."))
        try:
            return module.forward(*inputs, **options)
        finally:
            self._stack.pop()

    # ---- forward

    def value_read(self, tensor: Any) -> None:
        """A value is read; if by a user, it has left its function."""
        self._check_left((tensor._node,), user_site(2))

    def apply(self, tensor: Any, op: Any, inputs: tuple[Any, ...], attributes: Any) -> Any:
        """Apply an op, compute it and look at its value."""
        state = LOCAL.state
        state.watcher = None
        try:
            result = tensor._apply(op, inputs, attributes)
            node = result._node
            if self._stack and self.differentiating is None:
                self._modules[node] = self._stack[-1]
            sources = tuple(x._node for x in inputs)
            if self.differentiating is None:
                self._begins = True
                self._check_left(sources, node.site)
            if op.n_outputs > 1:
                self._several[node] = (op, sources)
            elif self.rules.enabled:
                self._look(node, op, sources, attributes)
        finally:
            state.watcher = self
        return result

    def _look(self, node: Node, op: Op, sources: tuple[Node, ...], attributes: Any) -> None:
        if op.name == "output":
            op, sources = self._several.get(sources[0], (op, ()))
        elif op.kind == "view":
            self._known.update([node] if sources[0] in self._known else [])
            if sources[0] in self._empty and _is_infinite(_value(node)).any():
                self._empty[node] = self._empty[sources[0]]
            return
        given = [_value(source) for source in sources]
        given += [np.asarray(v) for v in attributes.values() if isinstance(v, float)]
        finding = self._finding(_value(node), given, op.kind == "elementwise")
        if finding is None:
            return
        emptied = self._emptied_by(finding, op, attributes, sources)
        if emptied is not None:
            self._empty[node] = emptied
        elif op.name in self.rules.allow or finding.produced is None:
            self._pass_on(node, finding, sources, op)
        else:
            raise self._produced(node, op, sources, finding)

    def _emptied_by(self, finding: _Finding, op: Op, attributes: Any, sources: Any) -> str | None:
        """The op to which infinities mean that nothing was there: this one, one before, or None."""
        if finding.what == "NaN" or op.name in self.rules.allow:
            return None
        if finding.produced is not None:
            means = op.infinities is not None and op.infinities(**attributes)
            return op.name if means else None
        others = [x for x in sources if x not in self._empty and x.op.name != "constant"]
        if any(_is_infinite(_value(source)).any() for source in others):
            return None
        return next((self._empty[x] for x in sources if x in self._empty), None)

    def _check_left(self, nodes: Sequence[Node], site: Any) -> None:
        """Nodes are taken at a line of the user's: raise if one was to be empty until then."""
        for node in nodes:
            if self.rules.enabled and node in self._empty and node.site != site:
                bad = _is_infinite(_value(node))
                shown = f"{_described(node, _first(bad))}, {int(bad.sum())} of {bad.size} elements"
                head = f"{self._empty[node]}: made an infinity in the forward pass"
                raise self._message(head, node, [f"result  {shown}"], LEFT)

    def _finding(self, array: Any, given: list[Any], by_place: bool) -> _Finding | None:
        """What is wrong with a value, and where it was not so in what it was computed from."""
        passed = None
        for what, is_bad in _KINDS[: 1 + self.rules.infinity]:
            bad = is_bad(array)
            if not bad.any():
                continue
            reads = [_excuses(what, x) for x in given]
            clean = bad.copy()
            for read in reads if by_place else [np.array(any(r.any() for r in reads))]:
                clean &= ~read
            if clean.any():
                return _Finding(what, bad, clean)
            passed = passed or _Finding(what, bad, None)
        return passed

    def _pass_on(self, node: Node, finding: _Finding, sources: Any, op: Op) -> None:
        """What was allowed, or has been since before, is let through; a NaN from outside is not."""
        known = any(source in self._known for source in sources) or op.name in self.rules.allow
        if finding.what == "NaN" and not known:
            raise self._came_in(op, sources, node)
        self._known.add(node)

    def _message(self, head: str, node: Node, shown: Sequence[str], tail: str) -> NonFiniteError:
        """What is wrong, the module and the line that made a node, values, and what it means."""
        module = self._modules.get(node)
        place = ([f"module  {module}"] if module else []) + [f"line    {node.line()}"]
        return NonFiniteError("\n  ".join([head, *place, *shown, tail]))

    def _produced(self, node: Node, op: Op, sources: Any, finding: _Finding) -> NonFiniteError:
        index = _first(finding.produced)
        entry = self.differentiating
        head, made_by = f"{op.name}: made {finding.shown} in the forward pass", node
        if entry is not None:
            head = f"{entry.op.name}: {_gradient_made(finding)}, by {op.name}"
            made_by = _output_of(entry)
        shown = _inputs_shown(sources, index if op.kind == "elementwise" else None)
        shown.append(f"result  {_described(node, index)}, {finding.count}")
        return self._message(head, made_by, shown, BEGINS)

    def _came_in(self, op: Op, sources: Any, node: Node) -> NonFiniteError:
        name, source = next(
            (n, s) for n, s in zip("abcdef", sources, strict=False) if np.isnan(_floats(s)).any()
        )
        index = _first(np.isnan(_floats(source)))
        return self._message(
            f"{op.name}: a NaN came in from outside", node,
            [f"{name}       {_described(source, index)}"],
            f"made at {source.line()}, before anybody looked",
        )  # fmt: skip

    # ---- backward

    def differentiated(self, entry: Any, grad: Any, found: tuple[Any, ...]) -> None:
        """Look at the gradients that an entry gives for its inputs."""
        if not self.rules.enabled:
            return
        state = LOCAL.state
        state.watcher = None
        try:
            if self._begins:
                self._check_left([_output_of(entry)], None)
            self._begins = False
            for index, (gradient, source) in enumerate(zip(found, entry.sources, strict=True)):
                if gradient is not None and source is not None:
                    self._look_back(entry, index, _node_of(gradient), grad)
        finally:
            state.watcher = self

    def _look_back(self, entry: Any, index: int, gradient: Node, grad: Any) -> None:
        parts = grad if isinstance(grad, list) else [grad]
        incoming = [_node_of(part) for part in parts if part is not None]
        forward = [node for node in (*entry.inputs, _output_of(entry)) if isinstance(node, Node)]
        given = [_value(node) for node in (*incoming, *forward)]
        finding = self._finding(_value(gradient), given, by_place=False)
        if finding is None:
            return
        name = entry.op.name
        if finding.produced is not None and name not in self.rules.allow:
            which = "abcdef"[index] if index < MAX_NAMED else str(index)
            place = _described(gradient, _first(finding.produced))
            shown = [
                *(f"grad    {_described(node, None)}" for node in incoming[:1]),
                *_inputs_shown(forward[:-1], None),
                f"result  gradient of {which}, {place}, {finding.count}",
            ]
            head = f"{name}: {_gradient_made(finding)}"
            raise self._message(head, _output_of(entry), shown, BEGINS)
        if finding.what == "NaN" and not any(node in self._known for node in (*incoming, *forward)):
            raise self._message(
                f"{name}: a NaN came in from outside, in the backward pass", _output_of(entry), [],
                "the gradient that backward was given, or a value of the forward pass, has it",
            )  # fmt: skip
        self._known.add(gradient)


@dataclass(frozen=True)
class _Finding:
    """what: "NaN" or "infinity"; bad: where; produced: where it was not so before, or None."""

    what: str
    bad: Any
    produced: Any

    @property
    def shown(self) -> str:
        return "a NaN" if self.what == "NaN" else "an infinity"

    @property
    def count(self) -> str:
        return f"{int(self.bad.sum())} of {self.bad.size} elements"


def _is_nan(array: Any) -> Any:
    return np.isnan(array) if array.dtype.kind not in "biu" else np.zeros(array.shape, bool)


def _is_infinite(array: Any) -> Any:
    return np.isinf(array) if array.dtype.kind not in "biu" else np.zeros(array.shape, bool)


_KINDS = (("NaN", _is_nan), ("infinity", _is_infinite))


def _excuses(what: str, array: Any) -> Any:
    """Where a value excuses a NaN, or an infinity, of what is computed from it."""
    return _is_nan(array) if what == "NaN" else _is_nan(array) | _is_infinite(array)


def _value(node: Node) -> Any:
    """The value of a node, computed if need be."""
    if node.op.n_outputs > 1:
        return np.zeros(())
    if node.block is None:
        flush(LOCAL.state, node)
    return node.array()


def _floats(node: Node) -> Any:
    array = _value(node)
    return array if array.dtype.kind not in "biu" else np.zeros(array.shape)


def _node_of(value: Any) -> Node:
    return value if isinstance(value, Node) else value._node


def _output_of(entry: Any) -> Any:
    return entry.output[0] if isinstance(entry.output, tuple) else entry.output


def _gradient_made(finding: _Finding) -> str:
    return f"its gradient made {finding.shown} in the backward pass"


def _inputs_shown(sources: Sequence[Node], index: tuple[int, ...] | None) -> list[str]:
    named = zip("abcdef", sources[:MAX_NAMED], strict=False)
    return [f"{name}       {_described(source, index)}" for name, source in named]


def _first(mask: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def _described(node: Node, index: tuple[int, ...] | None) -> str:
    """Shape, dtype, and the element at an index, or the range of all."""
    array = _value(node)
    text = f"{tuple(array.shape)} {node.dtype}"
    if index is not None:
        place = tuple(
            0 if size == 1 else i
            for i, size in zip(index[len(index) - array.ndim :], array.shape, strict=True)
        )
        where = f"at {index}" if array.ndim else "which"
        return f"{text}, {where} is {array[place]}"
    if array.dtype.kind not in "biuc" and array.size:
        wide = array.astype(np.float64)
        return f"{text}, from {np.nanmin(wide):.6g} to {np.nanmax(wide):.6g}"
    return text
