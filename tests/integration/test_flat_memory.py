"""Memory stays flat over many steps: what the allocator has mapped, what it keeps, the process."""

import gc
from pathlib import Path

import numpy as np
import pytest

import bedplate as bp
import bedplate.nn.functional as F
from bedplate import nn, optim
from bedplate.memory.mapping import ACCOUNT

STEPS = {"quick": 1_500, "full": 10_000}
SETTLED = 500  # steps after which nothing may grow any more


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("captured", [False, True])
def test_ten_thousand_steps(captured, sweep):
    bp.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10))
    optimiser = optim.AdamW(model.parameters(), lr=1e-3)

    def step(x, target):
        optimiser.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimiser.step()
        return loss.detach()

    run, draw = (bp.jit(step) if captured else step), np.random.default_rng(0)
    gc.collect()
    gc.disable()
    try:
        for number in range(STEPS[sweep]):
            x = bp.tensor(draw.standard_normal((32, 64), dtype=np.float32))
            run(x, bp.tensor(draw.integers(0, 10, 32))).item()
            if number == SETTLED:
                before = ACCOUNT.mapped, resident_pages()
    finally:
        gc.enable()
    assert ACCOUNT.mapped == before[0]
    assert resident_pages() - before[1] < 256  # a mebibyte


def resident_pages():
    return int(Path("/proc/self/statm").read_text().split()[1])
