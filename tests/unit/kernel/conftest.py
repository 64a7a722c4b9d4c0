"""What the tests of the kernel language share: sample values and the comparison of results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bedplate.kernel.arguments import numpy_dtype

N = 64


def sample(type_: Any, seed: int) -> np.ndarray[Any, Any]:
    """N values of a type, special ones among random ones, in random order."""
    generator = np.random.default_rng(seed)
    dtype = numpy_dtype(type_)
    if type_.is_float:
        values = generator.standard_normal(N) * 10 ** generator.uniform(-4, 4, N)
        values[:12] = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, -3e-8, 2.5, -2.5, 65504]
        with np.errstate(all="ignore"):
            return generator.permutation(values).astype(dtype)
    info = np.iinfo(dtype)
    array = generator.integers(info.min, info.max, N, dtype=dtype, endpoint=True)
    array[:7] = [0, 1, info.max, info.min, 2, 3, info.max - 1]
    if info.min < 0:
        array[7:9] = [-1, -2]
    array[16:32] = generator.integers(0, 2 * type_.bits, 16)  # amounts to shift by
    return generator.permutation(array)


def same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where two arrays hold the same number: the sign of zero counts, the kind of NaN does not."""
    if a.dtype.kind not in "fV":
        return a == b
    a, b = a.astype(np.float64), b.astype(np.float64)
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


@pytest.fixture
def samples() -> Callable[..., np.ndarray[Any, Any]]:
    return sample


@pytest.fixture
def assert_same() -> Callable[..., None]:
    def check(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], *inputs: Any) -> None:
        wrong = np.flatnonzero(~same(got, wanted))
        shown = [(*(x[i] for x in inputs), got[i], wanted[i]) for i in wrong[:4]]
        assert not len(wrong), f"(inputs, got, wanted): {shown}"

    return check
