"""What every device must say where others went wrong: random draws, mixed types, captured steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.contract.values import near, tensor

import bedplate as bp
from bedplate.ops.random import draws, philox
from bedplate.ops.random.philox import unit

FLOATS = (bp.float16, bp.bfloat16, bp.float32, bp.float64)

floats = pytest.mark.parametrize("dtype", FLOATS, ids=str)


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
    state = bp.Tensor(np.array(philox.seed_words(7), np.uint32), device)
    state_there = bp.Tensor(state.numpy(), "reference")
    for make in (draws.uniform, lambda s, shape: draws.randint(s, shape, -3, 1000)):
        np.testing.assert_array_equal(
            make(state, (5, 7)).numpy(), make(state_there, (5, 7)).numpy()
        )
    following = philox.advanced(state)
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
    """B58: more of it in tests/unit/tensor/test_operands_of_numpy.py"""
    x = tensor([1.0, 2.0], device, grad=True)
    array = np.array([3.0, 4.0], np.float32)
    with bp.default_device(device):
        for result in (array * x, x * array, np.float64(2) * x, array @ x):
            assert result.requires_grad
            assert result.device == device
        assert (array == x).dtype is bp.bool


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
