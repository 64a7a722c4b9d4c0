"""algebra: rewrite to what has the same value, bit for bit, with fewer nodes.

Needs explicit broadcasting; leaves no node that a rule below can still remove. Each rule
gives back a node that is an input of the pattern, or one that stands on fewer nodes, so that
the graph shrinks and the pass ends. For floats only what IEEE arithmetic makes exact is here:
x - 0 is x, but x + 0 is not (for x = -0).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from bedplate.compiler.passes.fold import constant_value
from bedplate.compiler.rewrite import Roots, like, rebuilt
from bedplate.dtypes import DType, int32
from bedplate.errors import InternalError
from bedplate.graph.node import Node, topological_order
from bedplate.ops.matmul.matmul import BYTE_MATMUL, BYTES

VIEWS = ("reshape", "permute", "expand", "slice")
MAX_REWRITES = 1000  # of one node; each makes the graph smaller, so more must go in a circle

Rewrite = Callable[[Node], "Node | None"]


@dataclass(frozen=True)
class Rule:
    """`before -> after` on nodes of `op`; rewrite gives None where the rule does not hold."""

    op: str
    text: str
    rewrite: Rewrite


def _is(node: Node, number: float) -> bool:
    value = constant_value(node)
    if value is None or value != number:
        return False
    return math.copysign(1.0, value) == math.copysign(1.0, number)


def _keep(other: int, number: float) -> Rewrite:
    """Input 1 - other stays if input `other` is the constant `number`."""
    return lambda node: node.inputs[1 - other] if _is(node.inputs[other], number) else None


def _neutral_sum(other: int) -> Rewrite:
    """x + z where z is -0.0 for floats and 0 for integers."""
    return lambda node: (
        node.inputs[1 - other]
        if _is(node.inputs[other], -0.0 if node.dtype.is_float else 0)
        else None
    )


def _double(node: Node) -> Node | None:
    inner = node.inputs[0]
    return inner.inputs[0] if inner.op is node.op else None


def _same_sides(node: Node) -> Node | None:
    condition, x, y = node.inputs
    if x is not y or any(n.op.name == "checked_index" for n in topological_order([condition])):
        return None  # an index out of range is told, whatever is chosen by what was found there
    return x


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`."""
    if wide is narrow or narrow.kind == "b":
        return True
    if narrow.is_float:
        return wide.is_float and wide.itemsize > narrow.itemsize
    if wide.is_float:
        digits = {2: 8, 4: 24, 8: 53}[wide.itemsize]
        return narrow.itemsize * 8 <= digits
    if narrow.kind == wide.kind:
        return wide.itemsize > narrow.itemsize
    return narrow.kind == "u" and wide.kind == "i" and wide.itemsize > narrow.itemsize


def _cast_nothing(node: Node) -> Node | None:
    return node.inputs[0] if node.inputs[0].dtype is node.dtype else None


def _cast_of_cast(node: Node) -> Node | None:
    inner = node.inputs[0]
    if inner.op is not node.op or node.dtype.kind == "b":
        return None
    source = inner.inputs[0]
    if not holds(inner.dtype, source.dtype):
        return None
    return source if source.dtype is node.dtype else like(node, node.op, (source,), node.attributes)


def _view_nothing(node: Node) -> Node | None:
    return node.inputs[0] if node.inputs[0].shape == node.shape else None


def _skip_inner(node: Node) -> Node | None:
    inner = node.inputs[0]
    return like(node, node.op, inner.inputs, node.attributes) if inner.op is node.op else None


def _permute_nothing(node: Node) -> Node | None:
    axes = node.attributes["axes"]
    return node.inputs[0] if axes == tuple(range(len(axes))) else None


def _permute_twice(node: Node) -> Node | None:
    inner = node.inputs[0]
    if inner.op is not node.op:
        return None
    before = inner.attributes["axes"]
    axes = tuple(before[axis] for axis in node.attributes["axes"])
    return like(node, node.op, inner.inputs, {"axes": axes})


def _slice_nothing(node: Node) -> Node | None:
    forward = all(step == 1 for step in node.attributes["steps"])
    return node.inputs[0] if forward and node.shape == node.inputs[0].shape else None


def _of_bytes(node: Node) -> Node | None:
    """The bytes that a value of int32 was cast from, seen in the same way; None if from others."""
    if node.op.name == "cast":
        source = node.inputs[0]
        return source if source.dtype in BYTES else None
    if node.op.name not in VIEWS:
        return None
    seen = _of_bytes(node.inputs[0])
    if seen is None:
        return None
    return Node(
        node.op, (seen,), node.attributes, node.shape, seen.dtype, node.device, None, node.site
    )


def _product_of_bytes(node: Node) -> Node | None:
    if node.dtype is not int32:
        return None
    a, b = map(_of_bytes, node.inputs)
    return None if a is None or b is None else like(node, BYTE_MATMUL, (a, b), {})


RULES = (
    Rule("multiply", "x * 1 -> x", _keep(1, 1)),
    Rule("multiply", "1 * x -> x", _keep(0, 1)),
    Rule("divide", "x / 1 -> x", _keep(1, 1)),
    Rule("add", "x + (-0) -> x", _neutral_sum(1)),
    Rule("add", "(-0) + x -> x", _neutral_sum(0)),
    Rule("subtract", "x - 0 -> x", _keep(1, 0)),
    Rule("negative", "-(-x) -> x", _double),
    Rule("logical_not", "not not x -> x", _double),
    Rule("where", "where(c, x, x) -> x", _same_sides),
    Rule("cast", "cast(x, its own dtype) -> x", _cast_nothing),
    Rule("cast", "cast(cast(x, wider), d) -> cast(x, d)", _cast_of_cast),
    Rule("reshape", "reshape(x, its own shape) -> x", _view_nothing),
    Rule("reshape", "reshape(reshape(x)) -> reshape(x)", _skip_inner),
    Rule("expand", "expand(x, its own shape) -> x", _view_nothing),
    Rule("expand", "expand(expand(x)) -> expand(x)", _skip_inner),
    Rule("permute", "permute(x, in order) -> x", _permute_nothing),
    Rule("permute", "permute(permute(x)) -> permute(x)", _permute_twice),
    Rule("slice", "x[:] -> x", _slice_nothing),
    Rule(
        "matmul",
        "matmul(cast(bytes, int32), cast(bytes, int32)) -> byte_matmul(bytes, bytes)",
        _product_of_bytes,
    ),
)
BY_OP: dict[str, list[Rule]] = {}
for _rule in RULES:
    BY_OP.setdefault(_rule.op, []).append(_rule)


def algebra(roots: Roots) -> Roots:
    """The graph with every rule applied wherever it holds."""
    return rebuilt(roots, simplified)


def simplified(node: Node) -> Node:
    """`node` after all rules that hold for it, one after the other.

    raises  InternalError, with their names, for rules that go in a circle
    """
    last: list[str] = []
    for _ in range(MAX_REWRITES):
        for rule in BY_OP.get(node.op.name, ()):
            result = rule.rewrite(node)
            if result is not None:
                node = result
                last = [*last[-9:], rule.text]
                break
        else:
            return node
    raise InternalError(f"algebra: rules go in a circle: {'; '.join(dict.fromkeys(last))}")
