"""How a product with quantised weights is computed: x is rounded by quantised_rows, then

| rows      | kernel          |
|-----------|-----------------|
| up to 6   | quantised_few   |
| more      | quantised_many  |
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from bedplate.kernel import Kernel, from_dtype
from bedplate.memory.classes import ALIGNMENT
from bedplate.ops.custom_kernel_memory import contiguous
from bedplate.ops.matmul import quantised_kernel
from bedplate.ops.matmul.quantised_format import BITS, GROUP
from bedplate.ops.matmul.quantised_kernel import PART_ROWS, Variant
from bedplate.ops.matmul.quantised_rows import Rounding, planes_of, rows_kernel
from bedplate.ops.matmul.tiles import accumulator

# Few rows read the weights once for each tile of them, from memory or a cache; many once.
FEW_ROWS = 6

_kernels: dict[Any, Kernel] = {}


def lower_linear(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter the launches of a product; see compiler/builder.py for what the arguments are."""
    (x, *given), (out,) = inputs, outputs
    if out.size:
        packed, scales = (_in_order(builder, view) for view in given)
        _Product(builder, x, packed, scales, out, epilogue).enter()


class _Product:
    """One product on its way into a builder."""

    def __init__(
        self, builder: Any, x: Any, packed: Any, scales: Any, out: Any, epilogue: Any
    ) -> None:
        self.builder, self.out, self.epilogue = builder, out, epilogue
        self.x, self.packed, self.scales = x, packed, scales
        self.rows, self.columns = out.shape
        self.depth, self.groups = x.shape[1], scales.shape[1]
        self.accumulate = accumulator(x.dtype)
        self.bits = packed.shape[1] // max(self.groups, 1) or BITS[0]
        self.planes = planes_of(x.dtype)
        self.is_few = self.rows <= FEW_ROWS

    def enter(self) -> None:
        digits, starts, steps = x = self._rounded()
        parts = 1 if self.is_few else -(-self.rows // PART_ROWS)
        size = 0 if self.is_few else quantised_kernel.many_scratch(self.accumulate)
        size = -(-size // ALIGNMENT) * ALIGNMENT
        scratch = self.builder.scratch(size)
        words = [
            digits, starts, steps, self.packed, self.scales, self.out, scratch, size, self.rows,
            self.columns, self.groups, parts,
        ]  # fmt: skip
        self.builder.launch(
            self._kernel(),
            words + ([] if self.epilogue is None else list(self.epilogue.words)),
            parts * self.packed.shape[0],
            reads=[*x, self.packed.buffer, self.scales.buffer],
            writes=[self.out.buffer, scratch],
            flops=2.0 * self.rows * self.columns * self.depth,
            nbytes=_traffic(self.packed, self.scales) + 4.0 * (self.x.size + self.out.size),
            name="quantised_linear",
        )

    def _rounded(self) -> tuple[Any, Any, Any]:
        """x as whole numbers (digits, starts, steps), made once for all products of it."""
        x = self.x
        key = "quantised_rows", x.buffer, x.offset, x.shape, x.strides, x.dtype, self.bits
        if key not in self.builder.shared:
            self.builder.shared[key] = self._enter_rounding()
        return self.builder.shared[key]

    def _enter_rounding(self) -> tuple[Any, Any, Any]:
        x, places = self.x, self.rows * self.groups
        sizes = self.planes * GROUP, 4 * self.planes, self.accumulate.itemsize
        found = digits, starts, steps = tuple(self.builder.temp(places * size) for size in sizes)
        joined = x.strides[1] == 1
        given = from_dtype(x.dtype)
        rounding = Rounding(given, self.accumulate, self.planes, self.bits, joined)
        self.builder.launch(
            rows_kernel(rounding),
            [x, *x.strides, digits, starts, steps, self.depth, self.groups, self.rows],
            self.rows,
            reads=[x.buffer],
            writes=list(found),
            nbytes=float(x.size * (x.dtype.itemsize + self.planes)),
            name="quantised_rows",
        )
        return found

    def _kernel(self) -> Kernel:
        """The kernel of a variant and an epilogue, made once."""
        epilogue, is_few = self.epilogue, self.is_few
        out = from_dtype(self.out.dtype)
        variant = Variant(self.bits, self.planes, self.accumulate, out, self.rows == 1)
        key = variant, is_few, None if epilogue is None else epilogue.key
        found = _kernels.get(key)
        if found is None:
            make = quantised_kernel.make_few if is_few else quantised_kernel.make_many
            found = make(variant, None if epilogue is None else epilogue.emit)
            found = _kernels.setdefault(key, found)
        return found


def lower_weights(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter the launch that writes the weights out as (K, N)."""
    (out,) = outputs
    if not out.size:
        return
    packed, scales = (_in_order(builder, view) for view in inputs)
    groups, unused = scales.shape[1], 0
    words = [
        unused, unused, out.shape[0], packed, scales, out, unused, unused, unused, out.shape[1],
        groups,
    ]  # fmt: skip
    builder.launch(
        quantised_kernel.weights_kernel(packed.shape[1] // groups), words, packed.shape[0],
        reads=[packed.buffer, scales.buffer], writes=[out.buffer], flops=2.0 * out.size,
        nbytes=_traffic(packed, scales) + 4.0 * out.size, name="quantised_weights",
    )  # fmt: skip


def _traffic(packed: Any, scales: Any) -> float:
    return float(packed.size + 2 * scales.size)


def _in_order(builder: Any, view: Any) -> Any:
    """The view, or a copy of it whose elements lie in order."""
    buffer = contiguous(builder, view, copied=False)
    if buffer is view:
        return view
    steps = [math.prod(view.shape[axis + 1 :]) for axis in range(len(view.shape))]
    return dataclasses.replace(view, buffer=buffer, strides=tuple(steps), offset=0)
