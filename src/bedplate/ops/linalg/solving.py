"""Systems of linear equations: inv, solve, solve_triangular, pinv, lstsq."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bedplate.errors import ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value, number
from bedplate.ops.complex_numbers.parts import conj, real
from bedplate.ops.host import REAL, SAME, cubic, host_op, widened
from bedplate.ops.linalg.matrices import (
    Array,
    adjoint,
    common_batch,
    finite_array,
    on_diagonal,
    random_matrices,
    real_numbers,
    require_matrices,
    require_square,
    spread,
    well_conditioned,
)
from bedplate.ops.linalg.svd import numerical_rank, svdvals, tolerance
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.pointwise.arithmetic import add, multiply, negative, subtract
from bedplate.ops.pointwise.convert import where
from bedplate.ops.record import Sample
from bedplate.ops.reduction.reduce import sum_
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed
from bedplate.ops.shape.creation import tril, triu
from bedplate.ops.shape.views import matrix_transpose, moveaxis, reshape


def inv_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any]:
    """-Y^H G Y^H for Y = inv(x); Giles 2008, 2.2.3"""
    (y,) = values
    back = adjoint(y)
    return (negative(matmul(matmul(back, grads[0]), back)),)


INV = host_op(
    "inv",
    lambda x: (x,),
    np.linalg.inv,
    inv_gradient,
    samples=(
        well_conditioned((2, 3, 3)),
        well_conditioned((4, 4)),
        well_conditioned((3, 3), pairs=True),
        well_conditioned((0, 2, 2)),
        well_conditioned((2, 0, 0)),
    ),
    doc="The inverse of each matrix.",
    cost=cubic(2, "N^3"),
)


def inv(x: Value, /) -> Value:
    """The inverse of a matrix: y x = x y = 1.

    x        (..., N, N)  floats or complex; integers become float32, float16 and bfloat16 are
                          computed in float32
    returns  (..., N, N)  its dtype
    raises   ShapeError; LinAlgError if a matrix is singular, when the value is computed
    cost     2 N^3 flops a matrix, by LAPACK (getrf, getrs)
    source   gradient: Giles 2008, Collected matrix derivative results
    >>> import bedplate as bp
    >>> bp.linalg.inv(bp.tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    (x,), narrow = widened("inv", x)
    require_square("inv", x)
    return narrow(INV(x))


def solve_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any, Any]:
    """With Y = A^-1 B: to B it is Z = A^-H G, to A it is -Z Y^H; Giles 2008, 2.3.1"""
    a, _ = inputs
    (y,) = values
    to_b = SOLVE(adjoint(a), grads[0])
    return negative(matmul(to_b, adjoint(y))), to_b


def _system(shape: Shape, columns: int, pairs: bool = False) -> Sample:
    def make(rng: Any) -> list[Array]:
        a = random_matrices(rng, shape, pairs) + 2.0 * np.eye(shape[-1])
        b = random_matrices(rng, (*shape[:-1], columns), pairs)
        return [real_numbers(a), real_numbers(b)]

    return mixed(make, f"{shape}, {columns} columns", pairs=pairs)


SOLVE = host_op(
    "solve",
    lambda a, b: (b,),
    np.linalg.solve,
    solve_gradient,
    samples=(
        _system((2, 3, 3), 2),
        _system((4, 4), 1),
        _system((3, 3), 2, pairs=True),
        _system((2, 2), 0),
        _system((0, 0), 3),
    ),
    doc="The solution y of a y = b for each matrix a.",
    cost=(
        "2/3 N^3 + 2 N^2 K flops a matrix, by LAPACK",
        lambda a, b: 2 / 3 * math.prod(a) * a[-1] + 2.0 * math.prod(a) * b[-1],
    ),
)


