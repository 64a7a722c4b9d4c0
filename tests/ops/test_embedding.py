"""Rows by id: embeddings, their padding, bags, one-hot rows, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import ShapeError
from bedplate.nn import functional as F

RNG = np.random.default_rng(0)


def test_embedding_leaves_its_padding_alone(device: Any) -> None:
    weight = bp.Tensor(np.arange(6.0).reshape(3, 2), device, requires_grad=True)
    ids = bp.Tensor(np.array([[0, 2], [2, 1]]), device)
    y = F.embedding(ids, weight, padding_idx=-1)
    assert y.tolist() == [[[0, 1], [4, 5]], [[4, 5], [2, 3]]]
    y.sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [[1, 1], [1, 1], [0, 0]]


def test_embedding_bags(device: Any) -> None:
    weight = RNG.normal(size=(5, 3))
    ids, offsets = np.array([0, 2, 2, 4, 1, 1]), np.array([0, 3, 3, 4])
    bags = [ids[0:3], ids[3:3], ids[3:4], ids[4:]]
    factors = RNG.normal(size=6)
    w, i, o = (bp.Tensor(a, device) for a in (weight, ids, offsets))
    for mode, join in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
        wanted = [join(weight[bag], 0) if bag.size else np.zeros(3) for bag in bags]
        got = F.embedding_bag(i, w, o, mode)
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-13)
        rest = [bag[bag != 2] for bag in bags]
        wanted = [join(weight[bag], 0) if bag.size else np.zeros(3) for bag in rest]
        got = F.embedding_bag(i, w, o, mode, padding_idx=-3)
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-13)
        assert bp.gradcheck(
            lambda w, m=mode: F.embedding_bag(bp.tensor(ids), w, bp.tensor(offsets), m),
            bp.tensor(weight),
        )
        table = F.embedding_bag(i.reshape(3, 2), w, None, mode).numpy()
        np.testing.assert_allclose(table, join(weight[ids.reshape(3, 2)], 1), rtol=1e-13)
    ends = bp.Tensor(np.append(offsets, 6), device)
    scaled = F.embedding_bag(i, w, ends, "sum", bp.Tensor(factors, device), True).numpy()
    np.testing.assert_allclose(scaled[3], factors[4:] @ weight[ids[4:]], rtol=1e-13)
    with pytest.raises(IndexError, match="embedding_bag: bag: index -1 is out of range"):
        F.embedding_bag(i, w, o + 1).numpy()


def test_one_hot_of_ids() -> None:
    assert F.one_hot(bp.tensor([1, 0]), 3).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert F.one_hot(bp.tensor([[2]])).tolist() == [[[0, 0, 1]]]
    assert F.one_hot(bp.tensor([0])).dtype is bp.int64
    with pytest.raises(IndexError, match="one_hot: class: index 3 is out of range for size 3"):
        F.one_hot(bp.tensor([3]), 3).numpy()


def test_ids_are_never_negative(device: Any) -> None:
    """B29."""
    weight = bp.Tensor(np.ones((3, 2)), device)
    for index in (3, -1):
        text = f"embedding: axis 0: index {index} is out of range for size 3"
        with pytest.raises(IndexError, match=text):
            F.embedding(bp.Tensor(np.array([index]), device), weight).numpy()


def test_refusals() -> None:
    x, index = bp.ones((2, 3)), bp.zeros((2, 3), dtype=bp.int64)
    row = bp.tensor([0])
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (IndexError, "padding_idx 7 is out of range for size 2",
         lambda: F.embedding(row, x, padding_idx=7)),
        (ValueError, "embedding_bag: mode must be one of",
         lambda: F.embedding_bag(index, x, mode="min")),
        (ValueError, "weights go with mode 'sum', not with 'mean'",
         lambda: F.embedding_bag(index, x, per_sample_weights=x)),
        (ShapeError, "the weights have not the shape of the ids",
         lambda: F.embedding_bag(index, x, None, "sum", x[0])),
        (ShapeError, "embedding_bag: the bags are not told", lambda: F.embedding_bag(row, x)),
        (ShapeError, "embedding: the weight must have two axes",
         lambda: F.embedding(row, bp.ones(3))),
    ]  # fmt: skip
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()
