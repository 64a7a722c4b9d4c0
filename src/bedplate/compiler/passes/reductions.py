"""reductions: bring reductions to the forms that kernels have.

Needs explicit broadcasting; leaves reductions over neighbouring axes, none of size 1 at
an end, and argmax and argmin over the last axis only. A reduction over nothing but axes of
size 1 becomes a cast; one over several runs of axes becomes one after the other, the later
axes first, with the accumulator's dtype between.
"""

from __future__ import annotations

from bedplate.compiler.passes.fold import filled
from bedplate.compiler.rewrite import Roots, like, rebuilt
from bedplate.dtypes import DType
from bedplate.graph.node import Node
from bedplate.ops.record import REGISTRY


def reductions(roots: Roots) -> Roots:
    """The graph with every reduction in one of the forms above."""
    return rebuilt(roots, _lowered)


def _lowered(node: Node) -> Node:
    if node.op.kind != "reduce" or 0 in node.inputs[0].shape:
        return node
    shape = node.inputs[0].shape
    axes = tuple(axis for axis in node.attributes["axes"] if shape[axis] != 1)
    if not axes:
        return _over_nothing(node)
    if is_arg(node):
        return _arg_last(node, axes)
    runs = _runs(axes, shape)
    if runs == [node.attributes["axes"]]:
        return node
    return _in_turn(node, runs)


def is_arg(node: Node) -> bool:
    """Whether the reduction gives a position."""
    return node.op.name in ("argmax", "argmin")


def _over_nothing(node: Node) -> Node:
    if is_arg(node):
        return filled(node, 0)
    return cast(node.inputs[0], node.dtype, node)


def cast(source: Node, dtype: DType, origin: Node) -> Node:
    """`source` in another dtype, made at the line of `origin`."""
    if source.dtype is dtype:
        return source
    result = like(origin, REGISTRY["cast"], (source,), {"dtype": dtype})
    result.shape, result.dtype = source.shape, dtype
    return result


def _runs(axes: tuple[int, ...], shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Axes grouped into runs with nothing but sizes of 1 between."""
    runs = [[axes[0]]]
    for axis in axes[1:]:
        if all(shape[between] == 1 for between in range(runs[-1][-1] + 1, axis)):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return [tuple(run) for run in runs]


def _in_turn(node: Node, runs: list[tuple[int, ...]]) -> Node:
    source = node.inputs[0]
    wide = node.op.accumulate(source.dtype) if node.op.accumulate else node.dtype
    value = cast(source, wide, node) if wide.is_float else source
    for run in reversed(runs):
        shape = tuple(1 if axis in run else size for axis, size in enumerate(value.shape))
        value = like(node, node.op, (value,), {**node.attributes, "axes": run})
        value.shape = shape
        if wide.is_float:
            value.dtype = wide
    return cast(value, node.dtype, node)


def _arg_last(node: Node, axes: tuple[int, ...]) -> Node:
    (axis,) = axes
    source = node.inputs[0]
    rank = len(source.shape)
    if all(size == 1 for size in source.shape[axis + 1 :]):
        return node
    order = (*range(axis), *range(axis + 1, rank), axis)
    moved = like(node, REGISTRY["permute"], (source,), {"axes": order})
    moved.shape, moved.dtype = tuple(source.shape[a] for a in order), source.dtype
    found = like(node, node.op, (moved,), {**node.attributes, "axes": (rank - 1,)})
    found.shape = (*moved.shape[:-1], 1)
    back = tuple(order.index(a) for a in range(rank))
    result = like(node, REGISTRY["permute"], (found,), {"axes": back})
    return result
