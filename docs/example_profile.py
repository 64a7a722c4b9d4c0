"""Twenty training steps of the demo's model, for `bedplate profile`; see in-depth/profiling.md."""

import numpy as np

import bedplate as bp
from bedplate.olmo import PRESETS, Olmo3

STEPS = 20
demo = PRESETS["demo"]
bp.manual_seed(0)
model = Olmo3(demo.config(vocab_size=256))
optimiser = bp.optim.AdamW(model.parameters(), lr=demo.learning_rate)


@bp.jit
def step(inputs: bp.Tensor, targets: bp.Tensor) -> bp.Tensor:
    optimiser.zero_grad()
    loss = model.loss(inputs, targets)
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()
    return loss.detach()


ids = np.random.default_rng(0).integers(0, 256, (demo.batch_size, demo.seq_len + 1))
inputs, targets = bp.tensor(ids[:, :-1]), bp.tensor(ids[:, 1:])
for _ in range(STEPS):
    loss = step(inputs, targets).item()
print(f"loss {loss:.3f}")
