"""Gather, scatter and their kin: against NumPy loops, gradients, order, ranges, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import DTypeError, ShapeError

JOIN: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "mean": np.add,
    "amax": np.maximum,
    "amin": np.minimum,
}
RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 2, (4, 5, 3))
SRC = RNG.uniform(0.5, 2, (3, 6, 3))
INDEX = RNG.integers(-3, 3, (3, 4, 2))  # shorter than x and the source


def scattered(x: Any, axis: int, index: Any, src: Any, reduce: str, include_self: bool) -> Any:
    """What scatter_reduce means, one element after the other."""
    y = x.copy()
    count = np.ones(x.shape, int) if include_self else np.zeros(x.shape, int)
    for place in np.ndindex(*index.shape):
        at = list(place)
        at[axis] = index[place] % x.shape[axis]
        to = tuple(at)
        if reduce == "last" or not count[to]:
            y[to] = src[place]
        else:
            y[to] = JOIN[reduce](y[to], src[place])
        count[to] += 1
    return y / np.maximum(count, 1) if reduce == "mean" else y


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_and_scatter(axis: int, device: Any, toolbox: Any) -> None:
    x, src = bp.Tensor(X, device), bp.Tensor(SRC, device)
    index = bp.Tensor(INDEX, device)
    places = tuple(slice(None) if a == axis % 3 else slice(0, n) for a, n in enumerate((3, 4, 2)))
    wanted = np.take_along_axis(X[places], INDEX, axis)
    np.testing.assert_array_equal(bp.gather(x, axis, index).numpy(), wanted)
    last = scattered(X, axis, INDEX, SRC, "last", True)
    np.testing.assert_array_equal(bp.scatter(x, axis, index, src).numpy(), last)
    nines = scattered(X, axis, INDEX, SRC * 0 + 9, "last", True)
    np.testing.assert_array_equal(bp.scatter(x, axis, index, 9).numpy(), nines)
    total = scattered(X, axis, INDEX, SRC, "sum", True)
    toolbox.assert_close(bp.scatter_add(x, axis, index, src).numpy(), total, 1e-15, "add")


@pytest.mark.parametrize("reduce", list(JOIN))
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(reduce: str, include_self: bool, device: Any, toolbox: Any) -> None:
    x, src, index = bp.Tensor(X, device), bp.Tensor(SRC, device), bp.Tensor(INDEX, device)
    got = bp.scatter_reduce(x, 1, index, src, reduce, include_self)
    wanted = scattered(X, 1, INDEX, SRC, reduce, include_self)
    toolbox.assert_close(got.numpy(), wanted, 1e-14, reduce)
    inputs = [bp.tensor(X[:2, :, :2]), bp.tensor(SRC[:2, :4, :2])]
    places = bp.tensor(INDEX[:2])

    def function(x: Any, src: Any) -> Any:
        return bp.scatter_reduce(x, 1, places, src, reduce, include_self)

    assert bp.gradcheck(function, inputs)
    assert bp.gradgradcheck(function, inputs)


@pytest.mark.parametrize("reduce", list(JOIN))
def test_integers_and_narrow_floats(reduce: str, device: Any) -> None:
    x, src = np.array([7, -3, 5], np.int32), np.array([4, 2, -8, 1], np.int32)
    index = np.array([0, 0, 2, 0])
    got = bp.scatter_reduce(
        bp.Tensor(x, device), 0, bp.Tensor(index, device), bp.Tensor(src, device), reduce
    )
    wanted = np.floor(scattered(x.astype(float), 0, index, src.astype(float), reduce, True))
    assert got.dtype is bp.int32 and got.tolist() == wanted.tolist()
    many = bp.ones(300, dtype=bp.bfloat16, device=device)
    zero = bp.zeros(1, dtype=bp.bfloat16, device=device)
    total = bp.scatter_add(zero, 0, bp.zeros(300, dtype=bp.int64, device=device), many)
    assert total.item() == 300  # a bfloat16 accumulator stops at 256


def test_ties_share_the_gradient(device: Any) -> None:
    """As torch: every largest element, x among them, has an equal share."""
    x = bp.Tensor(np.array([2.0, 0.0]), device, requires_grad=True)
    src = bp.Tensor(np.array([2.0, 1.0, 2.0]), device, requires_grad=True)
    index = bp.Tensor(np.array([0, 0, 0]), device)
    bp.scatter_reduce(x, 0, index, src, "amax").sum().backward()
    assert x.grad is not None and src.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [1 / 3, 1])
    np.testing.assert_allclose(src.grad.numpy(), [1 / 3, 0, 1 / 3])


def test_products_around_zero_have_gradients() -> None:
    """B26: no division by a factor that is 0, in the second order either."""
    src = bp.tensor([0.0, 3.0, 0.0, 0.0, 2.0, 5.0, 4.0])
    index = bp.tensor([0, 0, 1, 1, 1, 2, 2])

    def function(src: Any) -> Any:
        return bp.scatter_reduce(bp.ones(3, dtype=bp.float64), 0, index, src, "prod")

    assert bp.gradcheck(function, src)
    assert bp.gradgradcheck(function, src)


def test_the_last_assignment_wins(device: Any) -> None:
    """B28, for every function that assigns."""
    index = bp.Tensor(np.array([0, 0, 2]), device)

    def by_key(x: Any, s: Any) -> Any:
        x = x * 1
        x[index] = s
        return x

    for function in (
        lambda x, s: bp.scatter(x, 0, index, s),
        lambda x, s: bp.index_copy(x, 0, index, s),
        lambda x, s: bp.index_put(x, [index], s),
        lambda x, s: bp.put_along_axis(x, index, s, 0),
        by_key,
    ):
        x = bp.Tensor(np.zeros(3), device, requires_grad=True)
        s = bp.Tensor(np.array([1.0, 2.0, 5.0]), device, requires_grad=True)
        y = function(x, s)
        assert y.tolist() == [2, 0, 5]
        y.sum().backward()
        assert s.grad is not None and s.grad.tolist() == [0, 1, 1]
        assert x.grad is not None and x.grad.tolist() == [0, 1, 0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_slices_by_index(axis: int, device: Any, toolbox: Any) -> None:
    x = bp.Tensor(X, device)
    picks = np.array([1, -1, 1, 0])
    index = bp.Tensor(picks, device)
    source = np.moveaxis(RNG.uniform(0.5, 2, (4, *np.delete(X.shape, axis))), 0, axis)
    rows, more = np.moveaxis(X, axis, 0), np.moveaxis(source, axis, 0)
    added, copied, product = rows.copy(), rows.copy(), rows.copy()
    np.add.at(added, picks, 0.5 * more)
    np.multiply.at(product, picks, more)
    for place, row in zip(picks, more, strict=True):
        copied[place] = row
    src = bp.Tensor(source, device)
    pairs = [
        (bp.index_add(x, axis, index, src, alpha=0.5), added),
        (bp.index_copy(x, axis, index, src), copied),
        (bp.index_reduce(x, axis, index, src, "prod"), product),
        (bp.index_select(x, axis, index), rows[picks]),
        (bp.index_fill(x, axis, index, 9.0), np.where(_named(rows, picks), 9.0, rows)),
    ]
    for got, wanted in pairs:
        toolbox.assert_close(got.numpy(), np.moveaxis(wanted, 0, axis), 1e-15, str(axis))
    inputs = [bp.tensor(X), bp.tensor(source)]
    here = bp.tensor(picks)
    for function in (
        lambda x, s: bp.index_add(x, axis, here, s),
        lambda x, s: bp.index_copy(x, axis, here, s),
        lambda x, s: bp.index_reduce(x, axis, here, s, "mean", include_self=False),
    ):
        assert bp.gradcheck(function, inputs)


def _named(rows: Any, picks: Any) -> Any:
    named = np.zeros(rows.shape[0], bool)
    named[picks] = True
    return named[:, None, None]


def test_index_put(device: Any) -> None:
    i, j = np.array([[0], [3]]), np.array([1, -1, 1])
    values = RNG.normal(size=(2, 3, 3))
    x, v = bp.Tensor(X, device), bp.Tensor(values, device)
    indices = [bp.Tensor(i, device), bp.Tensor(j, device)]
    wanted = X.copy()
    wanted[i, j] = values
    np.testing.assert_array_equal(bp.index_put(x, indices, v).numpy(), wanted)
    wanted = X.copy()
    np.add.at(wanted, (i, j), values)
    np.testing.assert_allclose(bp.index_put(x, indices, v, accumulate=True).numpy(), wanted)
    wanted[X[:, :, 0] > 1] = 3
    mask = bp.Tensor(X[:, :, 0] > 1, device)
    added = bp.index_put(x, indices, v, accumulate=True)
    np.testing.assert_allclose(bp.index_put(added, [mask], 3.0).numpy(), wanted)
    assert bp.index_put(x, indices[:1], 2.0)[3].tolist() == np.full((5, 3), 2.0).tolist()


def test_masks(device: Any) -> None:
    x = bp.Tensor(X, device)
    mask = X > 1.2
    shown = bp.Tensor(mask, device)
    got = bp.masked_fill(x, shown, bp.Tensor(np.float64(7), device)).numpy()
    np.testing.assert_array_equal(got, np.where(mask, 7, X))
    source = bp.Tensor(SRC, device)
    wanted = X.copy()
    wanted[mask] = SRC.reshape(-1)[: mask.sum()]
    np.testing.assert_array_equal(bp.masked_scatter(x, shown, source).numpy(), wanted)
    assert bp.gradcheck(
        lambda x, s: bp.masked_scatter(x, bp.tensor(mask), s), [bp.tensor(X), bp.tensor(SRC)]
    )
    short = bp.Tensor(np.ones(2), device)
    for few in (short, short[:0]):
        with pytest.raises(IndexError, match=r"masked_scatter: source: index \d+ is out of range"):
            bp.masked_scatter(x, shown, few).numpy()
    nothing = bp.Tensor(np.zeros(X.shape, bool), device)
    np.testing.assert_array_equal(bp.masked_scatter(x, nothing, short[:0]).numpy(), X)


OUT_OF_RANGE: dict[str, Callable[[Any, Any], Any]] = {
    "take": lambda x, i: bp.take(x, i, 0),
    "gather": lambda x, i: bp.gather(x, 0, i),
    "take_along_axis": lambda x, i: bp.take_along_axis(x, i, 0),
    "scatter": lambda x, i: bp.scatter(x, 0, i, 1.0),
    "scatter_reduce": lambda x, i: bp.scatter_add(x, 0, i, bp.Tensor(np.ones(1), x.device)),
    "index_add": lambda x, i: bp.index_add(x, 0, i, bp.Tensor(np.ones(1), x.device)),
    "index_copy": lambda x, i: bp.index_copy(x, 0, i, bp.Tensor(np.ones(1), x.device)),
    "index_fill": lambda x, i: bp.index_fill(x, 0, i, 1.0),
    "index_put": lambda x, i: bp.index_put(x, [i], 1.0),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_out_of_range_raises_and_minus_one_is_the_last(name: str, device: Any) -> None:
    """B29."""
    function = OUT_OF_RANGE[name]
    x = bp.Tensor(np.array([5.0, 6.0, 7.0]), device)
    for index in (3, -4):
        wrong = bp.Tensor(np.array([index]), device)
        text = f"{name}: axis 0: index {index} is out of range for size 3"
        with pytest.raises(IndexError, match=text):
            function(x, wrong).numpy()
    last, minus = bp.Tensor(np.array([2]), device), bp.Tensor(np.array([-1]), device)
    np.testing.assert_array_equal(function(x, last).numpy(), function(x, minus).numpy())


def test_the_same_bits_on_any_number_of_threads() -> None:
    index = bp.tensor(RNG.integers(0, 7, 4000))
    rows = bp.tensor(RNG.normal(size=(4000, 33)).astype(np.float32))
    for reduce in JOIN:
        results = []
        for threads in (1, 2):
            with bp.config(num_threads=threads):
                y = bp.index_reduce(bp.ones((7, 33)), 0, index, rows, reduce)
                results.append(y.numpy().tobytes())
        assert results[0] == results[1]


def test_assignment_by_an_index_tensor_inside_jit() -> None:
    """The range is checked when the captured step runs, each time."""

    @bp.jit
    def step(table: Any, i: Any, v: Any) -> Any:
        table = table * 1
        table[i] = v
        table[:, i] = 0.0
        return table

    table = np.arange(12.0).reshape(4, 3)
    for i in ([1, 0], [2, 2], [0, -1]):
        v = RNG.normal(size=(2, 3))
        wanted = table.copy()
        wanted[i] = v
        wanted[:, i] = 0
        got = step(bp.tensor(table), bp.tensor(i), bp.tensor(v))
        np.testing.assert_array_equal(got.numpy(), wanted)
    with pytest.raises(IndexError, match="indexing: axis 0: index 9 is out of range for size 4"):
        step(bp.tensor(table), bp.tensor([9, 0]), bp.tensor(v)).numpy()


@pytest.mark.parametrize(
    "key",
    [
        lambda i, j: (i,),
        lambda i, j: (slice(None), i),
        lambda i, j: (i, slice(1, None), j),
        lambda i, j: (slice(None, None, -1), i, j),
        lambda i, j: (None, i, ..., 1),
        lambda i, j: (0, i, slice(0, 2)),
        lambda i, j: (i, [1, 2]),
    ],
)
def test_assignment_through_every_kind_of_key(key: Any, device: Any) -> None:
    i, j = np.array([2, 0]), np.array([-1, 1])
    x = np.arange(60.0).reshape(3, 4, 5)
    shape = x[key(i, j)].shape
    values = RNG.normal(size=shape)
    wanted = x.copy()
    wanted[key(i, j)] = values
    ours = bp.Tensor(x, device)
    lazy = key(bp.Tensor(i, device), bp.Tensor(j, device))
    ours[lazy] = bp.Tensor(values, device)
    np.testing.assert_array_equal(ours.numpy(), wanted)


def test_nothing_to_do() -> None:
    x, none = bp.ones((2, 3)), bp.zeros((0,), dtype=bp.int64)
    assert bp.index_add(x, 0, none, bp.ones((0, 3))).tolist() == x.tolist()
    assert bp.index_fill(x, 0, none, 5.0).tolist() == x.tolist()
    empty = bp.zeros((0, 3), dtype=bp.int64)
    assert bp.scatter(x, 0, empty, bp.ones((0, 3))).tolist() == x.tolist()
    assert bp.scatter_reduce(x, 0, empty, bp.ones((0, 3)), "amax", False).tolist() == x.tolist()
    assert bp.gather(x, 0, empty).shape == (0, 3)


def test_refusals() -> None:
    x, index = bp.ones((2, 3)), bp.zeros((2, 3), dtype=bp.int64)
    row = bp.tensor([0])
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ShapeError, "gather: the index does not fit", lambda: bp.gather(x, 0, row)),
        (ShapeError, "scatter: the index does not fit",
         lambda: bp.scatter(x, 0, bp.zeros((2, 4), dtype=bp.int64), 1.0)),
        (ShapeError, "scatter: the source does not fit",
         lambda: bp.scatter(x, 0, index, bp.ones((1, 3)))),
        (DTypeError, "scatter: the dtypes differ",
         lambda: bp.scatter(x, 0, index, index)),
        (DTypeError, "indices must be integers", lambda: bp.gather(x, 0, x)),
        (ValueError, "scatter_reduce: reduce must be one of",
         lambda: bp.scatter_reduce(x, 0, index, x, "add")),
        (ValueError, "index_reduce: reduce must be one of",
         lambda: bp.index_reduce(x, 0, row, x, "add")),
        (ShapeError, "index_select: the index has more than one axis",
         lambda: bp.index_select(x, 0, index)),
        (ShapeError, "index_add: the index has more than one axis",
         lambda: bp.index_add(x, 0, index, x)),
        (ShapeError, "index_add: the source does not fit", lambda: bp.index_add(x, 0, row, x)),
        (ShapeError, "index_fill: the index has more than one axis",
         lambda: bp.index_fill(x, 0, index, 1.0)),
        (ShapeError, "index_put: 3 indices for 2 axes", lambda: bp.index_put(x, [row] * 3, 1.0)),
        (DTypeError, "indices must be integers", lambda: bp.index_put(x, [x], 1.0)),
        (ShapeError, "put_along_axis: x and indices differ in their number of axes",
         lambda: bp.put_along_axis(x, row, 1.0)),
        (ShapeError, "masked_fill: the value has axes", lambda: bp.masked_fill(x, x > 0, x)),
        (DTypeError, "masked_scatter: the mask is not bool",
         lambda: bp.masked_scatter(x, index, x)),
    ]  # fmt: skip
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()
