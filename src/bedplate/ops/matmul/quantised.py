"""Products with quantised weights: whole numbers of 8 or 4 bits, with a scale for every 32.

    y[i, n] = sum over k of x[i, k] * w[n, k],      w[n, k] = scale[n, k // 32] * q[n, k]

Weights and scales are integers to the outside, so that no cast of a module touches them;
quantised_format.py says how they lie in memory, quantised_rows.py how x becomes whole numbers,
quantised_kernel.py in which order is summed.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType, float32, uint8, uint16
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.later import deferred
from bedplate.ops.build import Value, as_type, as_values
from bedplate.ops.matmul.quantised_format import BITS, packed_shapes, quantised, unpacked
from bedplate.ops.record import Cost, NoGradient, Op, Sample, apply, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed
from bedplate.ops.shape.views import matrix_transpose, reshape

LOWER = "bedplate.ops.matmul.quantised_lower"


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
        lower=deferred(LOWER, "lower_weights"),
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
        lower=deferred(LOWER, "lower_linear"),
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

    x is rounded to multiples of a power of two for every 32 along k, by at most 2**-14 of their
    largest (bfloat16, float16), 2**-22 (float32), 2**-54 (float64). Sums of 32 are exact, those
    over the groups run in float32 (of float64 in float64). A row has the same bits alone and in
    any batch. An infinity in x gives NaN.

    x             (..., K)  floats
    packed        (blocks, groups * bits, 64, 4)  uint8, of 8 or 4 bits; 64 outputs a block
    scales        (blocks, groups, 64)  uint16: bfloat16 bits, one for every 32 along k;
                  both are made by `bp.nn.QuantisedLinear`
    out_features  N
    returns       (..., N)  dtype of x; the weights get no gradient
    raises        ShapeError, DTypeError if they do not fit; TypeError if N is no integer
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
    try:
        columns = operator.index(out_features)
    except TypeError:
        raise TypeError(
            f"quantised_linear: out_features is {out_features!r:.80}\n  expected an integer"
        ) from None
    rows = reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    out = apply(QUANTISED_LINEAR, (rows, packed, scales), {"columns": columns})
    return reshape(out, (*x.shape[:-1], columns))
