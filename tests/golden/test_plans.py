"""The printed plans of a few graphs. `REFRESH_GOLDEN=1 pytest tests/golden` writes them anew."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bedplate as bp
from bedplate.compiler.explain import explain

FOLDER = Path(__file__).parent / "plans"


def leaf(*shape, dtype=np.float32):
    return bp.tensor(np.ones(shape, dtype))


def rms_norm_gradients():
    x, w = leaf(6, 40).requires_grad_(), leaf(40).requires_grad_()
    bp.rms_norm(x, w, 1e-5).backward(leaf(6, 40))
    return x.grad, w.grad


GRAPHS = {
    "chain": lambda: (((leaf(30) + leaf(30)) * 2).relu(),),
    "softmax": lambda: (bp.softmax(leaf(6, 40), axis=-1),),
    "linear": lambda: ((leaf(6, 8) @ leaf(8, 10) + leaf(10)).relu(),),
    "transpose": lambda: (leaf(40, 50).T * 2,),
    "rms_norm_gradients": rms_norm_gradients,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_plan(name):
    explanation = explain(*[tensor._node for tensor in GRAPHS[name]()])
    text = f"{explanation.graph}\n\n{explanation.schedule()}\n"
    text = re.sub(r"   from .*", "", text)
    path = FOLDER / f"{name}.txt"
    if os.environ.get("REFRESH_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), "REFRESH_GOLDEN=1 writes the plans anew"


STEP = """
import sys
import numpy as np
import bedplate as bp
from bedplate.olmo import Config, Olmo3
from bedplate.optim import SkipStepAdamW, clip_grad_norm_

junk = [[n] for n in range(int(sys.argv[1]))]  # moves what comes next to other addresses
del junk[::3]
config = Config(vocab_size=64, d_model=32, n_heads=2, n_layers=4, intermediate_size=48)
model = Olmo3(config)
optimizer = SkipStepAdamW(model.parameters())

@bp.jit
def step(inputs, targets):
    optimizer.zero_grad()
    loss = model.loss(inputs, targets, z_loss=1e-5)
    loss.backward()
    norm = clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=False)
    optimizer.step(loss, norm)
    return loss.detach()

ids = bp.tensor(np.arange(32).reshape(2, 16))
for _ in range(4):
    step(ids, ids)
print(step.schedule())
"""


def test_every_process_makes_the_same_plan():
    """Otherwise a warm cache would miss, and two runs could not be compared."""
    plans = {
        subprocess.run(
            [sys.executable, "-c", STEP, str(n)], capture_output=True, text=True, check=True
        ).stdout
        for n in (0, 1000, 54321)
    }
    assert len(plans) == 1
