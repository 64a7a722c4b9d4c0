"""Losses: values by their formula in NumPy, gradients, reductions, extremes, refusals.

A little long, because the table of formulas stands beside the tests that run over it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import nn
from bedplate.errors import DTypeError, ShapeError
from bedplate.nn import functional as F

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4, 5)), RNG.normal(size=(4, 5))
P, Q = RNG.uniform(0.05, 0.95, (4, 5)), RNG.uniform(0.05, 0.95, (4, 5))
SIGNS = np.where(RNG.random((4, 5)) < 0.5, -1.0, 1.0)
CLASSES = np.array([2, 0, 4, 1])
WEIGHT = RNG.uniform(0.5, 2, 5)


def log_softmax(x: Any, axis: int = -1) -> Any:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def length(x: Any) -> Any:
    return np.sqrt((x * x).sum(-1))


def triplet(a: Any, p: Any, n: Any) -> Any:
    return np.maximum(length(a - p + 1e-6) - length(a - n + 1e-6) + 1, 0)


def cosine(x: Any, y: Any) -> Any:
    return (x * y).sum(-1) / (length(x) * length(y))


def others(x: Any) -> Any:
    """max(0, 1 - x[target] + x[i]) for the classes i that are not the target."""
    short = np.maximum(1 + x - x[np.arange(4), CLASSES][:, None], 0)
    short[np.arange(4), CLASSES] = 0
    return short


def nothing_reduced(function: Callable[..., Any], *more: Any, **named: Any) -> Callable[..., Any]:
    """The loss without reduction, with further arguments."""
    return lambda *inputs: function(*inputs, *more, reduction="none", **named)


# the function of the differentiable inputs, its formula, the inputs
LOSSES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "mse": (nothing_reduced(F.mse_loss), lambda x, y: (x - y) ** 2, (X, Y)),
    "l1": (nothing_reduced(F.l1_loss), lambda x, y: abs(x - y), (X, Y)),
    "smooth_l1": (
        nothing_reduced(F.smooth_l1_loss, beta=0.6),
        lambda x, y: np.where(abs(x - y) < 0.6, (x - y) ** 2 / 1.2, abs(x - y) - 0.3),
        (X, Y),
    ),
    "huber": (
        nothing_reduced(F.huber_loss, delta=0.6),
        lambda x, y: np.where(abs(x - y) < 0.6, (x - y) ** 2 / 2, 0.6 * (abs(x - y) - 0.3)),
        (X, Y),
    ),
    "kl_div": (nothing_reduced(F.kl_div), lambda x, y: y * (np.log(y) - x), (X, P)),
    "kl_div of logarithms": (
        nothing_reduced(F.kl_div, log_target=True), lambda x, y: np.exp(y) * (y - x), (X, Y)
    ),
    "poisson_nll": (
        nothing_reduced(F.poisson_nll_loss), lambda x, y: np.exp(x) - y * x, (X, Y)
    ),
    "poisson_nll of rates": (
        nothing_reduced(F.poisson_nll_loss, log_input=False, full=True),
        lambda x, y: x - y * np.log(x + 1e-8) + y * np.log(y) - y + np.log(2 * np.pi * y) / 2,
        (P, Q + 1),
    ),
    "gaussian_nll": (
        nothing_reduced(F.gaussian_nll_loss, full=True),
        lambda x, y, v: (np.log(v) + (x - y) ** 2 / v + np.log(2 * np.pi)) / 2,
        (X, Y, P),
    ),
    "binary_cross_entropy": (
        nothing_reduced(F.binary_cross_entropy),
        lambda x, y: -(y * np.log(x) + (1 - y) * np.log(1 - x)),
        (P, Q),
    ),
    "binary_cross_entropy_with_logits": (
        lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w, "none", 3 * w),
        lambda x, y, w: w * (3 * w * y * np.log1p(np.exp(-x)) + (1 - y) * np.log1p(np.exp(x))),
        (X, P, WEIGHT),
    ),
    "soft_margin": (
        nothing_reduced(F.soft_margin_loss), lambda x, y: np.log1p(np.exp(-x * y)), (X, SIGNS)
    ),
    "multilabel_soft_margin": (
        nothing_reduced(F.multilabel_soft_margin_loss),
        lambda x, y: (y * np.log1p(np.exp(-x)) + (1 - y) * np.log1p(np.exp(x))).mean(-1),
        (X, P),
    ),
    "multi_margin": (
        lambda x, w: F.multi_margin_loss(x, bp.tensor(CLASSES), 2, 1.0, w, "none"),
        lambda x, w: (others(x) ** 2 * w[CLASSES][:, None]).mean(-1),
        (X, WEIGHT),
    ),
    "cosine_similarity": (F.cosine_similarity, cosine, (X, Y)),
    "cosine_embedding": (
        lambda x, y: F.cosine_embedding_loss(x, y, bp.tensor([1, -1, 1, -1]), -0.9, "none"),
        lambda x, y: np.where([True, False] * 2, 1 - cosine(x, y), cosine(x, y) + 0.9),
        (X, X + 0.5 * Y),
    ),
    "pairwise_distance": (F.pairwise_distance, lambda x, y: length(x - y + 1e-6), (X, Y)),
    "pairwise_distance p=3": (
        lambda x, y: F.pairwise_distance(x, y, 3.0, 0.0),
        lambda x, y: (abs(x - y) ** 3).sum(-1) ** (1 / 3),
        (X, Y),
    ),
    "margin_ranking": (
        nothing_reduced(F.margin_ranking_loss, margin=0.3),
        lambda x, y, s: np.maximum(0.3 - s * (x - y), 0),
        (X, Y, SIGNS),
    ),
    "hinge_embedding": (
        lambda x: F.hinge_embedding_loss(x, bp.tensor(SIGNS), 0.7, "none"),
        lambda x: np.where(SIGNS == 1, x, np.maximum(0.7 - x, 0)),
        (X,),
    ),
    "triplet_margin": (nothing_reduced(F.triplet_margin_loss), triplet, (X, Y, X[::-1].copy())),
    "nll": (
        lambda x, w: F.nll_loss(x, bp.tensor(CLASSES), w, reduction="none"),
        lambda x, w: -x[np.arange(4), CLASSES] * w[CLASSES],
        (X, WEIGHT),
    ),
    "cross_entropy, weights and smoothing": (
        lambda x, w: F.cross_entropy(x, bp.tensor(CLASSES), w, label_smoothing=0.2,
                                     reduction="none"),
        lambda x, w: -(
            0.8 * (log_softmax(x) * w)[np.arange(4), CLASSES]
            + 0.04 * (log_softmax(x) * w).sum(-1)
        ),
        (X, WEIGHT),
    ),
    "cross_entropy of shares": (
        lambda x, p, w: F.cross_entropy(x, p, w, label_smoothing=0.2, reduction="none"),
        lambda x, p, w: -(log_softmax(x) * (0.8 * p + 0.04) * w).sum(-1),
        (X, P, WEIGHT),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_values(name: str, device: Any, toolbox: Any) -> None:
    ours, formula, arrays = LOSSES[name]
    with bp.default_device(device):
        got = ours(*[bp.tensor(a) for a in arrays])
        toolbox.assert_close(got.numpy(), formula(*arrays), 1e-12, name)
        narrow = [bp.tensor(a).astype(bp.bfloat16) for a in arrays]
        wanted = formula(*[a.numpy().astype(np.float64) for a in narrow])
        toolbox.assert_close(ours(*narrow).numpy(), wanted, 0.01, name)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients(name: str) -> None:
    ours, _, arrays = LOSSES[name]
    assert bp.gradcheck(ours, [bp.tensor(a) for a in arrays])
    assert bp.gradgradcheck(ours, [bp.tensor(a) for a in arrays])
    transposed = [bp.tensor(np.swapaxes(a, 0, -1).copy()).swapaxes(0, -1) for a in arrays]
    assert bp.gradcheck(ours, transposed)


PLAIN = [
    F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.kl_div, F.poisson_nll_loss,
    F.binary_cross_entropy_with_logits, F.soft_margin_loss, F.multilabel_soft_margin_loss,
    F.hinge_embedding_loss,
]  # fmt: skip


@pytest.mark.parametrize("loss", PLAIN)
def test_reductions(loss: Any) -> None:
    x, y = bp.tensor(X), bp.tensor(P)
    each = loss(x, y, reduction="none").numpy()
    np.testing.assert_allclose(loss(x, y).item(), each.mean(), rtol=1e-13)
    np.testing.assert_allclose(loss(x, y, reduction="sum").item(), each.sum(), rtol=1e-13)
    empty = bp.zeros((0, 5))
    assert loss(empty, empty, reduction="sum").item() == 0
    assert math.isnan(loss(empty, empty).item())
    with pytest.raises(ValueError, match="reduction must be one of"):
        loss(x, y, reduction="average")


def test_kl_div_over_the_batch() -> None:
    x, y = bp.tensor(X), bp.tensor(P)
    each = F.kl_div(x, y, reduction="none").numpy()
    got = F.kl_div(x, y, reduction="batchmean").item()
    np.testing.assert_allclose(got, each.sum() / 4, rtol=1e-13)
    assert F.kl_div(bp.tensor([0.0]), bp.tensor([0.0])).item() == 0


def test_binary_losses_far_out(device: Any) -> None:
    """B82: finite and exact at logits of +-1000, with their gradients."""
    x = bp.Tensor(np.array([-1000.0, -1000, 1000, 1000], np.float32), device, requires_grad=True)
    y = bp.Tensor(np.array([0.0, 1, 0, 1], np.float32), device)
    loss = F.binary_cross_entropy_with_logits(x, y, reduction="none")
    assert loss.tolist() == [0, 1000, 1000, 0]
    loss.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, -1, 1, 0]
    p = bp.Tensor(np.array([0.0, 0, 1, 1], np.float32), device, requires_grad=True)
    bounded = F.binary_cross_entropy(p, y, reduction="none")
    assert bounded.tolist() == [0, 100, 100, 0]
    bounded.sum().backward()
    assert p.grad is not None and np.isfinite(p.grad.numpy()).all()


def test_regression_losses_far_out() -> None:
    x = bp.tensor([1e30, -1e30, math.inf], requires_grad=True)
    for loss in (F.huber_loss, F.smooth_l1_loss):
        y = loss(x, bp.zeros(3), reduction="sum")
        y.backward()
        assert x.grad is not None and x.grad.tolist() == [1, -1, 1]
        x.grad = None


def test_vectors_of_length_zero_have_finite_gradients(device: Any) -> None:
    """B22, for the losses that divide by a length or take its root."""
    for function in (
        F.cosine_similarity,
        lambda x, y: F.pairwise_distance(x, y, 2.0, 0.0),
        lambda x, y: F.pairwise_distance(x, y, 3.0, 0.0),
        lambda x, y: F.cosine_embedding_loss(x, y, bp.Tensor(np.ones(2), device)),
    ):
        x = bp.Tensor(np.zeros((2, 3)), device, requires_grad=True)
        y = bp.Tensor(np.zeros((2, 3)), device)
        function(x, y).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [[0, 0, 0]] * 2


def test_distances_of_every_p() -> None:
    x = bp.tensor([[3.0, -4.0, 0.0]])
    lengths = {0: 2, 1: 7, 2: 5, math.inf: 4}
    for p, wanted in lengths.items():
        assert F.pairwise_distance(x, x * 0, p, 0.0).tolist() == [wanted]
    assert F.pairwise_distance(x, x * 0, keepdims=True).shape == (1, 1)


def test_cross_entropy_over_spatial_axes(device: Any, toolbox: Any) -> None:
    x = RNG.normal(size=(2, 5, 3, 4))
    targets = RNG.integers(0, 5, (2, 3, 4))
    targets[0, 1] = -100
    counts = targets != -100
    index = np.where(counts, targets, 0)[:, None]
    picked = np.take_along_axis(log_softmax(x, 1), index, 1)[:, 0]
    wanted = -np.where(counts, picked, 0)
    logits, ids = bp.Tensor(x, device), bp.Tensor(targets, device)
    toolbox.assert_close(
        F.cross_entropy(logits, ids, reduction="none").numpy(), wanted, 1e-13, "none"
    )
    assert F.cross_entropy(logits, ids).item() == pytest.approx(wanted.sum() / counts.sum())
    last = logits.moveaxis(1, -1)
    assert F.cross_entropy(last, ids, axis=-1).item() == F.cross_entropy(logits, ids).item()
    log_shares = F.log_softmax(logits, 1)
    assert F.nll_loss(log_shares, ids).item() == pytest.approx(wanted.sum() / counts.sum())


def test_weights_count_in_the_mean() -> None:
    logits, targets = bp.tensor(X), bp.tensor([2, 0, -100, 1])
    loss = F.cross_entropy(logits, targets, bp.tensor(WEIGHT), label_smoothing=0.1)
    each = F.cross_entropy(
        logits, targets, bp.tensor(WEIGHT), label_smoothing=0.1, reduction="none"
    ).numpy()
    assert each[2] == 0
    assert loss.item() == pytest.approx(each.sum() / WEIGHT[[2, 0, 1]].sum())


def test_plain_and_composed_cross_entropy_agree() -> None:
    logits, targets = bp.tensor(X), bp.tensor([2, 0, -100, 1])
    ones = bp.ones(5, dtype=bp.float64)
    for reduction in ("mean", "sum", "none"):
        a = F.cross_entropy(logits, targets, reduction=reduction, z_loss=0.1)
        b = F.cross_entropy(logits, targets, ones, reduction=reduction, z_loss=0.1)
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-13)


def test_cross_entropy_of_wide_rows_in_bfloat16(device: Any) -> None:
    """B61, also by the composed way: computed and returned in float32."""
    logits = bp.zeros((1, 100352), dtype=bp.bfloat16, device=device)
    target = bp.Tensor(np.array([3]), device)
    plain = F.cross_entropy(logits, target)
    smooth = F.cross_entropy(logits, target, label_smoothing=0.1)
    log_shares = F.nll_loss(F.log_softmax(logits.astype(bp.float32)), target)
    for loss in (plain, smooth, log_shares):
        assert loss.dtype is bp.float32
        assert loss.item() == pytest.approx(math.log(100352), rel=1e-6)


def test_what_nobody_asks_for_costs_nothing() -> None:
    """Logits of -inf (a mask) outside the targets leave the loss and its gradient finite."""
    x = bp.tensor([[0.0, 0.0, -math.inf]], requires_grad=True)
    for weight in (None, bp.ones(3)):
        loss = F.cross_entropy(x, bp.tensor([0]), weight)
        loss.backward()
        assert loss.item() == pytest.approx(math.log(2))
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), [[-0.5, 0.5, 0]], atol=1e-7)
        x.grad = None


def test_multilabel_margin() -> None:
    """The example of PyTorch's documentation, and one row with every class."""
    x = bp.tensor([[0.1, 0.2, 0.4, 0.8], [1.0, 2.0, 3.0, 4.0]])
    y = bp.tensor([[3, 0, -1, 1], [3, 2, 1, 0]])
    got = F.multilabel_margin_loss(x, y, reduction="none").numpy()
    np.testing.assert_allclose(got, [0.85, 0.0], rtol=1e-6)
    y = bp.tensor([[3, 0, -1, 1], [1, -1, -1, -1]])
    assert bp.gradcheck(lambda x: F.multilabel_margin_loss(x, y), bp.tensor(X[:2, :4]))
    one = F.multilabel_margin_loss(x[0], y[0])
    assert one.shape == () and one.item() == pytest.approx(0.85)


