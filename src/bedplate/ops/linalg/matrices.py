"""What the files of linear algebra share: checks of shapes, the adjoint, diagonals, triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.errors import ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value, broadcast_shapes, number
from bedplate.ops.complex_numbers.parts import conj
from bedplate.ops.pointwise.arithmetic import add, multiply
from bedplate.ops.pointwise.comparison import equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.record import Sample
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.views import broadcast_to, expand_dims, matrix_transpose

Array = np.ndarray[Any, Any]


def require_matrices(op: str, x: Value, name: str = "x") -> None:
    """raises ShapeError unless x is a matrix or a stack of matrices"""
    if len(x.shape) < 2:
        refuse(ShapeError, op, f"{name} must be a matrix or a stack of matrices", {name: x},
               "expected a shape (..., M, N)")  # fmt: skip


def require_square(op: str, x: Value, name: str = "x") -> None:
    """raises ShapeError unless x is a square matrix or a stack of them"""
    require_matrices(op, x, name)
    if x.shape[-1] != x.shape[-2]:
        refuse(ShapeError, op, f"the last two sizes of {name} differ", {name: x},
               "expected a shape (..., N, N)")  # fmt: skip


def common_batch(op: str, a: Value, b: Value) -> tuple[Value, Value]:
    """Two stacks of matrices, repeated to the same sizes before the last two axes."""
    batch = broadcast_shapes(op, (_Batch(a), _Batch(b)))
    return tuple(broadcast_to(v, (*batch, *v.shape[-2:])) for v in (a, b))  # type: ignore[return-value]


class _Batch:
    """What stands before the last two axes of a value, for the message if it does not fit."""

    def __init__(self, value: Value) -> None:
        self.shape: Shape = tuple(value.shape[:-2])
        self.dtype = value.dtype
        self._value = value

    def line(self) -> str:
        return getattr(self._value, "_node", self._value).line()


def adjoint(x: Value) -> Value:
    """The conjugate transpose of each matrix."""
    return matrix_transpose(conj(x))


def on_diagonal(x: Value) -> Value:
    """True on the main diagonal of each matrix: () broadcasts over the stack."""
    rows, columns = x.shape[-2:]
    return equal(index_along(x, 0, (rows, 1)), index_along(x, 1, (1, columns)))


def with_diagonal(values: Value, others: Value) -> Value:
    """The matrices `others` with `values`, one an axis, on the diagonal."""
    return where(on_diagonal(others), expand_dims(values, -1), others)


def diagonal_matrix(values: Value) -> Value:
    """Matrices with `values` on the diagonal and zeros elsewhere."""
    n = values.shape[-1]
    columns = broadcast_to(expand_dims(values, -1), (*values.shape, n))
    return where(on_diagonal(columns), columns, number(columns, 0))


def scaled_columns(x: Value, factors: Value) -> Value:
    """x diag(factors)"""
    return multiply(x, expand_dims(factors, -2))


def hermitian(x: Value) -> Value:
    """(x + x^H) / 2"""
    return multiply(add(x, adjoint(x)), 0.5)


def hermitian_array(x: Array) -> Array:
    """(x + x^H) / 2, exactly x where it is Hermitian already."""
    return 0.5 * x + 0.5 * np.conj(np.swapaxes(x, -1, -2))


def finite_array(x: Array) -> Array:
    """x itself: what LAPACK makes of NaN and infinity depends on the size and the routine.

    raises  numpy's LinAlgError unless all is finite
    """
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError("Array must not contain infs or NaNs")
    return x


def real_numbers(array: Array) -> Array:
    """Pairs in the place of complex numbers; real arrays as they are."""
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], -1)


def random_matrices(rng: Any, shape: Shape, pairs: bool) -> Array:
    """Real or complex numbers, each part uniform in [-1, 1)."""
    x = rng.uniform(-1, 1, shape)
    return x + 1j * rng.uniform(-1, 1, shape) if pairs else x


def well_conditioned(shape: Shape, pairs: bool = False, **attributes: Any) -> Sample:
    """Square matrices far from singular ones, neither symmetric nor triangular."""

    def make(rng: Any) -> list[Array]:
        x = random_matrices(rng, shape, pairs)
        return [real_numbers(x + 2.0 * np.eye(shape[-1]) * shape[-1] ** 0.5)]

    return mixed(make, f"{shape} {'pairs' if pairs else ''}", pairs=pairs, **attributes)


def positive_definite(shape: Shape, pairs: bool = False, **attributes: Any) -> Sample:
    """Hermitian matrices with eigenvalues well above 0."""

    def make(rng: Any) -> list[Array]:
        x = random_matrices(rng, shape, pairs)
        gram = x @ np.conj(np.swapaxes(x, -1, -2))
        return [real_numbers(gram + np.eye(shape[-1]))]

    return mixed(make, f"positive {shape} {'pairs' if pairs else ''}", pairs=pairs, **attributes)


def spread(shape: Shape, pairs: bool = False, **attributes: Any) -> Sample:
    """Matrices of any shape whose singular values (and eigenvalues) are well apart."""

    def make(rng: Any) -> list[Array]:
        x = random_matrices(rng, shape, pairs)
        u, _, vh = np.linalg.svd(x, full_matrices=False)
        return [real_numbers((u * (1.0 + np.arange(u.shape[-1]))) @ vh)]

    return mixed(make, f"spread {shape} {'pairs' if pairs else ''}", pairs=pairs, **attributes)
