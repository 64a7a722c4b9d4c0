"""Convolution and its transposition against PyTorch: values and all gradients, first and second.

Every combination of stride, padding, dilation and groups in one to three dimensions.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as T

import bedplate as bp
import bedplate.nn.functional as F

# PyTorch tells of copies that it makes
pytestmark = pytest.mark.filterwarnings("ignore:Using ")


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def compare(name: str, inputs: list[Any], *arguments: Any, **named: Any) -> None:
    """Values, gradients, and the gradients of a function of the gradients."""
    a = [bp.tensor(x, requires_grad=True) for x in inputs]
    b = [torch.tensor(x, requires_grad=True) for x in inputs]
    y, z = getattr(F, name)(*a, *arguments, **named), getattr(T, name)(*b, *arguments, **named)
    assert y.shape == tuple(z.shape)
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-9, atol=1e-10)
    weights = array(*y.shape, seed=9)
    y.backward(bp.tensor(weights), create_graph=True)
    z.backward(torch.tensor(weights), create_graph=True)
    first: list[Any] = [x.grad for x in a]
    wanted: list[Any] = [x.grad for x in b]
    for mine, right in zip(first, wanted, strict=True):
        np.testing.assert_allclose(
            mine.detach().numpy(), right.detach().numpy(), rtol=1e-8, atol=1e-9
        )
    for x, other in zip(a, b, strict=True):
        x.grad = other.grad = None
    ((first[0] ** 2).sum() + (first[1] ** 2).sum()).backward()
    ((wanted[0] ** 2).sum() + (wanted[1] ** 2).sum()).backward()
    for mine, right in zip(a[:2], b[:2], strict=True):
        assert mine.grad is not None and right.grad is not None
        np.testing.assert_allclose(mine.grad.numpy(), right.grad.numpy(), rtol=1e-7, atol=1e-7)


SPACES = {1: ((13,), (3,)), 2: ((7, 9), (3, 2)), 3: ((4, 5, 4), (2, 3, 2))}


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(rank: int, groups: int) -> None:
    space, window = SPACES[rank]
    x, w, b = array(2, 4, *space), array(8, 4 // groups, *window, seed=1), array(8, seed=2)
    for stride, padding, dilation in itertools.product((1, 2), (0, 1, "same", "valid"), (1, 2)):
        if padding == "same" and stride > 1:
            continue
        compare(f"conv{rank}d", [x, w, b], stride, padding, dilation, groups)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions(rank: int, groups: int) -> None:
    space, window = SPACES[rank]
    x, w, b = array(2, 8, *space), array(8, 4 // groups, *window, seed=1), array(4, seed=2)
    if groups > 1:
        b = array(4 // groups * groups, seed=2)
    for stride, padding, more, dilation in itertools.product((1, 2), (0, 1), (0, 1), (1, 2)):
        if more < max(stride, dilation):
            compare(f"conv_transpose{rank}d", [x, w, b], stride, padding, more, groups, dilation)


def test_sizes_that_differ_by_axis() -> None:
    x, w, b = array(2, 6, 11, 8), array(9, 2, 3, 1, seed=1), array(9, seed=2)
    compare("conv2d", [x, w, b], (3, 2), (2, 1), (1, 3), 3)
    w = array(6, 3, 2, 3, seed=1)
    compare("conv_transpose2d", [x, w, b], (3, 2), (1, 2), (2, 1), 3, (1, 2))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_without_a_batch(rank: int) -> None:
    space, window = SPACES[rank]
    x, w = array(4, *space), array(8, 4, *window, seed=1)
    y, z = both(f"conv{rank}d", x, w)
    np.testing.assert_allclose(y, z, rtol=1e-10, atol=1e-12)
    y, z = both(f"conv_transpose{rank}d", array(8, *space), w)
    np.testing.assert_allclose(y, z, rtol=1e-10, atol=1e-12)


def both(name: str, *inputs: Any) -> tuple[Any, Any]:
    ours = getattr(F, name)(*(bp.tensor(x) for x in inputs))
    return ours.numpy(), getattr(T, name)(*(torch.tensor(x) for x in inputs)).numpy()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_narrow_floats(dtype: str) -> None:
    x, w = array(2, 16, 12, 12), array(8, 16, 3, 3, seed=1)
    kind = getattr(torch, dtype)
    wanted = T.conv2d(torch.tensor(x).to(kind), torch.tensor(w).to(kind), padding=1)
    found = F.conv2d(bp.tensor(x).astype(dtype), bp.tensor(w).astype(dtype), padding=1).astype(
        bp.float32
    )
    tolerance = {"float32": 1e-5, "bfloat16": 0.05, "float16": 0.01}[dtype]
    np.testing.assert_allclose(
        found.numpy(), wanted.float().numpy(), rtol=tolerance, atol=10 * tolerance
    )
