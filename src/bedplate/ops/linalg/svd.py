"""The singular value decomposition: svd, svdvals, matrix_rank."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bedplate.dtypes import int64
from bedplate.errors import GradientError, ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value, number
from bedplate.ops.complex_numbers.parts import real
from bedplate.ops.host import REAL, SAME, cubic, host_op, widened
from bedplate.ops.linalg.matrices import (
    Array,
    adjoint,
    diagonal_matrix,
    finite_array,
    on_diagonal,
    require_matrices,
    scaled_columns,
    spread,
)
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.pointwise.arithmetic import add, divide, multiply, subtract
from bedplate.ops.pointwise.comparison import greater
from bedplate.ops.pointwise.convert import astype, where
from bedplate.ops.reduction.reduce import max_, sum_
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed
from bedplate.ops.shape.regions import narrow as cut
from bedplate.ops.shape.views import broadcast_to, expand_dims

SPREAD = (
    spread((2, 3, 4)),
    spread((4, 3)),
    spread((3, 3)),
    spread((3, 2), pairs=True),
    mixed(lambda r: [np.zeros((0, 3))], "no rows", pairs=False),
)


def svdvals_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any]:
    """U diag(g) V^H, where a singular value of 0, like an absolute value, has gradient 0"""
    (s,) = values
    u, _, vh = _svd_of(inputs[0])
    g = where(greater(s, 0.0), grads[0], number(grads[0], 0.0))
    return (matmul(scaled_columns(u, g), vh),)


SVDVALS = host_op(
    "svdvals",
    lambda x: ((*x[:-2], min(x[-2:])),),
    lambda x: np.linalg.svd(finite_array(x), compute_uv=False),
    svdvals_gradient,
    samples=SPREAD,
    doc="The singular values of each matrix, the largest first.",
    cost=cubic(4, "M N min(M, N)"),
    gives=REAL,
)


def _svd_shapes(x: Shape, *, full_matrices: bool) -> tuple[Shape, ...]:
    *batch, rows, columns = x
    k = min(rows, columns)
    inner = (rows, columns) if full_matrices else (k, k)
    return (*batch, k), (*batch, rows, inner[0]), (*batch, inner[1], columns)


def _svd(x: Array, *, full_matrices: bool) -> tuple[Array, Array, Array]:
    u, s, vh = np.linalg.svd(finite_array(x), full_matrices=full_matrices)
    return s, u, vh


def svd_gradient(grads: Any, inputs: Any, values: Any, *, full_matrices: bool) -> tuple[Any]:
    """With skew(X) = X - X^H and E[j, k] = s[k]^2 - s[j]^2:

    U [(skew(U^H gU) / E) S + S (skew(V^H gV) / E) + diag(gs)] V^H
    + (1 - U U^H) gU S^-1 V^H + U S^-1 gV^H (1 - V V^H)
    """
    to_s, to_u, to_vh = grads
    s, u, vh = values
    k = s.shape[-1]
    if (to_u is not None and u.shape[-1] > k) or (to_vh is not None and vh.shape[-2] > k):
        raise GradientError(
            "svd: with full_matrices=True the vectors beyond the singular values are any "
            "basis of what is left, so they have no gradient\n  use full_matrices=False"
        )
    u, vh = cut(u, -1, 0, k), cut(vh, -2, 0, k)
    inner = None if to_s is None else astype(diagonal_matrix(to_s), u.dtype)
    if to_u is not None:
        inner = _sum(inner, _rotation_of_u(u, s, to_u))
    if to_vh is not None:
        turned = _skew(matmul(vh, adjoint(to_vh)))
        inner = _sum(inner, multiply(expand_dims(s, -1), divide(turned, _gaps(s))))
    result = matmul(matmul(u, inner), vh)
    if to_u is not None and u.shape[-2] > u.shape[-1]:
        outside = divide(to_u, expand_dims(s, -2))
        outside = subtract(outside, matmul(u, matmul(adjoint(u), outside)))
        result = add(result, matmul(outside, vh))
    if to_vh is not None and vh.shape[-1] > vh.shape[-2]:
        outside = divide(to_vh, expand_dims(s, -1))
        outside = subtract(outside, matmul(matmul(outside, adjoint(vh)), vh))
        result = add(result, matmul(u, outside))
    return (result,)


def _rotation_of_u(u: Value, s: Value, to_u: Value) -> Value:
    turned = _skew(matmul(adjoint(u), to_u))
    result = scaled_columns(divide(turned, _gaps(s)), s)
    if u.dtype.kind != "c":
        return result
    # the phases of a pair of vectors turn together: half of what turns u alone
    phases = divide(turned, expand_dims(multiply(s, 2.0), -1))
    return add(result, where(on_diagonal(turned), phases, number(phases, 0.0)))


def _gaps(s: Value) -> Value:
    """s[k]^2 - s[j]^2 at (j, k), and 1 on the diagonal."""
    row, column = expand_dims(s, -2), expand_dims(s, -1)
    gaps = multiply(subtract(row, column), add(row, column))
    return where(on_diagonal(gaps), number(gaps, 1.0), gaps)


def _skew(x: Value) -> Value:
    return subtract(x, adjoint(x))


def _sum(a: Value | None, b: Value) -> Value:
    return b if a is None else add(a, b)


SVD = host_op(
    "svd",
    _svd_shapes,
    _svd,
    svd_gradient,
    samples=tuple(
        mixed(s.inputs, s.name, full_matrices=full, **s.attributes)
        for s in SPREAD
        for full in (False, True)
    ),
    doc="Singular values, left vectors as columns, right vectors as conjugated rows.",
    cost=cubic(20, "M N min(M, N)"),
    gives=REAL + SAME + SAME,
)


def _svd_of(x: Value) -> tuple[Value, Value, Value]:
    s, u, vh = SVD(x, full_matrices=False)
    return u, s, vh


class SVDResult(NamedTuple):
    """What `svd` gives: x = U diag(S) Vh."""

    U: Any
    S: Any
    Vh: Any


def svd(x: Value, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition x = U diag(S) V^H.

    x              (..., M, N)  floats or complex; K = min(M, N)
    full_matrices  U (..., M, M) and Vh (..., N, N); otherwise (..., M, K) and (..., K, N)
    returns        (U, S, Vh): orthonormal columns, (..., K) real values with the largest first,
                   orthonormal rows. The signs (phases) of pairs of vectors are LAPACK's choice.
    raises         ShapeError; LinAlgError for NaN or infinity, when the value is computed;
                   GradientError for vectors of full matrices that are not square
    cost           about 20 M N K flops a matrix, by LAPACK (gesdd)
    source         gradient: Townsend 2016, Differentiating the singular value decomposition; Wan
                   and Zhang 2019, arXiv:1909.02659, for complex matrices. It is that of functions
                   which do not depend on the signs (phases), and is infinite or NaN for vectors
                   of singular values that are equal, or 0.
    >>> import bedplate as bp
    >>> bp.linalg.svd(bp.tensor([[0.0, 2.0], [1.0, 0.0]])).S.tolist()
    [2.0, 1.0]
    """
    (x,), narrow = widened("svd", x)
    require_matrices("svd", x)
    s, u, vh = SVD(x, full_matrices=bool(full_matrices))
    return SVDResult(narrow(u), narrow(s), narrow(vh))


