"""A training run has the same bits captured or not, on one thread or two, fused or not."""

from __future__ import annotations

import numpy as np
import pytest

import bedplate as bp
from bedplate import olmo, optim


def trained(captured=False, **settings):
    """Losses and parameters after a few steps."""
    bp.manual_seed(0)
    with bp.config(**settings):
        config = olmo.Config(
            vocab_size=64, d_model=32, intermediate_size=48, n_layers=2, n_heads=2, seq_len=32,
            sliding_window=8,
        )  # fmt: skip
        model = olmo.Olmo3(config)
        optimizer = optim.AdamW(model.parameters(), lr=1e-2)

        def step(ids):
            loss = model.loss(ids, ids)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        run = bp.jit(step) if captured else step
        rng = np.random.default_rng(0)
        losses = [run(bp.tensor(rng.integers(0, 64, (3, 32)))).item() for _ in range(5)]
        return losses, [p.numpy() for p in model.parameters()]


@pytest.fixture(scope="module")
def plain():
    return trained()


@pytest.mark.parametrize(
    "settings",
    [{"captured": True}, {"threads": False}, {"fusion": False}, {"cse": False, "algebra": False}],
    ids=str,
)
def test_same_bits(plain, settings):
    losses, parameters = trained(**settings)
    assert losses == plain[0]
    for found, expected in zip(parameters, plain[1], strict=True):
        np.testing.assert_array_equal(found, expected)
