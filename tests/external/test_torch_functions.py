"""Functions and their gradients against PyTorch, on random inputs of odd sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as T

import bedplate as bp
import bedplate.nn.functional as F

TOLERANCE = 2e-5


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def compare(ours: Callable[..., Any], theirs: Callable[..., Any], *inputs: np.ndarray) -> None:
    """Value and every gradient, with a random upstream gradient."""
    a = [bp.tensor(x, requires_grad=True) for x in inputs]
    b = [torch.tensor(x, requires_grad=True) for x in inputs]
    y, z = ours(*a), theirs(*b)
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=TOLERANCE, atol=TOLERANCE)
    grad = np.random.default_rng(5).standard_normal(z.shape).astype(np.float32)
    y.backward(bp.tensor(grad))
    z.backward(torch.tensor(grad))
    for mine, right in zip(a, b, strict=True):
        assert mine.grad is not None and right.grad is not None
        np.testing.assert_allclose(
            mine.grad.numpy(), right.grad.numpy(), rtol=TOLERANCE, atol=5 * TOLERANCE
        )


ELEMENTWISE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "exp": (lambda x: x.exp(), torch.exp),
    "tanh": (lambda x: x.tanh(), torch.tanh),
    "relu": (lambda x: x.relu(), torch.relu),
    "sigmoid": (F.sigmoid, torch.sigmoid),
    "silu": (F.silu, T.silu),
    "gelu": (F.gelu, T.gelu),
    "log1p of a square": (lambda x: (x * x).log1p(), lambda x: (x * x).log1p()),
    "sqrt of a square and one": (lambda x: (x * x + 1).sqrt(), lambda x: (x * x + 1).sqrt()),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("shape", [(1,), (7,), (33, 5), (2, 3, 17)])
def test_elementwise(name: str, shape: tuple[int, ...]) -> None:
    compare(*ELEMENTWISE[name], *arrays(shape))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((1, 1), (1, 1)),
        ((5, 7), (7, 3)),
        ((64, 65), (65, 33)),
        ((2, 3, 4, 5), (3, 5, 6)),
        ((7,), (7, 3)),
        ((1, 300), (300, 257)),
    ],
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    compare(lambda x, y: x @ y, lambda x, y: x @ y, *arrays(a, b))


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2)])
def test_reductions(axis: Any) -> None:
    (x,) = arrays((3, 5, 7))
    dim = tuple(range(3)) if axis is None else axis
    compare(lambda x: x.sum(axis=axis), lambda x: x.sum(dim=dim), x)
    compare(lambda x: x.mean(axis=axis), lambda x: x.mean(dim=dim), x)
    compare(lambda x: x.var(axis=axis), lambda x: x.var(dim=dim, correction=0), x)
    compare(lambda x: x.max(axis=axis), lambda x: x.amax(dim=dim), x)


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (2, 5, 64)])
def test_row_functions(shape: tuple[int, ...]) -> None:
    x, weight = arrays(shape, shape[-1:])
    compare(lambda x: F.softmax(x, -1), lambda x: torch.softmax(x, -1), x)
    compare(lambda x: F.log_softmax(x, -1), lambda x: torch.log_softmax(x, -1), x)
    compare(lambda x: F.logsumexp(x, -1), lambda x: torch.logsumexp(x, -1), x)
    compare(
        lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6),
        lambda x, w: T.rms_norm(x, x.shape[-1:], w, 1e-6),
        x,
        weight,
    )


def test_cross_entropy_with_ignored_targets() -> None:
    (logits,) = arrays((9, 31))
    targets = np.array([0, 30, 5, -100, 7, 8, -100, 1, 2])
    compare(
        lambda x: F.cross_entropy(x, bp.tensor(targets)),
        lambda x: T.cross_entropy(x, torch.tensor(targets)),
        logits,
    )


@pytest.mark.parametrize("window", [None, 1, 5, 100])
def test_attention_with_window_and_grouped_heads(window: int | None) -> None:
    q, k, v = arrays((2, 4, 19, 8), (2, 2, 19, 8), (2, 2, 19, 8))
    distance = torch.arange(19)[:, None] - torch.arange(19)[None, :]
    mask = (distance >= 0) & (distance < (window or 19))
    compare(
        lambda q, k, v: F.attention(q, k, v, causal=True, window=window),
        lambda q, k, v: T.scaled_dot_product_attention(
            q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), attn_mask=mask
        ),
        q,
        k,
        v,
    )


def test_embedding_adds_the_gradients_of_repeated_rows() -> None:
    (weight,) = arrays((6, 3))
    ids = np.array([[0, 5, 5], [2, 0, 5]])
    compare(
        lambda w: F.embedding(bp.tensor(ids), w),
        lambda w: T.embedding(torch.tensor(ids), w),
        weight,
    )


def test_views_and_indexing() -> None:
    (x,) = arrays((4, 6, 5))
    compare(
        lambda x: x.reshape((4, 30)).T[3:20:2, ::-1],
        lambda x: x.reshape(4, 30).T[3:20:2].flip(1),
        x,
    )
    ids = np.array([3, 0, 0])
    compare(lambda x: x[bp.tensor(ids)], lambda x: x[torch.tensor(ids)], x)
    compare(lambda x: x[1, :, -1], lambda x: x[1, :, -1], x)


def test_second_derivative() -> None:
    (x,) = arrays((5,))
    a = bp.tensor(x, requires_grad=True)
    b = torch.tensor(x, requires_grad=True)
    (first,) = torch.autograd.grad((b.tanh() ** 3).sum(), b, create_graph=True)
    first.square().sum().backward()
    ours = bp.grad(lambda x: (bp.grad(lambda x: (x.tanh() ** 3).sum())(x) ** 2).sum())(a)
    assert b.grad is not None
    np.testing.assert_allclose(ours.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-5)
