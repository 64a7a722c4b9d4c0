"""grad, value_and_grad, vjp, jvp, and their nesting."""

from __future__ import annotations

import numpy as np
import pytest

import bedplate as bp


def vector(*values: float) -> bp.Tensor:
    return bp.tensor(list(values), dtype=bp.float64)


def test_grad_to_any_order() -> None:
    x = bp.tensor(2.0, dtype=bp.float64)

    def function(v: bp.Tensor) -> bp.Tensor:
        return v**4

    for expected in (32.0, 48.0, 48.0, 24.0, 0.0):
        function = bp.grad(function)
        assert function(x).item() == pytest.approx(expected)


def test_several_arguments() -> None:
    def function(x: bp.Tensor, y: bp.Tensor, k: int = 1) -> bp.Tensor:
        return (x * y * k).sum()

    x, y = vector(1.0, 2.0), vector(3.0, 4.0)
    assert bp.grad(function, 1)(x, y, k=2).tolist() == [2.0, 4.0]
    value, (dx, dy) = bp.value_and_grad(function, (0, 1))(x, y)
    assert (value.item(), dx.tolist(), dy.tolist()) == (11.0, [3.0, 4.0], [1.0, 2.0])
    assert not value.requires_grad
    assert not dx.requires_grad


def test_the_callers_gradients_are_left_alone() -> None:
    x = vector(1.0, 2.0).requires_grad_()
    w = vector(3.0, 4.0).requires_grad_()
    found = bp.grad(lambda v: (v * v * w).sum())(x)
    assert found.tolist() == [6.0, 16.0]
    assert x.grad is None
    assert w.grad is None


def test_a_gradient_of_a_gradient_reaches_outer_leaves() -> None:
    w = vector(3.0).requires_grad_()
    found = bp.grad(lambda v: (v * v * w).sum())(vector(2.0))
    (found * found).sum().backward()  # (2 v w)^2 = 16 w^2
    assert w.grad is not None
    assert w.grad.tolist() == [96.0]


def test_no_dependence_gives_zeros() -> None:
    x = vector(1.0, 2.0)
    assert bp.grad(lambda v: bp.ones(1).sum())(x).tolist() == [0.0, 0.0]
    assert bp.grad(lambda v, u: v.sum(), 1)(x, x).tolist() == [0.0, 0.0]


def test_vjp_may_be_pulled_often() -> None:
    value, pull = bp.vjp(lambda x, y: x * y, vector(1.0, 2.0), vector(3.0, 4.0))
    assert value.tolist() == [3.0, 8.0]
    for scale in (1.0, 10.0):
        dx, dy = pull(vector(scale, 0.0))
        assert (dx.tolist(), dy.tolist()) == ([3.0 * scale, 0.0], [scale, 0.0])


def test_jvp_against_the_jacobian() -> None:
    x = vector(0.3, -0.7, 1.1)
    v = vector(1.0, 2.0, -1.0)
    matrix = bp.tensor(np.arange(6.0).reshape(2, 3))
    value, tangent = bp.jvp(lambda u: (matrix * u.tanh()).sum(axis=1), [x], [v])
    slope = 1 - np.tanh(x.numpy()) ** 2
    np.testing.assert_allclose(tangent.numpy(), matrix.numpy() @ (slope * v.numpy()), rtol=1e-12)
    np.testing.assert_allclose(value.numpy(), matrix.numpy() @ np.tanh(x.numpy()), rtol=1e-12)
    assert bp.jvp(lambda u: bp.ones(2), [x], [v])[1].tolist() == [0.0, 0.0]


def test_jvp_of_a_linear_function() -> None:
    x = vector(1.0, 2.0)
    assert bp.jvp(lambda u: u * 3, [x], [x])[1].tolist() == [3.0, 6.0]


def test_refusals() -> None:
    x = vector(1.0, 2.0)
    with pytest.raises(bp.errors.GradientError, match=r"root  \(2,\)"):
        bp.grad(lambda v: v * 2)(x)
    with pytest.raises(bp.errors.GradientError, match="argument 0 is float, not a tensor"):
        bp.grad(lambda v: v * 2)(3.0)
    with pytest.raises(bp.errors.GradientError, match="there is no argument 2 among 1"):
        bp.grad(lambda v: v * 2, 2)(x)
    with pytest.raises(TypeError, match="must return a tensor"):
        bp.grad(lambda v: 3.0)(x)
    with pytest.raises(bp.errors.ShapeError, match="tangent 0 has shape"):
        bp.jvp(lambda u: u, [x], [vector(1.0)])


def test_works_inside_no_grad() -> None:
    with bp.no_grad():
        assert bp.grad(lambda v: (v * v).sum())(vector(3.0)).tolist() == [6.0]


def test_integer_arguments_have_no_gradient() -> None:
    table = bp.tensor([[1.0, 2.0], [3.0, 4.0]])
    ids = bp.tensor([1, 1, 0])
    assert bp.grad(lambda i, t: (t[i] * 2).sum(), 1)(ids, table).tolist() == [
        [2.0, 2.0],
        [4.0, 4.0],
    ]
    _, pull = bp.vjp(lambda i, t: t[i].sum(), ids, table)
    assert pull(bp.tensor(1.0))[0].tolist() == [0, 0, 0]
    assert bp.gradcheck(lambda i, t: t[i].exp(), [ids, table])
    assert bp.gradgradcheck(lambda i, t: t[i].exp(), [ids, table])
    with pytest.raises(bp.errors.GradientError, match="argument 0 is int64, which has no gradient"):
        bp.grad(lambda i, t: t[i].sum())(ids, table)


def test_what_has_no_gradient_says_why() -> None:
    x = bp.tensor([1.0, 3.0, 2.0], requires_grad=True)
    text = r"argmax has no gradient, because"
    with pytest.raises(bp.errors.GradientError, match=text):
        bp.argmax(x).backward()
    with pytest.raises(bp.errors.GradientError, match=text):
        (bp.argmax(x) * 2.5).sum().backward()
    with pytest.raises(bp.errors.GradientError, match=text):
        bp.Autograd.current().backward(bp.argmax(x))
    with pytest.raises(
        bp.errors.GradientError, match=rf"(?s)grad: the function gives int64.*{text}"
    ):
        bp.grad(lambda v: bp.argmax(v))(x)
    with pytest.raises(bp.errors.GradientError, match=r"greater has no gradient, because"):
        bp.vjp(lambda v: v > 1, x)[1](None)


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacobian", "hessian"])
def test_a_loss_in_place_of_a_function_is_refused(name: str) -> None:
    x = bp.tensor([1.0, 2.0], requires_grad=True)
    told = "grad" if name == "value_and_grad" else name
    with pytest.raises(TypeError, match=rf"{told}: expected a function .* got Tensor, int\n"):
        getattr(bp, name)((x * x).sum())
    with pytest.raises(TypeError, match=rf"{told}: expected a function .* got function, Tensor\n"):
        getattr(bp, name)(lambda x: (x * x).sum(), x)
