"""Bedplate's models: a perceptron's step, optimisers, OLMo 3 in training and in use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import bedplate as bp
import bedplate.nn.functional as F
from bedplate import optim
from bedplate.olmo import Config, Olmo3
from bedplate.olmo.cache import Cache
from benchmarks import olmo
from benchmarks.model_kinds import ADAMW

JIT = "BENCHMARK_JIT" in os.environ


def realised(results: list[Any]) -> list[Any]:
    for result in results:
        result.realise()
    return results


def tensors(inputs: Any) -> list[Any]:
    return [bp.tensor(array) for array in inputs]


def mlp_step(p: Any, inputs: Any) -> Any:
    x, targets, *weights = tensors(inputs)
    for weight in weights:
        weight.requires_grad_()
    optimiser = optim.SGD(weights, lr=0.01)

    def step(x: Any, targets: Any) -> Any:
        optimiser.zero_grad()
        hidden = F.linear(x, weights[0], weights[1]).relu()
        hidden = F.linear(hidden, weights[2], weights[3]).relu()
        loss = F.cross_entropy(F.linear(hidden, weights[4], weights[5]), targets)
        loss.backward()
        optimiser.step()
        return loss.detach()

    step = bp.jit(step) if JIT else step
    return lambda: realised([step(x, targets), *weights])[:1]


def residual_step(p: Any, inputs: Any) -> Any:
    x, targets, *weights = tensors(inputs)

    def loss_of(x: Any, targets: Any) -> Any:
        layers = iter(weights)
        for _ in range(p["blocks"]):
            before = x
            for last in (False, True):
                x = F.conv2d(x, next(layers), padding=1)
                x = F.batch_norm(x, None, None, next(layers), next(layers), training=True)
                x = (x + before if last else x).relu()
        return F.cross_entropy(F.linear(x.mean((2, 3)), *layers), targets)

    return _trained(loss_of, x, targets, weights)


def perceptron(p: Any, inputs: Any) -> Any:
    x, targets, *weights = tensors(inputs)

    def loss_of(x: Any, targets: Any) -> Any:
        for weight, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
            x = F.linear(x, weight, bias).relu()
        return F.cross_entropy(F.linear(x, *weights[-2:]), targets)

    return _trained(loss_of, x, targets, weights)


def _trained(loss_of: Callable, x: Any, targets: Any, weights: list[Any]) -> Any:
    """A run of one step of AdamW on the weights; its result is the loss."""
    for weight in weights:
        weight.requires_grad_()
    optimiser = _adamw(weights)

    def step(x: Any, targets: Any) -> Any:
        optimiser.zero_grad()
        loss = loss_of(x, targets)
        loss.backward()
        optimiser.step()
        return loss.detach()

    step = bp.jit(step) if JIT else step
    return lambda: realised([step(x, targets), *weights])[:1]


def _adamw(parameters: list[Any]) -> Any:
    betas = ADAMW["beta1"], ADAMW["beta2"]
    more = {key: ADAMW[key] for key in ("lr", "eps", "weight_decay")}
    return optim.AdamW(parameters, betas=betas, **more)


def optimiser(p: Any, inputs: Any) -> Any:
    given = tensors(inputs)
    leaves, grads = given[: p["tensors"]], given[p["tensors"] :]
    for leaf, grad in zip(leaves, grads, strict=True):
        leaf.requires_grad_().grad = grad
    made = _adamw(leaves)

    def step() -> None:
        made.step()

    step = bp.jit(step) if JIT else step

    def run() -> Any:
        step()
        realised(leaves)
        return [leaves[0], leaves[-1]]

    return run


def _model(p: Any, dtype: str = "float32") -> Any:
    if dtype.startswith("int"):
        return _model(p, "bfloat16").quantise(dtype)
    model = Olmo3(Config(**p["config"]), getattr(bp, dtype))
    weights = olmo.random_weights(p["config"])
    with bp.no_grad():
        for name, parameter in model.named_parameters():
            parameter.assign(bp.tensor(weights.pop(name)).astype(parameter.dtype))
    realised(list(model.parameters()))
    return model


def step_of(p: Any) -> tuple[Any, list[Any]]:
    """A step on ids that returns the loss, and the parameters that it changes."""
    model = _model(p)
    parameters = list(model.parameters())
    optimiser = _adamw(parameters)

    def step(ids: Any) -> Any:
        optimiser.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optim.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=False)
        optimiser.step()
        return loss.detach()

    return (bp.jit(step) if JIT else step), parameters


def train_step(p: Any, inputs: Any) -> Any:
    step, parameters = step_of(p)
    ids = bp.tensor(inputs[0])
    return lambda: realised([step(ids), *parameters])[:1]


def _is_known(p: Any) -> bool:
    """One of both peers is enough: a decoder captures its step whatever the peer."""
    return JIT and (p["dtype"] in ("float32", "bfloat16") or hasattr(Olmo3, "quantise"))


def prefill(p: Any, inputs: Any) -> Any:
    """The prompt with a cache that is filled, and the logits of its last token."""
    if not _is_known(p):
        return None
    model = _model(p, p["dtype"])

    def run() -> Any:
        with bp.no_grad():
            cache = Cache(model.config)
            x = model.hidden(inputs[0], cache)
            logits = model.lm_head(x[:, -1:])[:, 0]
            cache.realise()
            return realised([logits])

    return run


class Decoder:
    """Greedy tokens behind a prompt; only those after the first are timed."""

    def __init__(self, p: Any, inputs: Any) -> None:
        self.p, self.ids = p, inputs[0]
        self.model = _model(p, p["dtype"])
        self.seconds = 0.0
        with bp.no_grad():
            self.logits = self.model.lm_head(self.model.hidden(self.ids)[:, -1]).realise()

    def __call__(self) -> Any:
        new = self.model.stream(self.ids, self.p["new"] + 1, temperature=0)
        next(new)
        start = time.perf_counter()
        for _ in new:
            pass
        self.seconds = time.perf_counter() - start
        return [self.logits]


def decode(p: Any, inputs: Any) -> Any:
    return Decoder(p, inputs) if _is_known(p) else None
