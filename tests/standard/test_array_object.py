"""The array object of the standard: operators, indexing, assignment, attributes, conversions."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.standard.calls import Call, agree, lowered
from tests.standard.elementwise_calls import CALLS as ELEMENTWISE
from tests.standard.elementwise_calls import WHOLE
from tests.standard.linear_calls import products
from tests.standard.strategies import ALL, FLOATS, NUMBERS, REAL, arrays, elements, tame

import bedplate as bp

# operator -> the function whose operands it takes
BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "pow", "and_": "bitwise_and",
    "or_": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
UNARY = {"abs": "abs", "invert": "bitwise_invert", "neg": "negative", "pos": "positive"}
FEW_AXES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
ROUNDINGS = {"floordiv": 2.0, "mod": 2.0, "pow": 8.0}


def theirs(function: Any, *operands: Any) -> Any:
    """The function of array_api_strict's arrays; NumPy's warnings of overflow are no news."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        return function(*(lowered(x, strict) for x in operands))


def ours(function: Any, *operands: Any) -> Any:
    return function(*(lowered(x, bp) for x in operands))


@pytest.mark.parametrize("name", [*BINARY, *UNARY])
@given(data=st.data())
def test_operators(name: str, data: Any) -> None:
    """With an array or a Python number on either side."""
    call = data.draw(ELEMENTWISE[(BINARY | UNARY)[name]].calls)
    function = getattr(operator, name)
    wanted = theirs(function, *call.arguments)
    agree(ours(function, *call.arguments), wanted, ROUNDINGS.get(name, 0.0))


@given(call=products())
def test_matrix_product(call: Call) -> None:
    wanted = theirs(operator.matmul, *call.arguments)
    agree(ours(operator.matmul, *call.arguments), wanted, 64, call.scale)


IN_PLACE = {
    "iadd": NUMBERS, "isub": NUMBERS, "imul": NUMBERS, "itruediv": FLOATS, "ifloordiv": REAL,
    "imod": REAL, "iand": WHOLE, "ior": WHOLE, "ixor": WHOLE,
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
@given(data=st.data())
def test_in_place_operators(name: str, data: Any) -> None:
    """The tensor is the same object, its dtype and shape stay."""
    function = getattr(operator, name)
    a = data.draw(arrays(IN_PLACE[name], FEW_AXES, 1, 9))
    kind = a.dtype.name
    shape = data.draw(st.sampled_from([a.shape, a.shape[1:], ()]))
    array = data.draw(hnp.arrays(kind, shape, elements=elements(kind, 1, 9, False)))
    b = array.item() if shape == () and data.draw(st.booleans()) else array
    tensor = bp.Tensor(a)
    before = tensor.reshape(a.shape)
    assert function(tensor, lowered(b, bp)) is tensor
    agree(tensor, theirs(function, a.copy(), b), 2.0)
    np.testing.assert_array_equal(before.numpy(), a)


# ------------------------------------------------------------------------------------ indexing


@st.composite
def slices(draw: Any, size: int) -> slice:
    """Within the bounds that the standard speaks of."""
    step = draw(st.sampled_from([None, 1, 2, 3, -1, -2]))
    if step is None or step > 0:
        start, stop = st.integers(-size, size), st.integers(-size, size)
    else:
        start = st.integers(-size, max(size - 1, 0))
        stop = st.integers(-size - 1, max(size - 1, 0)) if size else st.none()
    pick = st.none() if size == 0 else st.none() | start
    return slice(draw(pick), draw(st.none() | stop) if size else None, step)


@st.composite
def keys(draw: Any, shape: tuple[int, ...], new: bool = True) -> Any:
    """Integers, slices, one `...`, new axes: an entry for every axis."""
    entries: list[Any] = []
    for size in shape:
        choices = [slices(size)] + ([st.integers(-size, size - 1)] if size else [])
        entries.append(draw(st.one_of(*choices)))
    if draw(st.booleans()):
        start = draw(st.integers(0, len(entries)))
        stop = draw(st.integers(start, len(entries)))
        entries[start:stop] = [...]
    if new:
        for _ in range(draw(st.integers(0, 2))):
            entries.insert(draw(st.integers(0, len(entries))), None)
    return entries[0] if len(entries) == 1 and draw(st.booleans()) else tuple(entries)


@given(data=st.data())
def test_indexing(data: Any) -> None:
    x = data.draw(arrays(ALL, FEW_AXES))
    key = data.draw(keys(x.shape))
    np.testing.assert_array_equal(bp.Tensor(x)[key].numpy(), x[key])


@given(data=st.data())
def test_indexing_by_integer_arrays(data: Any) -> None:
    """An array or an integer for every axis, which broadcast."""
    x = data.draw(arrays(ALL, hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5)))
    found = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=x.ndim, max_dims=2, max_side=4))
    entries = [
        data.draw(
            hnp.arrays("int64", shape, elements=st.integers(-size, size - 1))
            | st.integers(-size, size - 1)
        )
        for size, shape in zip(x.shape, found.input_shapes, strict=True)
    ]
    key = tuple(bp.Tensor(e) if isinstance(e, np.ndarray) else e for e in entries)
    np.testing.assert_array_equal(bp.Tensor(x)[key].numpy(), x[tuple(entries)])


