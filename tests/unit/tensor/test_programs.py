"""Random programs of operations, indexing and assignment: values and gradients on the CPU agree
with the reference device, whatever is read on the way."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import bedplate as bp

SLICES = (slice(None), slice(None, None, -1), slice(1, None), slice(None, None, 2), 0, -1)
Values = list[bp.Tensor]
Step = Callable[[random.Random, bp.Tensor, Values], bp.Tensor | None]


def key(rng: random.Random, x: bp.Tensor) -> tuple[slice | int, ...]:
    return tuple(rng.choice(SLICES) for _ in range(x.ndim))


def assign(rng: random.Random, x: bp.Tensor, values: Values) -> None:
    x[key(rng, x)] = rng.choice([2.0, rng.choice(values)])


def scale(rng: random.Random, x: bp.Tensor, values: Values) -> None:
    x *= rng.choice([0.5, rng.choice(values)])


def rows(rng: random.Random, x: bp.Tensor, values: Values) -> bp.Tensor:
    n = x.shape[0] if x.ndim else 1
    return x[bp.tensor([rng.randrange(-n, n) for _ in range(3)], device=x.device)]


STEPS: list[Step] = [
    lambda rng, x, values: x.tanh(),
    lambda rng, x, values: x[key(rng, x)],
    lambda rng, x, values: x + rng.choice(values),
    lambda rng, x, values: x * rng.choice(values),
    lambda rng, x, values: x @ rng.choice(values),
    lambda rng, x, values: x.sum(axis=rng.randrange(-1, 1), keepdims=rng.random() < 0.5),
    lambda rng, x, values: x.transpose(),
    lambda rng, x, values: x.reshape(-1),
    lambda rng, x, values: bp.softmax(x),
    lambda rng, x, values: bp.where(x > 0, x, rng.choice(values)),
    rows,
    assign,
    scale,
]


def run(seed: int, device: str) -> list[np.ndarray]:
    """The result and the gradients of the program of a seed; what does not fit is left out."""
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    shapes = [(rng.randint(1, 4), rng.randint(1, 4)) for _ in range(3)]
    leaves = [bp.tensor(numbers.normal(size=s), device=device, requires_grad=True) for s in shapes]
    values = [leaf * 1 for leaf in leaves]
    for _ in range(rng.randint(5, 25)):
        step, x = rng.choice(STEPS), rng.choice(values)
        try:
            y = step(rng, x, values)
        except (bp.errors.UserError, IndexError):
            continue
        if y is not None and 0 < y.size < 300:
            values.append(y)
        if rng.random() < 0.1:
            rng.choice(values).numpy()
    total = bp.zeros((), dtype=bp.float64, device=device)
    for value in values[-6:]:
        total = total + (value.tanh() * 0.7).sum()
    total.backward()
    gradients = [np.zeros(()) if leaf.grad is None else leaf.grad.numpy() for leaf in leaves]
    return [total.numpy(), *gradients]


@pytest.mark.parametrize("seed", range(12))
def test_devices_agree(seed: int) -> None:
    for ours, reference in zip(run(seed, "cpu"), run(seed, "reference"), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-7, atol=1e-9)
