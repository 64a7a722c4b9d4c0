"""Indexing and assignment agree with NumPy, and what NumPy cannot say is right too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp

SOURCE = np.arange(60.0).reshape(3, 4, 5)
MASK = SOURCE % 3 == 0

KEYS: list[Any] = [
    0, -1, (1, 2), (1, 2, 3), ..., (..., 1), (1, ...), (slice(None), 1), None, (None, 0),
    (0, None, 1),
    slice(1, 3), slice(None, None, -1), slice(2, 0, -1), slice(5, 9), slice(-2, None),
    (slice(None), slice(1, 4, 2)), (slice(None, None, -2), ..., slice(4, None, -3)), (..., None),
    [0, 2], [2, 2, -1], (slice(None), [1, 3]), ([0, 1], [1, 2]), ([0, 1], slice(None), [1, 2]),
    (0, slice(None), [1, 2]), ([[0], [2]], [1, 3]), (slice(None), [0, 1], [1, 2]), (..., [0, 1]),
    (None, [0, 1]), (np.array([1, 0]), None), np.array(1), np.array([[0, 1], [1, 2]]), [],
    MASK, (slice(None), MASK[0, :, 0]), MASK[:, 0, 0], MASK[:, :, 0], (MASK[:, 0, 0], 1),
    (slice(None), slice(1, 3), [0, -1]), (1, [0, 2], slice(None, None, -1)), ([0, 2], ..., 1),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_get_as_numpy(key: Any) -> None:
    np.testing.assert_array_equal(bp.tensor(SOURCE)[key].numpy(), SOURCE[key])


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_set_as_numpy(key: Any) -> None:
    expected = SOURCE.copy()
    region = expected[key]
    values = -1.0 - np.arange(region.size).reshape(region.shape)
    expected[key] = values
    x = bp.tensor(SOURCE)
    y = x + 0
    x[key] = bp.tensor(values)
    np.testing.assert_array_equal(x.numpy(), expected)
    np.testing.assert_array_equal(y.numpy(), SOURCE)
    x = bp.tensor(SOURCE)
    x[key] = 7
    expected = SOURCE.copy()
    expected[key] = 7
    np.testing.assert_array_equal(x.numpy(), expected)


def test_tensor_keys() -> None:
    x = bp.tensor(SOURCE)
    index = bp.tensor([2, 0, -1])
    np.testing.assert_array_equal(x[index].numpy(), SOURCE[[2, 0, -1]])
    np.testing.assert_array_equal(x[:, index].numpy(), SOURCE[:, [2, 0, -1]])
    np.testing.assert_array_equal(x[index, 1].numpy(), SOURCE[[2, 0, -1], 1])
    np.testing.assert_array_equal(x[bp.tensor(1)].numpy(), SOURCE[1])
    np.testing.assert_array_equal(x[x > 30].numpy(), SOURCE[SOURCE > 30])
    np.testing.assert_array_equal(x[index, index].numpy(), SOURCE[[2, 0, -1], [2, 0, -1]])


@pytest.mark.parametrize(
    "key", [3, -4, (0, 4), [0, 3], (slice(None), [-5]), np.array([7])], ids=str
)
def test_out_of_range_at_once(key: Any) -> None:
    with pytest.raises(IndexError, match=r"index -?\d is out of range for axis [01] of size [34]"):
        bp.tensor(SOURCE)[key]
    with pytest.raises(IndexError, match="out of range"):
        bp.tensor(SOURCE)[key] = 0


@pytest.mark.parametrize("index", [3, -4])
def test_out_of_range_when_computed(index: int) -> None:
    """B29"""
    x = bp.tensor(SOURCE)
    result = x[bp.tensor([0, index])]
    for _ in range(2):
        with pytest.raises(IndexError, match=rf"index {index} is out of range.*3"):
            result.numpy()
    assert x[0, 0, 0].item() == 0.0


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ((0, 0, 0, 0), "4 indices for 3 axes"),
        ((..., ...), "only one"),
        (1.5, "1.5 is no index"),
        ([1.5], "an index is an integer or a bool, not float"),
        ((True, 0), "a single bool is no index"),
        (np.array([2**64 - 1], np.uint64), "index 9223372036854775807 is out of range"),
        (np.ones(2, bool), "a mask of length 2 does not fit axis 0 of size 3"),
        (([0, 1], [0, 1, 2]), "do not broadcast"),
    ],
)
def test_refused_keys(key: Any, text: str) -> None:
    with pytest.raises((IndexError, TypeError), match=text):
        bp.tensor(SOURCE)[key]


@pytest.mark.parametrize(
    "key",
    [
        True, False, np.True_, ((0, 1), (1, 2)), ([0, 1], (1, 2)), range(2),
        (slice(None), range(1)), ((), 0), (..., (1, 0)), ((-1, 0), None, range(2)),
    ],
    ids=repr,
)  # fmt: skip
def test_keys_that_numpy_takes(key: Any) -> None:
    """B14: conditions, tuples and ranges."""
    x = bp.tensor(SOURCE)
    np.testing.assert_array_equal(x[key].numpy(), SOURCE[key])
    changed, wanted = bp.tensor(SOURCE), SOURCE.copy()
    changed[key] = 5
    wanted[key] = 5
    np.testing.assert_array_equal(changed.numpy(), wanted)


def test_an_index_beyond_int64_is_no_negative_one() -> None:
    """B14: 2**64 - 1 read the last element."""
    x, index = bp.arange(3), bp.tensor([2**64 - 1], dtype=bp.uint64)
    takers: list[Any] = [
        lambda: x[index],
        lambda: bp.take(x, index),
        lambda: bp.gather(x, 0, index),
        lambda: bp.index_select(x, 0, index),
        lambda: bp.embedding(index, bp.ones((3, 2))),
        lambda: bp.index_fill(x, 0, index, 1),
        lambda: bp.scatter(x, 0, index, bp.arange(1)),
        lambda: bp.nn.functional.one_hot(index, 3),
    ]
    for taker in takers:
        with pytest.raises(IndexError, match=r"index 9223372036854775807 is out of range"):
            taker().numpy()
    assert x[bp.tensor([2], dtype=bp.uint64)].tolist() == [2]


def test_refused_values() -> None:
    x = bp.zeros((2, 3))
    with pytest.raises(bp.errors.ShapeError, match=r"\(2,\)"):
        x[0] = bp.ones(2)
    with pytest.raises(bp.errors.ShapeError, match="does not broadcast"):
        x[[0, 1]] = bp.ones(2)
    counts = bp.tensor([1, 2])
    with pytest.raises(bp.errors.DTypeError, match="an assignment keeps the dtype"):
        counts[0] = 1.5
    with pytest.raises(bp.errors.DTypeError, match="v is float32, x is int64"):
        counts[0] = bp.tensor(1.5)
    assert counts.tolist() == [1, 2]


def test_gradient_of_indexing() -> None:
    x = bp.tensor(SOURCE, requires_grad=True)
    (x[[2, 2, 0], 1] * bp.tensor([1.0, 10.0, 100.0])[:, None]).sum().backward()
    expected = np.zeros_like(SOURCE)
    expected[2, 1] = 11
    expected[0, 1] = 100
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_last_write_wins() -> None:
    """B28"""
    source = bp.tensor([1.0, 2.0, 5.0], requires_grad=True)
    x = bp.zeros(3)
    x[bp.tensor([0, 0, 2])] = source
    assert x.tolist() == [2.0, 0.0, 5.0]
    x.sum().backward()
    assert source.grad is not None
    assert source.grad.tolist() == [0.0, 1.0, 1.0]


def test_gradient_of_assignment() -> None:
    base = bp.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    value = bp.tensor(5.0, requires_grad=True)
    x = base * 1
    x[1:3] = value * 2
    (x * bp.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert base.grad is not None
    assert value.grad is not None
    assert base.grad.tolist() == [1.0, 0.0, 0.0, 1000.0]
    assert value.grad.item() == 220.0


def test_assignments_that_overlap() -> None:
    """B35"""
    a = bp.arange(6)
    a[1:] += a[:-1]
    assert a.tolist() == [0, 1, 3, 5, 7, 9]
    a = bp.arange(9).reshape(3, 3)
    a[:, 1:] = a[:, :-1]
    assert a.tolist() == [[0, 0, 1], [3, 3, 4], [6, 6, 7]]
    a = bp.arange(9).reshape(3, 3)
    expected = a.numpy() + a.numpy().T
    a += a.T
    assert a.tolist() == expected.tolist()
    a = bp.arange(1, 10).reshape(3, 3).astype(bp.float64)
    expected = a.numpy() / a.numpy()[:, :1]
    a /= a[:, :1]
    np.testing.assert_array_equal(a.numpy(), expected)


def test_indices_into_nothing() -> None:
    empty = bp.zeros((0, 3))
    with pytest.raises(IndexError, match="out of range for size 0"):
        empty[bp.tensor([0])]
    with pytest.raises(IndexError, match="out of range for axis 0 of size 0"):
        empty[[0]]
    with pytest.raises(IndexError, match="out of range for size 0"):
        bp.take(bp.zeros(0), -5)
    assert empty[bp.zeros(0, dtype=bp.int64)].shape == (0, 3)
    assert bp.zeros((2, 0))[[1, 1]].numpy().shape == (2, 0)