def solve(x1: Value, x2: Value, /) -> Value:
    """Solve a system of linear equations: x1 y = x2.

    x1       (..., N, N)  floats or complex
    x2       (N,), one right side, or (..., N, K), K of them; the sizes before broadcast
    returns  (..., N) or (..., N, K)  the promoted dtype
    raises   ShapeError; LinAlgError if a matrix is singular, when the value is computed
    cost     2/3 N^3 + 2 N^2 K flops a matrix, by LAPACK (gesv)
    source   gradient: Giles 2008, Collected matrix derivative results
    >>> import bedplate as bp
    >>> bp.linalg.solve(bp.tensor([[2.0, 0.0], [0.0, 4.0]]), bp.tensor([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    (x1, x2), narrow = widened("solve", x1, x2)
    require_square("solve", x1, "x1")
    is_vector = len(x2.shape) == 1
    b = reshape(x2, (*x2.shape, 1)) if is_vector else x2
    if len(b.shape) < 2 or b.shape[-2] != x1.shape[-1]:
        refuse(
            ShapeError, "solve", "the right side does not fit the matrix", {"x1": x1, "x2": x2},
            f"expected x2 of shape ({x1.shape[-1]},) or (..., {x1.shape[-1]}, K)",
        )  # fmt: skip
    y = _solved("solve", x1, b)
    return narrow(reshape(y, y.shape[:-1]) if is_vector else y)


def _solved(op: str, a: Value, b: Value) -> Value:
    """The solution for stacks that broadcast; one matrix for many right sides is factored once."""
    if len(a.shape) > 2 or len(b.shape) == 2:
        return SOLVE(*common_batch(op, a, b))
    rows = moveaxis(b, -2, 0)
    y = SOLVE(a, reshape(rows, (rows.shape[0], math.prod(rows.shape[1:]))))
    return moveaxis(reshape(y, rows.shape), 0, -2)


def solve_triangular(
    a: Value, b: Value, /, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    """Solve a system whose matrix is triangular: a y = b, or y a = b.

    a              (..., N, N)  the other triangle is not read
    b              (..., N, K), or (..., K, N) if not left
    upper          which triangle of a it is
    left           a stands on the left of y
    unitriangular  the diagonal counts as ones and is not read
    returns        the shape of b, broadcast
    raises         ShapeError; LinAlgError for a zero on the diagonal, when the value is computed
    cost           that of `solve`: NumPy has LAPACK's general solver only
    >>> import bedplate as bp
    >>> a = bp.tensor([[2.0, 0.0], [1.0, 1.0]])
    >>> bp.linalg.solve_triangular(a, bp.tensor([[2.0], [3.0]]), upper=False).tolist()
    [[1.0], [2.0]]
    """
    (a, b), narrow = widened("solve_triangular", a, b)
    require_square("solve_triangular", a, "a")
    require_matrices("solve_triangular", b, "b")
    if b.shape[-2 if left else -1] != a.shape[-1]:
        refuse(ShapeError, "solve_triangular", "the right side does not fit the matrix",
               {"a": a, "b": b})  # fmt: skip
    a = triu(a) if upper else tril(a)
    if unitriangular:
        a = where(on_diagonal(a), number(a, 1), a)
    if left:
        return narrow(_solved("solve_triangular", a, b))
    y = _solved("solve_triangular", matrix_transpose(a), matrix_transpose(b))
    return narrow(matrix_transpose(y))


def _pinv(x: Array, rtol: Array) -> Array:
    u, s, vh = np.linalg.svd(finite_array(x), full_matrices=False)
    cutoff = rtol[..., None] * s.max(-1, keepdims=True, initial=0)
    inverse = np.where(s > cutoff, 1 / np.where(s > cutoff, s, 1), 0).astype(s.dtype)
    return np.conj(np.swapaxes(vh, -1, -2)) @ (inverse[..., None] * np.conj(np.swapaxes(u, -1, -2)))


def pinv_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any, None]:
    """With P = pinv(A): -P^H G P^H + (1 - A P) G^H P P^H + P^H P G^H (1 - P A)

    Golub and Pereyra 1973; right where the rank does not change.
    """
    a, _ = inputs
    (p,) = values
    g, back, pulled = grads[0], adjoint(p), adjoint(grads[0])
    first = matmul(matmul(back, g), back)
    left = matmul(pulled, matmul(p, back))
    left = subtract(left, matmul(a, matmul(p, left)))
    right = matmul(matmul(back, p), pulled)
    right = subtract(right, matmul(matmul(right, p), a))
    return add(subtract(left, first), right), None


def _pinv_sample(sample: Sample) -> Sample:
    def make(rng: Any) -> list[Array]:
        (x,) = sample.inputs(rng)
        batch = x.shape[: -3 if sample.attributes["pairs"] else -2]
        return [x, np.full(batch, 1e-5)]

    return mixed(make, sample.name, **sample.attributes)


PINV = host_op(
    "pinv",
    lambda x, rtol: ((*x[:-2], x[-1], x[-2]),),
    _pinv,
    pinv_gradient,
    samples=(
        _pinv_sample(spread((2, 3, 4))),
        _pinv_sample(spread((4, 3))),
        _pinv_sample(spread((3, 2), pairs=True)),
        _pinv_sample(mixed(lambda r: [np.zeros((0, 3))], "no rows", pairs=False)),
    ),
    doc="The Moore-Penrose inverse; singular values up to rtol times the largest count as 0.",
    cost=cubic(22, "M N min(M, N)"),
    takes=SAME + REAL,
)


def pinv(x: Value, /, *, rtol: Any = None) -> Value:
    """The Moore-Penrose inverse of a matrix of any shape and rank.

    x        (..., M, N)  floats or complex
    rtol     singular values up to rtol times the largest count as 0: a number or (...) values;
             None for max(M, N) times the spacing of the dtype at 1
    returns  (..., N, M)
    raises   ShapeError; LinAlgError for NaN or infinity, when the value is computed
    cost     a singular value decomposition a matrix, by LAPACK (gesdd)
    source   gradient: Golub and Pereyra 1973, SIAM J. Numer. Anal. 10(2); right while the rank
             does not change
    >>> import bedplate as bp
    >>> bp.linalg.pinv(bp.tensor([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    (x,), narrow = widened("pinv", x)
    require_matrices("pinv", x)
    return narrow(PINV(x, tolerance("pinv", x, rtol)))


class LstsqResult(NamedTuple):
    """What `lstsq` gives."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


def lstsq(a: Value, b: Value, rcond: Any = None) -> LstsqResult:
    """The y of least norm for which the norm of a y - b is least.

    a        (..., M, N)  floats or complex
    b        (M,) or (..., M, K)
    rcond    singular values up to rcond times the largest count as 0; None as in `pinv`
    returns  (solution (..., N) or (..., N, K), residuals (...) or (..., K): the squares of the
             norms of a y - b, rank (...) int64, singular_values (..., min(M, N)))
    raises   ShapeError; LinAlgError for NaN or infinity, when the value is computed
    cost     a pseudo-inverse and a product; the gradient is theirs
    >>> import bedplate as bp
    >>> a = bp.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> fit = bp.linalg.lstsq(a, bp.tensor([1.0, 3.0, 5.0]))
    >>> [round(v, 4) for v in fit.solution.tolist()], fit.rank.item()
    ([1.0, 2.0], 2)
    """
    (a, b), narrow = widened("lstsq", a, b)
    require_matrices("lstsq", a, "a")
    is_vector = len(b.shape) == 1
    sides = reshape(b, (*b.shape, 1)) if is_vector else b
    if len(sides.shape) < 2 or sides.shape[-2] != a.shape[-2]:
        refuse(ShapeError, "lstsq", "the right side does not fit the matrix", {"a": a, "b": b},
               f"expected b of shape ({a.shape[-2]},) or (..., {a.shape[-2]}, K)")  # fmt: skip
    rtol = tolerance("lstsq", a, rcond)
    y = matmul(PINV(a, rtol), sides)
    off = subtract(matmul(a, y), sides)
    residuals = sum_(real(multiply(off, conj(off))), axis=-2)
    s = svdvals(a)
    if is_vector:
        y, residuals = reshape(y, y.shape[:-1]), reshape(residuals, residuals.shape[:-1])
    return LstsqResult(narrow(y), narrow(residuals), numerical_rank(s, rtol), narrow(s))
