"""Matrix product, batched and broadcast.

    c[..., i, j] = sum over k of a[..., i, k] * b[..., k, j]

The kernels: lower.py says which one computes what; tiled.py, skinny.py
and pack.py are they.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.config import config
from bedplate.dtypes import COMPLEX, FLOATS, INTEGERS, DType, int8, int32, uint8
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import NO_ATTRIBUTES, Attributes, Shape
from bedplate.later import deferred
from bedplate.ops.build import Value, as_type, promoted, sum_to
from bedplate.ops.complex_numbers.parts import conj
from bedplate.ops.elementwise import NARROW_FLOATS
from bedplate.ops.record import Cost, NoGradient, Op, Sample, apply, register
from bedplate.ops.reduction.accumulate import COMPENSATED, accumulating, accumulation
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import floats, integers
from bedplate.ops.shape.views import broadcast_to, matrix_transpose, reshape


def matmul_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    """(..., M, K) and (..., K, N) of one dtype give (..., M, N); batch sizes broadcast."""
    a, b = inputs
    if a.dtype is not b.dtype or a.dtype.kind == "b":
        rule = "the dtypes differ" if a.dtype is not b.dtype else "no such op for this dtype"
        refuse_inputs(
            DTypeError, "matmul", rule, inputs, "both must be integers, floats or complex numbers"
        )
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        _refuse_inner(a, b)
    return (*_batch_shape(a, b), a.shape[-2], b.shape[-1]), a.dtype


def _batch_shape(a: Any, b: Any) -> Shape:
    batch = a.shape[:-2]
    if batch == b.shape[:-2] or len(b.shape) == 2:
        return batch
    try:
        return np.broadcast_shapes(batch, b.shape[:-2])
    except ValueError:
        refuse_inputs(
            ShapeError, "matmul", "the batch sizes do not broadcast", (a, b),
            f"before the last two axes, {tuple(a.shape[:-2])} and {tuple(b.shape[:-2])} must be "
            "equal or 1",
        )  # fmt: skip


def _refuse_inner(a: Any, b: Any) -> None:
    """raises ShapeError unless the sizes that are summed over agree"""
    if not a.shape or not b.shape:
        refuse_inputs(
            ShapeError, "matmul", "a 0-d value has no axis to sum over", (a, b), "try a * b"
        )
    axis = 0 if len(b.shape) == 1 else -2
    if a.shape[-1] == b.shape[axis]:
        return
    where = "size" if len(b.shape) == 1 else "second-to-last size"
    advice = [f"the last size of a ({a.shape[-1]}) must equal the {where} of b ({b.shape[axis]})"]
    if len(b.shape) > 1 and a.shape[-1] == b.shape[-1]:
        advice.append("try matmul(a, b.transpose(-1, -2))")
    elif len(a.shape) > 1 and a.shape[-2] == b.shape[axis]:
        advice.append("try matmul(a.transpose(-1, -2), b)")
    refuse_inputs(ShapeError, "matmul", "inner sizes differ", (a, b), *advice)


def matmul_reference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """NumPy's product; float16 and bfloat16 in float32."""
    dtype = a.dtype
    if dtype in NARROW_FLOATS:
        a, b = a.astype(np.float32), b.astype(np.float32)
    with np.errstate(all="ignore"):
        return np.matmul(a, b).astype(dtype)


def matmul_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Value, Value]:
    """a: grad_out @ b^T; b: a^T @ grad_out; each summed over the batch it was repeated for.

    Of complex matrices the conjugates.
    """
    a, b = map(conj, inputs)
    grad_a = sum_to(_product(grad_out, matrix_transpose(b)), a.shape)
    if len(b.shape) == 2 and len(a.shape) > 2:
        # one product over all rows, rather than a batch of them and a sum
        rows = math.prod(a.shape[:-1])
        a = reshape(a, (rows, a.shape[-1]))
        grad_out = reshape(grad_out, (rows, grad_out.shape[-1]))
    return grad_a, sum_to(_product(matrix_transpose(a), grad_out), b.shape)


def product_flops(each: float) -> Any:
    """`each` flops for every multiply-add of a product."""

    def flops(inputs: Any, output: Any, attributes: Attributes) -> float:
        return each * math.prod(output.shape) * inputs[0].shape[-1]

    return flops


MATMUL = register(
    Op(
        "matmul",
        "kernel",
        matmul_infer,
        reference=matmul_reference,
        gradient=matmul_gradient,
        cost=Cost("2 M N K flops a product; inputs and output once", product_flops(2)),
        lower=deferred("bedplate.ops.matmul.lower", "lower"),
        epilogue=True,
        dtypes=INTEGERS + FLOATS + COMPLEX,
        samples=(
            floats((3, 4), (4, 5)),
            floats((17, 33), (33, 70)),
            floats((1, 40), (40, 21)),
            floats((2, 3, 5, 4), (4, 6)),
            floats((2, 1, 5, 4), (3, 4, 6)),
            floats((3, 0), (0, 5)),
            floats((0, 4), (4, 5)),
            integers((4, 6), (6, 3)),
        ),
        doc="Matrix product, batched and broadcast.",
    )
)


def _product(a: Value, b: Value) -> Value:
    return apply(MATMUL, (a, b))


BYTES = (int8, uint8)


def _byte_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    """(..., M, K) and (..., K, N) of int8 or uint8 each give (..., M, N) of int32."""
    a, b = inputs
    if a.dtype not in BYTES or b.dtype not in BYTES:
        refuse_inputs(DTypeError, "byte_matmul", "both must be int8 or uint8", inputs)
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        _refuse_inner(a, b)
    return (*_batch_shape(a, b), a.shape[-2], b.shape[-1]), int32


def _byte_reference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.matmul(a.astype(np.int32), b.astype(np.int32))


