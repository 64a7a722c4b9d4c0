"""What an op takes in arithmetic and in bytes: said by its record, or by default by its kind.

The numbers are for comparing and for bounds, not for scheduling: an element-wise op counts as one
flop an element, be it an addition or an exponential; a composed op is the sum of what it is
composed of, with its inputs and outputs moved once, since it is one kernel.
"""

from __future__ import annotations

import math
from typing import Any

from bedplate.graph.node import Attributes, Node, topological_order
from bedplate.ops.leaves import placeholder
from bedplate.ops.record import Cost, Op


def _elements(value: Any) -> int:
    return math.prod(value.shape)


def _input_elements(inputs: Any, output: Any, attributes: Attributes) -> float:
    return float(_elements(inputs[0])) if inputs else 0.0


def _output_elements(inputs: Any, output: Any, attributes: Attributes) -> float:
    return float(_elements(_first(output)))


def _none(inputs: Any, output: Any, attributes: Attributes) -> float:
    return 0.0


def _output_twice(inputs: Any, output: Any, attributes: Attributes) -> float:
    first = _first(output)
    return 2.0 * _elements(first) * first.dtype.itemsize


BY_KIND = {
    "leaf": Cost("none", _none, _none),
    "view": Cost("none: an index of whoever reads it", _none, _none),
    "elementwise": Cost("1 evaluation an element; inputs and output once", _output_elements),
    "reduce": Cost("1 flop an element; input and output once", _input_elements),
    "gather": Cost("no flops; what is chosen, read and written", _none, _output_twice),
    "assemble": Cost("no flops; the output, read and written", _none, _output_twice),
    "host": Cost("by LAPACK or pocketfft on the host: see the function", _input_elements),
    "kernel": Cost("1 flop an element; inputs and outputs once", _input_elements),
}


def cost_of(op: Op) -> Cost:
    """The cost of a record: its own, else that of what it is composed of, else of its kind."""
    if op.cost is not None:
        return op.cost
    if op.expand is not None:
        return _of_expansion(op)
    return BY_KIND[op.kind]


def flops(op: Op, inputs: Any, output: Any, attributes: Attributes) -> float:
    """Arithmetic of one application.

    inputs, output  anything with shape and dtype; of several outputs a tuple
    >>> import bedplate as bp
    >>> from bedplate.ops.matmul.matmul import MATMUL
    >>> a, b = bp.zeros((2, 3)), bp.zeros((3, 4))
    >>> flops(MATMUL, (a, b), bp.matmul(a, b), {})
    48
    """
    return cost_of(op).flops(inputs, output, attributes)


def nbytes(op: Op, inputs: Any, output: Any, attributes: Attributes) -> float:
    """Bytes that one application must move: by default each input and output once."""
    given = cost_of(op).nbytes
    if given is not None:
        return given(inputs, output, attributes)
    return float(sum(_elements(v) * v.dtype.itemsize for v in (*inputs, *_all(output))))


def _all(output: Any) -> tuple[Any, ...]:
    return output if isinstance(output, tuple) else (output,)


def _first(output: Any) -> Any:
    return _all(output)[0]


def _of_expansion(op: Op) -> Cost:
    def total(inputs: Any, output: Any, attributes: Attributes) -> float:
        return sum(
            flops(node.op, node.inputs, node, node.attributes)
            for node in expansion(op, inputs, attributes)
        )

    return Cost("the sum of its parts in one kernel; inputs and outputs once", total)


def expansion(op: Op, inputs: Any, attributes: Attributes) -> list[Node]:
    """The nodes of which an application of a composed op is composed."""
    device = getattr(inputs[0], "device", None)
    places = tuple(
        placeholder(index, tuple(value.shape), value.dtype, device)
        for index, value in enumerate(inputs)
    )
    expand = op.expand
    result = expand(places, attributes) if expand is not None else ()
    nodes = topological_order(list(_all(result)))
    return [node for node in nodes if node.inputs and node.op.n_outputs == 1]
