"""Searching, sets and counts: values of NumPy on every device, edges, gradients, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import CaptureError, DTypeError, GradientError, ShapeError
from bedplate.ops.sorting import counting, searchsorted

NAN, INF = math.nan, math.inf
RNG = np.random.default_rng


# ---- searchsorted


@pytest.mark.parametrize(
    "name",
    ["bool_", "uint8", "int8", "int16", "uint32", "int64", "uint64", "float16", "bfloat16",
     "float32", "float64"],
)  # fmt: skip
@pytest.mark.parametrize("side", ["left", "right"])
def test_places_in_a_sorted_row(name: str, side: str) -> None:
    dtype = getattr(bp, name).numpy
    rng = RNG(0)
    for length in (0, 1, 2, 63, 1000):
        ordered = np.sort(rng.integers(0, 100, length)).astype(dtype)
        ordered = np.sort(ordered.astype(np.float64)).astype(dtype)
        values = rng.integers(0, 110, (3, 7)).astype(dtype)
        wide = [a.astype(np.float64) for a in (ordered, values)]
        got = bp.searchsorted(bp.tensor(ordered), bp.tensor(values), side=side)
        np.testing.assert_array_equal(got.numpy(), np.searchsorted(*wide, side))


def test_places_of_special_values(device: Any) -> None:
    ordered = np.array([-INF, -1.0, -0.0, 0.0, 2.0, INF, NAN, NAN])
    values = np.array([NAN, -INF, 0.0, -0.0, INF, 1.0])
    for side in ("left", "right"):
        got = bp.searchsorted(bp.Tensor(ordered, device), bp.Tensor(values, device), side=side)
        np.testing.assert_array_equal(got.numpy(), np.searchsorted(ordered, values, side))


def test_rows_sorter_numbers_and_buckets(device: Any) -> None:
    rows = np.sort(RNG(0).random((2, 3, 11)), -1)
    values = RNG(1).random((2, 3, 5))
    got = bp.searchsorted(bp.Tensor(rows, device), bp.Tensor(values, device), right=True).numpy()
    for place in np.ndindex(2, 3):
        wanted = np.searchsorted(rows[place], values[place], "right")
        np.testing.assert_array_equal(got[place], wanted)
    x = bp.Tensor(RNG(2).permutation(9), device)
    assert bp.searchsorted(x, 4, sorter=bp.argsort(x)).item() == 4
    assert bp.searchsorted(bp.Tensor([1.0, 2.0], device), 1.5).tolist() == 1
    edges = bp.Tensor([1.0, 2.0, 3.0], device)
    x = bp.Tensor([[0.5, 1.0], [2.5, 9.0]], device)
    assert bp.bucketize(x, edges).tolist() == [[0, 0], [2, 3]]
    assert bp.bucketize(x, edges, right=True).tolist() == [[0, 1], [2, 3]]
    reverse = bp.flip(bp.Tensor([3.0, 2.0, 1.0], device))
    assert bp.searchsorted(reverse, x.T).tolist() == [[0, 2], [0, 3]]


def test_many_values_on_any_number_of_threads() -> None:
    ordered, values = np.sort(RNG(0).random(5000)), RNG(1).random(3 * searchsorted.BLOCK + 5)
    for threads in (1, 2):
        with bp.config(num_threads=threads):
            got = bp.searchsorted(bp.tensor(ordered), bp.tensor(values)).numpy()
        np.testing.assert_array_equal(got, np.searchsorted(ordered, values))


def test_membership(device: Any) -> None:
    x = bp.Tensor([[1, 2], [3, 7]], device)
    assert bp.isin(x, bp.Tensor([7, 2, 2], device)).tolist() == [[False, True], [False, True]]
    assert bp.isin(x, 3, invert=True).tolist() == [[True, True], [False, True]]
    assert bp.isin(x, bp.Tensor(np.zeros(0, np.int64), device)).tolist() == [[False] * 2] * 2
    y = bp.Tensor([NAN, 0.0, INF, 5.0], device)
    assert bp.isin(y, bp.Tensor([-0.0, NAN, INF], device)).tolist() == [False, True, True, False]
    z = bp.Tensor(np.array([1j, 2.0]), device)
    assert bp.isin(z, bp.Tensor(np.array([2.0, 3j]), device)).tolist() == [False, True]


# ---- what is not zero


@pytest.mark.parametrize("shape", [(7,), (3, 4), (0, 3), (2, 0), (2, 3, 4)])
def test_places_of_what_is_not_zero(shape: tuple[int, ...], device: Any) -> None:
    for x in (
        RNG(0).integers(0, 2, shape),
        RNG(0).random(shape) < 0.5,
        np.where(RNG(0).random(shape) < 0.3, NAN, -0.0),
        np.where(RNG(0).random(shape) < 0.3, 1j, 0),
    ):
        t = bp.Tensor(x, device)
        got = bp.nonzero(t)
        assert len(got) == len(shape)
        assert all(part.dtype is bp.int64 for part in got)
        for part, wanted in zip(got, np.nonzero(x), strict=True):
            np.testing.assert_array_equal(part.numpy(), wanted)
        np.testing.assert_array_equal(bp.argwhere(t).numpy(), np.argwhere(x))
        for axis in (None, *range(len(shape)), tuple(range(len(shape)))):
            got = bp.count_nonzero(t, axis=axis, keepdims=True)
            wanted = np.count_nonzero(x, axis, keepdims=True)
            np.testing.assert_array_equal(got.numpy(), wanted)


def test_places_over_many_blocks(device: Any) -> None:
    x = RNG(0).random((3, 40_001)) < 0.3
    for mask in (x, ~x[:, ::-2], x & False, x | True):
        t = bp.Tensor(np.ascontiguousarray(mask), device)
        for got, wanted in zip(bp.nonzero(t.T), np.nonzero(mask.T), strict=True):
            np.testing.assert_array_equal(got.numpy(), wanted)


def test_argwhere_of_one_number() -> None:
    assert bp.argwhere(bp.tensor(3)).shape == (1, 0)
    assert bp.argwhere(bp.tensor(0)).shape == (0, 0)
    assert bp.count_nonzero(bp.tensor(2.0)).item() == 1


def test_masks_choose_and_put(device: Any) -> None:
    x = np.arange(12.0).reshape(3, 4)
    mask = x % 3 == 0
    t, m = bp.Tensor(x, device, requires_grad=True), bp.Tensor(mask, device)
    for chosen in (t[m], bp.masked_select(t, m)):
        np.testing.assert_array_equal(chosen.numpy(), x[mask])
        t.grad = None
        (chosen * bp.Tensor([1.0, 2.0, 3.0, 4.0], device)).sum().backward()
        wanted = np.zeros((3, 4))
        wanted[mask] = [1, 2, 3, 4]
        assert t.grad is not None
        np.testing.assert_array_equal(t.grad.numpy(), wanted)
    with bp.no_grad():
        y = t * 1
        y[m] = bp.Tensor([-1.0, -2.0, -3.0, -4.0], device)
        assert y[m].tolist() == [-1, -2, -3, -4]
        y[m] = 9.0
        np.testing.assert_array_equal(y.numpy(), np.where(mask, 9.0, x))
        y[bp.Tensor([True, False, True], device)] = 0.0
        assert y.numpy()[[0, 2]].max() == 0
    column = bp.Tensor([[True], [False], [True]], device)
    np.testing.assert_array_equal(bp.masked_select(t, column).numpy(), x[[0, 2]].reshape(-1))
    assert bp.masked_select(t, bp.Tensor(False, device)).shape == (0,)


def test_gradients_of_masked_select() -> None:
    x, mask = bp.tensor(RNG(0).random((3, 4))), bp.tensor(RNG(1).random((3, 4)) < 0.5)
    for t, m in ((x, mask), (x.T, mask.T), (x[::2], mask[::2]), (x[:1], mask)):
        assert bp.gradcheck(lambda t, m=m: bp.masked_select(t, m), (t,))
        assert bp.gradgradcheck(lambda t, m=m: bp.masked_select(t * t * t, m), (t,))


# ---- sets


@pytest.mark.parametrize("shape", [(40,), (6, 7), (1,), (0,), (3, 0)])
@pytest.mark.parametrize("name", ["int64", "uint8", "bool_", "float32", "float16", "complex64"])
def test_sets_are_those_of_numpy(shape: tuple[int, ...], name: str, device: Any) -> None:
    x = RNG(0).integers(0, 9, shape).astype(getattr(bp, name).numpy)
    if name == "complex64":
        x = x + 1j * RNG(1).integers(0, 3, shape).astype(np.float32)
    t = bp.Tensor(x, device)
    wanted = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    got = bp.unique_all(t)
    assert got.values.dtype is t.dtype
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.reshape(mine.shape))
    assert got.inverse_indices.shape == shape
    np.testing.assert_array_equal(bp.unique_values(t).numpy(), wanted[0])
    np.testing.assert_array_equal(bp.unique_counts(t).counts.numpy(), wanted[3])
    inverse = bp.unique_inverse(t)
    np.testing.assert_array_equal(inverse.values.numpy()[inverse.inverse_indices.numpy()], x)


def test_nan_is_a_value_of_its_own(device: Any) -> None:
    x = bp.Tensor(np.array([NAN, 1.0, 0.0, NAN, -0.0, INF]), device)
    values, indices, inverse, counts = bp.unique_all(x)
    np.testing.assert_array_equal(values.numpy(), [0.0, 1.0, INF, NAN, NAN])
    assert counts.tolist() == [2, 1, 1, 1, 1]
    assert indices.tolist() == [2, 1, 5, 0, 3]
    assert inverse.tolist() == [3, 1, 0, 4, 0, 2]


def test_asking_for_the_gradient_of_a_set_says_why_there_is_none(device: Any) -> None:
    for values in ([2.0, 1.0, 2.0], [2 + 1j, 1, 2 + 1j]):
        x = bp.Tensor(np.array(values), device, requires_grad=True)
        for found in (bp.unique_values(x), bp.unique_counts(x).values):
            assert found.tolist() == sorted(set(values), key=abs)
            with pytest.raises(GradientError, match="how many different values there are"):
                bp.abs(found).sum().backward()


def test_slices_that_differ(device: Any) -> None:
    x = RNG(0).integers(0, 2, (3, 8, 2))
    for axis in (0, 1, 2, -1):
        named = {"return_index": True, "return_inverse": True, "return_counts": True}
        wanted = np.unique(x, axis=axis, **named)
        got = bp.unique(bp.Tensor(x, device), dim=axis, **named)
        for mine, theirs in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs)
    assert bp.unique(bp.Tensor(x, device)).tolist() == [0, 1]
    values, counts = bp.unique(bp.Tensor([2, 2, 1], device), return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([1, 2], [1, 2])


def test_sets_say_why_they_have_no_gradient() -> None:
    x = bp.tensor([1.0, 2.0, 1.0], requires_grad=True)
    with pytest.raises(GradientError, match="how many different values there are changes"):
        bp.unique_values(x).sum().backward()


# ---- counts


@pytest.mark.parametrize("count", [0, 1, 7, 2 * counting.BLOCK + 3])
def test_counts_are_those_of_numpy(count: int, device: Any) -> None:
    x = RNG(0).integers(0, 30, count)
    for name in ("int64", "uint8", "int32"):
        t = bp.Tensor(x.astype(name), device)
        for least in (0, 50):
            got = bp.bincount(t, minlength=least)
            np.testing.assert_array_equal(got.numpy(), np.bincount(x, minlength=least))
    weights = RNG(1).random(count)
    got = bp.bincount(t, bp.Tensor(weights, device))
    np.testing.assert_allclose(got.numpy(), np.bincount(x, weights), rtol=1e-12)
    assert bp.bincount(t, bp.Tensor(x, device)).dtype is bp.float64


def test_sums_of_weights_have_the_same_bits_on_any_threads() -> None:
    x, weights = RNG(0).integers(0, 9, 70_000), RNG(1).random(70_000).astype(np.float32)
    results = set()
    for threads in (1, 2):
        with bp.config(num_threads=threads):
            results.add(bp.bincount(bp.tensor(x), bp.tensor(weights)).numpy().tobytes())
    assert len(results) == 1


@pytest.mark.parametrize("name", ["float64", "float32", "int64", "uint8"])
def test_histograms_are_those_of_numpy(name: str, device: Any) -> None:
    x = (RNG(0).random((20, 30)) * 100).astype(name)
    t = bp.Tensor(x, device)
    weights = RNG(1).random((20, 30))
    for bins in (1, 10, 37, [0.0, 1.0, 1.0, 50.0, 70.0], [90, 95]):
        for limits in (None, (10.0, 20.0), (-5, 50)):
            wanted, edges = np.histogram(x, bins, limits)
            got, mine = bp.histogram(t, bins, limits)
            assert got.dtype is bp.int64
            np.testing.assert_array_equal(got.numpy(), wanted)
            np.testing.assert_allclose(mine.numpy(), edges, rtol=3e-7)
            got, _ = bp.histogram(t, bins, limits, weights=bp.Tensor(weights, device))
            wanted, _ = np.histogram(x, bins, limits, weights=weights)
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-10)
        if bins != [0.0, 1.0, 1.0, 50.0, 70.0]:  # a bin without width has no density
            got, _ = bp.histogram(t, bins, density=True)
            wanted, _ = np.histogram(x, bins, density=True)
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5)


def test_histograms_at_the_edges(device: Any) -> None:
    x = bp.Tensor(np.array([0.0, 1.0, 2.0, 3.0, NAN, INF, -INF, 1.0]), device)
    counts, _ = bp.histogram(x, 3, (0.0, 3.0))
    assert counts.tolist() == [1, 2, 2]  # the last bin has both ends
    counts, edges = bp.histogram(bp.Tensor([2.0, 2.0], device), 2)
    assert (counts.tolist(), edges.tolist()) == ([0, 2], [1.5, 2.0, 2.5])
    counts, edges = bp.histogram(bp.Tensor(np.zeros(0), device), 2)
    assert (counts.tolist(), edges.tolist()) == ([0, 0], [0.0, 0.5, 1.0])
    assert bp.histc(x, 3, min=0, max=3).tolist() == [1, 2, 2]


def test_gradients_of_weights() -> None:
    index, weights = bp.tensor([0, 2, 2, 1, 0]), bp.tensor(RNG(0).random(5))
    x = bp.tensor(RNG(1).random(5))
    for function in (
        lambda w: bp.bincount(index, w),
        lambda w: bp.histogram(x, 3, (0, 1), w)[0],
        lambda w: bp.histogram(x, 3, (0, 1), w, density=True)[0],
    ):
        for w in (weights, bp.flip(weights)):
            assert bp.gradcheck(function, (w,))
            assert bp.gradgradcheck(lambda w, f=function: f(w * w), (w,))


# ---- refusals


@pytest.mark.parametrize(
    "function",
    [bp.nonzero, bp.argwhere, bp.unique_values, bp.unique_all, bp.unique, bp.bincount, bp.histc,
     lambda x: bp.masked_select(x, x > 1), lambda x: x[x > 1], lambda x: bp.histogram(x)[0],
     lambda x: bp.unique(x, axis=0)],
)  # fmt: skip
def test_a_captured_step_cannot_depend_on_values(function: Any) -> None:
    with pytest.raises(CaptureError, match="a value was read inside a captured step"):
        bp.jit(function)(bp.tensor([1, 2, 2]))


def test_what_needs_no_values_is_captured() -> None:
    x = bp.tensor([3.0, 1.0, 2.0])

    @bp.jit
    def step(x: Any) -> Any:
        counts, _ = bp.histogram(x, 3, (0.0, 3.0))
        return bp.sort(x), bp.searchsorted(bp.sort(x), x), bp.isin(x, 2), counts

    for _ in range(2):
        got = [part.tolist() for part in step(x)]
        assert got == [[1, 2, 3], [2, 0, 1], [False, False, True], [0, 1, 2]]


def test_refusals() -> None:
    x = bp.tensor([1.0, 2.0])
    with pytest.raises(ShapeError, match="nonzero: a 0-d value has no places"):
        bp.nonzero(bp.tensor(1))
    with pytest.raises(DTypeError, match="masked_select: the mask must be bool"):
        bp.masked_select(x, bp.tensor([1, 0]))
    with pytest.raises(ShapeError, match="masked_select: the shapes do not broadcast"):
        bp.masked_select(x, bp.tensor([True] * 3))
    with pytest.raises(ValueError, match='side is "left" or "right", not \'up\''):
        bp.searchsorted(x, 1.0, side="up")
    with pytest.raises(ShapeError, match="searchsorted: the shapes do not fit"):
        bp.searchsorted(bp.zeros((2, 3)), bp.zeros((3, 3)))
    with pytest.raises(ShapeError, match="searchsorted: the shapes differ"):
        bp.searchsorted(x, x, sorter=bp.tensor([0]))
    with pytest.raises(DTypeError, match="searchsorted: complex numbers have no order"):
        bp.searchsorted(bp.tensor(np.array([1j])), 1.0)
    with pytest.raises(IndexError, match="index 5 is out of range"):
        bp.searchsorted(x, x, sorter=bp.tensor([0, 5])).numpy()
    with pytest.raises(ValueError, match="bincount: x has the negative element -3"):
        bp.bincount(bp.tensor([1, -3]))
    with pytest.raises(DTypeError, match="bincount: x must be integers"):
        bp.bincount(x)
    with pytest.raises(ShapeError, match="bincount: x must have one axis"):
        bp.bincount(bp.tensor([[1]]))
    with pytest.raises(ShapeError, match="bincount: the shapes differ"):
        bp.bincount(bp.tensor([1]), x)
    with pytest.raises(ValueError, match="minlength must not be negative, got -1"):
        bp.bincount(bp.tensor([1]), minlength=-1)
    with pytest.raises(ValueError, match="number of bins must be positive, got 0"):
        bp.histogram(x, 0)
    with pytest.raises(ValueError, match=r"the range \(2, 1\) falls"):
        bp.histogram(x, 2, (2, 1))
    with pytest.raises(ValueError, match=r"the range \[1.0, nan\] is not finite"):
        bp.histogram(x, 2, (1, NAN))
    with pytest.raises(ValueError, match="is not finite"):
        bp.histogram(bp.tensor([1.0, NAN]))
    with pytest.raises(ValueError, match="histogram: the edges must rise"):
        bp.histogram(x, [1.0, 0.0])
    with pytest.raises(ShapeError, match="edges are a vector of at least two"):
        bp.histogram(x, [1.0])
    with pytest.raises(ShapeError, match="histogram: the shapes differ"):
        bp.histogram(x, 2, weights=bp.zeros(3))
