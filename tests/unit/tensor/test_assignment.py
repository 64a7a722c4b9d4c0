"""Assignment binds one tensor to a new value and leaves everybody else's alone."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import bedplate as bp

IN_PLACE = [
    "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor",
    "ilshift", "irshift",
]  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_as_the_plain_operator(name: str) -> None:
    integers = name in ("iand", "ior", "ixor", "ilshift", "irshift")
    x = bp.tensor([6, 7], dtype=bp.int64 if integers else bp.float64)
    before, held = x, x + 0
    plain = {"iand": "and_", "ior": "or_"}.get(name, name[1:])
    expected = getattr(operator, plain)(x, 2).tolist()
    x = getattr(operator, name)(x, 2)
    assert x is before
    assert x.tolist() == expected
    assert held.tolist() == [6, 7]


def test_matmul_in_place() -> None:
    x = bp.eye(2) * 2
    x @= bp.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_views_do_not_follow() -> None:
    """B34"""
    x = bp.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    v = y[1:]
    v *= 10
    assert v.tolist() == [20.0, 30.0]
    assert y.tolist() == [1.0, 2.0, 3.0]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_what_was_saved_stays() -> None:
    """B32"""
    x = bp.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    alias = y.detach()
    alias.zero_()
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1.0, 2.0]), rtol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: operator.iadd(x, 1),
        lambda x: operator.setitem(x, 0, 9.0),
        lambda x: x.assign([5.0, 5.0]),
        lambda x: x.zero_(),
    ],
)
def test_a_leaf_changes_only_inside_no_grad(change: Any) -> None:
    """B32"""
    x = bp.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(bp.errors.GradientError, match="leaf that requires a gradient"):
        change(x)
    assert x.tolist() == [1.0, 2.0]
    with bp.no_grad():
        change(x)
    assert x.tolist() != [1.0, 2.0]
    assert x.is_leaf
    assert x.requires_grad
    (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]


def test_history_comes_along() -> None:
    w = bp.tensor([2.0], requires_grad=True)
    x = bp.ones(1)
    x *= w
    x *= w
    x.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [4.0]


def test_shape_and_dtype_stay() -> None:
    x = bp.ones(3)
    with pytest.raises(bp.errors.ShapeError, match=r"x \+= y: the result has shape \(2, 3\)"):
        x += bp.ones((2, 3))
    counts = bp.tensor([1, 2])
    with pytest.raises(bp.errors.DTypeError, match="the result is float32, this tensor int64"):
        counts += 1.5
    half = bp.ones(2, dtype=bp.float16)
    half += bp.ones(2)
    assert half.dtype is bp.float16
    counts = bp.tensor([1, 2], dtype=bp.int32)
    counts += bp.tensor([1, 2])
    assert counts.dtype is bp.int32


def test_assign_takes_anything_of_the_shape() -> None:
    x = bp.zeros(2)
    assert x.assign(np.array([1, 2])) is x
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(bp.errors.ShapeError, match="assign"):
        x.assign([1.0])
