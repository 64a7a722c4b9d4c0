"""What every device must say where others went wrong: integers, indices, odd booleans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.values import INF, LENGTHS, NAN, same, spread, tensor

import bedplate as bp

SIGNED = (bp.int8, bp.int16, bp.int32, bp.int64)

signed = pytest.mark.parametrize("dtype", SIGNED, ids=str)
lengths = pytest.mark.parametrize("length", LENGTHS)


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
