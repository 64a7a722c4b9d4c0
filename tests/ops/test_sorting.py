"""Sorting at the edges: every dtype and kernel, ties and NaN, threads, selection, medians."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import DTypeError, GradientError, ShapeError
from bedplate.ops.record import apply
from bedplate.ops.sorting.blocks import BLOCK
from bedplate.ops.sorting.kernel import SHORT
from bedplate.ops.sorting.selection import BLOCK as SELECTED
from bedplate.ops.sorting.selection import SAMPLES
from bedplate.ops.sorting.sorting import SMALL_K, TOP_K

NAN, INF = math.nan, math.inf
DTYPES = (
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
# by ranks, by one item a row, in blocks with a tail
SHAPES = ((5, 7), (3, SHORT), (2, SHORT + 1), (3, 700), (1, 2 * BLOCK + 9))


def numbers(dtype: Any, shape: tuple[int, ...], seed: int = 0, special: bool = True) -> Any:
    """Numbers over the whole range, with ties, NaN of both signs, infinities and zeros."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        x = rng.integers(info.min, info.max, shape, dtype=dtype.numpy, endpoint=True)
        return np.where(rng.random(shape) < 0.3, x % 3, x).astype(dtype.numpy)
    x = (rng.standard_normal(shape) * 50).astype(dtype.numpy)
    for value in (NAN, -np.float64(NAN), -0.0, 0.0, INF, -INF, 1.0)[0 if special else 3 :]:
        x[rng.random(shape) < 0.07] = value
    return x


def order(x: Any, descending: bool = False) -> Any:
    """NumPy's stable order; the greatest first by reversing twice."""
    wide = x.astype(np.float64) if x.dtype.kind not in "biu" else x
    if not descending:
        return np.argsort(wide, axis=-1, kind="stable")
    return x.shape[-1] - 1 - np.argsort(wide[..., ::-1], axis=-1, kind="stable")[..., ::-1]


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_sorted_to_the_bit(name: str) -> None:
    dtype = getattr(bp, "bool_" if name == "bool" else name)
    for shape, special in itertools.product(SHAPES, (True, False)):
        x = numbers(dtype, shape, special=special)
        for descending in (False, True):
            wanted = order(x, descending)
            t = bp.tensor(x)
            np.testing.assert_array_equal(bp.argsort(t, descending=descending).numpy(), wanted)
            got = bp.sort(t, descending=descending).numpy()
            assert got.tobytes() == np.take_along_axis(x, wanted, -1).tobytes()


def test_a_result_is_always_a_permutation(device: Any) -> None:
    """B11: no value is lost or doubled, NaN is last, ties are stable."""
    assert bp.argsort(bp.Tensor([3, NAN, 1], device)).tolist() == [2, 0, 1]
    np.testing.assert_array_equal(bp.sort(bp.Tensor([3, NAN, 1], device)).numpy(), [1, 3, NAN])
    x = bp.Tensor([NAN, 3, 1, NAN], device)
    assert bp.argsort(x).tolist() == [2, 1, 0, 3]
    assert bp.argsort(x, descending=True).tolist() == [0, 3, 1, 2]
    values, places = bp.topk(x, 3)
    np.testing.assert_array_equal(values.numpy(), [NAN, NAN, 3])
    assert places.tolist() == [0, 3, 1]
    assert bp.topk(x, 4, largest=False).indices.tolist() == [2, 1, 0, 3]


