"""Factors of a matrix: cholesky and qr."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bedplate.errors import GradientError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value
from bedplate.ops.host import SAME, cubic, host_op, widened
from bedplate.ops.linalg.matrices import (
    Array,
    adjoint,
    hermitian,
    hermitian_array,
    on_diagonal,
    positive_definite,
    require_matrices,
    require_square,
    spread,
)
from bedplate.ops.linalg.solving import solve_triangular
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.pointwise.arithmetic import add, multiply, subtract
from bedplate.ops.pointwise.convert import where
from bedplate.ops.samples import mixed
from bedplate.ops.shape.creation import tril, triu
from bedplate.ops.shape.regions import concat, narrow


def cholesky_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any]:
    """The Hermitian part of L^-H P L^-1, where P is the lower triangle of L^H G, its diagonal
    halved; Murray 2016, arXiv:1602.07527"""
    (lower,) = values
    product = tril(matmul(adjoint(lower), grads[0]))
    halved = where(on_diagonal(product), multiply(product, 0.5), product)
    upper = adjoint(lower)
    left = solve_triangular(upper, halved, upper=True)
    both = solve_triangular(upper, adjoint(left), upper=True)
    return (hermitian(both),)


CHOLESKY = host_op(
    "cholesky",
    lambda x: (x,),
    lambda x: np.linalg.cholesky(hermitian_array(x)),
    cholesky_gradient,
    samples=(
        positive_definite((2, 3, 3)),
        positive_definite((4, 4)),
        positive_definite((3, 3), pairs=True),
        positive_definite((0, 2, 2)),
        positive_definite((2, 0, 0)),
    ),
    doc="The lower triangular L with L L^H = (x + x^H) / 2.",
    cost=cubic(1 / 3, "N^3"),
)


def cholesky(x: Value, /, *, upper: bool = False) -> Value:
    """The triangular factor of a positive definite matrix: x = L L^H, or x = U^H U.

    x        (..., N, N)  Hermitian floats or complex; of any other the Hermitian part
                          (x + x^H) / 2 is taken, so that the gradient is that of every element
    upper    give U, not L
    returns  (..., N, N)  triangular, with positive numbers on the diagonal
    raises   ShapeError; LinAlgError if a matrix is not positive definite, when the value is
             computed
    cost     N^3 / 3 flops a matrix, by LAPACK (potrf)
    source   gradient: Murray 2016, arXiv:1602.07527
    >>> import bedplate as bp
    >>> bp.linalg.cholesky(bp.tensor([[4.0, 2.0], [2.0, 10.0]])).tolist()
    [[2.0, 0.0], [1.0, 3.0]]
    """
    (x,), narrowed = widened("cholesky", x)
    require_square("cholesky", x)
    lower = CHOLESKY(x)
    return narrowed(adjoint(lower) if upper else lower)


def _qr_shapes(x: Shape, *, mode: str) -> tuple[Shape, Shape]:
    *batch, rows, columns = x
    inner = rows if mode == "complete" else min(rows, columns)
    return (*batch, rows, inner), (*batch, inner, columns)


def _qr(x: Array, *, mode: str) -> tuple[Array, Array]:
    q, r = np.linalg.qr(x, mode=mode)  # type: ignore[call-overload]
    return q, r


def qr_gradient(grads: Any, inputs: Any, values: Any, *, mode: str) -> tuple[Any]:
    """[gQ + Q copyltu(gR R^H - Q^H gQ)] R^-H, where copyltu mirrors the upper triangle; columns
    beyond the rows add to gQ and have Q gR as their own; Walter and Lehmann 2018, Roberts 2020
    """
    (x,) = inputs
    q, r = values
    to_q, to_r = grads
    rows, columns = x.shape[-2:]
    if mode == "complete" and rows > columns:
        raise GradientError(
            "qr: with mode='complete' the columns of Q beyond those of x are any basis of what "
            "is left, so they have no gradient\n  use mode='reduced'"
        )
    to_q = multiply(q, 0.0) if to_q is None else to_q
    to_r = multiply(r, 0.0) if to_r is None else to_r
    if columns <= rows:
        return (_tall_gradient(to_q, to_r, q, r),)
    beyond = narrow(to_r, -1, rows, columns - rows)
    to_q = add(to_q, matmul(narrow(x, -1, rows, columns - rows), adjoint(beyond)))
    square = _tall_gradient(to_q, narrow(to_r, -1, 0, rows), q, narrow(r, -1, 0, rows))
    return (concat([square, matmul(q, beyond)], -1),)


def _tall_gradient(to_q: Value, to_r: Value, q: Value, r: Value) -> Value:
    upper = triu(subtract(matmul(to_r, adjoint(r)), matmul(adjoint(q), to_q)))
    mirrored = add(upper, adjoint(upper))
    mirrored = where(on_diagonal(mirrored), multiply(mirrored, 0.5), mirrored)
    inner = add(to_q, matmul(q, mirrored))
    return adjoint(solve_triangular(r, adjoint(inner), upper=True))


QR = host_op(
    "qr",
    _qr_shapes,
    _qr,
    qr_gradient,
    samples=(
        spread((2, 3, 3), mode="reduced"),
        spread((4, 3), mode="reduced"),
        spread((2, 4), mode="reduced"),
        spread((3, 2), pairs=True, mode="reduced"),
        spread((2, 3), pairs=True, mode="complete"),
        mixed(lambda r: [np.zeros((0, 3))], "no rows", pairs=False, mode="reduced"),
    ),
    doc="x = Q R with orthonormal columns of Q and a triangular R.",
    cost=cubic(4, "M N min(M, N)"),
    gives=SAME + SAME,
)


class QRResult(NamedTuple):
    """What `qr` gives: x = Q R."""

    Q: Any
    R: Any


def qr(x: Value, /, *, mode: str = "reduced") -> QRResult:
    """Orthonormal columns and a triangle: x = Q R.

    x        (..., M, N)  floats or complex; K = min(M, N)
    mode     "reduced": Q (..., M, K), R (..., K, N); "complete": Q (..., M, M), R (..., M, N)
    returns  (Q, R); the signs (phases) of the rows of R are LAPACK's choice
    raises   ShapeError; ValueError for another mode; GradientError for a complete Q that is
             larger than the reduced one
    cost     about 4 M N K flops a matrix, by LAPACK (geqrf, ungqr)
    source   gradient: Walter and Lehmann 2018, arXiv:1009.6112; Roberts and Roberts 2020,
             arXiv:2009.10071, for wide matrices. The first K columns must be independent.
    >>> import bedplate as bp
    >>> bp.linalg.qr(bp.tensor([[0.0, 1.0], [2.0, 3.0]])).R.abs().tolist()
    [[2.0, 3.0], [0.0, 1.0]]
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: unknown mode {mode!r}; there are 'reduced' and 'complete'")
    (x,), narrowed = widened("qr", x)
    require_matrices("qr", x)
    q, r = QR(x, mode=mode)
    return QRResult(narrowed(q), narrowed(r))
