"""Keys of integers, slices, None and ... against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.ops.indexing.slices import get_item, region, set_item

KEYS = [
    0,
    -1,
    slice(None),
    slice(1, 3),
    slice(None, None, -1),
    slice(4, 0, -2),
    slice(10, 20),
    slice(-2, None),
    slice(3, 1),
    (0, 1),
    (slice(None), 1),
    (..., 1),
    (1, ...),
    (None, 1),
    (slice(1, 4, 2), None, slice(None, None, -2)),
    (..., None),
    (slice(None), slice(None), 2),
    (2, slice(3, None, -1), -1),
    (),
    ...,
    (np.int64(1), np.int32(2)),
]
ARRAY = np.arange(5 * 4 * 3).reshape(5, 4, 3).astype(np.float32)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_reading(key: Any) -> None:
    result = get_item(bp.Tensor(ARRAY, "reference"), key)
    np.testing.assert_array_equal(result.numpy(), ARRAY[key])


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_writing(key: Any) -> None:
    wanted = ARRAY.copy()
    value = np.arange(wanted[key].size).reshape(wanted[key].shape).astype(np.float32) + 100
    wanted[key] = value
    x = bp.Tensor(ARRAY, "reference")
    result = set_item(x, key, bp.Tensor(value, "reference"))
    np.testing.assert_array_equal(result.numpy(), wanted)
    np.testing.assert_array_equal(x.numpy(), ARRAY)


def test_writing_broadcasts_and_casts() -> None:
    x = bp.zeros((2, 3), dtype=bp.int32, device="reference")
    result = set_item(x, (slice(None), 1), 2.0)
    np.testing.assert_array_equal(result.numpy(), [[0, 2, 0], [0, 2, 0]])
    mask = bp.Tensor(np.array([True, False]), "reference")
    masked = set_item(x, mask.reshape(2, 1), 7)
    np.testing.assert_array_equal(masked.numpy(), [[7, 7, 7], [0, 0, 0]])


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (5, IndexError, "index 5 is out of range for axis 0 of size 5"),
        ((0, -5), IndexError, "index -5 is out of range for axis 1 of size 4"),
        ((0, 0, 0, 0), IndexError, "4 indices for 3 axes"),
        ((..., ...), IndexError, "only one '...'"),
        ("a", TypeError, "'a' is no index"),
        (True, TypeError, "True is no index"),
        (1.0, TypeError, "1.0 is no index"),
    ],
)
def test_refused_keys(key: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text.replace(".", r"\.")):
        region(bp.Tensor(ARRAY, "reference"), key)


def test_value_that_does_not_fit() -> None:
    with pytest.raises(bp.errors.ShapeError, match=r"assignment: the value does not broadcast"):
        set_item(bp.Tensor(ARRAY, "reference"), 0, bp.zeros((5,), device="reference"))