@given(data=st.data())
def test_indexing_by_a_mask(data: Any) -> None:
    x = data.draw(arrays(ALL, FEW_AXES.filter(len)))
    axes = data.draw(st.integers(1, x.ndim))
    mask = data.draw(hnp.arrays(bool, x.shape[:axes]))
    got = bp.Tensor(x)[bp.Tensor(mask)]
    np.testing.assert_array_equal(got.numpy(), x[mask])
    assert got.dtype.name == x.dtype.name


@given(data=st.data())
def test_assignment(data: Any) -> None:
    """Of a number, or of an array that broadcasts to the region, by a key or by a mask."""
    x = data.draw(arrays(ALL, FEW_AXES))
    by_mask = bool(x.ndim) and data.draw(st.booleans())
    key = data.draw(hnp.arrays(bool, x.shape) if by_mask else keys(x.shape, new=False))
    number = data.draw(elements(x.dtype.name, -9, 9, False))
    region = x[key].shape
    value = number if by_mask or data.draw(st.booleans()) else np.full(region[1:], number, x.dtype)
    tensor, wanted = bp.Tensor(x), x.copy()
    before = tensor + 0 if x.dtype.kind != "b" else tensor | False
    tensor[bp.Tensor(key) if by_mask else key] = lowered(value, bp)
    wanted[key] = value
    np.testing.assert_array_equal(tensor.numpy(), wanted)
    np.testing.assert_array_equal(before.numpy(), x)


# ------------------------------------------------------------------------ attributes, conversions


@given(x=arrays(ALL, FEW_AXES))
def test_attributes(x: Any) -> None:
    tensor, other = bp.Tensor(x), strict.asarray(x)
    assert tensor.dtype.name == other.dtype._np_dtype.name
    assert (tensor.ndim, tensor.shape, tensor.size) == (other.ndim, other.shape, other.size)
    assert tensor.device == bp.Device("cpu")
    if x.ndim >= 2:
        agree(tensor.mT, other.mT, 0)
    if x.ndim == 2:
        agree(tensor.T, other.T, 0)


@given(x=tame(ALL, st.just(())))
def test_conversions(x: Any) -> None:
    tensor = bp.Tensor(x)
    kind = x.dtype.kind
    assert bool(tensor) is bool(x)
    assert complex(tensor) == complex(x)
    if kind != "c":
        assert float(tensor) == float(x)
        assert int(tensor) == int(x)
    if kind in "iu":
        assert operator.index(tensor) == operator.index(x)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_no_floats(dtype: str) -> None:
    x = bp.ones((), dtype=dtype)
    for convert in (int, float):
        with pytest.raises(TypeError, match=convert.__name__):
            convert(x)


def test_namespace() -> None:
    x = bp.ones(2)
    assert x.__array_namespace__() is bp
    assert x.__array_namespace__(api_version="2024.12") is bp
    with pytest.raises(ValueError, match=r"version '1999.01' of the Array API is unknown"):
        x.__array_namespace__(api_version="1999.01")


def test_to_device() -> None:
    x = bp.ones(2)
    assert x.to_device(x.device) is x
    moved = x.to_device("reference", stream=bp.Stream("reference"))
    assert moved.device == bp.Device("reference")
    assert moved.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="to_device: expected a Stream, got int"):
        x.to_device("cpu", stream=3)


@given(x=arrays([name for name in ALL if name != "bool"]))
def test_from_dlpack(x: Any) -> None:
    for copy in (None, True):
        got = bp.from_dlpack(x, copy=copy)
        np.testing.assert_array_equal(got.numpy(), x)
        assert got.dtype.name == x.dtype.name
    np.testing.assert_array_equal(np.from_dlpack(bp.Tensor(x)), x)