def test_triplets_by_another_distance() -> None:
    a, p, n = (bp.tensor(RNG.normal(size=(4, 5))) for _ in range(3))
    swapped = F.triplet_margin_loss(a, p, n, swap=True, reduction="none").numpy()
    wanted = np.maximum(
        length(a.numpy() - p.numpy() + 1e-6)
        - np.minimum(length(a.numpy() - n.numpy() + 1e-6), length(p.numpy() - n.numpy() + 1e-6))
        + 1,
        0,
    )
    np.testing.assert_allclose(swapped, wanted, rtol=1e-12)
    largest = F.triplet_margin_with_distance_loss(
        a, p, n, lambda x, y: F.pairwise_distance(x, y, math.inf)
    )
    assert largest.shape == ()


def test_variances_of_every_shape() -> None:
    x, y = bp.tensor(X), bp.tensor(Y)
    for var in (bp.tensor(P[:, 0]), bp.tensor(P[:, :1])):
        got = F.gaussian_nll_loss(x, y, var).item()
        wanted = ((np.log(P[:, :1]) + (X - Y) ** 2 / P[:, :1]) / 2).mean()
        assert got == pytest.approx(wanted)
    assert F.gaussian_nll_loss(x, y, 1.0).item() == pytest.approx(((X - Y) ** 2).mean() / 2)


