"""Op: the record that says everything about one operation, and how records are applied.

One op, one place. A record holds the shape and dtype rule, the NumPy reference, the gradient,
how a device computes it, and sample inputs. The function, the method, the documentation and
the tests' tables are derived from it.

Kinds, and what the compiler asks of each:

| kind        | meaning                                          | the compiler uses               |
|-------------|--------------------------------------------------|---------------------------------|
| leaf        | buffer, constant, placeholder, iota              | the name and attributes         |
| elementwise | one output element from the same element of each | emit(dtype, values, attributes) |
|             | input; inputs broadcast                          |                                 |
| view        | reshape, permute, expand, slice, output          | the name and attributes         |
| reduce      | over `axes`, which are kept with size 1          | initial, combine, finish        |
| gather      | take: whole slices by index along one axis       | the name and attributes         |
| assemble    | concat, pad, update: regions of one output       | the name and attributes         |
| kernel      | has kernels of its own                           | lower(builder, node, in, out)   |
| host        | its reference computes it, on the CPU's memory   | reference                       |
| composed    | other ops; recorded and differentiated as one    | expand(inputs, attributes)      |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from bedplate.dtypes import DType
from bedplate.errors import InternalError
from bedplate.graph.node import NO_ATTRIBUTES, Attributes

Infer = Callable[[tuple[Any, ...], Attributes], tuple[Any, Any]]
# (grad_out, inputs, output, **attributes) -> one gradient or None per input, in ops
Gradient = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class NoGradient:
    """Why an op has no gradient; shown to whoever asks for one."""

    reason: str


@dataclass(frozen=True)
class Sample:
    """Inputs and attributes for the op's tests.

    inputs  a function of a NumPy random generator that gives arrays
    smooth  the op has a derivative at these inputs: no ties, no kinks
    """

    inputs: Callable[..., Sequence[Any]]
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    smooth: bool = True


@dataclass(frozen=True)
class Cost:
    """What an op takes: arithmetic, and memory traffic.

    words   for people; n stands for the elements of the first input
    flops   (inputs, output, attributes) -> how many floating point operations, about
    nbytes  the same for bytes that must move; by default all inputs and outputs once
    """

    words: str
    flops: Callable[..., float]
    nbytes: Callable[..., float] | None = None


def each_element(flops: float, words: str) -> Cost:
    """A cost that is the same for each element of the first input."""
    return Cost(words, lambda inputs, output, attributes: flops * math.prod(inputs[0].shape))


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """The record of one operation; see the head of this file for what each kind needs.

    infer       (inputs, attributes) -> (shape, dtype); raises ShapeError or DTypeError;
                inputs are anything with .shape and .dtype
    reference   (*arrays, **attributes) -> array, or a tuple for several outputs
    gradient    (grad_out, inputs, output, **attributes) -> a gradient or None per input,
                built of ops; NoGradient(reason) if there is none
    cost        arithmetic and traffic; by default those of its kind, see ops/cost.py
    emit        elementwise: (dtype, values, attributes) -> kernel-language value, where the
                values are scalars or vectors of the inputs' dtypes and dtype is the output's
    expand      composed: (inputs, attributes) -> output (or tuple), built of other ops
    lower       kernel: (builder, node, inputs, outputs) -> None; see compiler/builder.py
    initial     reduce: (dtype) -> the start value, a Python number
    combine     reduce: (a, b) -> kernel-language value
    accumulate  reduce: (input dtype) -> dtype of the accumulator
    n_outputs   how many values the op gives
    epilogue    kernel: can apply an element-wise chain to each value that it stores, at (batch,
                row, column) of its shape; or (node) -> the shape of three axes or more by which it
                does so, None if the kernel of this node does not
    any_order   kernel: those of its several outputs that it can store in any order of their axes
                in which the last stays: it writes by the strides of the view that it is given
    by_parts    on complex inputs it does the same to the real parts and to the imaginary parts;
                an op that takes complex inputs otherwise has a form: ops/complex_numbers/
    promote     elementwise: the dtype to which inputs are cast first: "" as they are,
                "common" what holds all, "float" the same with integers as float32, "truth"
                bool: whether they differ from 0
    infinities  (**attributes) -> whether an infinity that no input has means something, such as
                the largest of nothing: no fault unless it leaves the function that applied the op
    dtypes      the dtypes that the first input may have; for tables and tests
    """

    name: str
    kind: str
    infer: Infer
    reference: Callable[..., Any] | None = None
    gradient: Gradient | NoGradient = NoGradient("none was given")
    cost: Cost | None = None
    emit: Callable[..., Any] | None = None
    expand: Callable[..., Any] | None = None
    lower: Callable[..., None] | None = None
    initial: Callable[..., Any] | None = None
    combine: Callable[..., Any] | None = None
    accumulate: Callable[..., Any] | None = None
    n_outputs: int = 1
    epilogue: bool | Callable[[Any], Any] = False
    any_order: tuple[int, ...] = ()
    by_parts: bool = False
    promote: str = ""
    infinities: Callable[..., bool] | None = None
    dtypes: tuple[DType, ...] = ()
    samples: tuple[Sample, ...] = ()
    doc: str = ""
    # it has one value, which a plan computes by itself; see compiler/collect.py
    is_plain: bool = field(init=False)

    def __post_init__(self) -> None:
        apart = self.name == "output" or self.kind == "transfer"
        object.__setattr__(self, "is_plain", self.n_outputs == 1 and not apart)

    def __repr__(self) -> str:
        return f"<Op {self.name}>"


@dataclass(frozen=True)
class Kind:
    """Which fields of a record belong to a kind, beside those that any record may have.

    needs   without these the compiler could do nothing with it
    takes   what it may have too
    """

    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


KINDS = {
    "leaf": Kind(),
    # `emit` is missing where only complex numbers have the op, see ops/complex_numbers/
    "elementwise": Kind(("reference",), ("emit", "promote")),
    "view": Kind(("reference",)),
    # argmax and argmin have no `initial` and `combine`: the compiler knows how places are compared
    "reduce": Kind(("reference", "accumulate"), ("initial", "combine")),
    "gather": Kind(("reference",)),
    "assemble": Kind(("reference",)),
    "kernel": Kind(("reference", "cost", "lower"), ("epilogue", "n_outputs", "any_order")),
    "host": Kind(("reference",), ("n_outputs",)),
    "composed": Kind(("reference", "expand"), ("n_outputs",)),
}
OF_SOME_KINDS = {name for kind in KINDS.values() for name in kind.needs + kind.takes}
ABSENT = {f.name: f.default for f in fields(Op)}
REGISTRY: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Enter a record into the table from which tests, methods and documentation are derived.

    raises   InternalError if the name is taken, or the fields are not those of the kind
    """
    if op.name in REGISTRY:
        raise InternalError(f"two ops are called {op.name!r}")
    _check_fields(op)
    REGISTRY[op.name] = op
    return op


