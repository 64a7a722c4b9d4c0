"""Random expression graphs against NumPy in float64: the value, and the gradient along a direction.

Each graph applies some thirty operations, drawn from the table at the end, to a pool of values of
mixed dtypes and shapes. NumPy computes beside it with dual numbers: a value and its derivative
along a random direction of the leaves, which the tape's gradient must agree with. Nothing is
compared that rounding could turn over: comparisons are of leaves, whose values are exact.

A little long: the table is half of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import bedplate as bp

SHAPES = [(4,), (3, 4), (1, 4), (3, 1), (3, 4), (2, 3, 4), (2, 1, 4), ()]
OPERATIONS = 30
# the share of graphs whose kernels are fused: each has kernels of its own, which take long to make
FUSED = 10
COUNTS = {"quick": 120, "full": 10_000}
BATCH = 40  # graphs of one test
TOLERANCE = {True: 1e-9, False: 1e-3}  # of float64, and where float32 took part


@dataclass
class Dual:
    """A tensor beside its value and derivative in float64; wide: it never was less than float64."""

    t: Any
    v: Any
    d: Any
    wide: bool = True
    leaf: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.v.shape

    @property
    def ndim(self) -> int:
        return self.v.ndim


class Graph:
    """A pool of values that grows by random operations."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.wide = bool(seed % 2)
        self.leaves: list[Dual] = []
        self.integers: list[Dual] = []
        self.trace: list[str] = []
        self.pool = [self._leaf(shape) for shape in SHAPES]
        for shape in SHAPES[:4]:
            array = self.rng.integers(-5, 6, shape)
            kind = (np.int64, np.int32, np.int8)[self.rng.integers(3)]
            self.integers.append(Dual(bp.tensor(array.astype(kind)), array, 0 * array, leaf=True))

    def _leaf(self, shape: tuple[int, ...]) -> Dual:
        dtype = bp.float64
        if not self.wide:
            dtype = (bp.float32, bp.float32, bp.float64, bp.float16, bp.bfloat16)[
                self.rng.integers(5)
            ]
        array = self.rng.normal(size=shape).astype(dtype.numpy)
        leaf = Dual(
            bp.tensor(array).requires_grad_(), array.astype(np.float64),
            self.rng.normal(size=shape), dtype is bp.float64, True,
        )  # fmt: skip
        self.leaves.append(leaf)
        if dtype.itemsize > 2:
            return leaf
        return Dual(leaf.t.astype(bp.float32), leaf.v, leaf.d, False, True)

    def pick(self, least: int = 0) -> Dual:
        """A value of at least so many axes."""
        fitting = [x for x in self.pool if x.ndim >= least]
        return fitting[self.rng.integers(len(fitting))]

    def fitting(self, x: Dual) -> Dual:
        """A value that broadcasts with x and makes it no larger than it should be."""
        found = []
        for y in self.pool:
            try:
                shape = np.broadcast_shapes(x.shape, y.shape)
            except ValueError:
                continue
            if np.prod(shape, dtype=int) <= 200:
                found.append(y)
        return found[self.rng.integers(len(found))]

    def grow(self) -> None:
        name = NAMES[self.rng.integers(len(NAMES))]
        made = TABLE[name](self)
        self.trace.append(name)
        if made.v.size and np.abs(made.v).max() > 8:  # what grows is tamed
            made = _unary(made, bp.tanh, np.tanh, lambda v: 1 - np.tanh(v) ** 2)
        self.pool.append(made)
        if len(self.pool) > 20:  # the oldest make room, so that graphs grow deep
            self.pool.pop(int(self.rng.integers(4)))


def _result(t: Any, v: Any, d: Any, *inputs: Dual) -> Dual:
    return Dual(t, np.asarray(v), np.asarray(d), all(x.wide for x in inputs))


def _unary(x: Dual, ours: Any, theirs: Any, slope: Any) -> Dual:
    return _result(ours(x.t), theirs(x.v), x.d * slope(x.v), x)


def unary(ours: Any, theirs: Any, slope: Any) -> Callable[[Graph], Dual]:
    return lambda g: _unary(g.pick(), ours, theirs, slope)


def linear(ours: Any, theirs: Any, least: int = 0) -> Callable[[Graph], Dual]:
    """An operation that does to the derivative what it does to the value."""

    def operation(g: Graph) -> Dual:
        x = g.pick(least)
        state = g.rng.bit_generator.state
        values = []
        for source, function in ((x.t, ours), (x.v, theirs), (x.d, theirs)):
            g.rng.bit_generator.state = state
            values.append(function(source, g.rng))
        return _result(values[0], values[1], values[2], x)

    return operation


