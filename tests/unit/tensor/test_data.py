"""What tensors are made from, and which dtype they get."""

from __future__ import annotations

import array
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import bedplate as bp


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (3, bp.int64, ()),
        (3.5, bp.float32, ()),
        (True, bp.bool_, ()),
        (1j, bp.complex64, ()),
        ([1, 2], bp.int64, (2,)),
        ([1, 2.0], bp.float32, (2,)),
        ([True, False], bp.bool_, (2,)),
        ([True, 2], bp.int64, (2,)),
        ([[1.0], [2.0]], bp.float32, (2, 1)),
        ([], bp.float32, (0,)),
        ([[], []], bp.float32, (2, 0)),
        (range(3), bp.int64, (3,)),
        ((1, 2), bp.int64, (2,)),
        (np.float64(2), bp.float64, ()),
        (np.arange(3, dtype=np.uint8), bp.uint8, (3,)),
        (np.zeros((2, 3)), bp.float64, (2, 3)),
        (np.zeros(2, ml_dtypes.bfloat16), bp.bfloat16, (2,)),
        ([np.float16(1), 2.0], bp.float16, (2,)),
        ([np.ones(2), np.ones(2)], bp.float64, (2, 2)),
        (array.array("i", [1, 2]), bp.int32, (2,)),
        (b"ab", bp.uint8, (2,)),
    ],
)
def test_dtype_and_shape(data: Any, dtype: bp.DType, shape: tuple[int, ...]) -> None:
    x = bp.tensor(data)
    assert x.dtype is dtype
    assert x.shape == shape


def test_values_arrive() -> None:
    assert bp.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert bp.tensor([0.1]).item() == float(np.float32(0.1))
    assert bp.tensor([0.1], dtype=bp.float64).item() == 0.1
    assert bp.tensor([bp.tensor([1, 2]), bp.tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert bp.tensor(2**63, dtype=bp.uint64).item() == 2**63


def test_data_is_copied() -> None:
    source = np.arange(3)
    x = bp.tensor(source)
    source[0] = 7
    assert x.tolist() == [0, 1, 2]
    out = x.numpy()
    out[0] = 9
    assert x.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "view", [lambda a: a.T, lambda a: a[::-1, ::2], lambda a: a.astype(">f8"), np.asfortranarray]
)
def test_any_layout(view: Any) -> None:
    source = view(np.arange(12.0).reshape(3, 4))
    x = bp.tensor(source)
    np.testing.assert_array_equal(x.numpy(), source)


def test_dtype_argument() -> None:
    assert bp.tensor([1, 2], dtype=bp.float16).dtype is bp.float16
    assert bp.tensor([1.7, -1.7, float("nan")], dtype="int32").tolist() == [1, -1, 0]
    assert bp.tensor(np.ones(2), dtype=np.float32).dtype is bp.float32
    assert bp.tensor(bp.ones(2), dtype=bp.int64).tolist() == [1, 1]


def test_another_tensor_shares_nothing() -> None:
    x = bp.tensor([1.0, 2.0], requires_grad=True)
    y = bp.Tensor(x)
    assert not y.requires_grad
    y += 1
    assert x.tolist() == [1.0, 2.0]


class HasArray:
    """An object of another library."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.arange(3.0)


def test_array_protocol() -> None:
    assert bp.tensor(HasArray()).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool", "float16", "complex64"])
def test_dlpack_there_and_back(dtype: str) -> None:
    source = np.array([[0, 1, 2], [3, 4, 5]], dtype)
    x = bp.from_dlpack(source)
    np.testing.assert_array_equal(x.numpy(), source)
    np.testing.assert_array_equal(np.from_dlpack(x), source)
    assert np.asarray(x).dtype == source.dtype


def test_numpy_sees_a_tensor_as_an_array() -> None:
    x = bp.tensor([1.0, 2.0])
    np.testing.assert_array_equal(np.asarray(x), [1.0, 2.0])
    assert np.asarray(x, np.float64).dtype == np.float64
    assert np.concatenate([x.numpy(), np.ones(1)]).shape == (3,)


def test_asarray() -> None:
    x = bp.ones(2)
    assert bp.asarray(x) is x
    assert bp.asarray(x, copy=True) is not x
    assert bp.asarray(x, dtype=bp.float64).dtype is bp.float64
    assert bp.asarray([1, 2]).tolist() == [1, 2]
    with pytest.raises(ValueError, match="copy=False"):
        bp.asarray([1, 2], copy=False)


def test_masked_arrays() -> None:
    whole = np.ma.array([1.0, 2.0], mask=[False, False])
    assert bp.tensor(whole).tolist() == [1.0, 2.0]
    assert (whole * bp.ones(2)).tolist() == [1.0, 2.0]
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    for use in (bp.tensor, lambda a: a * bp.ones(2), lambda a: bp.ones(2) * a):
        with pytest.raises(TypeError, match=r"elements of this array are masked(.|\n)*\.filled"):
            use(masked)
