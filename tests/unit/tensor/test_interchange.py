"""Memory that is shared with NumPy and others: who sees what, who may write, who is refused."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.dtypes import ALL
from bedplate.errors import DTypeError

PLAIN = [dtype for dtype in ALL if dtype is not bp.bfloat16]
SHAPES = [(), (0,), (3,), (2, 0, 3), (2, 3)]


def values(shape: tuple[int, ...], dtype: bp.DType) -> np.ndarray:
    return (np.arange(math.prod(shape)) % 2).reshape(shape).astype(dtype.numpy)


# ------------------------------------------------------------------------------ given out


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_numpy_shares_what_it_takes_by_dlpack(dtype: bp.DType, shape: tuple[int, ...]) -> None:
    x = bp.tensor(values(shape, dtype))
    for array in (np.from_dlpack(x), np.asarray(x), np.asarray(x, copy=False), x.numpy(copy=False)):
        assert (array.dtype, array.shape) == (dtype.numpy, shape)
        assert not array.flags.writeable
        assert not x.size or np.shares_memory(array, np.asarray(x))
        np.testing.assert_array_equal(array, values(shape, dtype))


def test_nobody_can_write_what_is_shared() -> None:
    x = bp.tensor([1.0, 2.0])
    for array in (np.from_dlpack(x), np.asarray(x), x.numpy(copy=False)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
            array.flags.writeable = True
    assert x.tolist() == [1.0, 2.0]


def test_a_copy_can_be_written() -> None:
    x = bp.tensor([1.0, 2.0])
    for array in (x.numpy(), np.array(x), np.asarray(x, copy=True), np.from_dlpack(x, copy=True)):
        array[0] = 7
    assert x.tolist() == [1.0, 2.0]


def test_another_dtype_takes_a_copy() -> None:
    x = bp.tensor([1.0, 2.0])
    assert np.asarray(x, np.float64).dtype == np.float64
    exact = bp.tensor(1 + 2**-8 + 2**-30, dtype=bp.float64)  # rounded once
    assert exact.__array__(bp.bfloat16.numpy) == 1.0078125
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, np.float64, copy=False)
    with pytest.raises(ValueError, match="float32 as float64 takes a copy, and copy=False forbids"):
        x.__array__(np.float64, copy=False)


def test_shared_memory_outlives_the_tensor_and_is_not_reused() -> None:
    x = bp.tensor(np.arange(1000.0))
    array = np.from_dlpack(x)
    del x
    gc.collect()
    others = [bp.tensor(np.zeros(1000)) for _ in range(50)]
    np.testing.assert_array_equal(array, np.arange(1000.0))
    del others


def test_an_assignment_leaves_what_was_given_out() -> None:
    x = bp.tensor([1.0, 2.0])
    array = np.asarray(x)
    x += 1
    x[0] = 9
    assert array.tolist() == [1.0, 2.0]
    assert x.tolist() == [9.0, 3.0]


def test_a_captured_step_leaves_what_was_given_out() -> None:
    x = bp.tensor(np.ones(100_000, np.float32))

    @bp.jit
    def step() -> None:
        x.assign(x * 2)

    seen = []
    for _ in range(5):
        step()
        seen.append(np.asarray(x))
    assert [array[0] for array in seen] == [2, 4, 8, 16, 32]


def test_older_versions_of_dlpack_get_a_copy() -> None:
    x = bp.tensor([1.0, 2.0])

    class Old:
        def __dlpack__(self, stream: Any = None) -> Any:
            return x.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return x.__dlpack_device__()

    array = np.from_dlpack(Old())
    assert not np.shares_memory(array, np.asarray(x))
    assert array.tolist() == [1.0, 2.0]
    with pytest.raises(BufferError, match="before version 1"):
        x.__dlpack__(copy=False)


def test_what_dlpack_cannot_give() -> None:
    x = bp.tensor([1.0])
    assert x.__dlpack_device__() == (1, 0)
    assert bp.tensor([1.0], device="reference").__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match=r"not on \(2, 0\)"):
        x.__dlpack__(dl_device=(2, 0), max_version=(1, 0))
    with pytest.raises(BufferError, match="has no stream, got 1"):
        x.__dlpack__(stream=1)


def test_buffers() -> None:
    view = bp.tensor([[1, 2], [3, 4]]).__buffer__(0)
    assert view.readonly
    assert (view.shape, view.format, view.tolist()) == ((2, 2), "l", [[1, 2], [3, 4]])
    assert bp.tensor(True).__buffer__(0).format == "?"
    if sys.version_info >= (3, 12):  # Python asks for it from there on
        assert memoryview(bp.tensor([1.5])).tolist() == [1.5]
        assert np.asarray(bp.zeros(2, dtype=bp.bfloat16)).dtype == bp.bfloat16.numpy
    with pytest.raises(BufferError, match="no letter for bfloat16"):
        bp.zeros(2, dtype=bp.bfloat16).__buffer__(0)


class InOlderWords:
    """What a library that reads `__array_interface__` alone sees of a tensor."""

    def __init__(self, x: bp.Tensor) -> None:
        self.__array_interface__ = x.__array_interface__


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_older_words(dtype: bp.DType, shape: tuple[int, ...]) -> None:
    x = bp.tensor(values(shape, dtype))
    array = np.asarray(InOlderWords(x))
    assert (array.dtype, array.shape, array.flags.writeable) == (dtype.numpy, shape, False)
    assert not x.size or np.shares_memory(array, x.numpy(copy=False))
    kept = values(shape, dtype)
    x.assign(bp.ones_like(x))
    del x
    others = [bp.tensor(kept + 1) for _ in range(20)]  # would be put where the value was
    np.testing.assert_array_equal(array, kept)
    del others


def test_older_words_lack_bfloat16() -> None:
    with pytest.raises(AttributeError, match="no word for bfloat16"):
        bp.zeros(2, dtype=bp.bfloat16).__array_interface__
    assert np.asarray(bp.zeros(2, dtype=bp.bfloat16)).dtype == bp.bfloat16.numpy


# ------------------------------------------------------------------------------- taken in


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_from_dlpack_shares(dtype: bp.DType, shape: tuple[int, ...]) -> None:
    array = values(shape, dtype)
    x = bp.from_dlpack(array)
    assert (x.dtype, x.shape) == (dtype, shape)
    np.testing.assert_array_equal(x.numpy(), array)
    assert not x.size or np.shares_memory(np.asarray(x), array)
    assert not x.size or not np.shares_memory(np.asarray(bp.from_dlpack(array, copy=True)), array)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bfloat16_travels_both_ways(shape: tuple[int, ...]) -> None:
    x = bp.tensor(values(shape, bp.bfloat16))
    y = bp.from_dlpack(Foreign(x))
    assert (y.dtype, y.shape, y.tolist()) == (x.dtype, x.shape, x.tolist())
    assert not x.size or np.shares_memory(y.numpy(copy=False), x.numpy(copy=False))


class Foreign:
    """A tensor, as another library would give it."""

    def __init__(self, x: bp.Tensor) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()


LAYOUTS = {
    "transposed": (lambda a: a.transpose(2, 0, 1), True),
    "fortran": (np.asfortranarray, True),
    "offset": (lambda a: a[1:], True),
    "stepped": (lambda a: a[:, ::2], False),
    "reversed": (lambda a: a[::-1], False),
    "expanded": (lambda a: np.broadcast_to(a[:1, :1], (2, 3, 4)), False),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    change, is_shared = LAYOUTS[name]
    source = np.arange(24.0).reshape(2, 3, 4)
    array = change(source)
    np.testing.assert_array_equal(bp.from_dlpack(array).numpy(), array)
    if is_shared:
        x = bp.from_dlpack(array, copy=False)
        np.testing.assert_array_equal((x * 2).numpy(), array * 2)
    else:
        with pytest.raises(BufferError, match="cannot be used as it lies"):
            bp.from_dlpack(array, copy=False)


def test_an_address_that_does_not_divide_is_copied() -> None:
    raw = np.zeros(8 * 4 + 1, np.uint8)
    array = raw[1:].view(np.float64)
    array[:] = range(4)
    assert not array.flags.aligned
    for x in (bp.tensor(array), bp.from_dlpack(array)):
        assert (x + 0).tolist() == [0.0, 1.0, 2.0, 3.0]
        assert not np.shares_memory(np.asarray(x), raw)
    with pytest.raises(BufferError, match="cannot be used as it lies"):
        bp.from_dlpack(array, copy=False)


def test_the_producer_stays_alive() -> None:
    class Array(np.ndarray):
        pass

    array = np.arange(1000.0).view(Array)
    gone = weakref.ref(array)
    x = bp.from_dlpack(array)
    del array
    gc.collect()
    assert gone() is not None
    assert (x + 1).tolist()[-1] == 1000.0
    del x
    gc.collect()
    assert gone() is None


def test_shared_memory_is_read_when_it_is_needed() -> None:
    """The owner's writes are seen: what from_dlpack documents."""
    array = np.array([1.0, 2.0])
    shared, own = bp.from_dlpack(array), bp.from_dlpack(array, copy=True)
    array[0] = 7.0
    assert shared.tolist() == [7.0, 2.0]
    assert own.tolist() == [1.0, 2.0]


