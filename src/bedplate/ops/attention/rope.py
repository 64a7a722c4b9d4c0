"""Rotary position embedding and the gated unit of OLMo's feed-forward."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType, float32, promote
from bedplate.errors import ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.kernel import maths
from bedplate.ops.build import Value, as_type, sum_to
from bedplate.ops.elementwise import binary, in_float32, refuse_dtype
from bedplate.ops.pointwise.activations import sigmoid
from bedplate.ops.pointwise.arithmetic import add, multiply, negative, subtract
from bedplate.ops.record import Op, apply, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import floats, two
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.regions import flip, narrow
from bedplate.ops.shape.views import expand_dims, reshape


def rope_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any, Any]:
    """To x the rotation by the negative angle; to the tables what they multiply, summed."""
    x, cos, sin = inputs
    dtype = _wide(x, cos)
    grad, halves = _halves(grad_out, dtype), _halves(x, dtype)
    to_cos = multiply(grad, halves).sum(axis=-2)
    to_sin = multiply(grad, _turned(halves)).sum(axis=-2)
    return (
        apply(ROPE, (grad_out, cos, negative(sin))),
        as_type(sum_to(to_cos, cos.shape), cos.dtype),
        as_type(sum_to(to_sin, sin.shape), sin.dtype),
    )


def _wide(x: Value, table: Value) -> DType:
    """The dtype in which the rotation is computed."""
    return promote(promote(x.dtype, table.dtype), float32)


def _halves(x: Value, dtype: DType) -> Value:
    """The halves of the last axis on an axis of their own, so that all is element-wise."""
    return as_type(reshape(x, (*x.shape[:-1], 2, x.shape[-1] // 2)), dtype)  # (..., T, 2, D / 2)


def _turned(halves: Value) -> Value:
    """[a, b] by a quarter: [-b, a]."""
    axis = len(halves.shape) - 2
    shape = tuple(2 if i == axis else 1 for i in range(len(halves.shape)))
    sign = subtract(multiply(index_along(halves, axis, shape, halves.dtype), 2), 1)
    return multiply(flip(halves, axis), sign)


def _infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    x, cos, sin = inputs
    if not x.dtype.is_float:
        refuse_dtype("rope", inputs, FLOATS)
    half = x.shape[-1] // 2 if len(x.shape) >= 2 else 0
    fits = (
        half * 2 == (x.shape or (1,))[-1]
        and cos.shape == sin.shape
        and len(cos.shape) >= 2
        and cos.shape[-1] == half
        and all(a in (1, b) for a, b in zip(cos.shape[-2::-1], x.shape[-2::-1], strict=False))
        and len(cos.shape) <= len(x.shape)
    )
    if not fits:
        refuse(
            ShapeError, "rope", "the tables do not match x", {"x": x, "cos": cos, "sin": sin},
            "expected x (..., T, D) with even D, cos and sin (T, D / 2) or (T, D)",
        )  # fmt: skip
    return x.shape, x.dtype


def _expand(inputs: tuple[Any, ...], attributes: Attributes) -> Any:
    x, cos, sin = inputs
    dtype = _wide(x, cos)
    halves = _halves(x, dtype)
    cos, sin = (expand_dims(as_type(table, dtype), -2) for table in (cos, sin))
    result = add(multiply(halves, cos), multiply(_turned(halves), sin))
    return reshape(as_type(result, x.dtype), x.shape)


def _reference(x: Any, cos: Any, sin: Any) -> Any:
    wide = x.astype(np.result_type(cos.dtype, np.float32)) if x.dtype.itemsize == 2 else x
    first, second = np.split(wide, 2, axis=-1)
    turned = np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
    return turned.astype(x.dtype)


ROPE = register(
    Op(
        "rope",
        "composed",
        _infer,
        reference=_reference,
        gradient=rope_gradient,
        expand=_expand,
        dtypes=FLOATS,
        samples=(
            floats((2, 3, 5, 8), (5, 4), (5, 4)),
            floats((5, 6), (5, 3), (5, 3)),
            floats((2, 3, 5, 8), (2, 1, 5, 4), (2, 1, 5, 4)),
        ),
        doc="Rotate pairs of features by an angle that grows with the position.",
    )
)


def rope(x: Value, cos: Value, sin: Value) -> Value:
    """Rotate pairs of features by an angle that grows with the position.

    With x = [a, b] in halves: y = [a cos - b sin, b cos + a sin]

    x         (..., T, D)  D even; pairs are (i, i + D / 2), as in Hugging Face's OLMo
    cos, sin  (T, D / 2), or (T, D) whose halves are equal; computed in float32 or better
    returns   (..., T, D)  dtype of x
    raises    ShapeError if the tables do not match x
    source    Su et al. 2021, arXiv:2104.09864
    >>> import bedplate as bp
    >>> quarter = bp.tensor([[0.0]]), bp.tensor([[1.0]])
    >>> bp.rope(bp.tensor([[1.0, 2.0]]), *quarter).tolist()
    [[-2.0, 1.0]]
    """
    if len(cos.shape) >= 1 and cos.shape[-1] == x.shape[-1]:
        cos, sin = (narrow(table, -1, 0, x.shape[-1] // 2) for table in (cos, sin))
    return apply(ROPE, (x, cos, sin))


@in_float32
def swiglu_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """With s = sigmoid(gate): dgate = g up s (1 + gate (1 - s)), dup = g gate s"""
    gate, up = inputs
    s = sigmoid(gate)
    scaled = multiply(grad_out, s)
    slope = add(multiply(gate, subtract(1, s)), 1)
    to_gate = multiply(multiply(scaled, up), slope)
    return sum_to(to_gate, gate.shape), sum_to(multiply(scaled, gate), up.shape)


def _swiglu(gate: Any, up: Any) -> Any:
    small = np.exp(-np.abs(gate))
    return gate * np.where(gate >= 0, 1, small) / (1 + small) * up


@binary(
    reference=_swiglu,
    emit=lambda t, gate, up: gate * maths.sigmoid(gate) * up,
    gradient=swiglu_gradient,
    samples=two(),
    dtypes=FLOATS,
    promote="float",
)
def swiglu(gate: Value, up: Value) -> Value:
    """The gated unit of the feed-forward: y = silu(gate) up.

    gate, up  shapes broadcast; floats
    source    Shazeer 2020, arXiv:2002.05202
    >>> import bedplate as bp
    >>> bp.swiglu(bp.tensor([0.0]), bp.tensor([3.0])).tolist()
    [0.0]
    """