def test_refusals() -> None:
    x, targets = bp.tensor(X), bp.tensor(CLASSES)
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ShapeError, "try axis=-1 if the classes are the last axis",
         lambda: F.cross_entropy(bp.zeros((2, 3, 7)), bp.zeros((2, 3), dtype=bp.int64))),
        (ShapeError, "cross_entropy: the shapes do not match",
         lambda: F.cross_entropy(x, targets[:3])),
        (ShapeError, "cross_entropy: the class weights do not fit",
         lambda: F.cross_entropy(x, targets, bp.ones(4))),
        (ShapeError, "the logits have no axis of classes",
         lambda: F.cross_entropy(bp.tensor(1.0), bp.tensor(1))),
        (DTypeError, "nll_loss: expected float logits, integer targets",
         lambda: F.nll_loss(targets, bp.tensor(1))),
        (ValueError, r"label_smoothing = 1.5 is not in \[0, 1\]",
         lambda: F.cross_entropy(x, targets, label_smoothing=1.5)),
        (ValueError, "huber_loss: delta must be positive, got 0",
         lambda: F.huber_loss(x, x, delta=0)),
        (ValueError, "smooth_l1_loss: beta must not be negative, got -1",
         lambda: F.smooth_l1_loss(x, x, beta=-1)),
        (ValueError, "a variance is not negative, got -1.0",
         lambda: F.gaussian_nll_loss(x, x, -1.0)),
        (ShapeError, "gaussian_nll_loss: the variances do not fit",
         lambda: F.gaussian_nll_loss(x, x, bp.ones(3))),
        (ShapeError, "binary_cross_entropy: the shapes differ",
         lambda: F.binary_cross_entropy(x, x[0])),
        (ShapeError, "binary_cross_entropy_with_logits: the shapes differ",
         lambda: F.binary_cross_entropy_with_logits(x, x[0])),
        (ValueError, "multi_margin_loss: p must be 1 or 2, got 3",
         lambda: F.multi_margin_loss(x, targets, 3)),
        (ShapeError, "multi_margin_loss: the shapes do not match",
         lambda: F.multi_margin_loss(x, targets[:2])),
        (ShapeError, "multilabel_margin_loss: the shapes differ",
         lambda: F.multilabel_margin_loss(x, targets)),
    ]  # fmt: skip
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()


