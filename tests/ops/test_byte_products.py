"""Products of int8 and uint8, by the dot instruction of bytes and without it: exact integers."""

import numpy as np
import pytest
from tests.ops.test_matmul_kernels import LAYOUTS, product

from bedplate.config import config

BYTE_SHAPES = [
    (20, 3, 5), (17, 1, 1), (70, 129, 100), (90, 31, 70), (70, 4500, 40), (66, 9001, 33),
    (300, 64, 200), (70, 0, 5), (3, 33, 40),
]  # fmt: skip


def all_bytes(seed, dtype, *shape):
    """Over the whole range, with the extremes among them."""
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8).view(dtype)


@pytest.mark.parametrize("a_dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("b_dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("shape", BYTE_SHAPES, ids=str)
def test_bytes(a_dtype, b_dtype, shape):
    rows, depth, columns = shape
    a, b = all_bytes(30, a_dtype, rows, depth), all_bytes(31, b_dtype, depth, columns)
    expected = a.astype(np.int32) @ b.astype(np.int32)
    for a_layout in LAYOUTS.values():
        for b_layout in LAYOUTS.values():
            out = product(a_layout(a), b_layout(b), out_dtype=np.int32)
            np.testing.assert_array_equal(out, expected)
    with config(byte_dot=False):
        np.testing.assert_array_equal(product(a, b, out_dtype=np.int32), expected)
    if a_dtype is b_dtype:
        np.testing.assert_array_equal(product(a, b), expected.astype(a_dtype))


@pytest.mark.parametrize("value", [(-128, -128), (255, 255), (255, -128), (-128, 255)], ids=str)
def test_sums_of_bytes_wrap(value):
    a, b = (np.full((32, 140000), v, np.int8 if v < 0 else np.uint8) for v in value)
    expected = np.array(value[0] * value[1] * 140000).astype(np.int32)
    assert (product(a, b.T, out_dtype=np.int32) == expected).all()


def test_batches_of_bytes():
    a, b = all_bytes(32, np.int8, 3, 1, 40, 70), all_bytes(33, np.int8, 2, 70, 50)
    out = product(a, b, out_dtype=np.int32)
    np.testing.assert_array_equal(out, np.matmul(a.astype(np.int32), b.astype(np.int32)))
