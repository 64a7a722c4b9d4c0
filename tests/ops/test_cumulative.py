"""Scans at the edges: rows that are cut into blocks, threads, special values, axes, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import ShapeError
from bedplate.ops.scan.kernel import BLOCK

INF, NAN = math.inf, math.nan


def test_a_cut_row_has_the_same_bits_on_any_number_of_threads() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3 * BLOCK + 5)).astype(np.float32)
    results = []
    for threads in (1, 2):
        with bp.config(num_threads=threads):
            results.append(bp.cumsum(bp.tensor(x), 1).numpy().tobytes())
    assert results[0] == results[1]


@pytest.mark.parametrize("function", [bp.cumsum, bp.cummax, bp.cummin, bp.logcumsumexp])
@pytest.mark.parametrize("step", [1, -1, 2])
def test_a_cut_row_agrees_with_float64(function: Any, step: int) -> None:
    x = np.random.default_rng(0).standard_normal(2 * (2 * BLOCK + 3)).astype(np.float32)[::step]
    oracle = {
        bp.cumsum: np.cumsum,
        bp.cummax: np.maximum.accumulate,
        bp.cummin: np.minimum.accumulate,
        bp.logcumsumexp: np.logaddexp.accumulate,
    }[function]
    got = function(bp.tensor(x.copy()) if step > 0 else bp.flip(bp.tensor(x[::-1].copy())), 0)
    got = got[0] if isinstance(got, tuple) else got
    wanted = oracle(x.astype(np.float64))
    np.testing.assert_allclose(got.numpy(), wanted, rtol=2e-7, atol=2e-7)


def test_a_long_float32_sum_stays_exact() -> None:
    """B07: a sequential float32 accumulator stops at 16777216."""
    count = 17_000_000
    assert bp.cumsum(bp.ones(count), 0)[-1].item() == count


def test_products_around_zero_have_a_gradient(device: Any) -> None:
    """B26: no division by x."""
    for values, wanted in (
        ([2.0, 3, 0], [4, 2, 6]),
        ([2.0, 0, 0, 3], [1, 2, 0, 0]),
        ([0.0, 2, 3], [9, 0, 0]),
    ):
        x = bp.Tensor(np.array(values), device, requires_grad=True)
        bp.cumprod(x, 0).sum().backward()
        assert x.grad is not None and x.grad.tolist() == wanted


def test_extremes_keep_nan(device: Any) -> None:
    """B10."""
    x = bp.Tensor(np.array([1, 3, NAN, 5, 4]), device)
    for function, values, indices in (
        (bp.cummax, [1, 3, NAN, NAN, NAN], [0, 1, 2, 2, 2]),
        (bp.cummin, [1, 1, NAN, NAN, NAN], [0, 0, 2, 2, 2]),
    ):
        got = function(x, 0)
        np.testing.assert_array_equal(got.values.numpy(), values)
        assert got.indices.tolist() == indices


def test_the_gradient_of_an_extreme_goes_to_the_last(device: Any) -> None:
    x = bp.Tensor(np.array([[1.0, 3, 3, 2, NAN, 4, NAN]]), device, requires_grad=True)
    values, indices = bp.cummax(x, 1)
    assert indices.tolist() == [[0, 1, 2, 2, 4, 4, 6]]
    values.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[1, 1, 2, 0, 2, 0, 1]]
    assert bp.cummin(bp.Tensor([[2, 1], [1, 3]], device), 0).indices.tolist() == [[0, 0], [1, 0]]


def test_log_sums_start_from_nothing(device: Any) -> None:
    """B02: the running maximum must not be subtracted while it is -inf."""
    x = bp.Tensor(np.array([-INF, -INF, 0, 1]), device, requires_grad=True)
    y = bp.logcumsumexp(x, 0)
    np.testing.assert_allclose(y.numpy(), [-INF, -INF, 0, 1.313261687518], rtol=1e-12)
    y[2:].sum().backward()
    share = 1 / (1 + math.e)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [0, 0, 1 + share, 1 - share])


def test_words_of_the_array_api() -> None:
    x = bp.tensor([[1, 2], [3, 4]], dtype=bp.int8)
    assert bp.cumulative_sum(x, axis=1).dtype is bp.int64
    assert bp.cumulative_sum(x.astype(bp.uint8), axis=1).dtype is bp.uint64
    first = bp.cumulative_sum(x, axis=0, include_initial=True)
    assert first.tolist() == [[0, 0], [1, 2], [4, 6]]
    products = bp.cumulative_prod(x, axis=-1, include_initial=True, dtype=bp.float32)
    assert products.tolist() == [[1, 1, 2], [1, 3, 12]] and products.dtype is bp.float32
    assert bp.cumulative_sum(bp.zeros((0, 3)), axis=0, include_initial=True).shape == (1, 3)
    assert bp.cumsum(x).tolist() == [1, 3, 6, 10]
    assert bp.cumsum(x, **{"dim": 0}).tolist() == [[1, 2], [4, 6]]
    assert bp.cumsum(bp.tensor([True, True]), 0).tolist() == [1, 2]


def test_a_middle_axis() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    for axis in range(3):
        np.testing.assert_allclose(bp.cumsum(bp.tensor(x), axis).numpy(), np.cumsum(x, axis))


def test_refusals() -> None:
    with pytest.raises(ShapeError, match="an axis is needed unless there is exactly one"):
        bp.cumulative_sum(bp.zeros((2, 2)))
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        bp.cumsum(bp.zeros((2, 2)), 2)
    with pytest.raises(ShapeError, match="linear_recurrence: the shapes differ"):
        bp.linear_recurrence(bp.ones(2), bp.ones(3))


def test_a_zero_dimensional_value_has_no_axis() -> None:
    with pytest.raises(ShapeError, match="cumsum: axis 0 is out of range"):
        bp.cumsum(bp.tensor(1.0), 0)
    assert bp.cumsum(bp.tensor(3.0)).tolist() == [3.0]


def test_log_sums_of_complex_numbers(device: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 7)) + 1j * rng.standard_normal((3, 7))
    x[0, 0] = -INF
    got = bp.logcumsumexp(bp.Tensor(x, device), 1)
    np.testing.assert_allclose(bp.exp(got).numpy(), np.cumsum(np.exp(x), 1), rtol=1e-12)
    assert np.abs(got.numpy().imag).max() <= math.pi
    far = bp.logcumsumexp(bp.Tensor(np.array([900 + 1j, 900 + 1j, -900]), device), 0)
    np.testing.assert_allclose(far.numpy(), [900 + 1j, *2 * [900 + math.log(2) + 1j]], rtol=1e-12)


def test_gradients_of_complex_log_sums() -> None:
    x = np.random.default_rng(0).standard_normal((2, 4, 2))
    z = bp.tensor(x[..., 0] + 1j * x[..., 1])
    assert bp.gradcheck(lambda z: bp.logcumsumexp(z, 1), (z,))
    assert bp.gradcheck(lambda z: bp.logcumsumexp(z, None), (z.T,))