def test_zeros_of_both_signs_are_equal(device: Any) -> None:
    x = bp.Tensor(np.array([0.0, -0.0, -1.0, -0.0, 0.0]), device)
    for descending in (False, True):
        places = bp.argsort(x, descending=descending).tolist()
        assert [place for place in places if place != 2] == [0, 1, 3, 4]
        signs = np.signbit(bp.sort(x, descending=descending).numpy())
        assert [s for s, p in zip(signs, places, strict=True) if p != 2] == [0, 1, 1, 0]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_any_axis_and_layout(axis: int, device: Any) -> None:
    x = np.random.default_rng(0).integers(0, 5, (3, 4, 5))
    for t, a in (
        (bp.Tensor(x, device), x),
        (bp.Tensor(x, device).permute(2, 0, 1), x.transpose(2, 0, 1)),
        (bp.flip(bp.Tensor(x, device)), np.flip(x)),
        (bp.Tensor(x[:, :1], device).broadcast_to(3, 4, 5), np.broadcast_to(x[:, :1], (3, 4, 5))),
    ):
        np.testing.assert_array_equal(bp.sort(t, axis).numpy(), np.sort(a, axis))
        np.testing.assert_array_equal(
            bp.argsort(t, dim=axis).numpy(), np.argsort(a, axis, kind="stable")
        )
        values, places = bp.topk(t, 2, dim=axis, largest=False)
        wanted = np.sort(a, axis).take(range(2), axis)
        np.testing.assert_array_equal(values.numpy(), wanted)
        np.testing.assert_array_equal(np.take_along_axis(a, places.numpy(), axis), wanted)


def test_nothing_and_one_thing(device: Any) -> None:
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 4)):
        x = bp.Tensor(np.zeros(shape), device)
        assert bp.sort(x).shape == bp.argsort(x).shape == shape
        assert bp.topk(x, 0).values.shape == (*shape[:-1], 0)
    one = bp.Tensor(7.0, device)
    assert (bp.sort(one).item(), bp.argsort(one).item()) == (7.0, 0)
    assert bp.topk(one, 1).values.item() == 7.0
    assert bp.kthvalue(one, 1).indices.item() == 0


@pytest.mark.parametrize("count", [2 * SELECTED + 3, 2 * BLOCK + 3, 900])
def test_threads_do_not_change_a_bit(count: int) -> None:
    x = numbers(bp.float32, (2, count))
    results = []
    for threads in (1, 2):
        with bp.config(num_threads=threads):
            t = bp.tensor(x)
            parts = (bp.sort(t), bp.argsort(t), *bp.topk(t, 20))
            results.append([part.numpy().tobytes() for part in parts])
    assert results[0] == results[1]