def svdvals(x: Value, /) -> Value:
    """The singular values of a matrix, the largest first.

    x        (..., M, N)  floats or complex
    returns  (..., min(M, N))  real; the gradient is U diag(g) V^H, 0 for a value of 0
    raises   ShapeError; LinAlgError for NaN or infinity, when the value is computed
    cost     about 4 M N min(M, N) flops a matrix, by LAPACK (gesdd)
    >>> import bedplate as bp
    >>> bp.linalg.svdvals(bp.tensor([[0.0, 2.0], [1.0, 0.0]])).tolist()
    [2.0, 1.0]
    """
    (x,), narrow = widened("svdvals", x)
    require_matrices("svdvals", x)
    return narrow(SVDVALS(x))


def tolerance(op: str, x: Value, rtol: Any) -> Value:
    """rtol as one number for each matrix of x; by default max(M, N) spacings at 1."""
    like = real(x)
    if rtol is None:
        rtol = float(np.finfo(x.dtype.numpy).eps * max(x.shape[-2:]))
    if not hasattr(rtol, "_apply"):
        rtol = number(like, float(rtol)) if np.ndim(rtol) == 0 else like._lift(rtol)
    stack, given = tuple(x.shape[:-2]), tuple(rtol.shape)
    fits = len(given) <= len(stack) and all(
        a in (1, b) for a, b in zip(given[::-1], stack[::-1], strict=False)
    )
    if not fits:
        refuse(ShapeError, op, f"rtol does not fit the stack of matrices {stack}",
               {"x": x, "rtol": rtol}, "expected one number, or one for each matrix")  # fmt: skip
    return broadcast_to(astype(rtol, like.dtype), stack)


def numerical_rank(s: Value, rtol: Value) -> Value:
    """How many singular values are above rtol times the largest."""
    if not s.shape[-1]:
        return astype(sum_(s, axis=-1), int64)
    cutoff = multiply(max_(s, axis=-1, keepdims=True), expand_dims(rtol, -1))
    return sum_(greater(s, cutoff), axis=-1, dtype=int64)


def matrix_rank(x: Value, /, *, rtol: Any = None) -> Value:
    """How many singular values are not 0.

    x        (..., M, N)  floats or complex
    rtol     values up to rtol times the largest count as 0: a number or (...) values; None for
             max(M, N) times the spacing of the dtype at 1
    returns  (...) int64
    raises   ShapeError; LinAlgError for NaN or infinity, when the value is computed
    >>> import bedplate as bp
    >>> bp.linalg.matrix_rank(bp.tensor([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    (x,), _ = widened("matrix_rank", x)
    require_matrices("matrix_rank", x)
    return numerical_rank(svdvals(x), tolerance("matrix_rank", x, rtol))
