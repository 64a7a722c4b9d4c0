"""What the tests of the contract share: tensors of given values, equality to the sign of zeros."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import bedplate as bp

INF, NAN = math.inf, math.nan
# one value alone, one vector, one vector with a tail, and more than one block
LENGTHS = (1, 16, 19, 4099)


def tensor(values: Any, device: Any, dtype: Any = bp.float32, grad: bool = False) -> Any:
    return bp.Tensor(np.asarray(values, dtype.numpy), device, requires_grad=grad)


def same(result: Any, wanted: Any) -> None:
    """Equal values, with NaN equal to NaN and the signs of zeros compared."""
    got = np.asarray(result.numpy())
    got = got.astype(np.float64) if got.dtype.kind not in "biu" else got
    expected = np.asarray(wanted)
    np.testing.assert_array_equal(got, expected)
    if got.dtype.kind == "f":
        zeros = got == 0
        expected = np.broadcast_to(expected.astype(np.float64), got.shape)
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]))


def near(result: Any, wanted: Any, relative: float = 1e-6, absolute: float = 0.0) -> None:
    """Equal values up to a rounding, with NaN and infinities where they should be."""
    got = np.asarray(result.numpy()).astype(np.float64)
    np.testing.assert_allclose(got, np.asarray(wanted, np.float64), rtol=relative, atol=absolute)


def spread(values: Any, length: int) -> list[Any]:
    """The values one after the other, `length` times each."""
    return [value for value in values for _ in range(length)]


def layouts(array: Any, device: Any, dtype: Any = bp.float32) -> Any:
    """One matrix in several layouts: as it is, turned, with steps, backwards."""
    array = np.asarray(array, dtype.numpy)
    yield tensor(array, device, dtype)
    yield tensor(array.T, device, dtype).T
    wide = np.repeat(np.repeat(array, 2, 0), 3, 1)
    yield tensor(wide, device, dtype)[::2, ::3]
    yield tensor(array[::-1, ::-1], device, dtype)[::-1, ::-1]