def _bytes_of(*shapes: Shape) -> Sample:
    """One array of bytes a shape, over their whole range."""
    return Sample(lambda rng: [rng.integers(-128, 128, shape, np.int8) for shape in shapes])


# what the compiler makes of the product of bytes that are cast to int32 (compiler/passes/algebra)
BYTE_MATMUL = register(
    Op(
        "byte_matmul",
        "kernel",
        _byte_infer,
        reference=_byte_reference,
        gradient=NoGradient("integers have none"),
        cost=Cost("2 M N K operations on integers; inputs and output once", product_flops(2)),
        lower=deferred("bedplate.ops.matmul.lower", "lower"),
        epilogue=True,
        dtypes=BYTES,
        samples=(
            _bytes_of((3, 4), (4, 5)),
            _bytes_of((17, 33), (33, 70)),
            _bytes_of((40, 9), (9, 40)),
            _bytes_of((2, 1, 5, 4), (3, 4, 6)),
            _bytes_of((3, 0), (0, 5)),
        ),
        doc="Matrix product of bytes, added up in int32 modulo 2**32.",
    )
)


def _compensated_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    """(batch, M, K) and (batch, K, N) of float32 or float64 give (batch, M, N)."""
    a, b = inputs
    if a.dtype.kind not in "fc":
        refuse_inputs(DTypeError, "compensated_matmul", "only floats lose anything", inputs)
    if len(a.shape) != 3 or len(b.shape) != 3 or a.shape[0] != b.shape[0]:
        refuse_inputs(ShapeError, "compensated_matmul", "expected one batch axis", inputs)
    return matmul_infer(inputs, attributes)


def _compensated_reference(a: Any, b: Any) -> Any:
    wide = np.longdouble if a.real.dtype == np.float64 else np.float64
    wide = np.result_type(a.dtype, wide)
    with np.errstate(all="ignore"):
        return np.matmul(a.astype(wide), b.astype(wide)).astype(a.dtype)


def compensated_matmul_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Value, Value]:
    """As of `matmul`, by plain products."""
    return matmul_gradient(grad_out, inputs, output)


COMPENSATED_MATMUL = register(
    Op(
        "compensated_matmul",
        "kernel",
        _compensated_infer,
        reference=_compensated_reference,
        gradient=compensated_matmul_gradient,
        cost=Cost("10 M N K flops a product", product_flops(10)),
        lower=deferred("bedplate.ops.reduction.compensated", "lower_product"),
        dtypes=FLOATS + COMPLEX,
        samples=(
            floats((1, 3, 4), (1, 4, 5)),
            floats((2, 5, 33), (2, 33, 70)),
            floats((2, 3, 0), (2, 0, 5)),
            floats((0, 3, 4), (0, 4, 5)),
        ),
        doc="Matrix product added up in pairs of numbers: each element rounded as if once.",
    )
)


def _accumulated(a: Value, b: Value, mode: str) -> Value:
    """The product of matrices or stacks of them, added up as the mode says."""
    dtype = a.dtype
    if not mode:
        return _product(a, b)
    if mode != COMPENSATED:
        return as_type(_product(accumulating(a, mode), accumulating(b, mode)), dtype)
    batch = _batch_shape(a, b)
    flat = math.prod(batch)
    stacks = [
        reshape(broadcast_to(x, (*batch, *x.shape[-2:])), (flat, *x.shape[-2:])) for x in (a, b)
    ]
    product = apply(COMPENSATED_MATMUL, tuple(stacks))
    return reshape(product, (*batch, *product.shape[1:]))


def matmul(a: Value, b: Value, accumulate: Any = None) -> Value:
    """Multiply matrices, or stacks of them.

    c[..., i, j] = sum over k of a[..., i, k] * b[..., k, j]

    a           (..., M, K), or (K,), which counts as one row
    b           (..., K, N), or (K,), which counts as one column; the sizes before the last two
                broadcast; dtypes are promoted
    accumulate  as in `sum`; "compensated" takes 10 flops for each multiply-add
    returns     (..., M, N), without the axes that a 1-d argument lacks. bfloat16 and float16 are
                summed in float32, integers modulo 2**bits: for sums of bytes in int32 cast both
                (`a.astype(bp.int32) @ b.astype(bp.int32)`), they are multiplied as bytes. The bits
                of a row depend on that row, on b and on K alone.
    raises      ShapeError if the sizes do not fit, DTypeError for bool
    cost        2 M N K flops for each product
    >>> import bedplate as bp
    >>> bp.matmul(bp.tensor([[1, 2], [3, 4]]), bp.tensor([1, 1])).tolist()
    [3, 7]
    >>> bp.linalg.matmul(bp.tensor([1, 2]), bp.tensor([3, 4])).item()
    11
    """
    if type(a) is not type(b) or not hasattr(a, "_apply") or a.dtype is not b.dtype:
        a, b = promoted("matmul", (a, b))
    # what is asked for most takes few steps: 64 x 64 x 64 itself takes no longer than they do
    is_plain = accumulate is None and not config.accumulate
    mode = "" if is_plain else accumulation("matmul", accumulate, a)
    is_row, is_column = len(a.shape) == 1, len(b.shape) == 1
    if not (mode or is_row or is_column):
        return a._apply(MATMUL, (a, b), NO_ATTRIBUTES)
    _refuse_inner(a, b)
    out = _accumulated(
        reshape(a, (1, *a.shape)) if is_row else a,
        reshape(b, (*b.shape, 1)) if is_column else b,
        mode,
    )
    if is_row or is_column:
        *batch, rows, columns = out.shape
        kept = ([] if is_row else [rows]) + ([] if is_column else [columns])
        out = reshape(out, (*batch, *kept))
    return out
