"""Powers and the exponential of a square matrix."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from bedplate.ops.build import Value, number
from bedplate.ops.host import cubic, host_op, widened
from bedplate.ops.linalg.matrices import (
    Array,
    adjoint,
    on_diagonal,
    require_square,
    well_conditioned,
)
from bedplate.ops.linalg.solving import inv
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.pointwise.convert import where
from bedplate.ops.shape.regions import concat, narrow
from bedplate.ops.shape.views import broadcast_to


def matrix_power(x: Value, n: int, /) -> Value:
    """The product of n matrices x; of the inverse for negative n.

    x        (..., N, N)  any number dtype; floats or complex for negative n
    n        an integer; 0 gives the identity
    returns  (..., N, N)  its dtype
    raises   ShapeError; LinAlgError for negative n and a singular matrix, when it is computed
    cost     up to 2 log2(|n|) products
    >>> import bedplate as bp
    >>> bp.linalg.matrix_power(bp.tensor([[1, 1], [0, 1]]), 5).tolist()
    [[1, 5], [0, 1]]
    """
    require_square("matrix_power", x)
    n = operator.index(n)
    if n == 0:
        one = where(on_diagonal(x), number(x, 1), number(x, 0))
        return broadcast_to(one, x.shape)
    if n < 0:
        x, n = inv(x), -n
    result = None
    while n:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    return result


# the largest norm for which the fraction of order 13 is exact to float64; Higham 2005, table 2.3
NORM_13 = 5.371920351148152
COEFFICIENTS_13 = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0,
    960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip


def _matrix_exp(x: Array) -> Array:
    """A fraction of polynomials of x / 2^s, squared s times; computed in double precision."""
    dtype = x.dtype
    wide = x.astype(np.complex128 if dtype.kind == "c" else np.float64)
    n = x.shape[-1]
    if not x.size:
        return x.copy()
    norm = np.abs(wide).sum(-2).max(-1)
    norm = np.where(np.isfinite(norm), norm, 0)
    squarings = np.maximum(0, np.ceil(np.log2(np.maximum(norm, 1e-300) / NORM_13))).astype(int)
    a = wide / (2.0**squarings)[..., None, None]
    b, one = COEFFICIENTS_13, np.eye(n)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2
    odd, even = odd + b[1] * one, even + b[0] * one
    u = a @ odd
    result = np.linalg.solve(even - u, even + u)
    for step in range(int(squarings.max())):
        result = np.where((squarings > step)[..., None, None], result @ result, result)
    return result.astype(dtype)


def matrix_exp_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any]:
    """The upper right block of exp([[x^H, G], [0, x^H]]); Mathias 1996"""
    back = adjoint(inputs[0])
    n = back.shape[-1]
    zero = broadcast_to(number(back, 0), back.shape)
    block = concat([concat([back, grads[0]], -1), concat([zero, back], -1)], -2)
    return (narrow(narrow(MATRIX_EXP(block), -2, 0, n), -1, n, n),)


MATRIX_EXP = host_op(
    "matrix_exp",
    lambda x: (x,),
    _matrix_exp,
    matrix_exp_gradient,
    samples=(
        well_conditioned((2, 3, 3)),
        well_conditioned((4, 4)),
        well_conditioned((3, 3), pairs=True),
        well_conditioned((2, 0, 0)),
    ),
    doc="The exponential of each matrix.",
    cost=cubic(20, "N^3"),
)


def matrix_exp(x: Value, /) -> Value:
    """The exponential of a square matrix: 1 + x + x^2/2! + x^3/3! + ...

    x        (..., N, N)  floats or complex
    returns  (..., N, N)  its dtype; computed in float64 (complex128), rounded once
    raises   ShapeError
    cost     about 8 products, a solution and log2 of the norm squarings
    source   Higham 2005, SIAM J. Matrix Anal. Appl. 26(4); gradient: Mathias 1996, SIAM J. Matrix
             Anal. Appl. 17(3)
    >>> import bedplate as bp
    >>> bp.linalg.matrix_exp(bp.tensor([[0.0, 1.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    (x,), narrowed = widened("matrix_exp", x)
    require_square("matrix_exp", x)
    return narrowed(MATRIX_EXP(x))
