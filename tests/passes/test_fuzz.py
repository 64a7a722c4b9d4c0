"""Random graphs: the compiled value against that of the references."""

from __future__ import annotations

import numpy as np
import pytest

import bedplate as bp
from bedplate.config import config

SHAPES = [(6,), (4, 6), (1, 6), (4, 1), (3, 4, 6), (3, 1, 6), (2, 3, 4, 6)]


class Grower:
    """Grows one random expression over a few leaves, the same on each device."""

    def __init__(self, seed, device):
        self.rng = np.random.default_rng(seed)
        self.pool = []
        for shape in SHAPES:
            array = self.rng.integers(-8, 9, shape) / 4
            self.pool.append(bp.tensor(array.astype(np.float32), device=device))

    def pick(self):
        return self.pool[self.rng.integers(len(self.pool))]

    def grow(self):
        kind = self.rng.integers(8)
        x = self.pick()
        value = getattr(self, f"_{kind}")(x)
        self.pool.append(value)

    def _0(self, x):
        return x * 0.5 + self.pick_like(x)

    def _1(self, x):
        return bp.maximum(x, self.pick_like(x))

    def _2(self, x):
        axes = tuple(a for a in range(x.ndim) if self.rng.random() < 0.5) or None
        how = ("sum", "max", "min")[self.rng.integers(3)]
        return getattr(x, how)(axis=axes, keepdims=bool(self.rng.integers(2))) * 0.25

    def _3(self, x):
        return x.permute(*self.rng.permutation(x.ndim).tolist()) if x.ndim > 1 else -x

    def _4(self, x):
        return x.reshape(-1) if self.rng.random() < 0.5 else x.reshape(*x.shape, 1)

    def _5(self, x):
        key = []
        for size in x.shape:
            start = int(self.rng.integers(0, max(size // 2, 1)))
            step = int(self.rng.choice([1, 1, 2, -1]))
            key.append(slice(None, None, -1) if step < 0 else slice(start, None, step))
        return x[tuple(key)]

    def _6(self, x):
        if x.ndim and 0 < x.shape[0] < 50:
            return bp.concat([x, x * 2], axis=0) if self.rng.random() < 0.5 else bp.pad(x, 1)
        return x.abs()

    def _7(self, x):
        return bp.where(x > 0.25, x, -0.5 * x)

    def pick_like(self, x):
        fitting = [y for y in self.pool if y.shape == x.shape] or [x]
        choice = fitting[self.rng.integers(len(fitting))]
        if x.ndim and self.rng.random() < 0.4:
            return choice.sum(axis=-1, keepdims=True) * 0.125
        return choice


def results(seed, device):
    grower = Grower(seed, device)
    for _ in range(14):
        grower.grow()
    return [value.numpy() for value in grower.pool[len(SHAPES) :] if value.size < 20000]


@pytest.mark.parametrize("seed", range(40))
def test_random_graph(seed):
    expected = results(seed, "reference")
    with config(verify=True):
        found = results(seed, "cpu")
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=f"value {i}")
