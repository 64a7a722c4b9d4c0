"""The CTC loss: every path gone through one by one, gradients, what has no path, refusals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import DTypeError, ShapeError
from bedplate.nn import functional as F

RNG = np.random.default_rng(0)


def log_softmax(x: Any) -> Any:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def by_paths(log_probs: Any, labels: Any) -> float:
    """The CTC loss by going through every path: C^T of them."""
    n_steps, n_classes = log_probs.shape
    total = 0.0
    for path in itertools.product(range(n_classes), repeat=n_steps):
        merged = [c for i, c in enumerate(path) if c and (i == 0 or c != path[i - 1])]
        if merged == list(labels):
            total += math.exp(sum(log_probs[i, c] for i, c in enumerate(path)))
    return -math.log(total) if total else math.inf


def test_ctc_is_the_sum_over_all_paths(device: Any) -> None:
    steps = log_softmax(RNG.normal(size=(5, 4, 3)))
    labels = np.array([[1, 2, 1], [1, 1, 0], [2, 0, 0], [0, 0, 0]])
    lengths, ends = [3, 2, 1, 0], [5, 4, 3, 2]
    wanted = [by_paths(steps[: ends[i], i], labels[i, : lengths[i]]) for i in range(4)]
    x, y = bp.Tensor(steps, device), bp.Tensor(labels, device)
    got = F.ctc_loss(x, y, ends, lengths, reduction="none")
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12)
    flat = bp.Tensor(np.array([1, 2, 1, 1, 1, 2]), device)
    again = F.ctc_loss(x, flat, bp.Tensor(np.array(ends), device), lengths, reduction="none")
    np.testing.assert_array_equal(again.numpy(), got.numpy())
    mean = F.ctc_loss(x, y, ends, lengths).item()
    assert mean == pytest.approx(np.mean(np.array(wanted) / [3, 2, 1, 1]))
    alone = F.ctc_loss(x[:, 0], y[0], 5, 3, reduction="sum")
    assert alone.shape == () and alone.item() == pytest.approx(wanted[0])


def test_ctc_gradients() -> None:
    targets = bp.tensor([[1, 2, 1], [1, 1, 0]])

    def function(x: Any) -> Any:
        return F.ctc_loss(F.log_softmax(x, -1), targets, [4, 3], [3, 2], reduction="none")

    x = bp.tensor(RNG.normal(size=(4, 2, 3)))
    assert bp.gradcheck(function, x) and bp.gradgradcheck(function, x)


def test_many_steps_are_two_kernels_and_stay_exact() -> None:
    """300 steps: as many launches as 30, and float32 agrees with float64."""
    names = ["ctc_paths", "banded_recurrence"]

    def backwards(n_steps: int, dtype: Any) -> tuple[Any, Any]:
        rng = np.random.default_rng(n_steps)
        x = bp.tensor(rng.normal(size=(n_steps, 2, 9)), dtype=dtype, requires_grad=True)
        labels = bp.tensor(rng.integers(1, 9, (2, 14)))
        loss = F.ctc_loss(F.log_softmax(x, -1), labels, [n_steps, n_steps - 1], [14, 11])
        loss.backward()
        return loss, x.grad

    found = {}
    for n_steps in (30, 300):
        _, grad = backwards(n_steps, bp.float32)
        launches = bp.explain(grad).launches()
        found[n_steps] = len(launches)
        assert [sum(launch.name == name for launch in launches) for name in names] == [1, 1]
    assert found[30] == found[300]
    (loss, grad), (exact, wanted) = backwards(300, bp.float32), backwards(300, bp.float64)
    assert loss.item() == pytest.approx(exact.item(), rel=1e-6)
    np.testing.assert_allclose(grad.numpy(), wanted.numpy(), atol=2e-6)


def test_ctc_without_a_path_has_finite_gradients() -> None:
    x = bp.tensor(RNG.normal(size=(2, 1, 3)), requires_grad=True)
    for zero in (False, True):
        shares = F.log_softmax(x, -1)
        loss = F.ctc_loss(shares, bp.tensor([[1, 1]]), [2], [2], zero_infinity=zero)
        assert loss.item() == (0 if zero else math.inf)
        loss.backward()
        assert x.grad is not None and x.grad.tolist() == [[[0, 0, 0]]] * 2
        x.grad = None


def test_refusals() -> None:
    x, y = bp.zeros((5, 2, 3)), bp.zeros((2, 3), dtype=bp.int64)
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (DTypeError, r"expected log-probabilities \(T, N, C\)",
         lambda: F.ctc_loss(y, y, 2, 2)),
        (DTypeError, "targets must be integers", lambda: F.ctc_loss(x, x[0], 2, 2)),
        (ShapeError, "the lengths do not fit", lambda: F.ctc_loss(x, y, [2, 2, 2], 2)),
        (ShapeError, "targets are not those of a batch of 2",
         lambda: F.ctc_loss(x, bp.zeros((3, 3), dtype=bp.int64), 2, 2)),
        (IndexError, "blank 3 is out of range for size 3", lambda: F.ctc_loss(x, y, 2, 2, 3)),
        (IndexError, "ctc_loss: label: index 7 is out of range for size 3",
         lambda: F.ctc_loss(x, y + 7, 5, 2).numpy()),
    ]  # fmt: skip
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()
