"""Modules and optimisers against PyTorch: the same start, the same batches, the same end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import bedplate as bp
import bedplate.nn as nn
import bedplate.nn.functional as F
from bedplate import optim

STEPS = 20


def twins() -> tuple[Any, torch.nn.Module]:
    """Two perceptrons with equal weights."""
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(
        torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.SiLU(),
        torch.nn.Linear(16, 3),
    )  # fmt: skip
    ours = nn.Sequential(
        nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 3)
    )
    ours.load_state_dict(
        {name: bp.tensor(value.numpy()) for name, value in theirs.state_dict().items()}
    )
    return ours, theirs


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(step)
    return rng.standard_normal((12, 6)).astype(np.float32), rng.integers(0, 3, 12)


OPTIMISERS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("SGD", {"lr": 0.1}),
    "momentum": ("SGD", {"lr": 0.05, "momentum": 0.9}),
    "Nesterov": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "Adam": ("Adam", {"lr": 0.01}),
    "AdamW": ("AdamW", {"lr": 0.01, "betas": (0.9, 0.95), "weight_decay": 0.1}),
}


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_training_follows_torch(name: str, jit: bool) -> None:
    kind, options = OPTIMISERS[name]
    ours, theirs = twins()
    optimiser = getattr(optim, kind)(ours.parameters(), **options)
    reference = getattr(torch.optim, kind)(theirs.parameters(), **options)

    def step(x: Any, targets: Any) -> Any:
        optimiser.zero_grad()
        loss = F.cross_entropy(ours(x), targets)
        loss.backward()
        optimiser.step()
        return loss.detach()

    run = bp.jit(step) if jit else step
    for index in range(STEPS):
        x, targets = batch(index)
        loss = run(bp.tensor(x), bp.tensor(targets))
        reference.zero_grad()
        expected = torch.nn.functional.cross_entropy(theirs(torch.tensor(x)), torch.tensor(targets))
        expected.backward()
        reference.step()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    for (name, mine), right in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(
            mine.numpy(), right.detach().numpy(), rtol=2e-3, atol=2e-4, err_msg=name
        )


def test_clipping_follows_torch() -> None:
    ours, theirs = twins()
    x, targets = batch(0)
    (F.cross_entropy(ours(bp.tensor(x)), bp.tensor(targets)) * 50.0).backward()
    loss = torch.nn.functional.cross_entropy(theirs(torch.tensor(x)), torch.tensor(targets))
    (loss * 50).backward()
    norm = optim.clip_grad_norm_(ours.parameters(), 0.5)
    expected = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
    assert norm.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, right in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert mine.grad is not None and right.grad is not None
        np.testing.assert_allclose(mine.grad.numpy(), right.grad.numpy(), rtol=1e-4, atol=1e-6)