def binary(ours: Any, theirs: Any, slopes: Any) -> Callable[[Graph], Dual]:
    def operation(g: Graph) -> Dual:
        x = g.pick()
        y = g.fitting(x)
        to_x, to_y = slopes(x.v, y.v)
        return _result(ours(x.t, y.t), theirs(x.v, y.v), to_x * x.d + to_y * y.d, x, y)

    return operation


def axes(rng: Any, x: Any) -> tuple[int, ...] | None:
    chosen = tuple(int(a) for a in range(x.ndim) if rng.random() < 0.5)
    return chosen or None


def reduction(ours: str, theirs: Any, slope: Any) -> Callable[[Graph], Dual]:
    """slope(v, axis) -> how each element moves the result, reduced by a sum over the axes."""

    def operation(g: Graph) -> Dual:
        x = g.pick()
        axis, keep = axes(g.rng, x), bool(g.rng.integers(2))
        v = theirs(x.v, axis=axis, keepdims=keep)
        d = np.sum(slope(x.v, axis) * x.d, axis=axis, keepdims=keep)
        return _result(getattr(bp, ours)(x.t, axis=axis, keepdims=keep), v, d, x)

    return operation


def _extreme_slope(function: Any) -> Any:
    def slope(v: Any, axis: Any) -> Any:
        chosen = v == function(v, axis=axis, keepdims=True)
        return chosen / chosen.sum(axis=axis, keepdims=True)

    return slope


def _var_slope(v: Any, axis: Any) -> Any:
    n = v.size // max(np.mean(v, axis=axis).size, 1)
    return 2 * (v - v.mean(axis=axis, keepdims=True)) / n


def _logsumexp(v: Any, axis: Any, keepdims: bool) -> Any:
    return np.log(np.exp(v).sum(axis=axis, keepdims=keepdims))


def _softmax(g: Graph) -> Dual:
    x = g.pick(1)
    axis = int(g.rng.integers(x.ndim))
    p = np.exp(x.v - x.v.max(axis=axis, keepdims=True))
    p /= p.sum(axis=axis, keepdims=True)
    d = p * (x.d - (p * x.d).sum(axis=axis, keepdims=True))
    return _result(bp.softmax(x.t, axis), p, d, x)


def _matmul(g: Graph) -> Dual:
    x = g.pick(2)
    if g.rng.integers(2):
        t, v, d = x.t.mT, np.swapaxes(x.v, -1, -2), np.swapaxes(x.d, -1, -2)
        return _result(x.t @ t / 4, x.v @ v / 4, (x.d @ v + x.v @ d) / 4, x)
    y = next((y for y in reversed(g.pool) if y.ndim and y.shape[-1] == x.shape[-1]), x)
    t = y.t.mT if y.ndim > 1 else y.t
    v, d = (np.swapaxes(a, -1, -2) if y.ndim > 1 else a for a in (y.v, y.d))
    if y.ndim > 2 and x.ndim > 2 and 1 not in (y.shape[0], x.shape[0]) and y.shape[0] != x.shape[0]:
        return x
    return _result(x.t @ t / 4, x.v @ v / 4, (x.d @ v + x.v @ d) / 4, x, y)


def _where(g: Graph) -> Dual:
    x = g.pick()
    y = g.fitting(x)
    shape = np.broadcast_shapes(x.shape, y.shape)
    known = [leaf for leaf in (*g.integers, *g.leaves) if leaf.shape in (shape, ())]
    c = known[g.rng.integers(len(known))] if known else g.integers[0]
    if c.shape not in (shape, ()):
        return x
    mask, ours = c.v > 0.25, c.t > 0.25
    return _result(
        bp.where(ours, x.t, y.t), np.where(mask, x.v, y.v), np.where(mask, x.d, y.d), x, y
    )


