"""What every device must say where others went wrong: gradients, case by case, with neighbours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.contract.values import INF, LENGTHS, NAN, near, same, tensor

import bedplate as bp
from bedplate.errors import GradientError

lengths = pytest.mark.parametrize("length", LENGTHS)
wide = pytest.mark.parametrize("dtype", [bp.float32, bp.float64], ids=str)


def leaf(values: Any, device: Any, dtype: Any = bp.float32) -> Any:
    return tensor(values, device, dtype, grad=True)


# ------------------------------------------------------------------------------ powers and roots


@wide
@lengths
def test_powers_of_zero(device: Any, dtype: Any, length: int) -> None:
    """B20"""
    a = leaf([[0.0, 0.0, 0.0, 2.0]] * length, device, dtype)
    b = leaf([[0.0, 1.0, 2.0, 0.0]] * length, device, dtype)
    y = a**b
    same(y, [[1, 0, 0, 1]] * length)
    y.sum().backward()
    same(a.grad, [[0, 1, 0, 0]] * length)
    near(b.grad, [[0, 0, 0, math.log(2)]] * length, 1e-6)


@pytest.mark.parametrize("power", [0, 1, 2, 3, 0.0, 1.0, 2.0, 3.0])
def test_constant_powers_of_zero(device: Any, power: float) -> None:
    """B20: neighbours"""
    x = leaf([0.0, -0.0, 2.0], device)
    (x**power).sum().backward()
    near(x.grad, [power * value ** max(power - 1, 0) for value in (0.0, 0.0, 2.0)], 1e-6)
    base = leaf([0.0, 1.0, 2.0], device)
    (2.0**base).sum().backward()
    near(base.grad, [math.log(2) * 2.0**value for value in (0, 1, 2)], 1e-6)


@wide
def test_gradient_of_sqrt_at_zero(device: Any, dtype: Any) -> None:
    """B22"""
    x = leaf([0.0, 4.0], device, dtype)
    bp.sqrt(x).sum().backward()
    same(x.grad, [INF, 0.25])


@pytest.mark.parametrize("order", [1, 2, 3, INF])
@lengths
def test_gradient_of_norms_at_zero(device: Any, order: float, length: int) -> None:
    """B22"""
    for power in (1, 2):
        x = leaf(np.zeros(length), device)
        y = bp.linalg.vector_norm(x, ord=order) ** power
        same(y, 0.0)
        y.backward()
        same(abs(x.grad), np.zeros(length))
    rows = leaf(np.zeros((2, length)), device)
    bp.linalg.vector_norm(rows, ord=order, axis=1).sum().backward()
    same(abs(rows.grad), np.zeros((2, length)))


@wide
@lengths
def test_spread_of_equal_elements(device: Any, dtype: Any, length: int) -> None:
    """B23"""
    for op in (bp.std, bp.var):
        for axis in (None, 0):
            x = leaf(np.ones((length, 2)), device, dtype)
            op(x, axis=axis).sum().backward()
            same(abs(x.grad), np.zeros((length, 2)))
    with np.errstate(all="ignore"):
        same(bp.std(tensor([1.0], device, dtype), correction=1), NAN)
        same(bp.var(tensor([1.0], device, dtype), correction=1), NAN)


# ---------------------------------------------------------------------------------- choices


@wide
def test_gradients_at_ties(device: Any, dtype: Any) -> None:
    """B25: the shares add up to what comes in"""
    for op, sign in ((bp.max, 1), (bp.min, -1)):
        x = leaf([2.0 * sign, 2.0 * sign, 1.0 * sign], device, dtype)
        op(x).backward()
        same(x.grad, [0.5, 0.5, 0])
    for op in (bp.maximum, bp.minimum):
        a, b = leaf(3.0, device, dtype), leaf(3.0, device, dtype)
        op(a, b).backward()
        same(a.grad, 0.5)
        same(b.grad, 0.5)
    for op in (bp.relu, bp.abs, bp.nn.functional.relu6, bp.nn.functional.leaky_relu):
        x = leaf(0.0, device, dtype)
        op(x).backward()
        assert 0 <= x.grad.item() <= 0.01
    x = leaf([-1.0, 1.0, 1.5, -1.5], device, dtype)
    bp.clip(x, -1, 1).sum().backward()
    same(x.grad, [1, 1, 0, 0])


@lengths
def test_shares_of_many_equal_maxima(device: Any, length: int) -> None:
    """B25: exact equality, no tolerance: a neighbour one unit in the last place below gets none"""
    below = float(np.nextafter(np.float32(1), np.float32(0)))
    x = leaf([[1.0] * length + [below]] * 2, device)
    bp.max(x, axis=1).sum().backward()
    near(x.grad, [[1 / length] * length + [0]] * 2, 1e-6)
    near(x.grad.sum(axis=1), [1, 1], 1e-5)
    y = leaf([[1.0] * length] * 2, device)
    bp.max(y, axis=0).sum().backward()
    same(y.grad, [[0.5] * length] * 2)


def test_gradients_of_clip_ends(device: Any) -> None:
    """B25: who is clipped passes nothing to itself"""
    x = leaf([0.0, 5.0, -5.0], device)
    bp.clip(x, -1.0, 1.0).sum().backward()
    same(x.grad, [1, 0, 0])
    x = leaf([0.0, 5.0], device)
    bp.clip(x, None, 1.0).sum().backward()
    same(x.grad, [1, 0])


# ------------------------------------------------------------------------------------ products


@wide
def test_gradient_of_products_with_zeros(device: Any, dtype: Any) -> None:
    """B26"""
    rows = [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]]
    wanted = [[6, 0, 0], [0, 0, 0], [6, 3, 2]]
    x = leaf(rows, device, dtype)
    bp.prod(x, axis=1).sum().backward()
    same(abs(x.grad), wanted)
    columns = leaf(np.array(rows).T, device, dtype)
    bp.prod(columns, axis=0).sum().backward()
    same(abs(columns.grad), np.array(wanted).T)


@wide
@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([2.0, 3.0, 0.0], [4, 2, 6]),
        ([2.0, 0.0, 0.0, 3.0], [1, 2, 0, 0]),
        ([0.0, 2.0, 3.0], [9, 0, 0]),
    ],
)
def test_gradient_of_running_products_with_zeros(
    device: Any, dtype: Any, values: Any, wanted: Any
) -> None:
    """B26"""
    x = leaf(values, device, dtype)
    bp.cumprod(x, axis=0).sum().backward()
    same(abs(x.grad), wanted)


# ------------------------------------------------------------------------------------- indices


def test_gradient_of_overwritten_values(device: Any) -> None:
    """B28: the last write wins, and who was overwritten gets no gradient"""
    places = bp.Tensor(np.array([0, 0, 2]), device)
    source = leaf([1.0, 2.0, 5.0], device)
    x = bp.zeros(3, device=device)
    x[places] = source
    same(x, [2, 0, 5])
    x.sum().backward()
    same(source.grad, [0, 1, 1])
    for put in (
        lambda s: bp.index_put(bp.zeros(3, device=device), (places,), s),
        lambda s: bp.index_copy(bp.zeros(3, device=device), 0, places, s),
        lambda s: bp.scatter(bp.zeros(3, device=device), 0, places, s),
    ):
        source = leaf([1.0, 2.0, 5.0], device)
        result = put(source)
        same(result, [2, 0, 5])
        (result * tensor([1.0, 10.0, 100.0], device)).sum().backward()
        same(source.grad, [0, 1, 100])


@lengths
def test_gradient_of_what_was_replaced(device: Any, length: int) -> None:
    """B28: neighbours"""
    base, source = leaf(np.ones((length, 3)), device), leaf(np.ones(length), device)
    x = base * 1
    x[:, 1] = source
    (x * 2).sum().backward()
    same(base.grad, [[2, 0, 2]] * length)
    same(source.grad, [2] * length)


def test_repeated_choices_add_up(device: Any) -> None:
    """B29"""
    x = leaf([1.0, 2.0, 3.0], device)
    x[bp.Tensor(np.array([-1, 2, 0, 2]), device)].sum().backward()
    same(x.grad, [1, 0, 3])


# ---------------------------------------------------------------------------------- broadcasting


class Scaled(bp.Operation):
    """2 x, written by a user, who reads the gradient as it comes."""

    def forward(self, x: Any) -> Any:
        return x * 2

    def grad_fn(self, grad: Any) -> Any:
        return grad * 2


def test_gradients_of_broadcasting(device: Any) -> None:
    """B31"""
    a, b = leaf([[1.0, 2, 3]], device), leaf([[1.0], [2]], device)
    (a + b).sum().backward()
    same(a.grad, [[2, 2, 2]])
    same(b.grad, [[3], [3]])
    scale = leaf(2.0, device)
    (scale * tensor(np.arange(6).reshape(2, 3), device)).sum().backward()
    same(scale.grad, 15)
    x = leaf(np.arange(12).reshape(2, 3, 2), device)
    (x.permute(1, 0, -1) * tensor(np.arange(12).reshape(3, 2, 2), device)).sum().backward()
    same(x.grad, np.arange(12).reshape(3, 2, 2).transpose(1, 0, 2))


@lengths
def test_gradients_that_come_broadcast(device: Any, length: int) -> None:
    """B31: what `sum` sends back has no memory of its own"""
    for function in (
        Scaled.apply,
        lambda x: x @ bp.ones((3, 2), device=device),
        lambda x: x.permute(1, 0).reshape(-1),
        lambda x: bp.cumsum(x, axis=0),
        lambda x: bp.softmax(x, axis=1) * 2,
        lambda x: x[:, ::2],
    ):
        x = leaf(np.ones((length, 3)), device)
        given = leaf(np.ones((length, 3)), device)
        y, z = function(x), function(given)
        y.sum().backward()
        z.backward(bp.Tensor(np.ones(z.shape, np.float32), device))
        near(x.grad, given.grad.numpy(), 1e-6, 1e-6)


# ----------------------------------------------------------------------------- values and aliases


def test_a_leaf_cannot_change_unseen(device: Any) -> None:
    """B32: no alias of a value can be changed, so what was saved stays what it was"""
    x = leaf([1.0, 2.0], device)
    with pytest.raises(GradientError, match=r"x \+= y: this tensor is a leaf"):
        x += 1
    y = bp.exp(x)
    alias = y.detach()
    alias.zero_()
    alias[0] = 7.0
    y.sum().backward()
    near(x.grad, np.exp([1.0, 2.0]), 1e-6)


def test_a_view_is_a_value_of_its_own(device: Any) -> None:
    """B34: `v *= 10` binds v to a new value; y keeps its own"""
    x = leaf([1.0, 2.0, 3.0], device)
    y = x * 1
    v = y[1:]
    v *= 10
    y.sum().backward()
    same(x.grad, [1, 1, 1])
    x.grad = None
    (x * 1)[1:].sum().backward()
    same(x.grad, [0, 1, 1])


def test_assignments_read_before_they_write(device: Any) -> None:
    """B35: the same as out of place, always"""
    a = tensor(np.arange(6), device)
    a[1:] += a[:-1]
    same(a, [0, 1, 3, 5, 7, 9])
    a = tensor(np.arange(9).reshape(3, 3), device)
    a[:, 1:] = a[:, :-1]
    same(a, [[0, 0, 1], [3, 3, 4], [6, 6, 7]])
    square = np.arange(1.0, 10).reshape(3, 3)
    a = tensor(square, device)
    a += a.T
    same(a, square + square.T)
    a = tensor(square, device)
    a /= a[:, :1]
    near(a, square / square[:, :1], 1e-6)
    scalar = tensor(0.0, device)
    wide_view = scalar.broadcast_to(3)
    wide_view += 1
    same(wide_view, [1, 1, 1])
    same(scalar, 0.0)


# ------------------------------------------------------------------------------------- the graph


def test_shared_nodes_run_once(device: Any) -> None:
    """B37"""
    a = leaf(3.0, device)
    b = a + a
    (b * b).backward()
    same(a.grad, 24)
    x = leaf(1.0, device, bp.float64)
    y = x
    for _ in range(30):
        y = y + y
    y.backward()
    same(x.grad, 2.0**30)


def test_backward_twice(device: Any) -> None:
    """B38"""
    x = leaf(3.0, device)
    h = x * x
    y = h * h
    y.backward()
    with pytest.raises(GradientError, match=r"freed by an earlier backward; keep it"):
        y.backward()
    x.grad = None
    h = x * x
    y = h * h
    y.backward(retain_graph=True)
    same(x.grad, 108)
    y.backward()
    same(x.grad, 216)


class KeepsDouble(bp.Operation):
    """f(x) = 4 x**2, which keeps 2x for its gradient."""

    def forward(self, x: Any) -> Any:
        self.double = 2 * x
        return self.double * self.double

    def grad_fn(self, grad: Any) -> Any:
        return grad * 4 * self.double


def test_second_derivatives_through_kept_values(device: Any) -> None:
    """B40: right, or an error that says what is not tracked; never 1152"""
    for _ in range(2):
        x = leaf(3.0, device, bp.float64)
        loss = KeepsDouble.apply(x) ** 2
        loss.backward(create_graph=True)
        first = x.grad
        same(first, 1728.0)
        x.grad = None
        try:
            first.sum().backward()
        except GradientError as error:
            assert "KeepsDouble" in str(error)
        else:
            same(x.grad, 1728.0)


# ---------------------------------------------------------------------------------- clipping


def clipped(gradients: list[Any], **named: Any) -> list[Any]:
    parameters = [bp.nn.Parameter(bp.zeros(len(g))) for g in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = bp.Tensor(np.asarray(gradient, np.float32))
    bp.optim.clip_grad_norm_(parameters, 1.0, **named)
    return [parameter.grad for parameter in parameters]


def test_clipping_of_large_gradients() -> None:
    """B08"""
    (large,) = clipped([[1e20] * 100])
    near(large, [0.1] * 100, 1e-6)
    (largest,) = clipped([[3e38] * 4])
    near(largest, [0.5] * 4, 1e-6)
    (tiny,) = clipped([[1e-30] * 4])
    same(tiny, np.float32([1e-30] * 4))
    with pytest.raises(GradientError, match=r"not finite\n  in parameter 1"):
        clipped([[1.0], [INF, 1.0]])
    kept = clipped([[1.0], [INF, 1.0]], error_if_nonfinite=False)
    same(kept[0], [1.0])
    same(kept[1], [INF, 1.0])
