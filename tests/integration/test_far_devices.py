"""Models on a device that works by itself, far away: training and generation to the CPU's bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import optim
from bedplate.devices import backends, register
from bedplate.olmo import Config, Olmo3
from bedplate.testing import LoopbackBackend

SIZES: Any = {"vocab_size": 64, "d_model": 32, "n_heads": 2, "intermediate_size": 48}
STEPS = 3


@pytest.fixture(scope="module")
def loopback() -> bp.Device:
    if "loopback" not in backends():
        register(LoopbackBackend("loopback"))
    return bp.Device("loopback")


def trained(place: Any, whole: bool, wrap: Callable[[Any], Any]) -> list[Any]:
    """Everything that a few steps of OLMo 3 and two generations leave behind.

    whole  the model is made on the device; else it is moved there
    """
    bp.manual_seed(0)
    with bp.default_device(place if whole else "cpu"):
        model = Olmo3(Config(n_layers=2, **SIZES)).to(place)
        optimizer = optim.SkipStepAdamW(list(model.named_parameters()), lr=1e-2)
        generator = np.random.default_rng(0)

        def step(ids: Any, targets: Any) -> Any:
            loss = model.loss(ids, targets, 1e-4)
            optimizer.zero_grad()
            loss.backward()
            norm = optim.clip_grad_norm_(model.named_parameters(), 1.0, error_if_nonfinite=False)
            optimizer.step(loss, norm)
            return loss, norm

        step = wrap(step)
        found = []
        for _ in range(STEPS):
            ids = generator.integers(0, 64, (2, 17))
            found += step(bp.tensor(ids[:, :-1]), bp.tensor(ids[:, 1:]))
        found += list(model.parameters())
        found.append(model.generate(np.array([[1, 2, 3]]), 8))
        found.append(model.generate(np.array([[1, 2], [4, 5]]), 8, temperature=1.0, seed=3))
        return [value.numpy() for value in found]


@pytest.mark.parametrize("whole", [True, False], ids=["made there", "moved there"])
def test_olmo_trains_and_generates(loopback: bp.Device, whole: bool) -> None:
    wanted = trained("cpu", True, bp.jit)
    for wrap in (bp.jit, lambda function: function):
        found = trained(loopback, whole, wrap)
        assert [x.tobytes() for x in found] == [x.tobytes() for x in wanted]


def test_a_step_is_captured_and_replayed(loopback: bp.Device) -> None:
    results = []
    for place in ("cpu", loopback):
        weight = bp.nn.Parameter(bp.tensor(np.linspace(-1, 1, 12).reshape(4, 3), place))
        optimizer = optim.AdamW([weight], lr=0.1)
        mean = bp.zeros((), dtype=bp.float64, device=place)

        @bp.jit
        def step(x: Any, scale: float, weight: Any = weight, mean: Any = mean, o: Any = optimizer):
            loss = ((x @ weight).tanh() * scale).sum() + bp.linalg.inv(weight[:3]).mean()
            o.zero_grad()
            loss.backward()
            o.step()
            mean.assign(mean * 0.5 + loss.detach())
            return loss, weight * 1

        found = []
        for number in range(8):
            x = bp.tensor(np.full((2, 4), number / 4), place)
            loss, copy = step(x, 1.0 + number % 2)
            found += [loss.numpy(), copy.numpy()]
        results.append([x.tobytes() for x in (*found, weight.numpy(), mean.numpy())])
        assert step.report().count("replayed from now on") == 2
        assert "numpy_inv" in step.schedule()
    assert results[0] == results[1]


def test_a_replayed_step_tells_of_wrong_indices(loopback: bp.Device) -> None:
    table = bp.tensor(np.arange(6.0), device=loopback)
    step = bp.jit(lambda i: bp.take(table, i, axis=0) + 1)
    for _ in range(3):
        assert step(bp.tensor([1, 5], device=loopback)).tolist() == [2.0, 6.0]
    bad = step(bp.tensor([1, 6], device=loopback))
    good = step(bp.tensor([2, 3], device=loopback))
    with pytest.raises(IndexError, match=r"index 6 is out of range for size 6\n.*test_far_dev"):
        bad.numpy()
    assert good.tolist() == [3.0, 4.0]
    bp.devices.reset(loopback)


def test_checkpoints_are_of_no_device(loopback: bp.Device, tmp_path: Any) -> None:
    model = Olmo3(Config(n_layers=2, **SIZES)).to(loopback)
    bp.save(model.state_dict(), tmp_path / "model.safetensors")
    other = Olmo3(Config(n_layers=2, **SIZES))
    other.load_state_dict(bp.load(tmp_path / "model.safetensors"))
    ids = np.array([[1, 2, 3, 4]])
    assert other(ids).numpy().tobytes() == model(ids).numpy().tobytes()
    model.load_state_dict(other.state_dict())
    assert model.device is loopback


def test_memory_stays_flat(loopback: bp.Device) -> None:
    runtime: Any = loopback.runtime
    weight = bp.nn.Parameter(bp.ones((64, 64), device=loopback) / 64)
    optimizer = optim.AdamW([weight], lr=1e-3)
    sizes = []
    for step in range(40):
        x = bp.tensor(np.full((8, 64), step / 40, np.float32), device=loopback)
        loss = ((x @ weight).tanh() ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            loss.item()
            runtime.settle_all()
            runtime.pool._drain()
            sizes.append(runtime.pool.live_bytes)
    assert len(set(sizes)) == 1
