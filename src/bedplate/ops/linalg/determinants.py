"""Determinants: det, slogdet, and the cofactors that are the gradient of det."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bedplate.ops.build import Value, as_type, number
from bedplate.ops.complex_numbers.parts import complex_, conj, imag
from bedplate.ops.host import REAL, SAME, cubic, host_op, widened
from bedplate.ops.linalg.matrices import (
    Array,
    adjoint,
    on_diagonal,
    random_matrices,
    real_numbers,
    require_square,
    well_conditioned,
    with_diagonal,
)
from bedplate.ops.linalg.solving import INV
from bedplate.ops.linalg.svd import SVD
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.pointwise.arithmetic import add, multiply, negative
from bedplate.ops.pointwise.comparison import equal, less, logical_or
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import log
from bedplate.ops.record import Sample
from bedplate.ops.reduction.reduce import prod, sum_
from bedplate.ops.samples import mixed
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.views import expand_dims, matrix_transpose, reshape


def singular(n: int, rank: int, pairs: bool = False) -> Sample:
    """A square matrix of less than full rank."""

    def make(rng: Any) -> list[Array]:
        left = random_matrices(rng, (n, rank), pairs)
        return [real_numbers(left @ random_matrices(rng, (rank, n), pairs))]

    return mixed(make, f"rank {rank} of {n}", pairs=pairs)


SQUARE = (
    well_conditioned((2, 3, 3)),
    well_conditioned((4, 4)),
    well_conditioned((3, 3), pairs=True),
    well_conditioned((1, 1)),
    well_conditioned((2, 0, 0)),
    singular(3, 2),
    singular(4, 3),
    singular(3, 2, pairs=True),
)


def _cofactors(x: Array) -> Array:
    """From x = U S V^H: det(U) det(V^H) conj(U diag(products of the other s) V^H)."""
    u, s, vh = np.linalg.svd(x)
    turn = np.linalg.det(u) * np.linalg.det(vh)
    before, after = np.ones_like(s), np.ones_like(s)
    before[..., 1:] = np.cumprod(s[..., :-1], -1)
    after[..., :-1] = np.cumprod(s[..., :0:-1], -1)[..., ::-1]
    return turn[..., None, None] * np.conj((u * (before * after)[..., None, :]) @ vh)


def cofactors_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any]:
    """The second derivative of det, which is M(X, Y) = t sum over i != j of
    P[i, j] (X'[i, i] Y'[j, j] - X'[i, j] Y'[j, i]) with x = U S V^H, X' = U^H X V, t = det(U)
    det(V^H) and P[i, j] the product of the other singular values: right for every rank
    """
    (x,) = inputs
    s, u, vh = SVD(x, full_matrices=False)
    turn = multiply(DET(u), DET(vh))
    seen = matmul(matmul(adjoint(u), conj(grads[0])), adjoint(vh))
    others = as_type(_products_of_others(s), seen.dtype)
    own = sum_(where(on_diagonal(seen), seen, number(seen, 0)), axis=-1)  # X'[i, i]
    to_diagonal = reshape(matmul(others, expand_dims(own, -1)), own.shape)
    inner = with_diagonal(to_diagonal, negative(matrix_transpose(multiply(others, seen))))
    inner = multiply(inner, reshape(turn, (*turn.shape, 1, 1)))
    return (matmul(matmul(u, conj(inner)), vh),)


def _products_of_others(s: Value) -> Value:
    """At (i, j) the product of all s[k] but s[i] and s[j]; 0 on the diagonal."""
    n = s.shape[-1]
    first, second, third = (
        index_along(s, axis, tuple(n if i == axis else 1 for i in range(3))) for axis in range(3)
    )
    left_out = logical_or(equal(first, third), equal(second, third))
    factors = reshape(s, (*s.shape[:-1], 1, 1, n))
    products = prod(where(left_out, number(s, 1.0), factors), axis=-1)
    return where(on_diagonal(products), number(s, 0.0), products)


COFACTORS = host_op(
    "cofactors",
    lambda x: (x,),
    _cofactors,
    cofactors_gradient,
    samples=SQUARE,
    doc="The derivative of the determinant by each element, at singular matrices too.",
    cost=cubic(22, "N^3"),
)


def det_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any]:
    """g conj(C), where C are the cofactors: right for singular matrices, where det inv is not"""
    g = grads[0]
    return (multiply(reshape(g, (*g.shape, 1, 1)), conj(COFACTORS(inputs[0]))),)


DET = host_op(
    "det",
    lambda x: (x[:-2],),
    np.linalg.det,
    det_gradient,
    samples=SQUARE,
    doc="The determinant of each matrix.",
    cost=cubic(2 / 3, "N^3"),
)


def det(x: Value, /) -> Value:
    """The determinant of a square matrix.

    x        (..., N, N)  floats or complex
    returns  (...)        1 for N = 0. The gradient is the matrix of cofactors, by a singular value
                          decomposition: it and the second are right for singular matrices too.
    raises   ShapeError
    cost     2/3 N^3 flops a matrix, by LAPACK (getrf)
    >>> import bedplate as bp
    >>> bp.linalg.det(bp.tensor([[1.0, 2.0], [3.0, 4.0]])).item()
    -2.0
    """
    (x,), narrow = widened("det", x)
    require_square("det", x)
    return narrow(DET(x))


def slogdet_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any]:
    """(g - i imag(conj(gs) s)) x^-H; the second part, of the sign s, for complex x only"""
    to_log, to_sign = grads
    log, sign = values
    factor = number(log, 0.0) if to_log is None else to_log
    if sign.dtype.kind == "c":
        turn = None if to_sign is None else imag(multiply(conj(to_sign), sign))
        factor = complex_(factor, number(log, 0.0) if turn is None else negative(turn))
    elif to_log is None:
        return (None,)
    return (multiply(reshape(factor, (*factor.shape, 1, 1)), adjoint(INV(inputs[0]))),)


def _slogdet(x: Array) -> tuple[Array, Array]:
    sign, log = np.linalg.slogdet(x)
    return log, sign


SLOGDET = host_op(
    "slogdet",
    lambda x: (x[:-2], x[:-2]),
    _slogdet,
    slogdet_gradient,
    samples=SQUARE[:5],
    doc="The logarithm of the absolute determinant, and the sign of the determinant.",
    cost=cubic(2 / 3, "N^3"),
    gives=REAL + SAME,
)


class SlogdetResult(NamedTuple):
    """What `slogdet` gives: det = sign exp(logabsdet)."""

    sign: Any
    logabsdet: Any


def slogdet(x: Value, /) -> SlogdetResult:
    """The sign and the logarithm of the absolute value of a determinant, which may overflow.

    x        (..., N, N)  floats or complex
    returns  (sign, logabsdet): (...) in the dtype of x, of absolute value 1, or 0 for a singular
             matrix; (...) real, then -infinity. The gradient is x^-H.
    raises   ShapeError; LinAlgError for the gradient at a singular matrix, when it is computed
    cost     2/3 N^3 flops a matrix, by LAPACK (getrf)
    >>> import bedplate as bp
    >>> [part.item() for part in bp.linalg.slogdet(bp.tensor([[0.0, 1.0], [1.0, 0.0]]))]
    [-1.0, 0.0]
    """
    (x,), narrow = widened("slogdet", x)
    require_square("slogdet", x)
    log, sign = SLOGDET(x)
    return SlogdetResult(narrow(sign), narrow(log))


def logdet(x: Value) -> Value:
    """The logarithm of the determinant of a square matrix.

    x        (..., N, N)  floats or complex
    returns  (...)  its dtype; -infinity for a singular matrix, NaN for a negative determinant
    raises   ShapeError; LinAlgError for the gradient at a singular matrix, when it is computed
    >>> import bedplate as bp
    >>> round(bp.logdet(bp.tensor([[2.0, 0.0], [0.0, 3.0]])).item(), 4)
    1.7918
    """
    sign, size = slogdet(x)
    return add(log(sign) if sign.dtype.kind == "c" else _log_of_sign(sign), size)


def _log_of_sign(sign: Value) -> Value:
    """0 for 1, NaN for -1; 0 for 0, whose logarithm the other part has."""
    return where(less(sign, 0.0), number(sign, float("nan")), number(sign, 0.0))