def _check_fields(op: Op) -> None:
    kind = KINDS.get(op.kind)
    if kind is None:
        raise InternalError(f"{op.name}: no kind {op.kind!r}; there are {', '.join(KINDS)}")
    given = {name for name in OF_SOME_KINDS if getattr(op, name) != ABSENT[name]}
    missing = sorted(set(kind.needs) - given)
    if missing:
        raise InternalError(f"{op.name}: a record of kind {op.kind} needs {', '.join(missing)}")
    foreign = sorted(given - {*kind.needs, *kind.takes, "reference", "cost"})
    if foreign:
        raise InternalError(f"{op.name}: kind {op.kind} does not use {', '.join(foreign)}")


def apply(op: Op, inputs: tuple[Any, ...], attributes: Attributes = NO_ATTRIBUTES) -> Any:
    """Apply an op to nodes (gives a node) or to tensors (gives a tensor, and records it).

    The same text therefore serves as a user's function, as the expansion of a composed op and
    as a gradient: what the first input is decides. Functions that read values to know a shape
    (`unique`, `nonzero`, `repeat` by counts, ...) or keep state (the running statistics of
    `batch_norm`) take tensors alone; a node says so, see graph/node.py.

    raises TypeError if that is neither
    """
    try:
        return inputs[0]._apply(op, inputs, attributes)
    except AttributeError:
        refuse_foreign(op.name, inputs)
        raise


def refuse_foreign(op: str, inputs: tuple[Any, ...]) -> None:
    """raises TypeError if the first that is no value of ours is to blame"""
    for value in inputs:
        if not hasattr(value, "_apply"):
            kind = type(value).__name__
            raise TypeError(
                f"{op}: expected a tensor, got {kind}; make one with bp.tensor(...)"
            ) from None
