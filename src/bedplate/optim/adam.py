"""Adam, AdamW, and the AdamW of OLMo that leaves out bad steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bedplate.dtypes import float64
from bedplate.errors import SettingError
from bedplate.optim.optimizer import Optimizer, ParameterGroup, once
from bedplate.tensor import Tensor, arange, isfinite, tensor, where, zeros


def _check(name: str, betas: tuple[float, float], eps: float) -> None:
    if not all(0 <= beta < 1 for beta in betas):
        raise SettingError(f"{name}: betas = {betas} are not both in [0, 1)")
    if eps < 0:
        raise SettingError(f"{name}: eps = {eps} is negative")


class Adam(Optimizer):
    """Step by the mean gradient over the root of the mean squared gradient.

    g = grad + weight_decay * weight
    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g**2
    weight -= lr / (1 - b1**t) * m / (sqrt(v / (1 - b2**t)) + eps)

    source   Kingma and Ba 2015, arXiv:1412.6980
    raises   SettingError for betas outside [0, 1) and a negative eps
    """

    state_names = ("exp_avg", "exp_avg_sq")
    decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        _check(type(self).__name__, betas, eps)
        defaults = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    def _begin(self) -> dict[str, Tensor]:
        shared = super()._begin()
        count = self.step_count
        for betas in {group["betas"] for group in self.param_groups}:
            # in float64: 1 - 0.999 has only four right digits in float32
            shared[f"first {betas}"] = 1.0 - betas[0] ** count
            shared[f"root second {betas}"] = (1.0 - betas[1] ** count).sqrt()
        return shared

    def _updated(
        self,
        group: ParameterGroup,
        weight: Tensor,
        grad: Tensor,
        state: dict[str, Tensor],
        shared: dict[str, Tensor],
    ) -> dict[str, Tensor]:
        first, second = group["betas"]
        dtype, these = weight.dtype, f"{weight.dtype} {id(group)}"
        correction = shared[f"first {group['betas']}"]
        root_correction = shared[f"root second {group['betas']}"]
        lr, decay = group["lr"], group["weight_decay"]
        if self.decoupled:
            kept = once(shared, f"kept {these}", lambda: (1.0 - lr * decay).astype(dtype))
            weight = weight * kept
        else:
            grad = grad + once(shared, f"decay {these}", lambda: decay.astype(dtype)) * weight
        average = state["exp_avg"] * first + grad * (1 - first)
        square = state["exp_avg_sq"] * second + grad * grad * (1 - second)
        rate = once(shared, f"rate {these}", lambda: (lr / correction).astype(dtype))
        narrow = once(shared, f"root {these}", lambda: root_correction.astype(dtype))
        root = square.sqrt() / narrow + group["eps"]
        return {"weight": weight - rate * average / root, "exp_avg": average, "exp_avg_sq": square}


class AdamW(Adam):
    """Adam whose weight decay does not pass through the moments.

    weight *= 1 - lr * weight_decay, then the step of Adam without its decay

    source   Loshchilov and Hutter 2019, arXiv:1711.05101
    >>> from bedplate.nn import Parameter
    >>> weight = Parameter([1.0])
    >>> optimizer = AdamW([weight], lr=0.1, weight_decay=0.5)
    >>> (weight * 0.0).sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 6)
    0.95
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)


class SkipStepAdamW(AdamW):
    """AdamW that leaves out a step whose loss or gradient norm is an outlier.

    A step is left out (weights, moments and count stay) if the loss or the norm is not finite,
    or lies more than `sigma` standard deviations above the mean of the last `window` steps.
    Until half the window is filled only what is not finite is left out.

    loss, grad_norm   () tensors, given to `step`; nothing is read back, so it can be captured
    source            the optimiser of OLMo 2 and 3 (OLMo-core, SkipStepAdamW)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        window: int = 128,
        sigma: float = 6.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
        if window < 2:
            raise SettingError(f"SkipStepAdamW: window = {window} holds no spread; give 2 or more")
        self.window, self.sigma = window, sigma
        self.losses = zeros((window,), dtype=float64).realise()
        self.grad_norms = zeros((window,), dtype=float64).realise()
        self.n_seen = tensor(0.0, dtype=float64)
        self.n_skipped = tensor(0.0, dtype=float64)

    def step(self, loss: Tensor | None = None, grad_norm: Tensor | None = None) -> None:
        """Update every parameter that has a gradient, unless the step is an outlier."""
        if loss is None or grad_norm is None:
            raise SettingError("SkipStepAdamW: step needs the step's loss and grad_norm")
        with self._whole():
            self._follow()
            taken = self._judge(loss.detach().astype(float64), grad_norm.detach().astype(float64))
            before = self.step_count.detach()
            shared = {**self._begin(), "taken": taken}
            self.step_count.assign(where(taken, self.step_count, before))
            self._update(shared)

    def _judge(self, loss: Tensor, grad_norm: Tensor) -> Tensor:
        """Decide whether the step is taken, and remember its loss and norm."""
        finite = isfinite(loss) & isfinite(grad_norm)
        usual = self._is_usual(loss, self.losses) & self._is_usual(grad_norm, self.grad_norms)
        taken = finite & usual
        place = (self._places() == self.n_seen % float(self.window)) & finite
        self.losses.assign(where(place, loss, self.losses))
        self.grad_norms.assign(where(place, grad_norm, self.grad_norms))
        self.n_seen.assign(self.n_seen + finite.astype(float64))
        self.n_skipped.assign(self.n_skipped + 1.0 - taken.astype(float64))
        return taken

    def _places(self) -> Tensor:
        return arange(self.window, dtype=float64, device=self.n_seen.device)

    def _is_usual(self, value: Tensor, history: Tensor) -> Tensor:
        """Whether a value is no more than `sigma` spreads above the mean of the history."""
        filled = self._places() < self.n_seen
        count = self.n_seen.clip(2.0, float(self.window))
        mean = where(filled, history, 0.0).sum() / count
        spread = where(filled, (history - mean) ** 2, 0.0).sum() / (count - 1.0)
        early = self.n_seen < float(max(2, self.window // 2))
        return early | (value - mean <= spread.sqrt() * self.sigma)

    def _updated(
        self,
        group: ParameterGroup,
        weight: Tensor,
        grad: Tensor,
        state: dict[str, Tensor],
        shared: dict[str, Tensor],
    ) -> dict[str, Tensor]:
        old = {"weight": weight, **{name: state[name] for name in self.state_names}}
        new = super()._updated(group, weight, grad, state, shared)
        # a choice, not a product: an infinite gradient times 0 is NaN
        return {name: where(shared["taken"], value, old[name]) for name, value in new.items()}

    def extra_state(self) -> dict[str, Tensor]:
        """The step count and what outliers are judged by."""
        return {
            **super().extra_state(),
            "losses": self.losses,
            "grad_norms": self.grad_norms,
            "n_seen": self.n_seen,
            "n_skipped": self.n_skipped,
        }
