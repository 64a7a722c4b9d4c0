"""Learning rates over time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bedplate.errors import SettingError
from bedplate.optim.optimizer import Optimizer


def warmup_cosine(progress: float, warmup: float = 0.1, final: float = 0.1) -> float:
    """The factor of the peak rate: up in a line, then down half a cosine.

    progress   how much of the run is done, 0 to 1
    warmup     the part of the run that goes up
    final      the factor at the end
    >>> [round(warmup_cosine(p), 3) for p in (0.0, 0.05, 0.1, 0.55, 1.0)]
    [0.0, 0.5, 1.0, 0.55, 0.1]
    """
    if progress < warmup:
        return progress / warmup
    down = min(1.0, (progress - warmup) / max(1e-12, 1.0 - warmup))
    return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * down))


class WarmupCosine:
    """Warm-up and cosine over counted steps, as a function of the step.

    warmup_steps   steps in which the factor goes up in a line
    total_steps    steps after which it stays at `final`
    >>> schedule = WarmupCosine(10, 100)
    >>> schedule(4), schedule(9), round(schedule(99), 3)
    (0.5, 1.0, 0.1)
    """

    def __init__(self, warmup_steps: int, total_steps: int, final: float = 0.1) -> None:
        if not 0 <= warmup_steps < total_steps:
            raise SettingError(
                f"WarmupCosine: warmup_steps = {warmup_steps} is not in [0, total_steps = "
                f"{total_steps})"
            )
        self.warmup_steps, self.total_steps, self.final = warmup_steps, total_steps, final

    def __call__(self, step: int) -> float:
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        last = max(1, self.total_steps - 1 - self.warmup_steps)
        down = min(1.0, (step - self.warmup_steps) / last)
        return self.final + (1.0 - self.final) * 0.5 * (1.0 + math.cos(math.pi * down))


class Scheduler:
    """Sets the learning rate of every group to its first value times a factor of the step.

    schedule   step, counted from 0 -> factor
    """

    def __init__(self, optimizer: Optimizer, schedule: Callable[[int], float]) -> None:
        self.optimizer, self.schedule = optimizer, schedule
        self.base_rates = [group["lr"].item() for group in optimizer.param_groups]
        self.step_count = 0
        self._set()

    def step(self) -> None:
        """Go on to the next step's rate; call it after the optimiser's step."""
        self.step_count += 1
        self._set()

    def _set(self) -> None:
        factor = self.schedule(self.step_count)
        for group, rate in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = rate * factor

    def state_dict(self) -> dict[str, Any]:
        """The step and the first rates."""
        return {"step_count": self.step_count, "base_rates": list(self.base_rates)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state_dict` was taken."""
        self.step_count = int(state["step_count"])
        self.base_rates = [float(rate) for rate in state["base_rates"]]
        self._set()
