"""Random programs whose values wander between devices give the bits of the CPU alone.

Gradients are those of the CPU up to rounding: the moves are steps of the tape too, so what comes
together at a value may be added up in another order.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.devices import backends, register
from bedplate.testing import LoopbackBackend

STEPS = 30
PLACES = ("cpu", "loopback", "wanderer:0", "wanderer:1")
ONE: list[Callable[[Any], Any]] = [
    lambda x: x * 2 - 1, lambda x: x.exp(), lambda x: x.tanh(), lambda x: x.T.flip(0),
    lambda x: x - x.mean(axis=0), lambda x: bp.softmax(x, axis=1), lambda x: x[::-1, :],
    lambda x: bp.sort(x, axis=1), lambda x: bp.topk(x, 6).values, lambda x: x.cumsum(axis=0),
    lambda x: bp.linalg.inv(x * 0.01 + bp.eye(6, dtype=x.dtype, device=x.device)),
]  # fmt: skip
TWO: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y, lambda x, y: bp.where(x > y, x, y * 2), lambda x, y: (x @ y) * 0.1,
    lambda x, y: bp.concat([x[:3], y[3:]]),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def devices() -> None:
    for name, count in (("loopback", 1), ("wanderer", 2)):
        if name not in backends():
            register(LoopbackBackend(name, count))


def program(seed: int, wander: bool) -> tuple[list[bytes], Any]:
    """A random program's values and gradient; it takes the same steps wherever its values are."""
    chance = random.Random(seed)
    leaf = bp.tensor(np.random.default_rng(seed).normal(size=(6, 6)), requires_grad=True)
    values: list[Any] = [leaf]
    for _ in range(STEPS):
        choice, place = chance.random(), chance.choice(PLACES)
        x, y = chance.choice(values), chance.choice(values)
        function: Any = chance.choice(ONE if choice < 0.5 else TWO)
        if wander:
            x, y = x.to(place), y.to(place)
        value = function(x) if choice < 0.5 else function(x, y)
        value = bp.clip(value, -10, 10)
        values.append(value)
        if chance.random() < 0.1:
            value.realise()
        if chance.random() < 0.2:
            values.pop(chance.randrange(1, len(values)))
    total = sum((v.to("cpu") * (n + 1)).sum() for n, v in enumerate(values[1:]))
    found = [value.numpy().tobytes() for value in values]
    if total.requires_grad:  # type: ignore[union-attr]
        total.backward()  # type: ignore[union-attr]
        return found, leaf.grad.numpy()  # type: ignore[union-attr]
    return found, np.zeros(0)


@pytest.mark.parametrize("part", range(4))
def test_values_that_wander(part: int, sweep: str) -> None:
    count = 3 if sweep == "quick" else 25
    for seed in range(part * count, (part + 1) * count):
        (found, gradient), (wanted, slope) = program(seed, True), program(seed, False)
        assert found == wanted, f"seed {seed}"
        np.testing.assert_allclose(
            gradient, slope, rtol=1e-9, atol=1e-9 * np.abs(slope).max(initial=0), err_msg=str(seed)
        )
