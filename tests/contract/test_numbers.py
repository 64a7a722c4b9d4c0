"""What every device must say where others went wrong: numbers, case by case, with neighbours.

B01, B02, ... count the reports of wrong values elsewhere that the contract was drawn from;
docs/numeric-contract.md says the same for people.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.contract.values import INF, LENGTHS, NAN, layouts, near, same, spread, tensor

import bedplate as bp

FLOATS = (bp.float16, bp.bfloat16, bp.float32, bp.float64)
LOG_1_E = math.log(1 + math.e)  # logsumexp of 0 and 1
EPSILON = {bp.float16: 1e-3, bp.bfloat16: 8e-3, bp.float32: 2e-7, bp.float64: 4e-16}

floats = pytest.mark.parametrize("dtype", FLOATS, ids=str)
lengths = pytest.mark.parametrize("length", LENGTHS)


# ---------------------------------------------------------------- infinities in sums of logs


@floats
def test_logsumexp_of_infinities(device: Any, dtype: Any) -> None:
    """B01"""
    rows = [[-INF, -INF, -INF], [-INF, 0.0, 1.0], [0.0, INF, 0.0], [NAN, 0.0, 1.0]]
    for x in layouts(rows, device, dtype):
        near(bp.logsumexp(x, axis=1), [-INF, LOG_1_E, INF, NAN], EPSILON[dtype])
        near(bp.logsumexp(x.T, axis=0), [-INF, LOG_1_E, INF, NAN], EPSILON[dtype])
    x = tensor(rows[:2], device, dtype, grad=True)
    bp.logsumexp(x, axis=1).sum().backward()
    near(x.grad, [[0, 0, 0], [0, 1 / (1 + math.e), math.e / (1 + math.e)]], EPSILON[dtype])
    same(bp.logsumexp(tensor(np.zeros((2, 0)), device, dtype), axis=1), [-INF, -INF])


@lengths
def test_logsumexp_of_long_rows_of_infinities(device: Any, length: int) -> None:
    """B01"""
    x = tensor(np.full((2, length), -INF), device, grad=True)
    y = bp.logsumexp(x, axis=1)
    same(y, [-INF, -INF])
    (y * tensor([1.0, 0.0], device)).sum().backward()
    same(x.grad, np.zeros((2, length)))
    rows = np.full((1, length), -INF)
    rows[0, -1] = 3.0
    same(bp.logsumexp(tensor(rows, device), axis=1), [3.0])


@pytest.mark.parametrize("dtype", [bp.float32, bp.float64], ids=str)
@pytest.mark.parametrize("before", [0, 2, 17, 300])
def test_logcumsumexp_after_infinities(device: Any, dtype: Any, before: int) -> None:
    """B02"""
    x = tensor([-INF] * before + [0.0, 1.0], device, dtype)
    near(bp.logcumsumexp(x, axis=0), [-INF] * before + [0.0, LOG_1_E], 4 * EPSILON[dtype])
    same(bp.logcumsumexp(tensor([-INF, INF, 0.0], device, dtype), axis=0), [-INF, INF, INF])


# ------------------------------------------------------------------------- sums and spreads


def test_variance_with_a_large_mean(device: Any) -> None:
    """B04"""
    x = tensor([1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16], device, bp.float64)
    assert bp.var(x, correction=1).item() == 30
    assert bp.var(x).item() == 22.5
    near(bp.std(x, correction=1), 30**0.5, 1e-15)
    columns = bp.stack([x, x + 1e9], axis=1)
    same(bp.var(columns, axis=0), [22.5, 22.5])
    assert bp.var(tensor([10000, 10001, 10002, 10003], device)).item() == 1.25
    same(bp.var(tensor([[10000, 10001, 10002, 10003]] * 5, device), axis=1), [1.25] * 5)


@lengths
def test_variance_of_what_is_equal(device: Any, length: int) -> None:
    """B04"""
    for dtype in FLOATS:
        same(bp.var(tensor(np.full((2, length), 777.0), device, dtype), axis=1), [0.0, 0.0])


def test_half_precision_is_accumulated_wide(device: Any) -> None:
    """B05"""
    x = tensor([40000.0] * 3, device, bp.float16)
    assert bp.mean(x).item() == 40000
    assert bp.var(x).item() == 0
    assert bp.sum(x).item() == INF
    ones = bp.ones((5000,), dtype=bp.bfloat16, device=device)
    assert bp.mean(ones).item() == 1
    assert bp.sum(ones).item() == 4992  # 5000 rounded once; one by one it stops at 256
    rows = tensor(np.full((3, 4099), 40000.0), device, bp.float16)
    same(bp.mean(rows, axis=1), [40000] * 3)
    same(bp.mean(rows, axis=0), [40000] * 4099)


def test_long_sums_do_not_stop_growing(device: Any) -> None:
    """B07, at a length that a sequential float32 sum gets wrong already"""
    ones = bp.ones((2, 17_000_000 // 2 + 100_000), device=device)
    assert bp.sum(ones).item() == 17_200_000


def test_long_sums_along_a_strided_axis(device: Any) -> None:
    """B07"""
    ones = bp.ones((17_000_000, 2), device=device)
    same(bp.sum(ones, axis=0), [17_000_000, 17_000_000])


def test_empty_sums_and_products(device: Any) -> None:
    empty = bp.zeros((2, 0), device=device)
    same(bp.sum(empty, axis=1), [0, 0])
    same(bp.prod(empty, axis=1), [1, 1])
    same(bp.all(empty, axis=1), [True, True])
    same(bp.any(empty, axis=1), [False, False])
    same(bp.mean(empty, axis=1), [NAN, NAN])
    for choose in (bp.max, bp.min, bp.argmax, bp.argmin):
        with pytest.raises(bp.errors.ShapeError, match="nothing to choose from"):
            choose(empty, axis=1)


def test_products_of_nothing(device: Any) -> None:
    """B13"""
    for batch in ((), (3,), (2, 1)):
        a = bp.zeros((*batch, 4, 0), device=device, requires_grad=True)
        b = bp.zeros((*batch, 0, 4), device=device, requires_grad=True)
        garbage = [bp.full((64,), NAN, device=device) + 0 for _ in range(8)]
        for x in garbage:
            x.realise()
        del garbage, x
        product = a @ b
        same(product, np.zeros((*batch, 4, 4)))
        product.sum().backward()
        assert (a.grad.shape, b.grad.shape) == ((*batch, 4, 0), (*batch, 0, 4))
        same(b.T @ a.T if not batch else b.mT @ a.mT, np.zeros((*batch, 4, 4)))
    assert (bp.zeros((0, 4), device=device) @ bp.zeros((4, 3), device=device)).shape == (0, 3)
    assert (bp.zeros((0, 2, 4), device=device) @ bp.zeros((4, 3), device=device)).numpy().size == 0


# -------------------------------------------------------------------------- NaN is not lost


@floats
def test_nan_is_never_lost(device: Any, dtype: Any) -> None:
    """B10, B49"""
    same(bp.clip(tensor([NAN, 2.0, -2.0], device, dtype), -1, 1), [NAN, 1, -1])
    same(bp.relu(tensor([NAN, -1.0, 1.0], device, dtype)), [NAN, 0, 1])
    for op in (bp.minimum, bp.maximum):
        same(op(tensor([NAN, 1.0], device, dtype), tensor([1.0, NAN], device, dtype)), [NAN, NAN])
    for op in (bp.min, bp.max):
        for x in layouts([[1.0, NAN, 3.0]] * 3, device, dtype):
            same(op(x, axis=1), [NAN] * 3)
            same(op(x, axis=0), [1, NAN, 3])
    for op in (bp.argmin, bp.argmax):
        same(op(tensor([[1.0, NAN, NAN, 3.0]], device, dtype), axis=1), [1])
    same(
        bp.cummax(tensor([1.0, 3, NAN, 5, 4], device, dtype), axis=0).values, [1, 3, NAN, NAN, NAN]
    )
    same(
        bp.cummin(tensor([5.0, 3, NAN, 1, 4], device, dtype), axis=0).values, [5, 3, NAN, NAN, NAN]
    )
    x = tensor([[[1.0, NAN, 3.0, 4.0]]], device, dtype)
    same(bp.nn.functional.max_pool1d(x, 2), [[[NAN, 4]]])


@lengths
def test_one_nan_anywhere_is_found(device: Any, length: int) -> None:
    """B10, B49"""
    for place in {0, length // 2, length - 1}:
        row = np.arange(length, dtype=np.float32)
        row[place] = NAN
        x = tensor(row, device)
        for op in (bp.min, bp.max, bp.sum, bp.prod, bp.mean):
            same(op(x), NAN)
        assert bp.argmax(x).item() == bp.argmin(x).item() == place
        same(bp.isnan(x).sum(), 1)
        same((x != x).sum(), 1)


@lengths
def test_questions_about_nan_and_infinity(device: Any, length: int) -> None:
    """B49"""
    for dtype in FLOATS:
        x = tensor(spread([NAN, INF, -INF, 1.0], length), device, dtype)
        same(bp.isnan(x), spread([True, False, False, False], length))
        same(bp.isinf(x), spread([False, True, True, False], length))
        same(bp.isfinite(x), spread([False, False, False, True], length))
        same(bp.not_equal(x, x), spread([True, False, False, False], length))
        same(bp.where(bp.isnan(x), bp.zeros_like(x), x), spread([0, INF, -INF, 1], length))
        same(bp.clip(x, -2, 2), spread([NAN, 2, -2, 1], length))


@floats
@pytest.mark.parametrize("low, high", [(0.0, -0.0), (-0.0, 0.0), (-1.0, 1.0), (0.0, 1.0)])
def test_a_zero_within_the_bounds_of_clip_keeps_its_sign(
    device: Any, dtype: Any, low: float, high: float
) -> None:
    for length in LENGTHS:
        x = tensor(spread([0.0, -0.0], length), device, dtype)
        for bounds in ((low, high), (tensor(low, device, dtype), tensor(high, device, dtype))):
            got = bp.clip(x, *bounds).astype(bp.float32).numpy()
            np.testing.assert_array_equal(np.signbit(got), spread([False, True], length))


@floats
def test_sorting_keeps_every_value(device: Any, dtype: Any) -> None:
    """B11"""
    x = tensor([3.0, NAN, 1.0], device, dtype)
    same(bp.sort(x), [1, 3, NAN])
    same(bp.argsort(x), [2, 0, 1])
    same(bp.argsort(tensor([NAN, 3.0, 1.0, NAN], device, dtype)), [2, 1, 0, 3])
    same(bp.sort(x, descending=True), [NAN, 3, 1])
    values, places = bp.topk(tensor([3.0, NAN, 1.0, 2.0], device, dtype), 2)
    same(places, [1, 0])
    same(values, [NAN, 3])
    zeros = tensor([0.0, -0.0, 0.0, -0.0], device, dtype)
    same(bp.argsort(zeros), [0, 1, 2, 3])
    same(bp.sort(tensor([INF, -INF, NAN, 0.0], device, dtype)), [-INF, 0, INF, NAN])


@pytest.mark.parametrize("length", [1, 16, 19, 4099, 70_001])
def test_sorting_gives_a_permutation(device: Any, length: int) -> None:
    """B11"""
    generator = np.random.default_rng(length)
    array = generator.integers(-50, 50, length).astype(np.float32)
    array[generator.integers(0, length, length // 10)] = NAN
    x = tensor(array, device)
    order = bp.argsort(x).numpy()
    assert sorted(order) == list(range(length))
    np.testing.assert_array_equal(order, np.argsort(array, stable=True))
    same(bp.sort(x), np.sort(array))


# ------------------------------------------------------------------------------ real numbers


@pytest.mark.parametrize("dtype", [bp.float32, bp.float64], ids=str)
@lengths
def test_remainder_of_floats(device: Any, dtype: Any, length: int) -> None:
    """B19"""
    a = tensor(spread([-0.0, 0.0, -1.0, 1.0, 1.0, -1e-17, INF], length), device, dtype)
    b = tensor(spread([3.0, -3.0, INF, -INF, 0.0, 1.0, 2.0], length), device, dtype)
    same(bp.remainder(a, b), spread([0.0, -0.0, INF, -INF, NAN, 1.0, NAN], length))
    same(bp.fmod(a[: 4 * length], b[: 4 * length]), spread([-0.0, 0.0, -1.0, 1.0], length))


@floats
@lengths
def test_no_rewrite_changes_a_float(device: Any, dtype: Any, length: int) -> None:
    """B50"""
    x = tensor(spread([INF, NAN, -1.0, 2.0], length), device, dtype)
    same(x * 0, spread([NAN, NAN, -0.0, 0.0], length))
    same(x - x, spread([NAN, NAN, 0.0, 0.0], length))
    same(x / x, spread([NAN, NAN, 1.0, 1.0], length))
    zero = tensor(spread([-0.0], length), device, dtype)
    same(zero / zero, spread([NAN], length))
    same(zero + 0.0, spread([0.0], length))
    same(zero - 0.0, spread([-0.0], length))
    same(0.0 - zero, spread([0.0], length))
    same(-(zero - zero), spread([-0.0], length))
    same(zero * 1, spread([-0.0], length))
    same(zero**0.5, spread([0.0], length))
    same(bp.sqrt(zero), spread([-0.0], length))
    same(x[: 3 * length] ** 0.5, spread([INF, NAN, NAN], length))
    same(x**0, spread([1.0, 1.0, 1.0, 1.0], length))


def test_products_are_not_contracted(device: Any) -> None:
    """B50: a*b - c*d is rounded at each step, so it is 0 where a*b is c*d"""
    generator = np.random.default_rng(0)
    for dtype in (bp.float32, bp.float64):
        a, b = (tensor(generator.normal(size=1000), device, dtype) for _ in range(2))
        same(a * b - b * a, np.zeros(1000))
        same(a * b + (-b) * a, np.zeros(1000))


@pytest.mark.parametrize("dtype", [bp.float32, bp.float64, bp.bfloat16], ids=str)
@lengths
def test_denormals_are_kept(device: Any, dtype: Any, length: int) -> None:
    tiny = 2.0**-1070 if dtype is bp.float64 else 2.0**-130
    x = tensor(spread([tiny, -tiny], length), device, dtype)
    same(x * 1.0, spread([tiny, -tiny], length))
    same(x * 2.0, spread([2 * tiny, -2 * tiny], length))
    same(x + x, spread([2 * tiny, -2 * tiny], length))
    same(x.max(), tiny)
