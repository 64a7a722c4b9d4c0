"""OLMo 3 of the transformers package, trained by PyTorch: eager or compiled as in `torch_peer`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import transformers
from transformers import Olmo3Config, Olmo3ForCausalLM

from benchmarks.peers import torch_peer

VERSION = f"{transformers.__version__} on torch {torch.__version__}"
as_arrays = torch_peer.as_arrays


def train_step(p: Any, inputs: Any) -> Any:
    torch.manual_seed(0)
    config = {key: value for key, value in p["config"].items() if key != "model_type"}
    model = Olmo3ForCausalLM(Olmo3Config(**config, use_cache=False, attn_implementation="sdpa"))
    ids = torch.from_numpy(inputs[0])
    parameters = list(model.parameters())
    optimiser = torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)

    def loss_of(ids: torch.Tensor) -> torch.Tensor:
        logits = model(input_ids=ids[:, :-1]).logits
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    loss_of = torch_peer.prepare(loss_of)

    def run() -> Any:
        loss = loss_of(ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        optimiser.zero_grad()
        return [loss]

    return run


first_step = train_step
