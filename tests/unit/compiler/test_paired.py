"""A stride of 2 along the columns: every length, read and written, to the last byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.compiler.program import PAIRED
from bedplate.compiler.uses import inner_pattern

LENGTHS = [1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 65, 130]
DTYPES = [np.float64, np.float32, np.float16, np.int8, np.int64, np.uint16, np.bool_]


@pytest.fixture(params=[False, True], ids=["fast", "checked"])
def checked(request: pytest.FixtureRequest) -> Any:
    with bp.config(check=request.param):
        yield


def test_a_stride_of_two_is_a_pattern_of_its_own() -> None:
    assert inner_pattern(2) == PAIRED != inner_pattern(3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_other_element_is_read(dtype: Any, checked: Any) -> None:
    for length in LENGTHS:
        x = (np.arange(2 * length) % 101).astype(dtype)
        for first in (0, 1):
            got = bp.equal(bp.tensor(x)[first::2], 1)
            np.testing.assert_array_equal(got.numpy(), x[first::2] == 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_other_element_is_written_and_no_other(dtype: Any, checked: Any) -> None:
    for length in LENGTHS:
        x = (np.arange(2 * length) % 101).astype(dtype)
        for first in (0, 1):
            y, wanted = bp.tensor(x), x.copy()
            y[first::2] = bp.where(bp.tensor(x)[:length] != 0, y[1 - first :: 2], False)
            wanted[first::2] = np.where(x[:length] != 0, x[1 - first :: 2], False)
            np.testing.assert_array_equal(y.numpy(), wanted)


def test_rows_of_pairs_and_sums_over_them(checked: Any) -> None:
    for length in LENGTHS:
        x = np.random.default_rng(length).normal(size=(5, 2 * length))
        y = bp.tensor(x)[:, 1::2]
        np.testing.assert_allclose((y * 2).numpy(), x[:, 1::2] * 2)
        np.testing.assert_allclose(y.sum(axis=1).numpy(), x[:, 1::2].sum(1), rtol=1e-12)
        np.testing.assert_allclose(bp.softmax(y, -1).sum(axis=1).numpy(), np.ones(5), rtol=1e-12)