def test_targets_out_of_range_raise(device: Any) -> None:
    """B29."""
    x = bp.Tensor(X, device)
    for target in (5, -1):
        wrong = bp.Tensor(np.array([0, 1, target, 2]), device)
        for loss in (F.cross_entropy, F.nll_loss):
            with pytest.raises(IndexError, match=f"index {target} is out of range for size 5"):
                loss(x, wrong, bp.Tensor(WEIGHT, device)).numpy()


def test_modules_have_the_settings_of_their_functions() -> None:
    x, targets, weight = bp.tensor(X), bp.tensor(CLASSES), bp.tensor(WEIGHT)
    criterion = nn.CrossEntropyLoss(weight=weight, label_smoothing=0.1)
    wanted = F.cross_entropy(x, targets, weight, label_smoothing=0.1)
    assert criterion(x, targets).item() == wanted.item()
    assert list(criterion.state_dict()) == ["weight"]
    assert repr(criterion) == "CrossEntropyLoss(label_smoothing=0.1)"
    triple = nn.TripletMarginLoss(0.5, swap=True)
    y = bp.tensor(Y)
    assert triple(x, y, x).item() == F.triplet_margin_loss(x, y, x, 0.5, swap=True).item()
    assert nn.CosineSimilarity(dim=0)(x, y).shape == (5,)
    assert nn.BCEWithLogitsLoss(pos_weight=weight)(x, bp.tensor(P)).shape == ()
    with pytest.raises(TypeError, match="unexpected keyword argument 'reduce'"):
        nn.MSELoss(reduce="mean")
