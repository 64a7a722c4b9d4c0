"""NumPy's arrays, scalars and functions beside tensors: a tensor with its history, or an error."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import DTypeError


def test_functions_of_numpy_lose_no_gradient() -> None:
    x, y = bp.tensor([1.0, 2.0], requires_grad=True), bp.tensor([3.0, 4.0])
    for call in (
        lambda: np.concatenate([y, x]),
        lambda: np.mean(x),
        lambda: np.clip(y, a_min=x, a_max=None),
    ):
        with pytest.raises(TypeError, match=r"numpy\.\w+: a function of NumPy would lose the grad"):
            call()
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.exp(y)
    assert np.concatenate([y, x.detach()]).tolist() == [3.0, 4.0, 1.0, 2.0]
    assert np.mean(y) == 3.5
    assert np.pad(y, (0, 1)).shape == (3,)
    assert np.allclose(y, [3.0, 4.0])
    assert np.shape(y) == (2,)


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip
OTHERS = [
    np.array([3.0, 4.0], np.float32), np.array([[3.0], [4.0]]), np.float64(2), np.float32(2),
    np.int64(2), np.array(2), np.array([True, True]), np.uint8(3),
]  # fmt: skip


@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_numpy_on_either_side(function: Any, number: int) -> None:
    """B58"""
    other = OTHERS[number]
    x = bp.tensor(np.array([1.0, 2.0], np.float32), requires_grad=True)
    for left, right in ((x, other), (other, x)):
        result = function(left, right)
        assert type(result) is bp.Tensor
        plain = [np.asarray(side, np.float64) for side in (left, right)]
        np.testing.assert_allclose(result.numpy(), function(*plain), rtol=1e-6)
        if function in OPERATORS[:4]:
            assert result.requires_grad
            result.sum().backward()
    assert function not in OPERATORS[:4] or x.grad is not None


BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("function", BITS, ids=lambda f: f.__name__)
def test_numpy_integers_on_either_side(function: Any) -> None:
    """B58"""
    x, array = bp.tensor([5, 6]), np.array([1, 2])
    for other in (array, array[1], np.int8(1)):
        for left, right in ((x, other), (other, x)):
            result = function(left, right)
            assert type(result) is bp.Tensor
            assert result.tolist() == function(np.asarray(left), np.asarray(right)).tolist()


def test_products_with_arrays() -> None:
    """B58"""
    x, array = bp.tensor(np.eye(2), requires_grad=True), np.array([[1.0, 2.0], [3.0, 4.0]])
    for result in (x @ array, array @ x):
        assert type(result) is bp.Tensor
        assert result.requires_grad
        assert result.tolist() == array.tolist()


def test_in_place_with_arrays() -> None:
    """B58"""
    x, array = bp.tensor([1.0, 2.0]), np.array([10.0, 20.0], np.float32)
    same = x
    x += array
    assert x is same
    assert x.tolist() == [11.0, 22.0]
    with pytest.raises(TypeError, match="operand 'Tensor' does not support ufuncs"):
        array *= bp.tensor([2.0, 2.0])
    assert array.tolist() == [10.0, 20.0]


def test_arrays_that_are_no_numbers() -> None:
    """B58"""
    x = bp.tensor([1.0, 2.0])
    for other in (np.array(["a", "b"]), np.array([{}, None], object)):
        for left, right in ((x, other), (other, x)):
            with pytest.raises(DTypeError, match="unknown dtype"):
                left + right