def test_a_copy_of_shared_memory_is_apart() -> None:
    array = np.array([1.0, 2.0])
    shared = bp.from_dlpack(array)
    copies = copy.copy(shared), copy.deepcopy(shared), pickle.loads(pickle.dumps(shared))
    array[0] = 7.0
    assert [x.tolist() for x in copies] == [[1.0, 2.0]] * 3
    assert shared.tolist() == [7.0, 2.0]


def test_foreign_memory_is_never_written() -> None:
    array = np.ones(100_000, np.float32)
    array.flags.writeable = False
    x = bp.from_dlpack(array)

    @bp.jit
    def step() -> None:
        x.assign(x * 2)

    for _ in range(4):
        step()
    assert x[0].item() == 16
    assert (array == 1).all()
    y = bp.from_dlpack(array)
    y += 1
    y[0] = 5
    y.realise()
    assert (array == 1).all()


def test_a_tensor_is_itself_again() -> None:
    x = bp.tensor([1.0], requires_grad=True)
    assert np.shares_memory(np.asarray(bp.from_dlpack(x)), np.asarray(x))
    assert not bp.from_dlpack(x).requires_grad
    assert bp.from_dlpack(x, device="reference").device == bp.Device("reference")


class Elsewhere:
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("it stays here")

    def __dlpack_device__(self) -> Any:
        return 2, 0


