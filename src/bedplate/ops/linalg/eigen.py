"""Eigenvalues and eigenvectors: eigh, eigvalsh, eig, eigvals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bedplate.graph.node import Shape
from bedplate.ops.build import Value, as_type, number
from bedplate.ops.complex_numbers.parts import conj, real
from bedplate.ops.host import COMPLEX, REAL, SAME, cubic, host_op, widened
from bedplate.ops.linalg.matrices import (
    Array,
    adjoint,
    finite_array,
    hermitian,
    hermitian_array,
    on_diagonal,
    random_matrices,
    real_numbers,
    require_square,
    scaled_columns,
    with_diagonal,
)
from bedplate.ops.linalg.solving import SOLVE
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.pointwise.arithmetic import divide, multiply, subtract
from bedplate.ops.pointwise.convert import where
from bedplate.ops.record import Sample
from bedplate.ops.reduction.reduce import sum_
from bedplate.ops.samples import mixed
from bedplate.ops.shape.views import expand_dims


def _apart(shape: Shape, pairs: bool = False) -> Sample:
    """Matrices that are not quite Hermitian, with eigenvalues well apart."""

    def make(rng: Any) -> list[Array]:
        x = random_matrices(rng, shape, pairs)
        q, _ = np.linalg.qr(x)
        turned = (q * (np.arange(shape[-1]) - 1.3)) @ np.conj(np.swapaxes(q, -1, -2))
        return [real_numbers(turned + 0.1 * (x - np.conj(np.swapaxes(x, -1, -2))))]

    return mixed(make, f"{shape} {'pairs' if pairs else ''}", pairs=pairs)


HERMITIAN = (_apart((2, 3, 3)), _apart((4, 4)), _apart((3, 3), True), _apart((2, 0, 0)))


def eigvalsh_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any]:
    """V diag(g) V^H"""
    _, v = EIGH(inputs[0])
    return (matmul(scaled_columns(v, grads[0]), adjoint(v)),)


EIGVALSH = host_op(
    "eigvalsh",
    lambda x: (x[:-1],),
    lambda x: np.linalg.eigvalsh(hermitian_array(finite_array(x))),
    eigvalsh_gradient,
    samples=HERMITIAN,
    doc="The eigenvalues of (x + x^H) / 2, rising.",
    cost=cubic(4 / 3, "N^3"),
    gives=REAL,
)


def eigh_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any]:
    """The Hermitian part of V [diag(gw) + (V^H gV) / E] V^H with E[i, j] = w[j] - w[i]"""
    to_w, to_v = grads
    w, v = values
    if to_v is None:
        return (matmul(scaled_columns(v, to_w), adjoint(v)),)
    turned = divide(matmul(adjoint(v), to_v), _gaps(w))
    own = multiply(w, 0.0) if to_w is None else to_w
    inner = with_diagonal(as_type(own, turned.dtype), turned)
    return (hermitian(matmul(matmul(v, inner), adjoint(v))),)


def _gaps(w: Value) -> Value:
    """w[j] - w[i] at (i, j), and 1 on the diagonal."""
    gaps = subtract(expand_dims(w, -2), expand_dims(w, -1))
    return where(on_diagonal(gaps), number(gaps, 1), gaps)


def _eigh(x: Array) -> tuple[Array, Array]:
    w, v = np.linalg.eigh(hermitian_array(finite_array(x)))
    return w, v


EIGH = host_op(
    "eigh",
    lambda x: (x[:-1], x),
    _eigh,
    eigh_gradient,
    samples=HERMITIAN,
    doc="The eigenvalues of (x + x^H) / 2, rising, and orthonormal eigenvectors as columns.",
    cost=cubic(9, "N^3"),
    gives=REAL + SAME,
)


class EighResult(NamedTuple):
    """What `eigh` gives: x = V diag(eigenvalues) V^H."""

    eigenvalues: Any
    eigenvectors: Any


def eigh(x: Value, /) -> EighResult:
    """Eigenvalues and eigenvectors of a Hermitian (symmetric) matrix: x = V diag(w) V^H.

    x        (..., N, N)  floats or complex; of a matrix that is not Hermitian the Hermitian part
                          (x + x^H) / 2 is taken, so that the gradient is that of every element
    returns  (eigenvalues, eigenvectors): (..., N) real and rising; (..., N, N) orthonormal
             columns, whose signs (phases) are LAPACK's choice
    raises   ShapeError; LinAlgError for NaN or infinity, when the value is computed
    cost     about 9 N^3 flops a matrix, by LAPACK (syevd, heevd)
    source   gradient: Giles 2008, Collected matrix derivative results. It is that of functions
             which do not depend on the signs (phases); for the vectors of eigenvalues that are
             equal there is none: it is NaN or infinite. That of the eigenvalues is always right.
    >>> import bedplate as bp
    >>> bp.linalg.eigh(bp.tensor([[0.0, 2.0], [2.0, 0.0]])).eigenvalues.tolist()
    [-2.0, 2.0]
    """
    (x,), narrow = widened("eigh", x)
    require_square("eigh", x)
    w, v = EIGH(x)
    return EighResult(narrow(w), narrow(v))


def eigvalsh(x: Value, /) -> Value:
    """The eigenvalues of a Hermitian (symmetric) matrix, rising.

    x        (..., N, N)  as for `eigh`
    returns  (..., N)     real
    raises   ShapeError; LinAlgError for NaN or infinity, when the value is computed
    cost     about 4/3 N^3 flops a matrix, by LAPACK (syevd); the gradient needs `eigh`
    >>> import bedplate as bp
    >>> bp.linalg.eigvalsh(bp.tensor([[0.0, 2.0], [2.0, 0.0]])).tolist()
    [-2.0, 2.0]
    """
    (x,), narrow = widened("eigvalsh", x)
    require_square("eigvalsh", x)
    return narrow(EIGVALSH(x))


GENERAL = (
    mixed(lambda r: [r.uniform(-1, 1, (2, 3, 3)) + np.diag([0.0, 3.0, 7.0])], "rows", pairs=False),
    mixed(lambda r: [np.array([[1.0, 4.0], [-3.0, 2.0]])], "complex values of reals", pairs=False),
    mixed(
        lambda r: [real_numbers(random_matrices(r, (3, 3), True) + np.diag([0.0, 3.0, 7.0]))],
        "pairs",
        pairs=True,
    ),
    mixed(lambda r: [np.zeros((2, 0, 0))], "nothing", pairs=False),
)


def eig_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any]:
    """V^-H [diag(gw) + (V^H gV - V^H V diag(real(V^H gV))) / conj(E)] V^H, E[i, j] = w[j] - w[i]

    for eigenvectors of length 1, whose phases do not matter.
    """
    to_w, to_v = grads
    w, v = values
    back = adjoint(v)
    inner = multiply(v, 0)
    if to_v is not None:
        seen = matmul(back, to_v)
        length = real(sum_(where(on_diagonal(seen), seen, number(seen, 0)), axis=-2))
        along = scaled_columns(matmul(back, v), as_type(length, seen.dtype))
        inner = divide(subtract(seen, along), conj(_gaps(w)))
    own = multiply(w, 0) if to_w is None else to_w
    inner = with_diagonal(own, inner)
    return (SOLVE(back, matmul(inner, back)),)


def _eig(x: Array) -> tuple[Array, Array]:
    w, v = np.linalg.eig(x)
    return w, v


EIG = host_op(
    "eig",
    lambda x: (x[:-1], x),
    _eig,
    eig_gradient,
    samples=GENERAL,
    doc="The eigenvalues of each matrix, and eigenvectors of length 1 as columns; complex.",
    cost=cubic(25, "N^3"),
    gives=COMPLEX + COMPLEX,
)


def eigvals_gradient(grads: Any, inputs: Any, values: Any) -> tuple[Any]:
    """V^-H diag(g) V^H"""
    _, v = EIG(inputs[0])
    back = adjoint(v)
    return (SOLVE(back, multiply(expand_dims(grads[0], -1), back)),)


EIGVALS = host_op(
    "eigvals",
    lambda x: (x[:-1],),
    np.linalg.eigvals,
    eigvals_gradient,
    samples=GENERAL,
    doc="The eigenvalues of each matrix; complex.",
    cost=cubic(10, "N^3"),
    gives=COMPLEX,
)


class EigResult(NamedTuple):
    """What `eig` gives: x V = V diag(eigenvalues)."""

    eigenvalues: Any
    eigenvectors: Any


def eig(x: Value, /) -> EigResult:
    """Eigenvalues and eigenvectors of any square matrix: x V = V diag(w).

    x        (..., N, N)  floats or complex
    returns  (eigenvalues, eigenvectors): (..., N) and (..., N, N), always complex, in no order;
             the columns have length 1, their phases are LAPACK's choice
    raises   ShapeError; LinAlgError for NaN or infinity, when the value is computed
    cost     about 25 N^3 flops a matrix, by LAPACK (geev)
    source   gradient: Boeddeker et al. 2017, arXiv:1701.00392. It is that of functions which do
             not depend on the phases, and needs N independent vectors; it is NaN or infinite for
             the vectors of eigenvalues that are equal.
    >>> import bedplate as bp
    >>> bp.linalg.eig(bp.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues.tolist()
    [(2+0j), (3+0j)]
    """
    (x,), narrow = widened("eig", x)
    require_square("eig", x)
    w, v = EIG(x)
    return EigResult(narrow(w), narrow(v))


def eigvals(x: Value, /) -> Value:
    """The eigenvalues of any square matrix.

    x        (..., N, N)  floats or complex
    returns  (..., N)     complex, in no order
    raises   ShapeError; LinAlgError for NaN or infinity, when the value is computed
    cost     about 10 N^3 flops a matrix, by LAPACK (geev); the gradient needs `eig`
    >>> import bedplate as bp
    >>> bp.linalg.eigvals(bp.tensor([[2.0, 0.0], [0.0, 3.0]])).tolist()
    [(2+0j), (3+0j)]
    """
    (x,), narrow = widened("eigvals", x)
    require_square("eigvals", x)
    return narrow(EIGVALS(x))
