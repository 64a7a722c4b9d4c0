"""The printed table of all ops: `python -m bedplate.ops.table`.

One line an op: its kind, whether it has a gradient (or the reason why not), whether that can be
differentiated again, how a device computes it, the dtypes of its first input, what it takes, and
how many samples test it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.devices.device import Device
from bedplate.devices.registry import BACKENDS
from bedplate.dtypes import ALL, FLOATS, INTEGERS, DType, as_dtype
from bedplate.graph.node import Node, topological_order
from bedplate.ops.cost import cost_of
from bedplate.ops.leaves import placeholder
from bedplate.ops.record import REGISTRY, NoGradient, Op, Sample

HEADINGS = (
    "op", "kind", "gradient", "second order", "computed by", "devices", "dtypes", "cost", "samples",
)  # fmt: skip
GROUPS = (
    (ALL, "all"),
    (tuple(d for d in ALL if d.kind != "c"), "bool, integers, floats"),
    (tuple(d for d in ALL if d.kind in "iufc"), "numbers"),
    (tuple(d for d in ALL if d.kind in "fc"), "floats, complex"),
    (INTEGERS + FLOATS, "integers, floats"),
    (FLOATS, "floats"),
    (INTEGERS, "integers"),
    (tuple(d for d in ALL if d.kind in "biu"), "bool, integers"),
    (tuple(d for d in ALL if d.kind == "c"), "complex"),
)
BY_NAME = {
    "leaf": "the compiler",
    "view": "indices of the reader",
    "gather": "the compiler",
    "assemble": "the compiler",
}


def named_dtypes(dtypes: tuple[DType, ...]) -> str:
    """The dtypes in words."""
    for group, name in GROUPS:
        if set(dtypes) == set(group):
            return name
    return ", ".join(dtype.name for dtype in dtypes)


def computed_by(op: Op) -> str:
    """Which field of the record, or which rule of the compiler, computes the op."""
    for name in ("emit", "lower", "expand", "combine"):
        if getattr(op, name) is not None:
            return name
    return BY_NAME.get(op.kind, "the compiler")


def devices(op: Op) -> str:
    """Where it runs: the reference device needs a NumPy reference, the others a way to compute."""
    return ", ".join(name for name in BACKENDS if name != "reference" or op.reference is not None)


def second_order(op: Op) -> str:
    """Whether its gradient can be differentiated, found by building that and looking at its ops.

    "yes"; "zero", if the gradient does not depend on the inputs, so that it is 0; else the op in
    the way
    """
    if isinstance(op.gradient, NoGradient):
        return ""
    found = [gradient_graph(op, sample) for sample in op.samples if _has_floats(sample)]
    if not found:
        return "not sampled"
    missing = sorted({node.op.name for between, _ in found for node in between if _ends(node)})
    if missing:
        return f"no: {', '.join(missing)} has none"
    return "yes" if any(is_curved for _, is_curved in found) else "zero"


def _ends(node: Node) -> bool:
    """Whether a gradient that arrives here has nowhere to go."""
    return isinstance(node.op.gradient, NoGradient) and node.op.name != "output"


def _has_floats(sample: Sample) -> bool:
    return sample.smooth and any(kind in "fc" for kind in _kinds(sample))


def _kinds(sample: Sample) -> list[str]:
    return [np.asarray(array).dtype.kind for array in sample.inputs(np.random.default_rng(0))]


def gradient_graph(op: Op, sample: Sample) -> tuple[list[Node], bool]:
    """The gradient of an op at a sample, as a graph without values.

    returns  the nodes through which it depends on a float (an input, the output, or the gradient
             that comes in), and whether it depends on an input or the output
    """
    device = Device("cpu")
    arrays = [np.asarray(array) for array in sample.inputs(np.random.default_rng(0))]
    inputs = tuple(
        placeholder(index, array.shape, as_dtype(array.dtype), device)
        for index, array in enumerate(arrays)
    )
    shape, dtype = op.infer(inputs, sample.attributes)
    several = op.n_outputs > 1
    first = placeholder(-1, shape[0] if several else shape, dtype[0] if several else dtype, device)
    output: Any = Node(op, inputs, sample.attributes, shape, dtype, device)
    given = [first, *[None] * (op.n_outputs - 1)] if several else first
    gradient: Any = op.gradient
    results = gradient(given, inputs, output, **sample.attributes)
    results = results if isinstance(results, tuple) else (results,)
    values = {node for node in (*inputs, output) if several or node.dtype.kind in "fc"}
    return _dependent([result for result in results if result is not None], values, first)


def _dependent(results: list[Node], values: set[Node], grad: Node) -> tuple[list[Node], bool]:
    """The nodes between, and whether a result depends on one of `values`."""
    curved, touched = set(values), {*values, grad}
    between = []
    for node in topological_order(results):
        if node in values or node.op.kind == "leaf":
            continue
        floating = node.op.n_outputs > 1 or node.dtype.kind in "fc"
        if floating and any(source in touched for source in node.inputs):
            touched.add(node)
            between.append(node)
            if any(source in curved for source in node.inputs):
                curved.add(node)
    return between, any(result in curved for result in results)


def row(op: Op) -> tuple[str, ...]:
    """The cells of one op."""
    gradient = op.gradient
    shown = f"none: {gradient.reason}" if isinstance(gradient, NoGradient) else gradient.__name__
    return (
        op.name, op.kind, shown, second_order(op), computed_by(op), devices(op),
        named_dtypes(op.dtypes), cost_of(op).words, str(len(op.samples)),
    )  # fmt: skip


def rows() -> list[tuple[str, ...]]:
    """The cells of all ops, sorted by kind and name."""
    return sorted((row(op) for op in REGISTRY.values()), key=lambda cells: (cells[1], cells[0]))


def table() -> str:
    """All ops as text.

    >>> print(table().splitlines()[0].split()[:3])
    ['op', 'kind', 'gradient']
    """
    printed = [HEADINGS, *rows()]
    widths = [max(len(cells[i]) for cells in printed) for i in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in printed
    )


def summary() -> str:
    """How many there are, in one line."""
    lines = rows()
    second = sum(cells[3] in ("yes", "zero") for cells in lines)
    first = sum(bool(cells[3]) for cells in lines)
    return f"{len(lines)} ops, {first} with a gradient, {second} of these twice differentiable"


if __name__ == "__main__":
    print(table())
    print(f"\n{summary()}")
