"""Complex functions and their gradients against PyTorch, whose convention is ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import bedplate as bp

TOLERANCE = 1e-11


def numbers(*shape: int, seed: int = 0) -> Any:
    r = np.random.default_rng(seed)
    return r.normal(size=shape) + 1j * r.normal(size=shape)


def compare(ours: Callable[..., Any], theirs: Callable[..., Any], *inputs: Any) -> None:
    """Value, every gradient, and every gradient of a gradient, with random upstream ones."""
    a = [bp.tensor(x, requires_grad=True) for x in inputs]
    b = [torch.tensor(x, requires_grad=True) for x in inputs]
    y, z = ours(*a), theirs(*b)
    np.testing.assert_allclose(
        y.numpy(), z.detach().resolve_conj().numpy(), rtol=TOLERANCE, atol=TOLERANCE
    )
    seed = numbers(*z.shape, seed=5)
    seed = seed if z.is_complex() else seed.real
    y.backward(bp.tensor(seed), create_graph=True)
    first = torch.autograd.grad(z, b, torch.tensor(seed), create_graph=True, allow_unused=True)
    total, other = None, None
    for i, (mine, right) in enumerate(zip(a, first, strict=True)):
        if right is None:
            continue
        grad = mine.grad
        assert grad is not None
        np.testing.assert_allclose(
            grad.numpy(), right.detach().resolve_conj().numpy(), rtol=1e-9, atol=1e-9
        )
        mine.grad = None
        probe = numbers(*right.shape, seed=7 + i)
        probe = probe if right.is_complex() else probe.real
        part = bp.real(grad * bp.tensor(probe)).sum()
        share = (right * torch.tensor(probe)).real.sum()
        total, other = (part, share) if total is None else (total + part, other + share)
    assert total is not None and other is not None
    if not other.requires_grad:
        return
    total.backward()
    second = torch.autograd.grad(other, b, allow_unused=True)
    for mine, right in zip(a, second, strict=True):
        if right is not None:
            found = np.zeros(right.shape) if mine.grad is None else mine.grad.numpy()
            np.testing.assert_allclose(found, right.resolve_conj().numpy(), rtol=1e-8, atol=1e-8)


UNARY = [
    "exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh",
    "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "square", "reciprocal",
    "abs", "angle", "conj", "negative", "real", "imag", "view_as_real",
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str) -> None:
    theirs = getattr(torch, name, None)
    compare(getattr(bp, name), theirs, numbers(4, 5))


def test_directions() -> None:
    compare(bp.sign, torch.sgn, numbers(4, 5))


@pytest.mark.parametrize(
    "name, shapes",
    [
        ("add", ((3, 4), (4,))), ("subtract", ((3, 1), (1, 4))), ("multiply", ((3, 4), ())),
        ("divide", ((3, 4), (3, 4))), ("pow", ((3, 4), (3, 4))), ("matmul", ((2, 3, 4), (4, 5))),
        ("matmul", ((4,), (4,))),
    ],
)  # fmt: skip
def test_functions_of_two_numbers(name: str, shapes: Any) -> None:
    inputs = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    compare(getattr(bp, name), getattr(torch, name), *inputs)


@pytest.mark.parametrize("name", ["add", "multiply", "divide"])
def test_real_numbers_with_complex_ones(name: str) -> None:
    x, z = numbers(3, 4).real.copy(), numbers(3, 4, seed=1)
    compare(getattr(bp, name), getattr(torch, name), x, z)
    compare(getattr(bp, name), getattr(torch, name), z, x)


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (lambda z: z.sum(axis=0), lambda z: z.sum(0)),
        (lambda z: bp.prod(z, axis=1), lambda z: z.prod(1)),
        (lambda z: z.mean(axis=1), lambda z: z.mean(1)),
        (lambda z: bp.cumulative_sum(z, axis=1), lambda z: z.cumsum(1)),
        (lambda z: bp.cumulative_prod(z, axis=0), lambda z: z.cumprod(0)),
        (lambda z: z.T @ z, lambda z: z.T @ z),
        (lambda z: z**3, lambda z: z**3),
        (lambda z: 2**z, lambda z: 2**z),
        (lambda z: z * (1 + 2j) / 3, lambda z: z * (1 + 2j) / 3),
        (lambda z: bp.view_as_complex(bp.view_as_real(z) * 2), lambda z: torch.view_as_complex(
            torch.view_as_real(z) * 2)),
        (lambda z: bp.complex(z.real, z.imag**2), lambda z: torch.complex(z.real, z.imag**2)),
        (lambda z: bp.polar(abs(z), z.imag), lambda z: torch.polar(z.abs(), z.imag)),
        (lambda z: bp.where(z.real > 0, z, z * 1j), lambda z: torch.where(z.real > 0, z, z * 1j)),
    ],
)  # fmt: skip
def test_compositions(ours: Any, theirs: Any) -> None:
    compare(ours, theirs, numbers(4, 3))


def test_special_gradients_at_zero() -> None:
    z = np.zeros(3, np.complex128)
    for ours, theirs in ((bp.abs, torch.abs), (bp.angle, torch.angle)):
        a, b = bp.tensor(z, requires_grad=True), torch.tensor(z, requires_grad=True)
        ours(a).sum().backward()
        theirs(b).sum().backward()
        assert a.grad is not None and b.grad is not None
        np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())