@pytest.mark.parametrize("length", [SAMPLES[0] * 20, 2 * SELECTED + 77])
@pytest.mark.parametrize("kind", ["random", "rising", "falling", "equal", "few", "nan"])
def test_selection_whatever_the_order(kind: str, length: int) -> None:
    rng = np.random.default_rng(3)
    x = {
        "random": rng.standard_normal((1, length)),
        "rising": np.arange(length)[None] / 7.0,
        "falling": -np.arange(length)[None] / 7.0,
        "equal": np.zeros((1, length)),
        "few": rng.integers(0, 3, (1, length)).astype(np.float64),
        "nan": np.where(rng.random((1, length)) < 0.01, NAN, rng.random((1, length))),
    }[kind].astype(np.float32)
    for k in (1, 50, length // SMALL_K):
        for largest in (True, False):
            wanted = order(x, largest)[:, :k]
            _, places = bp.topk(bp.tensor(x), k, largest=largest)
            np.testing.assert_array_equal(places.numpy(), wanted)


@pytest.mark.parametrize("name", DTYPES)
def test_selection_of_every_dtype(name: str) -> None:
    x = numbers(getattr(bp, "bool_" if name == "bool" else name), (3, 500))
    for k in (0, 1, 31, 500):
        attributes = {"k": k, "descending": True}
        places = apply(TOP_K, (bp.tensor(x),), attributes).numpy()
        np.testing.assert_array_equal(places, order(x, True)[:, :k])


@pytest.mark.parametrize(
    "function",
    [
        bp.sort,
        lambda x: bp.sort(x, 0, descending=True),
        lambda x: bp.topk(x, 3).values,
        lambda x: bp.topk(x, 2, axis=0, largest=False).values,
        lambda x: bp.kthvalue(x, 2, 0, keepdims=True).values,
        lambda x: bp.median(x, axis=1),
        bp.median,
        lambda x: bp.quantile(x, [0.2, 0.7], axis=0),
        lambda x: bp.quantile(x, 0.4, interpolation="midpoint"),
    ],
)
def test_gradients_of_first_and_second_order(function: Any) -> None:
    x = (np.random.default_rng(0).permutation(24).reshape(4, 6) - 9) / 8.0
    for t in (bp.tensor(x), bp.tensor(x.T.copy()).T, bp.tensor(x)[::-1]):
        assert bp.gradcheck(function, (t,))
        assert bp.gradgradcheck(lambda t: function(t * t * t), (t,))


def test_gradients_of_nothing_and_of_broadcasts() -> None:
    x = bp.zeros((3, 0), requires_grad=True)
    bp.sort(x).sum().backward()
    assert x.grad is not None and x.grad.shape == (3, 0)
    x = bp.tensor(2.0, requires_grad=True)
    (bp.sort(bp.broadcast_to(x, (2, 3))) * bp.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad is not None and x.grad.item() == 12.0


def test_places_have_no_gradient() -> None:
    x = bp.tensor([2.0, 1.0], requires_grad=True)
    assert not bp.argsort(x).requires_grad
    assert not bp.topk(x, 1).indices.requires_grad
    with pytest.raises(GradientError, match="no gradient history"):
        bp.argsort(x).sum().backward()


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_are_those_of_numpy(interpolation: str, device: Any) -> None:
    x = np.random.default_rng(0).standard_normal((4, 5, 6))
    q = [0.0, 0.1, 0.5, 0.77, 1.0]
    for axis in (None, 0, 1, -1):
        for keepdims in (False, True):
            got = bp.quantile(bp.Tensor(x, device), q, axis, keepdims, interpolation)
            wanted = np.quantile(x, q, axis, method=interpolation, keepdims=keepdims)
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12)


def test_medians_are_those_of_numpy(device: Any) -> None:
    rng = np.random.default_rng(0)
    for shape in ((5,), (4, 6), (3, 2, 5), ()):
        x = rng.standard_normal(shape)
        for axis in (None, *range(len(shape))):
            got = bp.median(bp.Tensor(x, device), axis=axis, keepdims=bool(shape))
            np.testing.assert_allclose(got, np.median(x, axis, keepdims=bool(shape)), rtol=1e-14)
    np.testing.assert_array_equal(bp.median(bp.tensor([[1, NAN, 2], [1, 4, 2]]), 1), [NAN, 2])
    assert bp.median(bp.tensor([INF, INF, 1.0, INF])).item() == INF
    half = bp.tensor([60000.0, 65504.0], dtype=bp.float16)
    assert bp.median(half).dtype is bp.float16
    assert bp.median(half).item() == 62752.0  # the sum of the two is no float16


def test_refusals() -> None:
    x = bp.zeros((2, 3))
    with pytest.raises(ShapeError, match=r"sort: axis 2 is out of range"):
        bp.sort(x, 2)
    with pytest.raises(DTypeError, match=r"sort: complex numbers have no order"):
        bp.sort(bp.tensor(np.zeros(3, np.complex64)))
    with pytest.raises(ShapeError, match=r"topk: k = 4 does not fit axis 1 of size 3"):
        bp.topk(x, 4)
    with pytest.raises(ShapeError, match=r"topk: k = -1 does not fit"):
        bp.topk(x, -1)
    with pytest.raises(ShapeError, match=r"kthvalue: k = 0 does not fit axis 0 of size 2"):
        bp.kthvalue(x, 0, 0)
    with pytest.raises(ShapeError, match=r"median: an empty axis has no quantiles"):
        bp.median(bp.zeros((2, 0)), 1)
    with pytest.raises(DTypeError, match=r"median: the dtype of x does not fit"):
        bp.median(bp.tensor([1j, 2]))
    for q in (1.5, -0.1, NAN, [[0.5]]):
        with pytest.raises(ValueError, match=r"quantile: q must be numbers in \[0, 1\]"):
            bp.quantile(x, q)
    with pytest.raises(ValueError, match=r"unknown interpolation 'cubic'; there are linear"):
        bp.quantile(x, 0.5, interpolation="cubic")
