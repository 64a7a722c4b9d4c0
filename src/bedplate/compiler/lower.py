"""lower: from groups to launches.

Needs groups in order; leaves the launches of the plan. Fused groups become programs
(`lower_fused`), ops with kernels of their own lower themselves, and assembled values
(concat, pad, update) are written region by region.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bedplate.compiler.access import Access, by_axes, merged, numel
from bedplate.compiler.builder import (
    BufferRef,
    PlanBuilder,
    View,
    contiguous_view,
    row_major_strides,
)
from bedplate.compiler.epilogue import EpilogueBuilder
from bedplate.compiler.fold_groups import concat_parts
from bedplate.compiler.groups import ASSEMBLE, FUSED, Group
from bedplate.compiler.lower_fused import lower_fused, lower_region
from bedplate.compiler.passes.broadcast import expanded
from bedplate.compiler.rewrite import with_inputs
from bedplate.compiler.uses import Context, Region, region_dims
from bedplate.errors import InternalError
from bedplate.graph.node import Node
from bedplate.kernel import Target
from bedplate.ops.leaves import constant


class Lowering:
    """Lowers the groups of one plan.

    slots        the slot of each value that the caller holds: inputs and outputs
    scalars      the word of each run-time number
    projections  of ops with several outputs: index -> `output` node
    n_workers, target  see `PlanBuilder`
    """

    def __init__(
        self,
        access_of: Callable[[Node], Access],
        slots: dict[Node, int],
        scalars: dict[int, Any],
        projections: dict[Node, dict[int, Node]],
        n_workers: int | None = None,
        target: Target | None = None,
    ) -> None:
        self.builder = PlanBuilder(n_workers, target)
        self.access_of = access_of
        self.slots = slots
        self.scalars = scalars
        self.projections = projections
        self.buffers: dict[Node, BufferRef] = {}
        self.sites: list[Node] = []
        self.placed: dict[Node, Region] = {}
        self.context = Context(
            self.builder, access_of, self.buffer_of, self._scalar_word, self._site_of
        )

    def run(self, groups: list[Group]) -> PlanBuilder:
        """Enter the launches of all groups."""
        for group in groups:
            self.builder.lowering(group)
            if group.epilogue is not None:
                self._finished_kernel(group)
                continue
            if group.kind == FUSED:
                self.placed.update(group.regions)
                lower_fused(group, self.context)
            elif group.kind == ASSEMBLE:
                self._assemble(group.members[0])
            else:
                self._kernel(group.members[0])
        return self.builder

    def buffer_of(self, node: Node) -> BufferRef:
        """The memory of a value: made when it is first asked for."""
        found = self.buffers.get(node)
        if found is None:
            nbytes = numel(node) * node.dtype.itemsize
            found = self.buffers[node] = BufferRef(
                max(nbytes, 1), self.slots.get(node), name=node.op.name
            )
        return found

    def _scalar_word(self, node: Node) -> Any:
        return self.scalars[node.attributes["index"]]

    def _site_of(self, node: Node) -> int:
        self.sites.append(with_inputs(node, ()))  # its message and line, not the graph behind it
        return len(self.sites) - 1

    # ops with their own kernels

    def _kernel(self, node: Node) -> None:
        inputs = [self.view_of(source) for source in node.inputs]
        outputs = self._output_views(node)
        if node.op.kind == "host":
            self.builder.call_host(with_inputs(node, ()), inputs, outputs)
            return
        if node.op.lower is None:
            raise InternalError(f"{node.op.name} has no lowering")
        node.op.lower(self.builder, node, inputs, outputs)

    def _finished_kernel(self, group: Group) -> None:
        """An op that applies an epilogue: it stores what the epilogue gives."""
        (node,) = group.members
        chain = group.epilogue
        if chain is None or node.op.lower is None:
            raise InternalError(f"{node.op.name} has no epilogue, or no lowering")
        inputs = [self.view_of(source) for source in node.inputs]
        epilogue = EpilogueBuilder(chain, node, self.context).epilogue()
        (result,) = chain.stored
        output = contiguous_view(self.buffer_of(result), node.shape, result.dtype)
        self.builder.lowering(group, epilogue)
        node.op.lower(self.builder, node, inputs, [output], epilogue)
        last = self.builder.launches[-1]  # the one that applies it
        last.nbytes += sum(buffer.nbytes for buffer in epilogue.reads)
        last.flops += numel(node) * sum(bool(member.inputs) for member in chain.members)
        self.builder.lowering(group)

    def _output_views(self, node: Node) -> list[View]:
        if node.op.n_outputs == 1:
            return [contiguous_view(self.buffer_of(node), node.shape, node.dtype)]
        projections = self.projections.get(node, {})
        views = []
        for index, (shape, dtype) in enumerate(zip(node.shape, node.dtype, strict=True)):
            part = projections.get(index)
            nbytes = max(math.prod(shape) * dtype.itemsize, 1)
            buffer = self.buffer_of(part) if part is not None else self.builder.temp(nbytes)
            order = part.attributes.get("order") if part is not None else None
            views.append(_ordered_view(buffer, shape, dtype, order))
        return views

    def view_of(self, source: Node) -> View:
        """A value as a strided window on memory."""
        view = strided_view(source, self.access_of(source), self.buffer_of)
        if view is None:
            raise InternalError(f"{source.op.name} {source.shape} cannot be read by strides")
        return view

    # assembled values

    def _assemble(self, node: Node) -> None:
        name = node.op.name
        if name == "concat":
            for source, starts in concat_parts(node):
                base = self.access_of(source).base
                if not self._is_placed(base, node):
                    self._region(node, source, starts, None, shared=True)
        elif name == "pad":
            value = constant(node.attributes["value"], node.dtype, node.device)
            self._region(node, expanded(value, node.shape), (0,) * len(node.shape), None)
            starts = tuple(before for before, _ in node.attributes["widths"])
            self._region(node, node.inputs[0], starts, None)
        elif name == "update":
            self._region(node, node.inputs[0], (0,) * len(node.shape), None)
            self._region(node, node.inputs[1], node.attributes["starts"], node.attributes["steps"])
        else:
            raise InternalError(f"{name} is not an assembly that the compiler knows")

    def _is_placed(self, base: Node, target: Node) -> bool:
        """Whether the group that makes a value has stored it in `target` already."""
        region = self.placed.get(base)
        return region is not None and region.target is target

    def _region(
        self, node: Node, source: Node, starts: Any, steps: Any, shared: bool = False
    ) -> None:
        dims, offset = region_dims(node.shape, source.shape, starts, steps)
        lower_region(Region(source, node, dims, offset), self.context, shared)


def _ordered_view(buffer: BufferRef, shape: Any, dtype: Any, order: Any) -> View:
    """A result as its op computes it, in memory that holds its axes in an order."""
    if order is None:
        return contiguous_view(buffer, shape, dtype)
    steps = row_major_strides([shape[axis] for axis in order])
    strides = tuple([steps[order.index(axis)] for axis in range(len(shape))])
    return View(buffer, tuple(shape), strides, 0, dtype)


def strided_view(node: Node, access: Access, buffer_of: Callable[[Node], BufferRef]) -> View | None:
    """`node` with one stride for each axis, if it can be read so."""
    base = access.base
    if 0 in node.shape:
        return contiguous_view(buffer_of(base), node.shape, node.dtype)
    axes = by_axes(access.dims, node.shape)
    if axes is None:
        return None
    strides = []
    for axis in axes:
        axis = merged(axis)
        if len(axis) > 1:
            return None
        strides.append(axis[0][1] if axis else 0)
    strides = [
        row if size == 1 else stride
        for stride, size, row in zip(
            strides, node.shape, row_major_strides(node.shape), strict=True
        )
    ]
    return View(buffer_of(base), tuple(node.shape), tuple(strides), access.offset, base.dtype)
