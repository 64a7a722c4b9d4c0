"""Leak detection raises no alarm for what ordinary programs keep."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import nn, optim
from bedplate.olmo import PRESETS, Olmo3


def made(n: int = 1024) -> bp.Tensor:
    return (bp.ones((n,)) * 2).realise()


def network() -> tuple[Any, Any]:
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    return net, optim.AdamW(net.parameters(), lr=0.01)


def train(net: Any, optimiser: Any, steps: int) -> Any:
    loss = None
    for _ in range(steps):
        optimiser.zero_grad()
        loss = (net(bp.ones((8, 16))) ** 2).mean()
        loss.backward()
        optimiser.step()
        loss.item()
    return loss


def test_no_alarm_for_training() -> None:
    net, optimiser = network()
    with bp.memory.expect_no_leak():  # the optimiser's state and the gradients are new
        loss = train(net, optimiser, 4)
    assert loss is not None
    assert not bp.memory.leaks(lambda: train(net, optimiser, 1))


def test_no_alarm_for_one_step_whose_loss_is_kept() -> None:
    net, _ = network()
    with bp.memory.expect_no_leak():
        hidden = [net(bp.ones((8, 16))) for _ in range(3)]
        loss = sum(h.sum() for h in hidden)
    assert loss is not None


def test_no_alarm_for_a_model_made_inside() -> None:
    with bp.memory.expect_no_leak():
        net, optimiser = network()
        train(net, optimiser, 3)
    assert net is not None


def test_no_alarm_for_a_captured_step_that_warms_up() -> None:
    net, optimiser = network()
    scale = 3

    @bp.jit
    def step(x: Any) -> Any:
        optimiser.zero_grad()
        loss = (net(x * bp.tensor([float(scale)] * 16)) ** 2).mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    loss = bp.zeros(())
    with bp.memory.expect_no_leak():
        for _ in range(5):
            loss = step(bp.ones((8, 16)))
    assert not bp.memory.leaks(lambda: step(bp.ones((8, 16))))
    assert loss.item() > 0


def test_no_alarm_for_batches_and_windows() -> None:
    recent: deque[Any] = deque(maxlen=2)

    def batches() -> Iterator[bp.Tensor]:
        for _ in range(12):
            recent.append(made())
            yield recent[-1]

    stream = batches()
    next(stream)
    next(stream)

    def step() -> None:
        (next(stream) * 2).realise()

    assert not bp.memory.leaks(step)
    holder = types.SimpleNamespace(batch=next(stream), queue=deque(maxlen=2))
    with bp.memory.expect_no_leak():
        for x in stream:
            holder.batch = x * 2
            holder.queue.append(holder.batch.realise())


def test_no_alarm_for_statistics_and_random_state() -> None:
    norm = nn.BatchNorm1d(16)
    best: dict[str, Any] = {"loss": bp.ones(()).realise()}

    def step() -> None:
        y = norm(bp.random.randn(8, 16)).mean()
        best["loss"] = bp.minimum(best["loss"], y.detach()).realise()

    with bp.memory.expect_no_leak():
        for _ in range(4):
            step()
    assert not bp.memory.leaks(step)


def test_no_alarm_for_a_memo_that_is_warm() -> None:
    @functools.cache
    def table(n: int) -> bp.Tensor:
        return made(n)

    table(16)
    with bp.memory.expect_no_leak():
        for _ in range(4):
            (table(16) * 2).realise()
    assert not bp.memory.leaks(lambda: (table(16) * 3).realise())


def test_no_alarm_for_expected_errors() -> None:
    with bp.memory.expect_no_leak():
        for _ in range(3):
            with pytest.raises(ValueError, match="matmul") as caught:
                bp.ones((2, 3)).realise() @ made(5)
            assert "inner sizes" in str(caught.value)


def test_no_alarm_for_generation_and_batches_of_tokens() -> None:
    demo = PRESETS["demo"]
    model = Olmo3(demo.config(vocab_size=256))
    batches = bp.data.Batches(np.arange(4096) % 256, 2, 16)
    prompt = bp.tensor([[1, 2, 3]])

    with bp.memory.expect_no_leak():
        for _ in range(3):
            inputs, targets = next(batches)
            loss = model.loss(bp.tensor(inputs), bp.tensor(targets))
            out = model.generate(prompt, 4)
    assert out.shape == (1, 7) and loss.item() > 0
    assert not bp.memory.leaks(lambda: model.generate(prompt, 4), steps=4, warm_up=1)
