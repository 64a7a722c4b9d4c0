"""Optimisers, learning-rate schedules and gradient clipping."""

from bedplate.optim.adam import Adam, AdamW, SkipStepAdamW
from bedplate.optim.clip import clip_grad_norm, clip_grad_norm_, grad_norm
from bedplate.optim.optimizer import Optimizer, ParameterGroup
from bedplate.optim.schedule import Scheduler, WarmupCosine, warmup_cosine
from bedplate.optim.sgd import SGD

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Optimizer",
    "ParameterGroup",
    "Scheduler",
    "SkipStepAdamW",
    "WarmupCosine",
    "clip_grad_norm",
    "clip_grad_norm_",
    "grad_norm",
    "warmup_cosine",
]
