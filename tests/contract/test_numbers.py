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
from bedplate.ops import random as draws
from bedplate.ops.random import unit

FLOATS = (bp.float16, bp.bfloat16, bp.float32, bp.float64)
SIGNED = (bp.int8, bp.int16, bp.int32, bp.int64)
LOG_1_E = math.log(1 + math.e)  # logsumexp of 0 and 1
EPSILON = {bp.float16: 1e-3, bp.bfloat16: 8e-3, bp.float32: 2e-7, bp.float64: 4e-16}

floats = pytest.mark.parametrize("dtype", FLOATS, ids=str)
signed = pytest.mark.parametrize("dtype", SIGNED, ids=str)
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


# --------------------------------------------------------------------------------- integers


@signed
@lengths
def test_signs_of_integer_division(device: Any, dtype: Any, length: int) -> None:
    """B14"""
    a = tensor(spread([7, -7, 7, -7], length), device, dtype)
    b = tensor(spread([2, 2, -2, -2], length), device, dtype)
    same(a // b, spread([3, -4, -4, 3], length))
    same(a % b, spread([1, 1, -1, -1], length))
    same(bp.fmod(a, b), spread([1, -1, 1, -1], length))
    same(a[:length] // -2, spread([-4], length))  # a divisor that the compiler knows
    same(a[length : 2 * length] % 2, spread([1], length))
    same((a // b) * b + a % b, spread([7, -7, 7, -7], length))


def test_division_of_indices(device: Any) -> None:
    """B14: counting numbers are folded into the kernel, and must divide as data do"""
    down = 5 - bp.arange(10, device=device)
    same(down // 3, np.arange(5, -5, -1) // 3)
    same(down % 3, np.arange(5, -5, -1) % 3)
    same(down // -3, np.arange(5, -5, -1) // -3)
    same(down % -3, np.arange(5, -5, -1) % -3)


@signed
@lengths
def test_integer_division_that_traps_elsewhere(device: Any, dtype: Any, length: int) -> None:
    """B16: division by 0 gives 0, the least integer by -1 wraps; nothing stops the process"""
    least = int(np.iinfo(dtype.numpy).min)
    a = tensor(spread([least, 5, -5, 0], length), device, dtype)
    b = tensor(spread([-1, 0, 0, 0], length), device, dtype)
    same(a // b, spread([least, 0, 0, 0], length))
    same(a % b, spread([0, 0, 0, 0], length))
    same(bp.fmod(a, b), spread([0, 0, 0, 0], length))
    same(a // -1, spread([least, -5, 5, 0], length))
    same(a % -1, spread([0, 0, 0, 0], length))
    same(a // 0, spread([0, 0, 0, 0], length))
    same(-a, spread([least, -5, 5, 0], length))
    same(bp.abs(a), spread([least, 5, 5, 0], length))


@pytest.mark.parametrize("dtype", [bp.uint8, bp.uint16, bp.uint32, bp.uint64], ids=str)
def test_unsigned_division(device: Any, dtype: Any) -> None:
    """B16"""
    most = int(np.iinfo(dtype.numpy).max)
    a = tensor([most, most, 0, 7], device, dtype)
    b = tensor([0, most, 0, 2], device, dtype)
    same(a // b, [0, 1, 0, 3])
    same(a % b, [0, 0, 0, 1])


@lengths
def test_shifts_by_the_width_or_more(device: Any, length: int) -> None:
    """B17"""
    bytes_ = tensor(spread([255], length), device, bp.uint8)
    same(bytes_ << 8, spread([0], length))
    same(bytes_ >> 8, spread([0], length))
    words = tensor(spread([1000, -8, -2], length), device, bp.int64)
    counts = tensor(spread([64, 70, 1], length), device, bp.int64)
    same(words >> counts, spread([0, -1, -1], length))
    same(words << counts, spread([0, 0, -4], length))
    same(words >> 64, spread([0, -1, -1], length))
    same(words << 1000, spread([0, 0, 0], length))


@pytest.mark.parametrize("dtype", [*SIGNED, bp.uint8, bp.uint16, bp.uint32, bp.uint64], ids=str)
def test_shifts_of_every_width(device: Any, dtype: Any) -> None:
    """B17"""
    bits = dtype.itemsize * 8
    x = tensor([1, 1, 1], device, dtype)
    counts = tensor([0, bits - 1, bits], device, dtype)
    top = 1 << (bits - 1)
    same(x << counts, [1, -top if dtype.kind == "i" else top, 0])
    negative = tensor([-1 if dtype.kind == "i" else 1] * 3, device, dtype)
    same(negative >> counts, [-1, -1, -1] if dtype.kind == "i" else [1, 0, 0])


def test_negative_counts_are_refused(device: Any) -> None:
    """B17"""
    words = tensor([1, 2], device, bp.int64)
    with pytest.raises(ValueError, match="right_shift: the count -1 is negative"):
        words >> -1
    with pytest.raises(IndexError, match="left_shift: the count"):
        (words << tensor([0, -1], device, bp.int64)).numpy()


@pytest.mark.parametrize("dtype", [bp.float32, bp.float64], ids=str)
def test_floats_to_integers_out_of_range(device: Any, dtype: Any) -> None:
    x = tensor([NAN, INF, -INF, 1e20, -1.7, 300.0], device, dtype)
    same(x.astype(bp.int32), [0, 2**31 - 1, -(2**31), 2**31 - 1, -1, 300])
    same(x.astype(bp.uint8), [0, 255, 0, 255, 0, 255])
    same(x.astype(bp.int64), [0, 2**63 - 1, -(2**63), 2**63 - 1, -1, 300])
    same(x.astype(bp.bool), [True, True, True, True, True, True])


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


# -------------------------------------------------------------------------------- random draws


def test_uniform_numbers_stay_below_one(device: Any) -> None:
    """B53"""
    ones = tuple(bp.Tensor(np.array([0xFFFFFFFF], np.uint32), device) for _ in range(2))
    largest = {bp.float32: 1 - 2.0**-24, bp.float16: 1 - 2.0**-11, bp.bfloat16: 1 - 2.0**-8}
    for dtype, wanted in largest.items():
        value = float(unit(ones[:1], dtype).numpy().astype(np.float64)[0])
        assert value == wanted
        assert np.isfinite(bp.log(1 - unit(ones[:1], dtype)).numpy().astype(np.float64)).all()
    assert unit(ones, bp.float64).item() == 1 - 2.0**-53


def test_draws_do_not_depend_on_the_device(device: Any) -> None:
    """B52, and the same bits everywhere"""
    state = bp.Tensor(np.array(draws.seed_words(7), np.uint32), device)
    state_there = bp.Tensor(state.numpy(), "reference")
    for make in (draws.uniform, lambda s, shape: draws.randint(s, shape, -3, 1000)):
        np.testing.assert_array_equal(
            make(state, (5, 7)).numpy(), make(state_there, (5, 7)).numpy()
        )
    following = draws.advanced(state)
    assert not np.array_equal(
        draws.uniform(following, (9,)).numpy(), draws.uniform(state, (9,)).numpy()
    )


def test_draws_follow_the_order_of_their_making(device: Any) -> None:
    """B52"""

    def three() -> list[Any]:
        bp.manual_seed(11)
        return [bp.random.uniform((5,), device=device) for _ in range(3)]

    first = [x.numpy() for x in three()]
    assert len({x.tobytes() for x in first}) == 3
    backwards = three()
    for index in (2, 0, 1):
        np.testing.assert_array_equal(backwards[index].numpy(), first[index])
    a, b, c = three()
    np.testing.assert_array_equal(bp.stack([c - b, a * 1, b]).numpy()[2], first[1])
    difference = bp.random.uniform((50,), device=device) - bp.random.uniform((50,), device=device)
    assert (difference.numpy() != 0).all()


def test_draws_in_a_captured_step() -> None:
    """B52"""
    bp.manual_seed(3)

    @bp.jit
    def step(x: bp.Tensor) -> bp.Tensor:
        return x + bp.random.uniform((4,))

    assert len({step(bp.zeros(4)).numpy().tobytes() for _ in range(4)}) == 4


# ---------------------------------------------------------------------------------- mixed types


def test_weak_numbers(device: Any) -> None:
    """B59"""
    with pytest.raises(
        bp.errors.DTypeError, match="add: the Python integer 300 does not fit uint8"
    ):
        tensor([1], device, bp.uint8) + 300
    assert (tensor([1], device, bp.int64) + 1.5).dtype is bp.float32
    assert (tensor([1], device, bp.float16) * 2.5).dtype is bp.float16
    assert bp.sum(bp.Tensor(np.array([True]), device)).dtype is bp.int64
    with pytest.raises(bp.errors.DTypeError, match="mean: only floats have one"):
        bp.mean(tensor([1], device, bp.int64))
    with pytest.raises(bp.errors.DTypeError, match="only floating point"):
        tensor([1], device, bp.int64, grad=True)


@pytest.mark.parametrize("dtype", [bp.uint8, bp.int8, bp.int16, bp.int32, bp.uint64], ids=str)
def test_python_integers_fit_or_are_refused(device: Any, dtype: Any) -> None:
    """B59"""
    info = np.iinfo(dtype.numpy)
    x = tensor([1], device, dtype)
    for value in (int(info.min), int(info.max)):
        assert bp.maximum(x, value).dtype is dtype
    for value in (int(info.min) - 1, int(info.max) + 1):
        for operation in (bp.add, bp.multiply, bp.less, bp.maximum):
            with pytest.raises(bp.errors.DTypeError, match="does not fit"):
                operation(x, value)


def test_numpy_numbers_beside_tensors(device: Any) -> None:
    """B58: more of it in tests/unit/tensor/test_interchange.py"""
    x = tensor([1.0, 2.0], device, grad=True)
    array = np.array([3.0, 4.0], np.float32)
    with bp.default_device(device):
        for result in (array * x, x * array, np.float64(2) * x, array @ x):
            assert result.requires_grad
            assert result.device == device
        assert (array == x).dtype is bp.bool


# --------------------------------------------------------------------------------------- indices


def test_indices_out_of_range(device: Any) -> None:
    """B29"""
    x = tensor([10.0, 20.0, 30.0], device)
    same(bp.take(x, bp.Tensor(np.array([-1, 0]), device)), [30, 10])
    same(x[bp.Tensor(np.array([-1, 0]), device)], [30, 10])
    for index in (3, -4):
        wrong = bp.Tensor(np.array([0, index]), device)
        for choose in (
            lambda i: bp.take(x, i),
            lambda i: x[i],
            lambda i: bp.take_along_axis(x, i, 0),
            lambda i: bp.gather(x, 0, i),
            lambda i: bp.scatter_add(x, 0, i, tensor([1.0, 1.0], device)),
        ):
            with pytest.raises(IndexError, match=rf"{index}(.|\n)*3"):
                choose(wrong).numpy()
        with pytest.raises(IndexError, match=rf"{index}"):
            x[index]
    weight = tensor([[1.0], [2.0], [3.0]], device)
    for index in (-1, 3):
        with pytest.raises(IndexError, match=rf"embedding: axis 0.*{index}.*3"):
            bp.embedding(bp.Tensor(np.array([index]), device), weight).numpy()


@lengths
def test_one_index_out_of_range_among_many(device: Any, length: int) -> None:
    """B29"""
    x = tensor(np.arange(7), device)
    for place in {0, length - 1}:
        indices = np.zeros(length, np.int64)
        indices[place] = 7
        with pytest.raises(IndexError, match=r"7(.|\n)*7"):
            x[bp.Tensor(indices, device)].numpy()


# ------------------------------------------------------------------- results of captured steps


def test_captured_steps_follow_their_arguments(device: Any) -> None:
    """B55"""

    @bp.jit
    def step(x: bp.Tensor, k: int) -> bp.Tensor:
        return x * k

    x = tensor([2.0], device)
    results = [step(x, k) for k in (1, 2, 3, 4, 5)]
    assert [result.item() for result in results] == [2, 4, 6, 8, 10]
    first = step(tensor([1.0], device), 2)
    second = step(tensor([10.0], device), 2)
    assert (first.item(), second.item()) == (2, 20)


def test_loops_that_nobody_reads_stay_bounded(device: Any) -> None:
    """B44: more of it in tests/unit/tensor/test_pending.py"""
    x, wanted = bp.ones(3, device=device), np.ones(3, np.float32)
    for _ in range(3000):
        x = x * 0.999
        wanted = wanted * np.float32(0.999)
    near(x, wanted, 1e-5)
    assert math.isfinite(x.sum().item())


@lengths
def test_bytes_that_are_no_booleans(device: Any, length: int) -> None:
    """What another library or a file calls true is true in every kernel."""
    raw = np.array(spread([0, 1, 2, 128, 255, 254], length), np.uint8).view(np.bool_)
    truth = np.array(spread([0, 1, 1, 1, 1, 1], length))
    for x in (bp.Tensor(raw, device), bp.from_dlpack(raw, device=device)):
        same(x.astype(bp.int32), truth)
        same(x.sum(), truth.sum())
        same(~x, truth == 0)
        same(bp.where(x, 1.0, 0.0), truth)
        same(x & True, truth == 1)
        same(bp.arange(len(raw), device=device)[x], np.nonzero(truth)[0])
