"""Products with quantised weights: whole numbers of 8 or 4 bits, with a scale for every 32.

    y[i, n] = sum over k of x[i, k] * w[n, k],      w[n, k] = scale[n, k // 32] * q[n, k]

with q from -128 to 127, or from -8 to 7. Weights and scales are integers to the outside, so that
no cast of a module touches them:

    packed   (blocks, words, 64, 4)  uint8: 4 bytes are the word of an output, see
             quantised_kernel.py, the lowest first
    scales   (blocks, groups, 64)    uint16: the upper half of a float32 (a bfloat16)

where a block is 64 outputs and a group 32 values of k; what is missing to whole ones is zeros.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType, float32, uint8, uint16
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.kernel import Kernel, from_dtype
from bedplate.memory.classes import ALIGNMENT
from bedplate.ops.build import Value, as_type, as_values
from bedplate.ops.custom_kernel_memory import contiguous
from bedplate.ops.matmul import quantised_kernel
from bedplate.ops.matmul.lower import ceil_divide
from bedplate.ops.matmul.lower import lower as lower_product
from bedplate.ops.matmul.quantised_kernel import BLOCK, GROUP, Variant, padded
from bedplate.ops.matmul.skinny import MAX_ROWS
from bedplate.ops.matmul.tiles import accumulator
from bedplate.ops.record import Cost, NoGradient, Op, Sample, apply, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed
from bedplate.ops.shape.views import matrix_transpose, reshape

BITS = (8, 4)
_kernels: dict[Any, Kernel] = {}


def packed_shapes(columns: int, depth: int, bits: int) -> tuple[Shape, Shape]:
    """The shapes of packed weights and of their scales, for `columns` outputs."""
    blocks, groups = ceil_divide(columns, BLOCK), ceil_divide(depth, GROUP)
    return (blocks, groups * bits, BLOCK, 4), (blocks, groups, BLOCK)


def quantised(weight: np.ndarray[Any, Any], bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Round a matrix to whole numbers of 8 or 4 bits, with a scale for every 32 along its rows.

    The scale is such that the number furthest from 0 becomes 127 (8 bits) or -8 (4 bits).

    weight   (N, K) finite floats
    returns  (packed, scales), see the head of this file
    """
    n_rows, depth = weight.shape
    shapes = packed_shapes(n_rows, depth, bits)
    packed, scales = np.zeros(shapes[0], np.uint8), np.zeros(shapes[1], np.uint16)
    blocks, groups, _ = scales.shape
    for block in range(blocks):  # one at a time: it stays in the second cache
        rows = np.zeros((BLOCK, groups * GROUP), np.float32)
        given = weight[block * BLOCK : (block + 1) * BLOCK]
        rows[: len(given), :depth] = given
        grouped = rows.reshape(BLOCK, groups, GROUP)
        scale = _rounded_scales(grouped, bits)  # (64, groups)
        scales[block] = (scale.view(np.uint32) >> 16).astype(np.uint16).T
        whole = np.where(scale > 0, 1, -1) * np.maximum(np.abs(scale), np.float32(2.0**-126))
        numbers = np.rint(grouped / whole[:, :, None].astype(np.float32))
        numbers = np.clip(numbers, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        values = (numbers + 2 ** (bits - 1)).astype(np.uint8).reshape(BLOCK, -1, 8 // bits)
        shifts = np.arange(8 // bits, dtype=np.uint8) * bits
        joined = np.bitwise_or.reduce(values << shifts, axis=2)  # (64, bytes of a row)
        packed[block] = joined.reshape(BLOCK, groups * bits, 4).transpose(1, 0, 2)
    return packed, scales


def _rounded_scales(grouped: np.ndarray, bits: int) -> np.ndarray:
    """(64, groups, 32) -> (64, groups) float32 of 8 significant bits, rounded to nearest."""
    if bits == 8:
        scale = np.abs(grouped).max(axis=2) / np.float32(127)
    else:
        low, high = grouped.min(axis=2), grouped.max(axis=2)
        scale = np.where(-low >= high, low, high) / np.float32(-8)
    raw = scale.astype(np.float32).view(np.uint32)
    return ((raw + 0x7FFF + (raw >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def unpacked(packed: Any, scales: Any, columns: int, depth: int) -> np.ndarray[Any, Any]:
    """The weights (N, K) in float32, by NumPy."""
    blocks, words, _, _ = packed.shape
    groups = scales.shape[1]
    bits = words // max(groups, 1)
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    values = (packed[..., None] >> shifts) & (2**bits - 1)  # (blocks, words, 64, 4, 8 / bits)
    q = values.transpose(0, 2, 1, 3, 4).reshape(blocks, BLOCK, groups, GROUP)
    scale = (scales.astype(np.uint32) << 16).view(np.float32).transpose(0, 2, 1)
    w = (q.astype(np.float32) - 2 ** (bits - 1)) * scale[..., None]
    return w.reshape(blocks * BLOCK, groups * GROUP)[:columns, :depth]


def _check(op: str, packed: Any, scales: Any, columns: int, depth: int) -> None:
    named = {"packed": packed, "scales": scales}
    if packed.dtype is not uint8 or scales.dtype is not uint16:
        refuse(DTypeError, op, "expected packed weights in uint8 and scales in uint16", named,
               "make them with bedplate.nn.QuantisedLinear.of(linear, bits)")  # fmt: skip
    legal = [packed_shapes(columns, depth, bits) for bits in BITS]
    if (packed.shape, scales.shape) not in legal:
        shapes = " or ".join(f"{a} and {b}" for a, b in legal)
        refuse(ShapeError, op, f"the shapes do not fit {depth} features to {columns}", named,
               f"expected {shapes}")  # fmt: skip


def _linear_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    x, packed, scales = inputs
    if x.dtype not in FLOATS or len(x.shape) != 2:
        refuse(DTypeError, "quantised_linear", "x must be rows of floats", {"x": x})
    _check("quantised_linear", packed, scales, attributes["columns"], x.shape[1])
    return (x.shape[0], attributes["columns"]), x.dtype


def _linear_reference(x: Any, packed: Any, scales: Any, *, columns: int) -> Any:
    w = unpacked(packed, scales, columns, x.shape[1]).astype(np.float64)
    return (x.astype(np.float64) @ w.T).astype(x.dtype)


def quantised_linear_gradient(
    grad_out: Value, inputs: Any, output: Value, *, columns: int
) -> tuple[Any, None, None]:
    """x: grad_out times the weights written out. The weights are whole numbers: none."""
    x, packed, scales = inputs
    sizes = {"columns": columns, "depth": x.shape[1]}
    weights = as_type(apply(QUANTISED_WEIGHTS, (packed, scales), sizes), x.dtype)  # (K, N)
    return grad_out @ matrix_transpose(weights), None, None


def lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter one launch for few rows; for many the weights are written out and multiplied."""
    (x, *given), (out,) = inputs, outputs
    rows, columns = out.shape
    if not rows * columns:
        return
    packed, scales = (_in_order(builder, view) for view in given)
    if rows > MAX_ROWS or not x.shape[1]:
        shape, strides = (x.shape[1], columns), (columns, 1)
        buffer = builder.temp(4 * x.shape[1] * columns)
        weights = dataclasses.replace(
            out, buffer=buffer, shape=shape, strides=strides, offset=0, dtype=float32
        )
        _enter_weights(builder, packed, scales, weights)
        lower_product(builder, node, (x, weights), outputs, epilogue)
        return
    _enter_few(builder, x, packed, scales, out, epilogue)


def _enter_few(builder: Any, x: Any, packed: Any, scales: Any, out: Any, epilogue: Any) -> None:
    (rows, columns), depth = out.shape, x.shape[1]
    accumulate = accumulator(x.dtype)
    whole = x.strides[1] == 1 and depth % GROUP == 0 and from_dtype(x.dtype) is accumulate
    bits = packed.shape[1] // scales.shape[1]
    types = from_dtype(x.dtype), accumulate, from_dtype(out.dtype)
    variant = Variant(bits, *types, rows == 1, whole)
    nbytes = 0 if whole else rows * padded(depth) * accumulate.itemsize
    nbytes = ceil_divide(nbytes, ALIGNMENT) * ALIGNMENT
    scratch = builder.scratch(nbytes)
    words = [x, packed, scales, out, scratch, nbytes, rows, columns, depth, *x.strides]
    builder.launch(
        _kernel(variant, epilogue),
        words + ([] if epilogue is None else list(epilogue.words)),
        packed.shape[0],
        reads=[x.buffer, packed.buffer, scales.buffer],
        writes=[out.buffer, scratch],
        flops=2.0 * rows * columns * depth,
        nbytes=_traffic(packed, scales) + 4.0 * (x.size + out.size),
        name="quantised_linear",
    )


def _in_order(builder: Any, view: Any) -> Any:
    """The view, or a copy of it whose elements lie in order."""
    buffer = contiguous(builder, view, copied=False)
    if buffer is view:
        return view
    steps = [math.prod(view.shape[axis + 1 :]) for axis in range(len(view.shape))]
    return dataclasses.replace(view, buffer=buffer, strides=tuple(steps), offset=0)


def _kernel(variant: Variant, epilogue: Any) -> Kernel:
    """The kernel of a variant and an epilogue, made once."""
    key = variant, None if epilogue is None else epilogue.key
    found = _kernels.get(key)
    if found is None:
        made = quantised_kernel.make_kernel(variant, None if epilogue is None else epilogue.emit)
        found = _kernels.setdefault(key, made)
    return found


def _traffic(packed: Any, scales: Any) -> float:
    return float(packed.size + 2 * scales.size)


def _enter_weights(builder: Any, packed: Any, scales: Any, out: Any) -> None:
    """The launch that writes the weights out as (K, N)."""
    depth, columns = out.shape
    unused = 0
    words = [unused, packed, scales, out, unused, unused, unused, columns, depth]
    builder.launch(
        quantised_kernel.weights_kernel(packed.shape[1] // max(scales.shape[1], 1) or BITS[0]),
        words, packed.shape[0], reads=[packed.buffer, scales.buffer], writes=[out.buffer],
        flops=2.0 * out.size, nbytes=_traffic(packed, scales) + 4.0 * out.size,
        name="quantised_weights",
    )  # fmt: skip


def lower_weights(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter the one launch."""
    if outputs[0].size:
        packed, scales = (_in_order(builder, view) for view in inputs)
        _enter_weights(builder, packed, scales, outputs[0])


def _weights_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    packed, scales = inputs
    columns, depth = attributes["columns"], attributes["depth"]
    _check("quantised_weights", packed, scales, columns, depth)
    return (depth, columns), float32


def _linear_flops(inputs: Any, output: Any, attributes: Attributes) -> float:
    return 2.0 * math.prod(output.shape) * inputs[0].shape[1]


def _sample(rows: int, columns: int, depth: int, bits: int) -> Sample:
    def make(rng: np.random.Generator) -> list[Any]:
        weight = rng.uniform(-1, 1, (columns, depth)).astype(np.float32)
        return [rng.uniform(-2, 2, (rows, depth)), *quantised(weight, bits)]

    return mixed(make, f"{rows} x {depth} x {columns}, {bits} bits", columns=columns)


QUANTISED_WEIGHTS = register(
    Op(
        "quantised_weights",
        "kernel",
        _weights_infer,
        reference=lambda packed, scales, *, columns, depth: (
            unpacked(packed, scales, columns, depth).T.copy()
        ),
        gradient=NoGradient("its inputs are whole numbers"),
        cost=Cost("2 flops a weight", lambda inputs, output, _: 2.0 * math.prod(output.shape)),
        lower=lower_weights,
        dtypes=(uint8,),
        samples=tuple(
            mixed(
                lambda r, n=n, k=k, b=b: list(quantised(r.uniform(-1, 1, (n, k)), b)),
                f"{n} x {k}, {b} bits", columns=n, depth=k,
            )
            for n, k, b in ((64, 32, 8), (70, 37, 8), (1, 65, 4))
        ),
        doc="Quantised weights as float32, (K, N).",
    )
)  # fmt: skip

QUANTISED_LINEAR = register(
    Op(
        "quantised_linear",
        "kernel",
        _linear_infer,
        reference=_linear_reference,
        gradient=quantised_linear_gradient,
        cost=Cost("2 M N K flops; the packed weights once", _linear_flops),
        lower=lower,
        epilogue=True,
        dtypes=FLOATS,
        samples=(
            _sample(1, 64, 32, 8),
            _sample(1, 70, 37, 4),
            _sample(3, 130, 64, 8),
            _sample(6, 5, 40, 4),
            _sample(50, 7, 33, 8),
            _sample(0, 5, 32, 8),
        ),
        doc="Product with weights of 8 or 4 bits and a scale for every 32.",
    )
)


def quantised_linear(x: Value, packed: Value, scales: Value, out_features: int) -> Value:
    """Multiply by a quantised matrix: y = x @ w.T, with w = scale * q written out nowhere.

    Each element is one chain over k in float32 (float64 for float64), and the weights are exact
    there: the result has the bits of the product with the weights as float32, for a row alone
    as in a batch.

    x             (..., K)  floats
    packed        (blocks, groups * bits, 64, 4)  uint8, of 8 or 4 bits; 64 outputs a block
    scales        (blocks, groups, 64)  uint16: bfloat16 bits, one for every 32 along k;
                  both are made by `bp.nn.QuantisedLinear`
    out_features  N
    returns       (..., N)  dtype of x; the weights get no gradient
    raises        ShapeError, DTypeError if they do not fit
    cost          2 N K flops a row; reads N K bits / 8 and N K / 16 bytes
    source        the grouping is that of GGML's q8_0 and q4_0
    >>> import bedplate as bp
    >>> layer = bp.nn.QuantisedLinear.of(bp.nn.Linear(32, 4, bias=False), bits=8)
    >>> x = bp.ones((2, 32))
    >>> bp.nn.functional.quantised_linear(x, layer.packed, layer.scales, 4).shape
    (2, 4)
    """
    x, packed, scales = as_values("quantised_linear", (x, packed, scales))
    if not x.shape:
        refuse(ShapeError, "quantised_linear", "x has no axis", {"x": x})
    rows = reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    out = apply(QUANTISED_LINEAR, (rows, packed, scales), {"columns": int(out_features)})
    return reshape(out, (*x.shape[:-1], int(out_features)))
