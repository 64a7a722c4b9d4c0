"""Tensors made from a shape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import bedplate as bp


def test_constants() -> None:
    assert bp.zeros(2, 3).shape == bp.zeros((2, 3)).shape == (2, 3)
    assert bp.ones((2,), dtype=bp.int32).tolist() == [1, 1]
    assert bp.full((2,), 1.5).dtype is bp.float32
    assert bp.full((2,), True).dtype is bp.bool_
    assert bp.full(2, 3).tolist() == [3, 3]
    assert bp.zeros(()).item() == 0.0
    assert bp.empty((2, 0)).shape == (2, 0)
    assert bp.empty_like(bp.ones(2, dtype=bp.int8)).dtype is bp.int8
    assert bp.zeros(2, requires_grad=True).requires_grad


@pytest.mark.parametrize(
    "arguments", [(5,), (2, 7), (0, 1, 0.25), (5, 0, -2), (0,), (3, 1), (-2.0, 2.0)], ids=str
)
def test_arange(arguments: tuple[float, ...]) -> None:
    np.testing.assert_allclose(bp.arange(*arguments).numpy(), np.arange(*arguments), rtol=1e-6)


@pytest.mark.parametrize("numbers", [(0.0, float("inf")), (float("nan"),), (0, 1, -float("inf"))])
def test_arange_refuses_what_is_not_finite(numbers: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"arange: .* are no finite start, stop and step"):
        bp.arange(*numbers)


def test_arange_refuses() -> None:
    with pytest.raises(ValueError, match="step must not be 0"):
        bp.arange(0, 3, 0)
    with pytest.raises(bp.errors.DTypeError, match="arange"):
        bp.arange(3, dtype=bp.bool_)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 7])
def test_linspace(num: int, endpoint: bool) -> None:
    found = bp.linspace(-1, 2, num, dtype=bp.float64, endpoint=endpoint).numpy()
    np.testing.assert_allclose(found, np.linspace(-1, 2, num, endpoint=endpoint), atol=1e-15)


@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_eye(offset: int) -> None:
    np.testing.assert_array_equal(bp.eye(3, 4, offset).numpy(), np.eye(3, 4, offset))


def test_primitives_are_the_functions() -> None:
    for name in bp.functions.__all__:
        assert getattr(bp.TensorOps, name) is getattr(bp, name)
    with pytest.raises(AttributeError, match="TensorOps has no 'nothing'; there are"):
        bp.TensorOps.nothing


@pytest.mark.parametrize("make", [bp.zeros, bp.ones, bp.empty, bp.random.rand, bp.random.randn])
def test_shapes_that_cannot_be(make: Callable[..., bp.Tensor]) -> None:
    with pytest.raises(bp.errors.ShapeError, match=r"sizes must not be negative, got \(2, -1\)"):
        make(2, -1)
    with pytest.raises(TypeError, match="sizes are integers"):
        make(2, 1.5)
