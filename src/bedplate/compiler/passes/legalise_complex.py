"""legalise_complex: replace each complex node by two real ones, its parts.

Needs nothing; leaves a graph in which no dtype is complex; composed ops on complex values are
expanded on the way, unless they are applied by parts. A complex input of shape s is read
as floats of shape s + (2,), which are the same bytes, and a complex result is written as such.
In between the parts stay apart, so that a chain of complex operations is fused like a chain of
real ones. What an op does to the parts is its form (ops/complex_numbers/form.py); an op whose
record says `by_parts` is applied to each.
"""

from __future__ import annotations

from typing import Any

from bedplate.compiler.passes.broadcast import expanded, reshaped
from bedplate.compiler.passes.expand_composed import expand_some, give_site
from bedplate.compiler.rewrite import Roots, with_inputs
from bedplate.dtypes import DType, real_dtype
from bedplate.errors import InternalError
from bedplate.graph.node import Node, topological_order
from bedplate.ops.complex_numbers.form import FORMS, Pair
from bedplate.ops.leaves import constant, placeholder
from bedplate.ops.record import REGISTRY


def legalise_complex(roots: Roots) -> Roots:
    """The graph on floats; a complex root becomes its pairs."""
    if not any(is_complex(node) for node in topological_order(roots)):
        return roots
    roots = expand_some(roots, _expands)
    new: dict[Node, Any] = {}
    for node in topological_order(roots):
        new[node] = _legal(node, tuple([new[source] for source in node.inputs]))
    pairs: dict[Node, Node] = {}
    return [_root(root, new[root], pairs) for root in roots]


def _expands(node: Node) -> bool:
    """Whether a composed op is expanded here, on complex values: what is done by parts is not."""
    return not node.op.by_parts and any(map(is_complex, (node, *node.inputs)))


def is_complex(node: Node) -> bool:
    """Whether a node, or one of its outputs, is complex."""
    if node.op.n_outputs > 1:
        return any(dtype.kind == "c" for dtype in node.dtype)
    return node.dtype.kind == "c"


def _legal(node: Node, inputs: tuple[Any, ...]) -> Any:
    """What takes the place of a node: a node, or a pair of them."""
    if node.op.kind == "leaf":
        return _leaf(node) if is_complex(node) else node
    if not is_complex(node) and not any(isinstance(x, Pair) for x in inputs):
        changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
        return with_inputs(node, inputs) if changed else node
    return _checked(node, _computed(node, inputs))


def _leaf(node: Node) -> Pair:
    dtype = real_dtype(node.dtype)
    if node.op.name == "placeholder":
        return _of_whole(
            placeholder(node.attributes["index"], (*node.shape, 2), dtype, node.device)
        )
    if node.op.name == "constant":
        value = node.attributes["value"]
        return Pair(*[constant(part, dtype, node.device) for part in (value.real, value.imag)])
    raise InternalError(f"legalise_complex: a complex {node.op.name}")


def _computed(node: Node, inputs: tuple[Any, ...]) -> Any:
    if node.op.name == "as_real":
        return _whole(inputs[0])
    if node.op.name == "as_complex":
        return _of_whole(inputs[0])
    if node.op.by_parts:
        return Pair(*[_part(node, inputs, index) for index in (0, 1)])
    form = FORMS.get(node.op)
    if form is None:
        raise InternalError(f"legalise_complex: {node.op.name} has no complex form")
    result = form(*inputs, **node.attributes)
    given = [part for x in inputs for part in (x if isinstance(x, Pair) else (x,))]
    for part in result[:2] if isinstance(result, Pair) else (result,):
        give_site(part, node, given)
    return result


def _part(node: Node, inputs: tuple[Any, ...], index: int) -> Node:
    """The same op on the real (0) or the imaginary (1) parts."""
    parts = tuple([x[index] if isinstance(x, Pair) else x for x in inputs])
    dtype = real_dtype(node.dtype)
    return Node(node.op, parts, node.attributes, node.shape, dtype, node.device, None, node.site)


def _checked(node: Node, result: Any) -> Any:
    """The result, with parts of the node's shape.

    raises  InternalError if a form gives another dtype than the op's rule says
    """
    wanted = real_dtype(node.dtype)
    if not isinstance(result, Pair):
        _check_dtype(node, result, node.dtype)
        return expanded(result, node.shape)
    _check_dtype(node, result.re, wanted)
    _check_dtype(node, result.im, wanted)
    if result.re.shape == result.im.shape == node.shape:
        return result
    return Pair(expanded(result.re, node.shape), expanded(result.im, node.shape))


def _check_dtype(node: Node, part: Node, wanted: DType) -> None:
    if part.dtype is not wanted:
        raise InternalError(
            f"legalise_complex: the form of {node.op.name} gave {part.dtype} where {wanted} is due"
        )


def _of_whole(whole: Node) -> Pair:
    """The parts of pairs (..., 2)."""
    return Pair(_column(whole, 0), _column(whole, 1), whole)


def _column(whole: Node, index: int) -> Node:
    """The first or the second of pairs (..., 2)."""
    shape = whole.shape[:-1]
    zeros, ones = (0,) * len(shape), (1,) * len(whole.shape)
    attributes = {"starts": (*zeros, index), "stops": (*shape, index + 1), "steps": ones}
    column = Node(
        REGISTRY["slice"], (whole,), attributes, (*shape, 1), whole.dtype, whole.device, None,
        whole.site,
    )  # fmt: skip
    return reshaped(column, shape)


def _whole(pair: Pair) -> Node:
    """The pairs (..., 2) of two parts."""
    if pair.whole is not None:
        return pair.whole
    shape = pair.re.shape
    columns = tuple([reshaped(part, (*shape, 1)) for part in pair[:2]])
    first = columns[0]
    attributes = {"axis": len(shape)}
    return Node(
        REGISTRY["concat"], columns, attributes, (*shape, 2), first.dtype, first.device, None,
        first.site,
    )  # fmt: skip


def _root(root: Node, result: Any, pairs: dict[Node, Node]) -> Node:
    if not isinstance(result, Pair):
        return result
    if root not in pairs:
        pairs[root] = _whole(result)
    return pairs[root]
