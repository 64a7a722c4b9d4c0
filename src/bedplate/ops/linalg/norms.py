"""Norms of vectors and of matrices: vector_norm, matrix_norm, norm.

A norm is scaled or summed in a wider dtype, so that it overflows only where it is itself too
large. The gradient of every norm at zeros is zeros: the smallest of its subgradients.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, float32, float64
from bedplate.errors import ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import (
    Value,
    as_type,
    normalised_axes,
    normalised_axis,
    number,
    promoted,
    several,
)
from bedplate.ops.complex_numbers.parts import as_real
from bedplate.ops.elementwise import widened as widened_reference
from bedplate.ops.linalg.solving import inv
from bedplate.ops.linalg.svd import svdvals
from bedplate.ops.pointwise.arithmetic import abs_, divide, multiply, sign
from bedplate.ops.pointwise.comparison import equal, isfinite, logical_and, not_equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import pow_, sqrt
from bedplate.ops.record import Op, Sample, apply, register
from bedplate.ops.reduction.accumulate import accumulation, wide_array
from bedplate.ops.reduction.reduce import max_, min_, sum_
from bedplate.ops.reduction.statistics import kept_rule
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import floats, rough
from bedplate.ops.shape.views import moveaxis, reshape, squeeze

Axis = int | tuple[int, ...] | None
Order = int | float


def power_norm_gradient(
    grad_out: Value, inputs: Any, output: Value, *, axes: Shape, p: float, accumulate: str = ""
) -> tuple[Any]:
    """sign(x) (|x| / norm)^(p - 1), zeros where the norm is 0"""
    (x,) = inputs
    zero = equal(output, 0.0)
    norm = where(zero, number(output, 1.0), output)
    share = divide(x, norm)
    if p != 2.0:
        size = where(equal(x, 0.0), number(x, 1.0), abs_(share))  # 0 has no power below 0
        share = multiply(sign(x), pow_(size, p - 1.0))
    return (where(zero, number(grad_out, 0.0), multiply(grad_out, share)),)


def _power_norm_expand(inputs: tuple[Any, ...], attributes: Attributes) -> Value:
    (x,) = inputs
    axes, p, mode = attributes["axes"], attributes["p"], attributes.get("accumulate", "")
    if p == 2.0 and x.dtype is not float64:  # squares of float32 do not overflow float64
        wide = as_type(x, float64)
        return as_type(sqrt(sum_(multiply(wide, wide), axis=axes, keepdims=True)), x.dtype)
    size = abs_(as_type(x, float32) if x.dtype.itemsize < 4 else x)
    if not all(x.shape[axis] for axis in axes):
        return as_type(sum_(size, axis=axes, keepdims=True), x.dtype)
    largest = max_(size, axis=axes, keepdims=True)
    usable = logical_and(isfinite(largest), not_equal(largest, 0.0))
    scale = where(usable, largest, number(largest, 1.0))
    size = divide(size, scale)
    powers = multiply(size, size) if p == 2.0 else pow_(size, p)
    total = sum_(powers, axis=axes, keepdims=True, accumulate=mode)
    root = sqrt(total) if p == 2.0 else pow_(total, 1.0 / p)
    return as_type(multiply(root, scale), x.dtype)


def _power_norm_reference(x: Any, *, axes: Shape, p: float, accumulate: str = "") -> Any:
    size = np.abs(wide_array(x, accumulate))
    scale = size.max(axis=axes, keepdims=True, initial=0)
    scale = np.where(np.isfinite(scale) & (scale != 0), scale, 1).astype(size.dtype)
    with np.errstate(all="ignore"):
        return scale * np.sum((size / scale) ** p, axis=axes, keepdims=True) ** (1 / p)


def _smooth(shape: Shape, **attributes: Any) -> Sample:
    return Sample(
        lambda r: [r.uniform(0.3, 2.0, shape) * r.choice([-1.0, 1.0], shape)], attributes,
        f"{shape} {attributes}",
    )  # fmt: skip


POWER_NORM = register(
    Op(
        "power_norm",
        "composed",
        kept_rule("vector_norm"),
        reference=widened_reference(_power_norm_reference),
        gradient=power_norm_gradient,
        expand=_power_norm_expand,
        dtypes=FLOATS,
        samples=(
            floats((3, 7), axes=(1,), p=2.0),
            floats((2, 3, 4), axes=(0, 2), p=2.0),
            _smooth((3, 5), axes=(1,), p=3.0),
            _smooth((3, 5), axes=(0,), p=1.5),
            _smooth((2, 5), axes=(1,), p=0.5),
            *(
                rough(lambda r: [np.array([[0.0, 1.0, -2.0]])], f"0 for {p}", axes=(1,), p=p)
                for p in (0.5, 1.5)
            ),
            floats((0, 3), axes=(0,), p=2.0),
            _smooth((3, 5), axes=(1,), p=3.0, accumulate="float64"),
            _smooth((3, 5), axes=(1,), p=2.0, accumulate="compensated"),
            rough(lambda r: [np.zeros((2, 3))], "zeros", axes=(1,), p=2.0),
        ),
        doc="(sum of |x|^p)^(1/p) over `axes`.",
    )
)


def _floating(name: str, x: Value) -> Value:
    (x,) = promoted(name, (x,), to_float=True)
    return x


def _order(name: str, order: Any, words: tuple[str, ...]) -> Any:
    """raises ValueError unless the order is a number, or one of the words"""
    known = order in words if isinstance(order, str) else isinstance(order, int | float)
    if not known or order != order:
        shown = ", ".join(["a number", *map(repr, words)])
        raise ValueError(f"{name}: unknown order {order!r}\n  expected {shown}")
    return order


def vector_norm(
    x: Value,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    ord: Order = 2,
    accumulate: Any = None,
) -> Value:
    """The p-norm of vectors: (sum of |x|^p)^(1/p).

    x           floats or complex; integers become float32. float32 and narrower are summed in
                float64 for p = 2, all else is divided by the largest first: only a norm that is too
                large itself overflows
    axis        over which; None for all elements
    ord         p: any number; inf and -inf for the largest and the smallest |x|, 0 for how many
                elements are not 0
    accumulate  as in `bp.sum`
    returns     real; the gradient sign(x) (|x| / norm)^(p - 1) is 0 for a vector of zeros
    raises      ShapeError for an axis that is not there, ValueError for an order that is no number
    keepdims    keep the axes, with size 1; `keepdim` works too
    >>> import bedplate as bp
    >>> bp.linalg.vector_norm(bp.tensor([3.0, -4.0])).item()
    5.0
    """
    x = _floating("vector_norm", x)
    _order("vector_norm", ord, ())
    axes = normalised_axes("vector_norm", axis, x)
    if x.dtype.kind == "c" and ord == 2:
        x = as_real(x)
        result = _power_norm(x, (*axes, len(x.shape) - 1), 2.0, accumulate)
        result = squeeze(result, -1)
    else:
        result = _real_norm(abs_(x) if x.dtype.kind == "c" else x, axes, ord, accumulate)
    kept = tuple(s for i, s in enumerate(result.shape) if i not in axes)
    return result if keepdims else reshape(result, kept)


def _power_norm(x: Value, axes: Shape, p: float, accumulate: Any) -> Value:
    mode = accumulation("vector_norm", accumulate, x)
    more = {"accumulate": mode} if mode else {}
    return apply(POWER_NORM, (x,), {"axes": axes, "p": p, **more})


def _real_norm(x: Value, axes: Shape, ord: Order, accumulate: Any) -> Value:
    """A norm of real values; the axes stay with size 1."""
    if ord in (math.inf, -math.inf):
        if not all(x.shape[axis] for axis in axes):
            if ord > 0:
                return sum_(x, axis=axes, keepdims=True)
            refuse(ShapeError, "vector_norm", "nothing to choose from", {"x": x},
                   "an empty axis has no smallest element")  # fmt: skip
        return (max_ if ord > 0 else min_)(abs_(x), axis=axes, keepdims=True)
    if ord == 0:
        count = sum_(not_equal(x, 0.0), axis=axes, keepdims=True)
        return as_type(count, x.dtype)
    if ord == 1:
        return sum_(abs_(x), axis=axes, keepdims=True, accumulate=accumulate)
    return _power_norm(x, axes, float(ord), accumulate)


def matrix_norm(x: Value, /, *, keepdims: bool = False, ord: Order | str | None = "fro") -> Value:
    """A norm of each matrix.

    x         (..., M, N)  floats or complex
    ord       "fro" or None: of all elements as one vector; "nuc": the sum of the singular values;
              2, -2: the largest, the smallest of them; 1, -1: the largest, the smallest sum of |x|
              down a column; inf, -inf: the same along a row
    returns   (...), or (..., 1, 1) with keepdims; real
    raises    ShapeError, ValueError for another order; LinAlgError for NaN or infinity and an
              order of singular values, when the value is computed
    >>> import bedplate as bp
    >>> x = bp.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> [bp.linalg.matrix_norm(x, ord=p).item() for p in ("fro", "nuc", 2, 1)]
    [5.0, 7.0, 4.0, 4.0]
    """
    x = _floating("matrix_norm", x)
    if len(x.shape) < 2:
        refuse(ShapeError, "matrix_norm", "x must be a matrix or a stack of matrices", {"x": x})
    ord = "fro" if ord is None else ord
    _order("matrix_norm", ord, ("fro", "nuc"))
    if ord == "fro":
        result = vector_norm(x, axis=(-2, -1))
    elif ord == "nuc":
        result = sum_(svdvals(x), axis=-1)
    elif ord in (2, -2):
        result = _extreme(svdvals(x), -1, ord > 0)
    elif ord in (1, -1, math.inf, -math.inf):
        down = ord in (1, -1)
        sums = sum_(abs_(x), axis=-2 if down else -1)
        result = _extreme(sums, -1, ord > 0)
    else:
        raise ValueError(
            f"matrix_norm: no norm of order {ord!r}\n  expected 'fro', 'nuc', 1, -1, 2, -2, inf "
            "or -inf"
        )
    return reshape(result, (*result.shape, 1, 1)) if keepdims else result


def _extreme(values: Value, axis: int, largest: bool) -> Value:
    """The largest or smallest along an axis; 0 for the largest of none."""
    if largest and not values.shape[axis]:
        return sum_(values, axis=axis)
    return max_(values, axis=axis) if largest else min_(values, axis=axis)


def norm(
    x: Value, ord: Any = None, axis: Axis = None, keepdims: bool = False, accumulate: Any = None
) -> Value:
    """A norm of vectors or of matrices, as NumPy's `norm` and PyTorch's.

    x           floats or complex
    ord         None: the 2-norm of all elements along the axes; else as for `vector_norm` (one
                axis) or `matrix_norm` (two axes)
    axis        one axis for vectors, two for matrices; None: all, where x must have one or two axes
                if there is an order
    accumulate  of vectors, as in `bp.sum`
    returns     real, without the axes unless keepdims
    raises      ShapeError, ValueError
    >>> import bedplate as bp
    >>> bp.linalg.norm(bp.tensor([[3.0, 0.0], [0.0, 4.0]]), axis=1).tolist()
    [3.0, 4.0]
    """
    if ord is None:
        return vector_norm(x, axis=axis, keepdims=keepdims, accumulate=accumulate)
    given = tuple(range(len(x.shape))) if axis is None else axis
    axes = several(given)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=ord, accumulate=accumulate)
    if len(axes) != 2:
        refuse(
            ShapeError, "norm", f"an order needs one or two axes, not {len(axes)}", {"x": x},
            "give axis=, or no ord= for the 2-norm of all elements",
        )  # fmt: skip
    first, second = (normalised_axis("norm", a, len(x.shape), x) for a in axes)
    if first == second:
        refuse(ShapeError, "norm", f"axes {axes} name one axis twice", {"x": x})
    result = matrix_norm(moveaxis(x, (first, second), (-2, -1)), ord=ord, keepdims=keepdims)
    return moveaxis(result, (-2, -1), (first, second)) if keepdims else result


def cond(x: Value, p: Any = None) -> Value:
    """The condition number of a matrix: how much a relative error may grow in `solve`.

    norm(x) norm(inv(x))

    x        (..., M, N)  floats or complex; square unless the order is None, 2 or -2
    p        the norm, as `ord` of `matrix_norm`; None for 2, the ratio of the largest and the
             smallest singular value
    returns  (...) real; infinite for a singular matrix if p is None or 2
    raises   ShapeError, ValueError; LinAlgError for a singular matrix and any other norm
    >>> import bedplate as bp
    >>> bp.linalg.cond(bp.tensor([[2.0, 0.0], [0.0, 0.5]])).item()
    4.0
    """
    if p in (None, 2, -2):
        s = svdvals(x)
        largest, smallest = max_(s, axis=-1), min_(s, axis=-1)
        return divide(smallest, largest) if p == -2 else divide(largest, smallest)
    return multiply(matrix_norm(x, ord=p), matrix_norm(inv(x), ord=p))
