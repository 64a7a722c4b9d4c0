"""A small image network: it learns, and captured steps equal plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np

import bedplate as bp
import bedplate.nn.functional as F
from bedplate import nn, optim


def network() -> nn.Module:
    bp.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, padding_mode="reflect", bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(8, 12, 3, groups=2),
        nn.GroupNorm(3, 12),
        nn.SiLU(),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.AvgPool2d(2),
        nn.AdaptiveMaxPool2d(3),
        nn.Flatten(),
        nn.Linear(108, 2),
    )


def batches(count: int) -> list[tuple[Any, Any]]:
    """Bars that stand or lie, with noise."""
    rng = np.random.default_rng(0)
    result = []
    for _ in range(count):
        lying = rng.integers(0, 2, 16)
        images = rng.normal(0, 0.3, (16, 1, 12, 12)).astype(np.float32)
        for image, flat in zip(images, lying, strict=True):
            place = rng.integers(1, 11)
            image[(0, place) if flat else (0, slice(None), place)] += 1
        result.append((bp.tensor(images), bp.tensor(lying)))
    return result


def train(steps: int, captured: bool) -> tuple[list[float], nn.Module]:
    model = network()
    optimiser = optim.AdamW(model.parameters(), lr=3e-3)

    def step(x: Any, target: Any) -> Any:
        optimiser.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimiser.step()
        return loss.detach()

    run = bp.jit(step) if captured else step
    return [run(x, target).item() for x, target in batches(steps)], model


def test_it_learns_and_a_captured_step_is_the_same() -> None:
    losses, model = train(60, captured=False)
    assert np.mean(losses[-10:]) < 0.35 < 0.6 < np.mean(losses[:3])
    again, other = train(60, captured=True)
    assert again == losses
    for (name, a), (_, b) in zip(
        model.state_dict().items(), other.state_dict().items(), strict=True
    ):
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=name)
    x, target = batches(1)[0]
    found = model.eval()(x).argmax(axis=1) == target
    assert found.astype(bp.float32).mean().item() > 0.85
