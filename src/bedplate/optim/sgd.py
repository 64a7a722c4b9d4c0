"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bedplate.errors import SettingError
from bedplate.optim.optimizer import Optimizer, ParameterGroup, once
from bedplate.tensor import Tensor


class SGD(Optimizer):
    """Step against the gradient, or against a decaying sum of gradients.

    g = grad + weight_decay * weight;  m = momentum * m + g;  weight -= lr * m
    (nesterov: weight -= lr * (g + momentum * m))

    source   Sutskever et al. 2013, in the form that PyTorch has
    raises   SettingError for a momentum outside [0, 1), and for nesterov without one
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if not 0 <= momentum < 1:
            raise SettingError(f"SGD: momentum = {momentum} is not in [0, 1)")
        if nesterov and not momentum:
            raise SettingError("SGD: nesterov needs a momentum; give one above 0")
        self.state_names = ("momentum",) if momentum else ()
        defaults = {
            "lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov
        }  # fmt: skip
        super().__init__(params, defaults)

    def _updated(
        self,
        group: ParameterGroup,
        weight: Tensor,
        grad: Tensor,
        state: dict[str, Tensor],
        shared: dict[str, Tensor],
    ) -> dict[str, Tensor]:
        dtype = weight.dtype
        lr = once(shared, f"lr {dtype} {id(group)}", lambda: group["lr"].astype(dtype))
        decay = once(
            shared, f"decay {dtype} {id(group)}", lambda: group["weight_decay"].astype(dtype)
        )
        grad = grad + decay * weight
        if "momentum" not in state:
            return {"weight": weight - lr * grad}
        momentum = group["momentum"]
        average = momentum * state["momentum"] + grad
        direction = grad + momentum * average if group["nesterov"] else average
        return {"weight": weight - lr * direction, "momentum": average}
