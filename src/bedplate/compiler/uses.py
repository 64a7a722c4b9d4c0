"""What lowering a fused group shares: the context, and the accesses that a program makes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bedplate.compiler.access import Access, Dims, merged, split
from bedplate.compiler.builder import BufferRef, PlanBuilder, row_major_strides
from bedplate.compiler.program import BROADCAST, GENERAL, PAIRED, UNIT
from bedplate.errors import InternalError
from bedplate.graph.node import Node


@dataclass
class Context:
    """What lowering shares: the accesses of all nodes, where their values are, run-time numbers.

    buffer_of   the memory of a value
    scalar_word the word of a `scalar` leaf
    site_of     enters a checked index in the table of run-time errors, gives its number
    """

    builder: PlanBuilder
    access_of: Callable[[Node], Access]
    buffer_of: Callable[[Node], BufferRef]
    scalar_word: Callable[[Node], Any]
    site_of: Callable[[Node], int]


@dataclass
class AccessUse:
    """One access of a program: to `base` (None: a position), enumerated at `size` elements.

    extra   words after the strides: the stride of a take's axis, the columns of partial results
    buffer  given for partial results, which are no node's memory
    """

    base: Node | None
    dims: Dims
    offset: int
    size: int
    itemsize: int
    written: bool = False
    extra: list[int] = field(default_factory=list)
    buffer: BufferRef | None = None
    dtype: Any = None


@dataclass
class Region:
    """Elements of an assembled value: `source`, in row-major order, goes to dims and offset."""

    source: Node
    target: Node
    dims: Dims
    offset: int


def inner_pattern(stride: int) -> int:
    """The pattern of a stride along the innermost columns."""
    return {0: BROADCAST, 1: UNIT, 2: PAIRED}.get(stride, GENERAL)


def take_dims(access: Access, shape: Any, axis: int, out_shape: Any) -> tuple[Dims, int]:
    """How a take walks over its source apart from the index, and the stride of its axis."""
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    count = math.prod(out_shape) // max(before * after, 1)
    outer = split(access.dims, after)
    inner = split(outer[0], shape[axis]) if outer is not None else None
    if outer is None or inner is None or len(merged(inner[1])) > 1:
        raise InternalError("take: its source is not walked by one stride along the axis")
    stride = merged(inner[1])[0][1] if merged(inner[1]) else 0
    return merged((*inner[0], (count, 0), *outer[1])), stride


def region_dims(shape: Any, sizes: Any, starts: Any, steps: Any) -> tuple[Any, int]:
    """Where the elements of a region lie in a contiguous value: pairs (size, stride), offset."""
    strides = row_major_strides(shape)
    steps = steps or (1,) * len(strides)
    dims = [(n, stride * step) for n, stride, step in zip(sizes, strides, steps, strict=True)]
    return merged(dims), sum(a * b for a, b in zip(starts, strides, strict=True))