def _whole(g: Graph) -> Dual:
    """Integer arithmetic, exact, as a factor."""
    a = g.integers[g.rng.integers(len(g.integers))]
    k = int(g.rng.integers(2, 5))
    choices = [
        (a.t // k, a.v // k), (a.t % k, a.v % k), (a.t * k - a.t, a.v * k - a.v),
        ((a.t > 1) & (a.t < 4), (a.v > 1) & (a.v < 4)), (bp.abs(a.t) << 1, np.abs(a.v) << 1),
    ]  # fmt: skip
    t, v = choices[g.rng.integers(len(choices))]
    x = g.fitting(Dual(t, v, v))
    return _result(x.t * t / 4, x.v * v / 4, x.d * v / 4, x)


def _slices(x: Any, rng: Any) -> tuple[slice, ...]:
    steps = (slice(None), slice(None, None, -1), slice(1, None), slice(None, None, 2), slice(0, -1))
    return tuple(steps[rng.integers(5)] if size > 2 else slice(None) for size in x.shape)


def _take(x: Any, rng: Any) -> Any:
    axis = int(rng.integers(x.ndim))
    index = rng.integers(-x.shape[axis], x.shape[axis], int(rng.integers(1, 5)))
    if isinstance(x, np.ndarray):
        return np.take(x, index, axis)
    return bp.take(x, bp.tensor(index), axis=axis)


def _update(g: Graph) -> Dual:
    x = g.pick(1)
    y = g.pick()
    rows = x.shape[0]
    place = int(g.rng.integers(rows))
    t, v, d = x.t * 1, x.v.copy(), x.d.copy()
    t[place] = y.t.sum().astype(x.t.dtype)
    v[place], d[place] = y.v.sum(), y.d.sum()
    return _result(t, v, d, x, y)


def _expanded(x: Any, rng: Any) -> tuple[int, ...]:
    shape = tuple(int(rng.integers(2, 4)) if size == 1 else size for size in x.shape)
    return shape if x.ndim > 2 else (2, *shape)


def _joined(g: Graph) -> Dual:
    x = g.pick(1)
    y = next((y for y in reversed(g.pool) if y.ndim == x.ndim and y.shape[1:] == x.shape[1:]), x)
    values = [np.concatenate(pair, 0) for pair in ((x.v, y.v), (x.d, y.d))]
    return _result(bp.concat([x.t, y.t], axis=0), values[0], values[1], x, y)


def _cumulative(name: str) -> Callable[..., Any]:
    def function(x: Any, rng: Any) -> Any:
        return getattr(bp if isinstance(x, bp.Tensor) else np, name)(
            x, axis=int(rng.integers(x.ndim))
        )

    return function


def _padding(x: Any, rng: Any) -> list[tuple[int, int]]:
    return [(int(rng.integers(2)), int(rng.integers(2))) for _ in x.shape]


def _order(x: Any, rng: Any) -> tuple[int, ...]:
    return tuple(rng.permutation(x.ndim).tolist())


def _as_rows(x: Any, rng: Any) -> tuple[int, ...]:
    size = x.size
    return (-1,) if size % 2 or rng.integers(2) else (2, size // 2)


def _sigmoid(v: Any) -> Any:
    return 1 / (1 + np.exp(-v))


TABLE: dict[str, Callable[[Graph], Dual]] = {
    "add": binary(bp.add, np.add, lambda x, y: (1, 1)),
    "subtract": binary(bp.subtract, np.subtract, lambda x, y: (1, -1)),
    "multiply": binary(bp.multiply, np.multiply, lambda x, y: (y, x)),
    "divide": binary(
        lambda x, y: x / (y * y + 1), lambda x, y: x / (y * y + 1),
        lambda x, y: (1 / (y * y + 1), -2 * x * y / (y * y + 1) ** 2),
    ),
    "maximum": binary(
        bp.maximum, np.maximum, lambda x, y: ((x > y) + (x == y) / 2, (y > x) + (x == y) / 2)
    ),
    "minimum": binary(
        bp.minimum, np.minimum, lambda x, y: ((x < y) + (x == y) / 2, (y < x) + (x == y) / 2)
    ),
    "exp": unary(lambda x: bp.exp(x / 4), lambda v: np.exp(v / 4), lambda v: np.exp(v / 4) / 4),
    "log": unary(
        lambda x: bp.log(x * x + 1), lambda v: np.log(v * v + 1), lambda v: 2 * v / (v * v + 1)
    ),
    "sqrt": unary(
        lambda x: bp.sqrt(x * x + 1), lambda v: np.sqrt(v * v + 1), lambda v: v / np.sqrt(v * v + 1)
    ),
    "sin": unary(bp.sin, np.sin, np.cos),
    "tanh": unary(bp.tanh, np.tanh, lambda v: 1 - np.tanh(v) ** 2),
    "sigmoid": unary(bp.sigmoid, _sigmoid, lambda v: _sigmoid(v) * (1 - _sigmoid(v))),
    "relu": unary(bp.relu, lambda v: np.maximum(v, 0), lambda v: v > 0),
    "abs": unary(bp.abs, np.abs, np.sign),
    "square": unary(bp.square, np.square, lambda v: 2 * v),
    "scale": unary(lambda x: 0.5 - x * 1.5, lambda v: 0.5 - v * 1.5, lambda v: -1.5 + 0 * v),
    "widened": unary(lambda x: x.astype(bp.float64), lambda v: v, np.ones_like),
    "sum": reduction("sum", np.sum, lambda v, axis: 1),
    "mean": reduction("mean", np.mean, lambda v, axis: np.mean(v, axis=axis).size / v.size),
    "max": reduction("max", np.max, _extreme_slope(np.max)),
    "min": reduction("min", np.min, _extreme_slope(np.min)),
    "var": reduction("var", np.var, _var_slope),
    "logsumexp": reduction(
        "logsumexp", _logsumexp, lambda v, axis: np.exp(v - _logsumexp(v, axis, True))
    ),
    "softmax": _softmax,
    "matmul": _matmul,
    "where": _where,
    "integers": _whole,
    "update": _update,
    "concat": _joined,
    "permute": linear(
        lambda x, r: x.permute(*_order(x, r)), lambda x, r: np.transpose(x, _order(x, r)), 2
    ),
    "reshape": linear(
        lambda x, r: x.reshape(*_as_rows(x, r)), lambda x, r: x.reshape(_as_rows(x, r)), 1
    ),
    "slice": linear(lambda x, r: x[_slices(x, r)], lambda x, r: x[_slices(x, r)], 1),
    "expand": linear(
        lambda x, r: bp.broadcast_to(x, _expanded(x, r)),
        lambda x, r: np.broadcast_to(x, _expanded(x, r)),
    ),
    "flip": linear(lambda x, r: bp.flip(x), lambda x, r: np.flip(x)),
    "pad": linear(
        lambda x, r: bp.pad(x, _padding(x, r)), lambda x, r: np.pad(x, _padding(x, r)), 1
    ),
    "take": linear(_take, _take, 1),
    "cumsum": linear(_cumulative("cumsum"), _cumulative("cumsum"), 1),
    "new axis": linear(lambda x, r: x[None], lambda x, r: x[None]),
}  # fmt: skip
NAMES = sorted(TABLE)


def check(seed: int) -> None:
    """Build the graph of a seed, and compare its last values and its gradient."""
    graph = Graph(seed)
    while len(graph.trace) < OPERATIONS:
        graph.grow()
        if graph.pool[-1].ndim > 3 or graph.pool[-1].v.size > 200:
            graph.pool.pop()
    chosen = graph.pool[-4:]
    weights = [graph.rng.normal(size=x.shape) for x in chosen]
    terms = [(x.t * bp.tensor(w)).sum() for x, w in zip(chosen, weights, strict=True)]
    root = terms[0] + terms[1] + terms[2] + terms[3]
    slope = sum(float(np.sum(w * x.d)) for x, w in zip(chosen, weights, strict=True))
    scale = sum(float(np.sum(np.abs(w * x.d))) for x, w in zip(chosen, weights, strict=True))
    wide = all(x.wide for x in chosen)
    if root.requires_grad:
        root.backward()
    for x in chosen:
        tolerance = TOLERANCE[x.wide]
        np.testing.assert_allclose(
            x.t.numpy(), x.v, rtol=tolerance, atol=tolerance * max(1.0, np.abs(x.v).max(initial=0)),
            err_msg=f"seed {seed}: {graph.trace}",
        )  # fmt: skip
    found = sum(
        float(np.sum(leaf.t.grad.numpy().astype(np.float64) * leaf.d))
        for leaf in graph.leaves
        if leaf.t.grad is not None
    )
    bound = 10 * (TOLERANCE[True] if wide and graph.wide else 0.02) * (1 + abs(slope) + scale)
    assert abs(found - slope) <= bound, f"seed {seed}: {found} for {slope}: {graph.trace}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "first" in metafunc.fixturenames:
        count = COUNTS[os.environ.get("BEDPLATE_SWEEP", "quick")]
        metafunc.parametrize("first", range(0, count, BATCH))


def test_random_graphs(first: int, sweep: str) -> None:
    for seed in range(first, first + BATCH):
        with bp.config(fusion=not seed % FUSED):
            check(seed)


def test_a_derivative_wrong_by_a_thousandth_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = unary(bp.tanh, np.tanh, lambda v: 1.001 * (1 - np.tanh(v) ** 2))
    monkeypatch.setitem(TABLE, "tanh", wrong)
    caught = 0
    for seed in range(1, 21, 2):
        try:
            with bp.config(fusion=False):
                check(seed)
        except AssertionError:
            caught += 1
    assert caught >= 3  # it does not reach the root of every graph


def test_a_wrong_value_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = unary(bp.tanh, lambda v: np.tanh(v) * 1.001, lambda v: 1 - np.tanh(v) ** 2)
    monkeypatch.setitem(TABLE, "tanh", wrong)
    with pytest.raises(AssertionError), bp.config(fusion=False):
        for seed in range(1, 21, 2):
            check(seed)
