"""What every device must say where others went wrong: the numeric contract, case by case.

B01, B02, ... count the reports of wrong values elsewhere that this contract was drawn from.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.ops import random as draws
from bedplate.ops.random import unit

INF, NAN = math.inf, math.nan
# one value alone, and more than one vector with a tail
LENGTHS = (1, 19)


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


def spread(values: Any, length: int) -> list[Any]:
    """The values one after the other, `length` times each."""
    return [value for value in values for _ in range(length)]


def test_logsumexp_of_infinities(device: Any) -> None:
    """B01"""
    rows = [[-INF, -INF, -INF], [-INF, 0.0, 1.0], [0.0, INF, 0.0]]
    x = tensor(rows, device, grad=True)
    y = bp.logsumexp(x, axis=1)
    np.testing.assert_allclose(y.numpy(), [-INF, 1.313261687518, INF], rtol=1e-6)
    y[:2].sum().backward()
    np.testing.assert_allclose(
        x.grad.numpy()[:2], [[0, 0, 0], [0, 0.268941, 0.731059]], rtol=1e-5, atol=1e-7
    )


def test_variance_with_a_large_mean(device: Any) -> None:
    """B04"""
    x = tensor([1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16], device, bp.float64)
    assert bp.var(x, correction=1).item() == 30
    assert bp.var(x).item() == 22.5
    assert bp.var(tensor([10000, 10001, 10002, 10003], device)).item() == 1.25


def test_half_precision_is_accumulated_wide(device: Any) -> None:
    """B05"""
    x = tensor([40000.0] * 3, device, bp.float16)
    assert bp.mean(x).item() == 40000
    assert bp.var(x).item() == 0
    assert bp.sum(x).item() == INF


def test_long_sums_do_not_stop_growing(device: Any) -> None:
    """B07, at a length that a sequential float32 sum gets wrong already"""
    ones = bp.ones((2, 17_000_000 // 2 + 100_000), device=device)
    assert bp.sum(ones).item() == 17_200_000


def test_nan_is_never_lost(device: Any) -> None:
    """B10, B49"""
    same(bp.clip(tensor([NAN, 2.0, -2.0], device), -1, 1), [NAN, 1, -1])
    same(bp.relu(tensor([NAN, -1.0, 1.0], device)), [NAN, 0, 1])
    for op in (bp.minimum, bp.maximum):
        same(op(tensor([NAN, 1.0], device), tensor([1.0, NAN], device)), [NAN, NAN])
    for op in (bp.min, bp.max):
        same(op(tensor([[1.0, NAN, 3.0]] * 3, device), axis=1), [NAN] * 3)
    x = tensor([NAN, INF, -INF, 1.0], device)
    same(bp.isnan(x), [True, False, False, False])
    same(bp.isfinite(x), [False, False, False, True])
    same(bp.not_equal(x, x), [True, False, False, False])


@pytest.mark.parametrize("dtype", [bp.int8, bp.int16, bp.int32, bp.int64], ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_signs_of_integer_division(device: Any, dtype: Any, length: int) -> None:
    """B14"""
    a = tensor(spread([7, -7, 7, -7], length), device, dtype)
    b = tensor(spread([2, 2, -2, -2], length), device, dtype)
    same(a // b, spread([3, -4, -4, 3], length))
    same(a % b, spread([1, 1, -1, -1], length))
    same(bp.fmod(a, b), spread([1, -1, 1, -1], length))


@pytest.mark.parametrize("dtype", [bp.int32, bp.int64], ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_integer_division_that_traps_elsewhere(device: Any, dtype: Any, length: int) -> None:
    """B16: division by 0 gives 0, the least integer by -1 wraps; nothing stops the process"""
    least = int(np.iinfo(dtype.numpy).min)
    a = tensor(spread([least, 5, -5], length), device, dtype)
    b = tensor(spread([-1, 0, 0], length), device, dtype)
    same(a // b, spread([least, 0, 0], length))
    same(a % b, spread([0, 0, 0], length))
    same(bp.fmod(a, b), spread([0, 0, 0], length))


@pytest.mark.parametrize("length", LENGTHS)
def test_shifts_by_the_width_or_more(device: Any, length: int) -> None:
    """B17"""
    bytes_ = tensor(spread([255], length), device, bp.uint8)
    same(bytes_ << 8, spread([0], length))
    words = tensor(spread([1000, -8, -2], length), device, bp.int64)
    counts = tensor(spread([64, 70, 1], length), device, bp.int64)
    same(words >> counts, spread([0, -1, -1], length))
    same(words << counts, spread([0, 0, -4], length))
    same(words >> 64, spread([0, -1, -1], length))
    with pytest.raises(ValueError, match="right_shift: the count -1 is negative"):
        words >> -1
    with pytest.raises(IndexError, match="left_shift: the count"):
        (words << tensor([-1], device, bp.int64)).numpy()


def test_remainder_of_floats(device: Any) -> None:
    """B19"""
    a = tensor([-0.0, 0.0, -1.0, 1.0, 1.0, -1e-17], device, bp.float64)
    b = tensor([3.0, -3.0, INF, -INF, 0.0, 1.0], device, bp.float64)
    same(bp.remainder(a, b), [0.0, -0.0, INF, -INF, NAN, 1.0])


def test_powers_of_zero(device: Any) -> None:
    """B20"""
    a = tensor([0.0, 0.0, 0.0, 2.0], device, bp.float64, grad=True)
    b = tensor([0.0, 1.0, 2.0, 0.0], device, bp.float64, grad=True)
    y = a**b
    same(y, [1, 0, 0, 1])
    y.sum().backward()
    same(a.grad, [0, 1, 0, 0])
    np.testing.assert_allclose(b.grad.numpy(), [0, 0, 0, 0.6931471805599453], rtol=1e-14)


def test_gradient_of_sqrt_at_zero(device: Any) -> None:
    """B22"""
    x = tensor([0.0, 4.0], device, grad=True)
    bp.sqrt(x).sum().backward()
    same(x.grad, [INF, 0.25])


def test_spread_of_equal_elements(device: Any) -> None:
    """B23"""
    for op in (bp.std, bp.var):
        x = tensor([1.0, 1.0, 1.0], device, grad=True)
        op(x).backward()
        same(x.grad, [0, 0, 0])
    same(bp.std(tensor([1.0], device), correction=1), NAN)


def test_gradients_at_ties(device: Any) -> None:
    """B25: the shares add up to what comes in"""
    x = tensor([2.0, 2.0, 1.0], device, grad=True)
    bp.max(x).backward()
    same(x.grad, [0.5, 0.5, 0])
    a, b = tensor(3.0, device, grad=True), tensor(3.0, device, grad=True)
    bp.maximum(a, b).backward()
    same(a.grad, 0.5)
    same(b.grad, 0.5)
    for op, at_zero in ((bp.relu, 0), (bp.abs, 0)):
        x = tensor(0.0, device, grad=True)
        op(x).backward()
        same(x.grad, at_zero)
    x = tensor([-1.0, 1.0, 1.5], device, grad=True)
    bp.clip(x, -1, 1).sum().backward()
    same(x.grad, [1, 1, 0])


def test_gradient_of_products_with_zeros(device: Any) -> None:
    """B26"""
    x = tensor([[0.0, 2.0, 3.0], [0.0, 0.0, 3.0]], device, grad=True)
    bp.prod(x, axis=1).sum().backward()
    same(x.grad, [[6, 0, 0], [0, 0, 0]])


def test_indices_out_of_range(device: Any) -> None:
    """B29"""
    x = tensor([10.0, 20.0, 30.0], device)
    same(bp.take(x, bp.Tensor(np.array([-1, 0]), device)), [30, 10])
    for index in (3, -4):
        with pytest.raises(IndexError, match=rf"take: axis 0.*{index}.*3"):
            bp.take(x, bp.Tensor(np.array([0, index]), device)).numpy()
    weight = tensor([[1.0], [2.0], [3.0]], device)
    with pytest.raises(IndexError, match=r"embedding: axis 0.*-1.*3"):
        bp.embedding(bp.Tensor(np.array([-1]), device), weight).numpy()


def test_gradients_of_broadcasting(device: Any) -> None:
    """B31"""
    a, b = tensor([[1.0, 2, 3]], device, grad=True), tensor([[1.0], [2]], device, grad=True)
    (a + b).sum().backward()
    same(a.grad, [[2, 2, 2]])
    same(b.grad, [[3], [3]])
    scale = tensor(2.0, device, grad=True)
    (scale * tensor(np.arange(6).reshape(2, 3), device)).sum().backward()
    same(scale.grad, 15)
    x = tensor(np.arange(12).reshape(2, 3, 2), device, grad=True)
    (x.permute(1, 0, -1) * tensor(np.arange(12).reshape(3, 2, 2), device)).sum().backward()
    same(x.grad, np.arange(12).reshape(3, 2, 2).transpose(1, 0, 2))


def test_no_rewrite_changes_a_float(device: Any) -> None:
    """B50"""
    x = tensor([INF, NAN, -1.0, 2.0], device)
    same(x * 0, [NAN, NAN, -0.0, 0.0])
    same(x[:1] - x[:1], [NAN])
    zero = tensor([-0.0], device)
    same(zero / zero, [NAN])
    same(zero + 0.0, [0.0])
    same(zero - 0.0, [-0.0])
    same(-(zero - zero), [-0.0])
    same(zero**0.5, [0.0])
    same(x**0.5, [INF, NAN, NAN, np.float32(2**0.5)])


def test_uniform_numbers_stay_below_one(device: Any) -> None:
    """B53"""
    ones = tuple(bp.Tensor(np.array([0xFFFFFFFF], np.uint32), device) for _ in range(2))
    largest = {bp.float32: 1 - 2.0**-24, bp.float16: 1 - 2.0**-11, bp.bfloat16: 1 - 2.0**-8}
    for dtype, wanted in largest.items():
        value = float(unit(ones[:1], dtype).numpy().astype(np.float64)[0])
        assert value == wanted
    assert unit(ones, bp.float64).item() == 1 - 2.0**-53


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


def test_cross_entropy_of_a_large_vocabulary_in_bfloat16(device: Any) -> None:
    """B61"""
    logits = bp.zeros((1, 100352), dtype=bp.bfloat16, device=device)
    loss = bp.cross_entropy(logits, bp.Tensor(np.array([7]), device))
    assert loss.dtype is bp.float32
    assert loss.item() == pytest.approx(math.log(100352), rel=1e-6)


def test_cross_entropy_target_out_of_range(device: Any) -> None:
    logits = tensor(np.zeros((2, 5)), device)
    with pytest.raises(IndexError, match=r"cross_entropy: target.*5"):
        bp.cross_entropy(logits, bp.Tensor(np.array([0, 5]), device)).numpy()


def test_rms_norm_in_half_precision(device: Any) -> None:
    """B71"""
    x = tensor([[300.0] * 8], device, bp.float16)
    same(bp.rms_norm(x, tensor([1.0] * 8, device, bp.float16)), [[1.0] * 8])
    zeros = tensor([[0.0] * 4], device, bp.bfloat16, grad=True)
    bp.rms_norm(zeros).sum().backward()
    assert np.isfinite(zeros.grad.numpy().astype(np.float32)).all()
    same(bp.rms_norm(zeros), [[0.0] * 4])
    generator = np.random.default_rng(0)
    values = tensor(generator.normal(size=(4, 1024)), device, bp.bfloat16)
    weight = tensor(generator.normal(size=1024), device, bp.bfloat16)
    wide = values.numpy().astype(np.float32)
    unit_rows = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    wanted = (unit_rows * weight.numpy().astype(np.float32)).astype(bp.bfloat16.numpy)
    differing = np.mean(bp.rms_norm(values, weight).numpy() != wanted)
    assert differing < 0.002  # multiplying after the cast differs in about 0.22


def test_functions_at_their_ends(device: Any) -> None:
    """B82"""
    same(bp.sigmoid(tensor([-1000.0, 1000.0], device)), [0, 1])
    same(bp.softplus(tensor([-1000.0, 1000.0], device)), [0, 1000])
    same(bp.log(tensor([0.0, INF], device)), [-INF, INF])
    same(bp.exp(tensor([-INF, 1000.0], device)), [0, INF])
    same(bp.silu(tensor([-1000.0, 1000.0], device)), [-0.0, 1000])


def test_floats_to_integers_out_of_range(device: Any) -> None:
    x = tensor([NAN, INF, -INF, 1e20, -1.7, 300.0], device)
    same(x.astype(bp.int32), [0, 2**31 - 1, -(2**31), 2**31 - 1, -1, 300])
    same(x.astype(bp.uint8), [0, 255, 0, 255, 0, 255])


def test_denormals_are_kept(device: Any) -> None:
    x = tensor([1e-40, -1e-42], device)
    same(x * 1.0, x.numpy().astype(np.float64))
    assert (x * 0.5).numpy()[0] != 0


def test_empty_sums_and_products(device: Any) -> None:
    empty = bp.zeros((2, 0), device=device)
    same(bp.sum(empty, axis=1), [0, 0])
    same(bp.prod(empty, axis=1), [1, 1])
    same(bp.all(empty, axis=1), [True, True])
    same(bp.any(empty, axis=1), [False, False])
    same(bp.mean(empty, axis=1), [NAN, NAN])
    with pytest.raises(bp.errors.ShapeError, match="max: nothing to choose from"):
        bp.max(empty, axis=1)


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


@pytest.mark.parametrize("dtype", [bp.float32, bp.bfloat16], ids=str)
def test_embedding_gradient_has_the_same_bits_on_any_threads(dtype: Any) -> None:
    """Rows that were chosen often are added in the order of the choices, in float32."""
    generator = np.random.default_rng(0)
    ids = bp.Tensor(generator.integers(0, 40, (64, 50)), "cpu")
    grad = generator.normal(size=(64, 50, 300)).astype(dtype.numpy)
    results = []
    for threads in (True, False):
        with bp.config(threads=threads):
            weight = bp.zeros((40, 300), dtype=dtype, device="cpu", requires_grad=True)
            bp.embedding(ids, weight).backward(bp.Tensor(grad, "cpu"))
            results.append(weight.grad.numpy())
    assert results[0].tobytes() == results[1].tobytes()
    wanted = np.zeros((40, 300), np.float32)
    np.add.at(wanted, ids.numpy(), grad.astype(np.float32))
    np.testing.assert_array_equal(results[0], wanted.astype(dtype.numpy))