class OddType:
    """float32 with its dtype overwritten: code 10, a float of 8 bits."""

    def __init__(self, code: int, bits: int, lanes: int = 1) -> None:
        self.wanted = code, bits, lanes
        self.x = np.zeros(4, np.float32)

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.x.__dlpack__(**options)
        dtype = bp.tensor.__globals__["array_from_dlpack"].__globals__["_dtype_of"](capsule)
        dtype.code, dtype.bits, dtype.lanes = self.wanted
        return capsule

    def __dlpack_device__(self) -> Any:
        return 1, 0


def test_what_from_dlpack_refuses() -> None:
    with pytest.raises(TypeError, match="list has no __dlpack__"):
        bp.from_dlpack([1.0])
    with pytest.raises(BufferError, match=r"Elsewhere on DLPack device \(2, 0\)(.|\n)*move it to"):
        bp.from_dlpack(Elsewhere())
    with pytest.raises(DTypeError, match="DLPack code 10, 8"):
        bp.from_dlpack(OddType(10, 8))
    with pytest.raises(DTypeError, match="float128"):
        bp.from_dlpack(OddType(2, 128))
    with pytest.raises(DTypeError, match="float32 in vectors of 4"):
        bp.from_dlpack(OddType(2, 32, 4))
    with pytest.raises(BufferError, match="byte order"):
        bp.from_dlpack(np.zeros(3, ">f4"))
