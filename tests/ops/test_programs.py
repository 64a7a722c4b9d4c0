"""Random programs of views, reductions, products and row ops: values and gradients on every
device against the reference device, in float64.

Each op alone is right by the other tests; here it is what stands between them that is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp

SIZES = (1, 2, 3, 5, 8, 17, 33)
MOST_ELEMENTS = 20_000
N_PROGRAMS = 40
N_STEPS = 9

Rng = np.random.Generator
UNARY = (
    bp.exp, bp.tanh, bp.sigmoid, bp.silu, bp.relu, bp.abs, bp.square, bp.cos,
    lambda x: x * 0.5 + 1, lambda x: bp.sqrt(bp.abs(x) + 1), lambda x: bp.clip(x, -0.5, 0.5),
    lambda x: bp.where(x > 0, x * 0.5, x),
)  # fmt: skip
BINARY = (
    bp.add, bp.subtract, bp.multiply, lambda a, b: a / (b * b + 1), bp.maximum, bp.swiglu,
)  # fmt: skip
REDUCTIONS = (bp.sum, bp.mean, bp.max, bp.min, bp.var, bp.logsumexp)


def unary(rng: Rng, x: Any, pool: list[Any]) -> Any:
    return UNARY[rng.integers(len(UNARY))](x)


def binary(rng: Rng, x: Any, pool: list[Any]) -> Any:
    for y in rng.permutation(np.arange(len(pool))):
        sizes = [(a, b) for a, b in zip(x.shape[::-1], pool[y].shape[::-1], strict=False)]
        shape = np.maximum(1, [max(pair) for pair in sizes])
        fits = all(a == b or 1 in (a, b) for a, b in sizes)
        if fits and np.prod(shape) * max(x.size, pool[y].size) < MOST_ELEMENTS**2:
            return BINARY[rng.integers(len(BINARY))](x, pool[y])
    return bp.square(x)


def reduction(rng: Rng, x: Any, pool: list[Any]) -> Any:
    count = int(rng.integers(1, x.ndim + 1))
    axes = tuple(sorted(rng.choice(x.ndim, count, replace=False).tolist()))
    function = REDUCTIONS[rng.integers(len(REDUCTIONS))]
    return function(x, axis=axes, keepdims=bool(rng.integers(2)))


def part(rng: Rng, x: Any, pool: list[Any]) -> Any:
    axis = int(rng.integers(x.ndim))
    start = int(rng.integers(x.shape[axis]))
    step = int(rng.choice([1, 1, 2, -1]))
    key = slice(start, None, step)
    return x[(slice(None),) * axis + (key,)]


def reshaped(rng: Rng, x: Any, pool: list[Any]) -> Any:
    sizes = [int(size) for size in rng.permutation(x.shape)]
    return x.reshape(-1) if rng.integers(2) else x.reshape(*sizes)


def padded(rng: Rng, x: Any, pool: list[Any]) -> Any:
    widths = rng.integers(0, 3, (x.ndim, 2)).tolist()
    return bp.pad(x, widths) if x.size < MOST_ELEMENTS / 4 else x


def chosen(rng: Rng, x: Any, pool: list[Any]) -> Any:
    axis = int(rng.integers(x.ndim))
    index = rng.integers(0, x.shape[axis], rng.integers(1, 9))
    return bp.take(x, bp.Tensor(index, x.device), axis)


def product(rng: Rng, x: Any, pool: list[Any]) -> Any:
    columns = x.shape[-1]
    partners = [y for y in pool if y.ndim and y.shape[-1] == columns]
    y = partners[rng.integers(len(partners))]
    if x.size * y.size > columns * MOST_ELEMENTS:
        return x
    return bp.tanh(x.reshape(-1, columns) @ y.reshape(-1, columns).T * 0.1 + 0.1)


STEPS: tuple[Callable[[Rng, Any, list[Any]], Any], ...] = (
    unary,
    unary,
    binary,
    binary,
    reduction,
    part,
    reshaped,
    padded,
    chosen,
    product,
    lambda rng, x, pool: x.permute(*rng.permutation(x.ndim).tolist()),
    lambda rng, x, pool: bp.softmax(x, axis=int(rng.integers(x.ndim))),
    lambda rng, x, pool: bp.rms_norm(x),
    lambda rng, x, pool: bp.concat([x, x * 2], int(rng.integers(x.ndim))),
    lambda rng, x, pool: bp.flip(x, int(rng.integers(x.ndim))),
    lambda rng, x, pool: x - bp.mean(x, axis=int(rng.integers(x.ndim)), keepdims=True),
    lambda rng, x, pool: bp.expand_dims(x, int(rng.integers(x.ndim + 1))),
)


def run(seed: int, device: Any) -> list[np.ndarray[Any, Any]]:
    """The last values, their mean square and its gradients, of the program of a seed."""
    rng = np.random.default_rng(seed)
    base = [int(size) for size in rng.choice(SIZES, rng.integers(1, 5))]
    leaves = []
    for _ in range(rng.integers(1, 4)):
        shape = [size if rng.random() < 0.7 else 1 for size in base][rng.integers(len(base)) :]
        leaves.append(bp.Tensor(rng.uniform(-1.5, 1.5, shape), device, requires_grad=True))
    pool: list[Any] = list(leaves)
    for _ in range(N_STEPS):
        x = pool[rng.integers(len(pool))]
        small = x.ndim and x.size < MOST_ELEMENTS
        pool.append((STEPS[rng.integers(len(STEPS))] if small else unary)(rng, x, pool))
    last = pool[-3:]
    total = sum(bp.mean(bp.square(value)) for value in last)
    total.backward()
    grads = [leaf.grad.numpy() for leaf in leaves if leaf.grad is not None]
    return [*(value.numpy() for value in last), total.numpy(), *grads]


@pytest.mark.parametrize("seed", range(N_PROGRAMS))
def test_program(seed: int, device: Any) -> None:
    for got, wanted in zip(run(seed, device), run(seed, "reference"), strict=True):
        scale = max(1e-5, float(np.abs(wanted).max(initial=0)))
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9 * scale)
