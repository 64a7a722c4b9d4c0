"""The intermediates of a train step: an arena near its bound, less with rematerialisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import optim
from bedplate.compiler import compile_plan
from bedplate.compiler.memory_plan import largest_live_set, plan_memory
from bedplate.compiler.realise import clear_plans
from bedplate.olmo import Config, Olmo3

SIZES = {"vocab_size": 96, "d_model": 32, "n_heads": 2, "intermediate_size": 48, "n_layers": 8}
IDS = np.random.default_rng(0).integers(0, 96, (8, 65))


def _losses(again: bool, jitted: bool, n_steps: int = 4) -> list[bytes]:
    bp.manual_seed(0)
    model = Olmo3(Config(**SIZES))
    model.rematerialise = again
    optimiser = optim.AdamW(list(model.parameters()), lr=1e-2)

    def step(ids: Any) -> Any:
        optimiser.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimiser.step()
        return loss.detach()

    step = bp.jit(step) if jitted else step
    losses = [step(bp.tensor(IDS)).numpy().tobytes() for _ in range(n_steps)]
    return losses + [p.numpy().tobytes() for p in model.parameters()]


@pytest.fixture
def arenas(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(arena, largest live set) of each plan that is made."""
    found = []

    def planned(regions: Any) -> int:
        found.append((plan_memory(regions), largest_live_set(regions)))
        return found[-1][0]

    monkeypatch.setattr(compile_plan, "plan_memory", planned)
    return found


def test_the_arena_of_a_train_step(arenas: list[tuple[int, int]]) -> None:
    with bp.config(plan_files=False):
        for again in (False, True):
            arenas.clear()
            clear_plans()
            _losses(again, jitted=True, n_steps=2)
            size, bound = max(arenas)
            assert bound <= size <= 1.1 * bound


def test_rematerialised_layers_take_less(arenas: list[tuple[int, int]]) -> None:
    with bp.config(plan_files=False):
        sizes = []
        for again in (False, True):
            arenas.clear()
            clear_plans()
            _losses(again, jitted=True, n_steps=2)
            sizes.append(max(arenas)[0])
    assert sizes[1] < 0.6 * sizes[0], sizes


@pytest.mark.parametrize("jitted", [False, True])
def test_rematerialised_layers_train_the_same_bits(jitted: bool) -> None:
    assert _losses(True, jitted) == _losses(False, jitted)
