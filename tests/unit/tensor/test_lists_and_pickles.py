"""Tensors in lists, in pickles, in copies, and between processes."""

from __future__ import annotations

import copy
import math
import multiprocessing
import pickle

import numpy as np
import pytest

import bedplate as bp
from bedplate.dtypes import ALL

SHAPES = [(), (0,), (3,), (2, 0, 3), (2, 3)]


def values(shape: tuple[int, ...], dtype: bp.DType) -> np.ndarray:
    return (np.arange(math.prod(shape)) % 2).reshape(shape).astype(dtype.numpy)


def test_lists_of_tensors() -> None:
    a, b = bp.tensor([1.0, 2.0]), bp.tensor([3.0, 4.0], dtype=bp.float64)
    assert bp.tensor([a, b]).dtype is bp.float64
    assert bp.tensor([[a, b], [b, a]]).shape == (2, 2, 2)
    one = bp.tensor(1.0, dtype=bp.float16)
    assert bp.tensor([one, 2.0]).dtype is bp.float16
    assert bp.tensor([[one, 2.0], [3.0, 4]]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert bp.tensor([[one, 2.0], [3.0, 4.0]]).dtype is bp.float16
    assert bp.tensor((np.float64(1), one)).dtype is bp.float64
    assert not bp.tensor([bp.tensor(1.0, requires_grad=True)]).requires_grad
    with pytest.raises(bp.errors.ShapeError, match=r"data\[1\] has shape \(3,\)"):
        bp.tensor([a, bp.zeros(3)])


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pickles(dtype: bp.DType, shape: tuple[int, ...]) -> None:
    x = bp.tensor(values(shape, dtype))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        y = pickle.loads(pickle.dumps(x, protocol))
        assert (y.dtype, y.shape, y.tolist()) == (dtype, shape, x.tolist())
    assert copy.deepcopy(x).tolist() == x.tolist()


def test_pickles_of_views_and_parameters() -> None:
    x = bp.tensor(np.arange(12.0).reshape(3, 4), device="reference")
    y = pickle.loads(pickle.dumps(x.T[1:]))
    assert y.tolist() == x.numpy().T[1:].tolist()
    assert y.device == bp.Device("reference")
    for kept in (True, False):
        parameter = bp.nn.Parameter(bp.ones(2), requires_grad=kept)
        for again in (pickle.loads(pickle.dumps(parameter)), copy.deepcopy(parameter)):
            assert type(again) is bp.nn.Parameter
            assert again.requires_grad is kept
            assert again.is_leaf
    computed = bp.tensor([2.0], requires_grad=True) * 3
    assert pickle.loads(pickle.dumps(computed)).tolist() == [6.0]
    twice = [x, x]
    assert copy.deepcopy(twice)[0] is not x
    again = copy.deepcopy(twice)
    assert again[0] is again[1]


def flat(x: bp.Tensor) -> bp.Tensor:
    return x.reshape(-1)


def test_tensors_between_processes() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map(flat, [bp.tensor([1.0, 2.0]), bp.tensor([1 + 2j])])
    assert [x.tolist() for x in found] == [[1.0, 2.0], [1 + 2j]]
