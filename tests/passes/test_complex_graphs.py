"""Random graphs of complex and real values against NumPy, on every device, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp

STEPS = 12


def start(r: np.random.Generator) -> list[Any]:
    shape = tuple(int(n) for n in r.integers(1, 7, 2))
    real = r.normal(size=shape)
    return [real + 1j * r.normal(size=shape), r.normal(size=shape) * 1j, real]


# each: (function of bp or np, of one or two values); all stay near 1 in size
def tame(m: Any, z: Any) -> Any:
    return z / (1 + m.abs(z))


UNARY = [
    lambda m, z: tame(m, m.exp(tame(m, z))), lambda m, z: m.conj(z), lambda m, z: -z * 0.5,
    lambda m, z: m.sin(tame(m, z)), lambda m, z: z[::-1], lambda m, z: z[:, ::-1] * 1j,
    lambda m, z: m.sqrt(z + 99) - 9, lambda m, z: m.abs(z), lambda m, z: m.real(z) + 0.5,
    lambda m, z: tame(m, m.sum(z, axis=0, keepdims=True)) + z, lambda m, z: tame(m, z * z),
    lambda m, z: m.concat([z[:, 1:], z[:, :1]], 1), lambda m, z: m.where(m.real(z) > 0, z, 1 - 2j),
    lambda m, z: z - m.mean(z, axis=1, keepdims=True),
    lambda m, z: tame(m, m.cumulative_sum(z, axis=1)),
]  # fmt: skip
BINARY = [
    lambda m, a, b: a + b, lambda m, a, b: a * b, lambda m, a, b: a - m.conj(b),
    lambda m, a, b: a / (3 + m.abs(b)), lambda m, a, b: m.where(m.abs(a) > m.abs(b), a, b),
    lambda m, a, b: tame(m, (a @ m.matrix_transpose(b)) @ a), lambda m, a, b: a * m.imag(b + 1j),
]  # fmt: skip


def grown(m: Any, values: list[Any], r: np.random.Generator) -> list[Any]:
    """The values with STEPS more, each of one or two that were there."""
    values = list(values)
    for _ in range(STEPS):
        chosen = [values[int(i)] for i in r.integers(0, len(values), 2)]
        which = int(r.integers(0, len(UNARY) + len(BINARY)))
        if which < len(UNARY):
            values.append(UNARY[which](m, chosen[0]))
        else:
            values.append(BINARY[which - len(UNARY)](m, *chosen))
    return values


def loss(m: Any, values: list[Any]) -> Any:
    total = m.sum(m.abs(values[-1]))
    for value in values[-4:-1]:
        total = total + m.sum(m.real(value * (1 - 0.5j)))
    return total


@pytest.mark.parametrize("block", range(4))
def test_random_complex_graphs(block: int, sweep: str) -> None:
    for seed in range(block, 12 if sweep == "quick" else 120, 4):
        arrays = start(np.random.default_rng(seed))
        wanted = grown(np, arrays, np.random.default_rng(seed + 1))
        gradients = []
        for device in ("cpu", "reference"):
            leaves = [bp.Tensor(array, device, requires_grad=True) for array in arrays]
            found = grown(bp, leaves, np.random.default_rng(seed + 1))
            loss(bp, found).backward()
            for got, value in zip(found, wanted, strict=True):
                assert got.dtype.numpy == value.dtype
                np.testing.assert_allclose(got.numpy(), value, rtol=1e-9, atol=1e-9)
            gradients.append([bp.zeros_like(x) if x.grad is None else x.grad for x in leaves])
        for ours, others in zip(*gradients, strict=True):
            assert ours.dtype is others.dtype
            np.testing.assert_allclose(ours.numpy(), others.numpy(), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("setting", ["fusion", "algebra", "cse", "check"])
def test_switches_keep_the_values_of_random_complex_graphs(setting: str, sweep: str) -> None:
    for seed in range(2 if sweep == "quick" else 20):
        arrays = start(np.random.default_rng(seed))
        results = []
        for value in (True, False):
            with bp.config(**{setting: value}):
                leaves = [bp.tensor(array) for array in arrays]
                found = grown(bp, leaves, np.random.default_rng(seed + 1))
                results.append([x.numpy() for x in found])
        for first, second in zip(*results, strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-12)
