"""Modules of convolution: shapes of the parameters, start values, what they compute."""

from __future__ import annotations

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import ShapeError


def test_parameters_have_the_shapes_of_torch() -> None:
    assert bp.nn.Conv2d(6, 4, (3, 2), groups=2).weight.shape == (4, 3, 3, 2)
    assert bp.nn.ConvTranspose2d(6, 4, (3, 2), groups=2).weight.shape == (6, 2, 3, 2)
    assert [name for name, _ in bp.nn.Conv1d(1, 1, 1).named_parameters()] == ["weight", "bias"]
    assert bp.nn.Conv3d(1, 1, 1, bias=False).bias is None


def test_values_start_within_the_fan_in() -> None:
    module = bp.nn.Conv1d(16, 64, 4)
    assert module.bias is not None
    assert 0.12 < float(np.abs(module.weight.numpy()).max()) <= 1 / 8
    assert float(np.abs(module.bias.numpy()).max()) <= 1 / 8


def test_a_stack_learns() -> None:
    bp.manual_seed(0)
    model = bp.nn.Sequential(
        bp.nn.Conv2d(1, 4, 3, stride=2, padding=1), bp.nn.ReLU(),
        bp.nn.ConvTranspose2d(4, 1, 2, stride=2),
    )  # fmt: skip
    x = bp.random.normal((2, 1, 8, 8))
    optimiser = bp.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        loss = ((model(x) - x) ** 2).mean()
        losses.append(loss.item())
        loss.backward()
        optimiser.step()
        model.zero_grad()
    assert losses[-1] < 0.8 * losses[0]


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(ShapeError, match="groups=2 does not divide"):
        bp.nn.Conv1d(3, 4, 1, groups=2)
