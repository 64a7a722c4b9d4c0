"""Forward mode: J v of functions of every kind, the Jacobian and the Hessian."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp

GENERATOR = np.random.default_rng(0)
A, V = GENERATOR.normal(size=(2, 3, 4))
STEP = 1e-6


def differences(function: Any, x: Any, v: Any) -> list[np.ndarray[Any, Any]]:
    high, low = (function(bp.tensor(x + s * STEP * v)) for s in (1, -1))
    return [(a.numpy() - b.numpy()) / (2 * STEP) for a, b in zip(high, low, strict=True)]


FUNCTIONS = {
    "elementwise": lambda x: (bp.exp(x) * x,),
    "reductions": lambda x: (x.std(axis=0), x.max(axis=1), bp.prod(x, axis=1)),
    "normalisation": lambda x: (bp.rms_norm(x), bp.layer_norm(x)),
    "softmax": lambda x: (bp.softmax(x, -1), bp.log_softmax(x, 0)),
    "products": lambda x: (x @ x.T, x.T @ x),
    "choices": lambda x: (bp.take(x, bp.tensor([2, 0, 0]), axis=0), bp.where(x > 0, x * x, x)),
    "cumulative": lambda x: (bp.cumsum(x, 1), bp.cumprod(x, 1)),
    "views": lambda x: (x[::2, 1:].permute(1, 0), x.reshape(-1)),
    "constants": lambda x: (x * 0 + 3, bp.ones((2,), dtype=bp.float64)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_agrees_with_differences(name: str) -> None:
    function = FUNCTIONS[name]
    values, slopes = bp.jvp(function, [bp.tensor(A)], [bp.tensor(V)])
    for value, plain in zip(values, function(bp.tensor(A)), strict=True):
        np.testing.assert_array_equal(value.numpy(), plain.numpy())
    for slope, wanted in zip(slopes, differences(function, A, V), strict=True):
        np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-7, atol=1e-8)


def test_integers_take_no_part() -> None:
    x, n = bp.tensor([1.0, 2.0]), bp.tensor([3, 4])
    value, slope = bp.jvp(lambda x, n: x * x * n, [x, n], [bp.ones(2), None])
    assert (value.tolist(), slope.tolist()) == ([3.0, 16.0], [6.0, 16.0])
    outputs, slopes = bp.jvp(lambda x: (x, (x > 1).astype(bp.int64)), [x], [bp.ones(2)])
    assert [s.tolist() for s in slopes] == [[1.0, 1.0], [0, 0]]
    assert outputs[1].tolist() == [0, 1]


def test_complex_numbers() -> None:
    z, v = bp.tensor([1 + 2j, 0.5 - 1j]), bp.tensor([0.3 - 1j, 2j])
    _, slope = bp.jvp(lambda z: z * z, [z], [v])
    np.testing.assert_allclose(slope.numpy(), 2 * z.numpy() * v.numpy(), rtol=1e-6)
    _, slope = bp.jvp(bp.abs, [z], [v])
    wanted = np.real(np.conj(z.numpy()) * v.numpy()) / np.abs(z.numpy())
    np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-6)


def test_it_nests() -> None:
    x, one = bp.tensor(2.0), bp.tensor(1.0)
    second = bp.jvp(lambda y: bp.jvp(lambda u: u**4, [y], [one])[1], [x], [one])[1]
    assert second.item() == 48.0
    product = bp.jvp(bp.grad(lambda u: (u**3).sum()), [bp.tensor([1.0, 2.0])], [bp.ones(2)])[1]
    assert product.tolist() == [6.0, 12.0]
    assert bp.grad(lambda y: bp.jvp(lambda u: u**3, [y], [one])[1])(x).item() == 12.0


def test_an_operation_of_a_user() -> None:
    class Cube(bp.Operation):
        def forward(self, x: Any) -> Any:
            self.x = x
            return x * x * x

        def grad_fn(self, grad: Any) -> Any:
            return 3 * self.x * self.x * grad

    _, slope = bp.jvp(Cube.apply, [bp.tensor([1.0, 2.0])], [bp.tensor([1.0, 10.0])])
    assert slope.tolist() == [3.0, 120.0]


class OutOfTheGraph(bp.Operation):
    """x^2 with a gradient that leaves the graph: it has no forward mode."""

    def forward(self, x: Any) -> Any:
        self.x = x
        return x * x

    def grad_fn(self, grad: Any) -> Any:
        return bp.tensor(grad.numpy() * 2 * self.x.numpy())


def test_what_cannot_be_is_refused() -> None:
    x = bp.tensor([1.0, 2.0])
    with pytest.raises(bp.errors.ShapeError, match=r"jvp: tangent 0 has shape \(3,\), not \(2,\)"):
        bp.jvp(bp.exp, [x], [bp.ones(3)])
    with pytest.raises(bp.errors.ShapeError, match="jvp: 0 tangents for 1 primals"):
        bp.jvp(bp.exp, [x], [])
    with pytest.raises(TypeError, match="must return a tensor, got float"):
        bp.jvp(lambda x: 1.0, [x], [x])
    with pytest.raises(bp.errors.GradientError, match="grad_fn took values out of the graph"):
        bp.jvp(OutOfTheGraph.apply, [x], [x])


def test_jacobian_and_hessian() -> None:
    x = bp.tensor(A[0])
    found = bp.jacobian(lambda x: bp.softmax(x, 0))(x).numpy()
    p = bp.softmax(x, 0).numpy()
    np.testing.assert_allclose(found, np.diag(p) - np.outer(p, p), atol=1e-15)
    matrix = bp.tensor(A[:, :3] + A[:, :3].T)
    second = bp.hessian(lambda x: x @ matrix @ x / 2)(bp.tensor(V[0, :3])).numpy()
    np.testing.assert_allclose(second, matrix.numpy())
    assert bp.jacobian(lambda a, b: (a * b).reshape(2, 1), argnums=1)(x[:2], x[2:]).shape == (
        2,
        1,
        2,
    )
    assert bp.jacobian(lambda x: x[:0])(x).shape == (0, 4)
    assert bp.jacobian(lambda x: x * 0 + 1)(x[:0]).shape == (0, 0)
    assert bp.hessian(lambda x: x.sum() * 3)(x).tolist() == [[0.0] * 4] * 4
    with pytest.raises(bp.errors.GradientError, match="argument 0 is int64, which has no gradient"):
        bp.jacobian(lambda n: n)(bp.tensor([1, 2]))
