"""OLMo 3 of the transformers package on PyTorch: eager or compiled as in `torch_peer`."""

from __future__ import annotations

import copy
import time
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from transformers import DynamicCache, Olmo3Config, Olmo3ForCausalLM, StaticCache

from benchmarks import olmo
from benchmarks.peers import torch_peer

VERSION = f"{transformers.__version__} on torch {torch.__version__}"
COMPILES = torch_peer.COMPILES
forget = torch_peer.forget
as_arrays = torch_peer.as_arrays


def _model(p: Any, dtype: str = "float32") -> Any:
    config = {key: value for key, value in p["config"].items() if key != "model_type"}
    # `rope_theta` alone would hold for the layers without a window only
    rope = {"rope_type": "default", "rope_theta": config.pop("rope_theta")}
    kinds = {"sliding_attention": dict(rope), "full_attention": dict(rope)}
    made = Olmo3Config(**config, rope_parameters=kinds, attn_implementation="sdpa")
    model = Olmo3ForCausalLM(made).to(getattr(torch, dtype))
    weights = olmo.random_weights(p["config"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(weights.pop(name)))
    return model


def train_step(p: Any, inputs: Any) -> Any:
    model = _model(p)
    model.config.use_cache = False
    ids = torch.from_numpy(inputs[0])
    parameters = list(model.parameters())
    optimiser = torch.optim.AdamW(parameters, fused=True, **torch_peer.ADAMW)

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


def _is_known(p: Any) -> bool:
    return p["dtype"] in ("float32", "bfloat16")


def prefill(p: Any, inputs: Any) -> Any:
    if not _is_known(p):
        return None
    model, ids = _model(p, p["dtype"]).eval(), torch.from_numpy(inputs[0])
    forward = torch_peer.prepare(
        lambda ids: model(input_ids=ids, use_cache=True, logits_to_keep=1).logits[:, -1]
    )

    def run() -> Any:
        with torch.no_grad():
            return [forward(ids)]

    return run


class Decoder:
    """Greedy tokens behind a prompt that has been read; only the new tokens are timed."""

    def __init__(self, p: Any, inputs: Any) -> None:
        self.p = p
        self.model = _model(p, p["dtype"]).eval()
        self.seconds = 0.0
        with torch.no_grad():
            ids = torch.from_numpy(inputs[0])
            self.prompt_cache = self._empty()
            found = self.model(input_ids=ids, past_key_values=self.prompt_cache, logits_to_keep=1)
            self.logits = found.logits[:, -1]
        self.step = torch_peer.prepare(self._step) if COMPILES else self._step

    def _empty(self) -> Any:
        room = self.p["prompt"] + self.p["new"]
        return StaticCache(self.model.config, room) if COMPILES else DynamicCache()

    def _step(self, token: torch.Tensor, place: torch.Tensor, cache: Any) -> torch.Tensor:
        found = self.model(input_ids=token, position_ids=place, past_key_values=cache)
        return found.logits[:, -1].argmax(-1, keepdim=True)

    def __call__(self) -> Any:
        cache = copy.deepcopy(self.prompt_cache)
        with torch.no_grad():
            start = time.perf_counter()
            token = self.logits.argmax(-1, keepdim=True)
            for number in range(self.p["new"]):
                place = torch.tensor([[self.p["prompt"] + number]])
                token = self.step(token, place, cache)
            self.seconds = time.perf_counter() - start
        return [self.logits]


def decode(p: Any, inputs: Any) -> Any:
    return Decoder(p, inputs) if _is_known(p) else None
