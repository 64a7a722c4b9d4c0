"""What compiles: a new size nothing, another layer nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import nn, optim
from bedplate.kernel import native
from bedplate.olmo import Config, Olmo3

WIDTH, WORDS = 64, 128


@pytest.fixture(autouse=True)
def planned_anew() -> Iterator[None]:
    """No plans from disk: those need no kernels to be traced."""
    with bp.config(plan_files=False):
        yield


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The symbols of kernels that were new to the process, in order."""
    names: list[str] = []
    found: set[int] = set()
    load = native.load_code

    def watched(text: str, symbol: str, target: Any) -> Any:
        code = load(text, symbol, target)
        if code[0] not in found:
            found.add(code[0])
            names.append(symbol)
        return code

    monkeypatch.setattr("bedplate.kernel.staging.load_code", watched)
    return names


def train_step(n_layers: int) -> Any:
    """A captured AdamW step of a small OLMo 3 on a batch of ids."""
    config = Config(
        model_type="olmo3", hidden_size=WIDTH, intermediate_size=176, num_hidden_layers=n_layers,
        num_attention_heads=2, num_key_value_heads=2, vocab_size=WORDS,
        max_position_embeddings=4096,
    )  # fmt: skip
    model = Olmo3(config)
    parameters = list(model.parameters())
    optimizer = optim.AdamW(parameters, lr=1e-3)

    def step(ids: Any) -> Any:
        optimizer.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optim.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=False)
        optimizer.step()
        return loss.detach()

    return bp.jit(step)


def run(step: Any, batch: int, time: int) -> None:
    ids = np.random.default_rng(3).integers(0, WORDS, (batch, time + 1))
    assert np.isfinite(step(bp.tensor(ids)).item())


def test_another_batch_or_sequence_compiles_nothing(compiled: list[str]) -> None:
    step = train_step(1)
    run(step, 8, 96)
    run(step, 8, 96)
    known = len(compiled)
    for batch, time in ((4, 96), (8, 112), (7, 101), (16, 80), (5, 200), (2, 500)):
        run(step, batch, time)
        assert compiled[known:] == [], (batch, time)


def test_equal_layers_compile_once(compiled: list[str]) -> None:
    for n_layers in (2, 4):  # each fourth layer attends to everything, the others to a window
        run(train_step(n_layers), 8, 96)
    known = len(compiled)
    for n_layers in (3, 6, 8):
        run(train_step(n_layers), 8, 96)
    assert compiled[known:] == []


def test_equal_blocks_of_a_plain_network_compile_once(compiled: list[str]) -> None:
    def run_blocks(n: int) -> None:
        blocks = [nn.Sequential(nn.Linear(48, 48), nn.LayerNorm(48), nn.GELU()) for _ in range(n)]
        model = nn.Sequential(*blocks)
        model(bp.ones((96, 48))).sum().backward()
        assert all(p.grad is not None and np.isfinite(p.grad.numpy()).all()
                   for p in model.parameters())  # fmt: skip

    run_blocks(3)
    known = len(compiled)
    run_blocks(9)
    assert compiled[known:] == []
