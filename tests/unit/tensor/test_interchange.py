"""Memory that is shared with NumPy and others: who sees what, who may write, who is refused."""

from __future__ import annotations

import copy
import gc
import math
import multiprocessing
import operator
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
    assert bp.tensor(array).tolist() == [0.0, 1.0, 2.0, 3.0]


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


# ----------------------------------------------------------------------- NumPy's functions


def test_functions_of_numpy_lose_no_gradient() -> None:
    x, y = bp.tensor([1.0, 2.0], requires_grad=True), bp.tensor([3.0, 4.0])
    for call in (
        lambda: np.concatenate([y, x]),
        lambda: np.mean(x),
        lambda: np.clip(y, a_min=x, a_max=None),
    ):
        with pytest.raises(TypeError, match=r"numpy\.\w+: a function of NumPy would lose the grad"):
            call()
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.exp(y)
    assert np.concatenate([y, x.detach()]).tolist() == [3.0, 4.0, 1.0, 2.0]
    assert np.mean(y) == 3.5
    assert np.pad(y, (0, 1)).shape == (3,)
    assert np.allclose(y, [3.0, 4.0])
    assert np.shape(y) == (2,)


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip
OTHERS = [
    np.array([3.0, 4.0], np.float32), np.array([[3.0], [4.0]]), np.float64(2), np.float32(2),
    np.int64(2), np.array(2), np.array([True, True]), np.uint8(3),
]  # fmt: skip


@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_numpy_on_either_side(function: Any, number: int) -> None:  # B58
    other = OTHERS[number]
    x = bp.tensor(np.array([1.0, 2.0], np.float32), requires_grad=True)
    for left, right in ((x, other), (other, x)):
        result = function(left, right)
        assert type(result) is bp.Tensor
        plain = [np.asarray(side, np.float64) for side in (left, right)]
        np.testing.assert_allclose(result.numpy(), function(*plain), rtol=1e-6)
        if function in OPERATORS[:4]:
            assert result.requires_grad
            result.sum().backward()
    assert function not in OPERATORS[:4] or x.grad is not None


BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("function", BITS, ids=lambda f: f.__name__)
def test_numpy_integers_on_either_side(function: Any) -> None:  # B58
    x, array = bp.tensor([5, 6]), np.array([1, 2])
    for other in (array, array[1], np.int8(1)):
        for left, right in ((x, other), (other, x)):
            result = function(left, right)
            assert type(result) is bp.Tensor
            assert result.tolist() == function(np.asarray(left), np.asarray(right)).tolist()


def test_products_with_arrays() -> None:  # B58
    x, array = bp.tensor(np.eye(2), requires_grad=True), np.array([[1.0, 2.0], [3.0, 4.0]])
    for result in (x @ array, array @ x):
        assert type(result) is bp.Tensor
        assert result.requires_grad
        assert result.tolist() == array.tolist()


def test_in_place_with_arrays() -> None:  # B58
    x, array = bp.tensor([1.0, 2.0]), np.array([10.0, 20.0], np.float32)
    same = x
    x += array
    assert x is same
    assert x.tolist() == [11.0, 22.0]
    with pytest.raises(TypeError, match="operand 'Tensor' does not support ufuncs"):
        array *= bp.tensor([2.0, 2.0])
    assert array.tolist() == [10.0, 20.0]


def test_arrays_that_are_no_numbers() -> None:  # B58
    x = bp.tensor([1.0, 2.0])
    for other in (np.array(["a", "b"]), np.array([{}, None], object)):
        for left, right in ((x, other), (other, x)):
            with pytest.raises(DTypeError, match="unknown dtype"):
                left + right


# ---------------------------------------------------------------------- lists and pickles


def test_lists_of_tensors() -> None:
    a, b = bp.tensor([1.0, 2.0]), bp.tensor([3.0, 4.0], dtype=bp.float64)
    assert bp.tensor([a, b]).dtype is bp.float64
    assert bp.tensor([[a, b], [b, a]]).shape == (2, 2, 2)
    one = bp.tensor(1.0, dtype=bp.float16)
    assert bp.tensor([one, 2.0]).dtype is bp.float16
    assert bp.tensor([[one, 2.0], [3.0, 4]]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert bp.tensor([[one, 2.0], [3.0, 4.0]]).dtype is bp.float16
    assert bp.tensor((np.float64(1), one)).dtype is bp.float64
    assert not bp.tensor([bp.tensor(1.0, requires_grad=True)]).requires_grad
    with pytest.raises(bp.errors.ShapeError, match=r"data\[1\] has shape \(3,\)"):
        bp.tensor([a, bp.zeros(3)])


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pickles(dtype: bp.DType, shape: tuple[int, ...]) -> None:
    x = bp.tensor(values(shape, dtype))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        y = pickle.loads(pickle.dumps(x, protocol))
        assert (y.dtype, y.shape, y.tolist()) == (dtype, shape, x.tolist())
    assert copy.deepcopy(x).tolist() == x.tolist()


def test_pickles_of_views_and_parameters() -> None:
    x = bp.tensor(np.arange(12.0).reshape(3, 4), device="reference")
    y = pickle.loads(pickle.dumps(x.T[1:]))
    assert y.tolist() == x.numpy().T[1:].tolist()
    assert y.device == bp.Device("reference")
    for kept in (True, False):
        parameter = bp.nn.Parameter(bp.ones(2), requires_grad=kept)
        for again in (pickle.loads(pickle.dumps(parameter)), copy.deepcopy(parameter)):
            assert type(again) is bp.nn.Parameter
            assert again.requires_grad is kept
            assert again.is_leaf
    computed = bp.tensor([2.0], requires_grad=True) * 3
    assert pickle.loads(pickle.dumps(computed)).tolist() == [6.0]
    twice = [x, x]
    assert copy.deepcopy(twice)[0] is not x
    again = copy.deepcopy(twice)
    assert again[0] is again[1]


def flat(x: bp.Tensor) -> bp.Tensor:
    return x.reshape(-1)


def test_tensors_between_processes() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map(flat, [bp.tensor([1.0, 2.0]), bp.tensor([1 + 2j])])
    assert [x.tolist() for x in found] == [[1.0, 2.0], [1 + 2j]]
