"""Losses at their limits: infinite logits, vectors far out, mixed dtypes, shapes that differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import DTypeError, ShapeError
from bedplate.nn import functional as F

P = np.random.default_rng(0).uniform(0.05, 0.95, (4, 5))


def test_a_share_of_0_costs_nothing_beside_infinity(device: Any) -> None:
    """0 times a logarithm of -inf is 0: in the loss and in the gradients of both sides."""

    def both(loss: Callable[..., Any], x: list[float], y: list[float]) -> tuple[Any, ...]:
        a = bp.Tensor(np.array([x], np.float32), device, requires_grad=True)
        b = bp.Tensor(np.array([y], np.float32), device, requires_grad=True)
        value = loss(a, b)
        value.backward()
        assert a.grad is not None and b.grad is not None
        return value.item(), a.grad.tolist()[0], b.grad.isfinite().all().item()

    inf = math.inf
    half = math.log(2)
    assert both(F.cross_entropy, [0, -inf], [1, 0]) == (0, [0, 0], True)
    weight = bp.Tensor(np.ones(2, np.float32), device)
    assert both(lambda x, y: F.cross_entropy(x, y, weight), [0, -inf], [1, 0]) == (0, [0, 0], True)
    assert both(F.kl_div, [0, -inf], [1, 0]) == (0, [-0.5, 0], True)
    assert both(lambda x, y: F.kl_div(x, y, log_target=True), [0, -inf], [0, -inf])[0] == 0
    for loss in (F.binary_cross_entropy_with_logits, F.multilabel_soft_margin_loss):
        assert both(loss, [inf, -inf], [1, 0]) == (0, [0, 0], True)
        assert both(loss, [0, 0], [1, 0])[0] == pytest.approx(half)


def test_weights_of_classes_that_nobody_asks_for_have_finite_gradients() -> None:
    x, weight = bp.tensor([[0.0, 0.0, -math.inf]]), bp.ones(3)
    weight.requires_grad = True
    F.cross_entropy(x, bp.tensor([0]), weight, reduction="sum").backward()
    assert weight.grad is not None and weight.grad.tolist() == pytest.approx([math.log(2), 0, 0])


@pytest.mark.parametrize("size", [1e20, 1e-25])
def test_lengths_neither_overflow_nor_underflow(size: float, device: Any) -> None:
    x = bp.Tensor(np.array([[3, 4]], np.float32) * np.float32(size), device, requires_grad=True)
    y = bp.Tensor(np.array([[4, 3]], np.float32) * np.float32(size), device)
    far = F.pairwise_distance(x, -y, eps=0.0)
    np.testing.assert_allclose(far.numpy() / size, [7 * 2**0.5], rtol=1e-6)
    cosine = F.cosine_similarity(x, y, eps=1e-38)
    cosine.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(cosine.numpy(), [0.96], rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy() * size, [[0.0448, -0.0336]], rtol=1e-4)
    if size > 1:
        ones = bp.Tensor(np.ones(1), device)
        loss = F.cosine_embedding_loss(x, y, ones)
        loss.backward()
        assert loss.item() == pytest.approx(0.04, rel=1e-5) and x.grad.isfinite().all().item()
        assert F.triplet_margin_loss(x, y, -x, eps=0.0).item() == 0


def test_logits_far_out_keep_their_digits(device: Any) -> None:
    x = bp.Tensor(np.array([-20.0, 20.0], np.float32), device)
    y = bp.Tensor(np.array([0.0, 1.0], np.float32), device)
    got = F.binary_cross_entropy_with_logits(x, y, reduction="none").numpy()
    np.testing.assert_allclose(got, np.log1p(np.exp(-20.0)), rtol=1e-6)


PAIRS = [
    F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.kl_div, F.poisson_nll_loss,
    F.binary_cross_entropy_with_logits, F.soft_margin_loss, F.multilabel_soft_margin_loss,
    F.hinge_embedding_loss, F.binary_cross_entropy, F.cosine_similarity, F.pairwise_distance,
]  # fmt: skip


@pytest.mark.parametrize("function", PAIRS)
def test_the_dtype_of_the_result_holds_all_floats(function: Any) -> None:
    """Whichever comes first."""
    x = bp.tensor(P)
    for names in (("bfloat16", "float32"), ("float16", "float64"), ("float32", "float64"),
                  ("bfloat16", "float16"), ("float16", "int32")):  # fmt: skip
        a, b = (bp.dtypes.as_dtype(name) for name in names)
        for one, two in ((a, b), (b, a)):
            got = function(x.astype(one), x.astype(two))
            assert got.dtype is bp.result_type(a, b), (one, two)


def test_losses_do_not_broadcast() -> None:
    x = bp.tensor(P)
    losses = [loss for loss in PAIRS if loss.__name__.endswith(("loss", "logits", "div"))]
    for loss in losses:
        for wrong in (x[:1], x[:, :1], x[0], x[0, 0]):
            with pytest.raises(ShapeError, match=r"the shapes differ[\s\S]*does not broadcast"):
                loss(x, wrong)
    with pytest.raises(ShapeError, match="gaussian_nll_loss: the shapes differ"):
        F.gaussian_nll_loss(x, x[0], x)
    for call in (
        lambda: F.margin_ranking_loss(x, x, x[0]),
        lambda: F.margin_ranking_loss(x, x[0], x),
        lambda: F.cosine_embedding_loss(x, x[:1], bp.ones(4)),
        lambda: F.cosine_embedding_loss(x, x, bp.ones(1)),
    ):
        with pytest.raises(ShapeError, match="the shapes differ"):
            call()
    assert F.mse_loss(x, 0.5).item() == pytest.approx(((P - 0.5) ** 2).mean())
    assert F.mse_loss(x, P.tolist()).item() == pytest.approx(0, abs=1e-12)
    with pytest.raises(DTypeError, match="cosine_similarity: the dtype of a does not fit"):
        F.cosine_similarity(x.astype(bp.complex64), x)
