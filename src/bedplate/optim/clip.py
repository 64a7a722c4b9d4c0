"""Gradient clipping by a norm that cannot overflow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bedplate.dtypes import float32, float64
from bedplate.errors import GradientError
from bedplate.optim.optimizer import as_floats
from bedplate.tensor import Tensor, isfinite, no_grad, stack, where


def grad_norm(grads: Iterable[Tensor]) -> Tensor:
    """The Euclidean norm of all gradients together.

    Squares of float32 cannot overflow float64, in which they are summed; float64 gradients
    are divided by their largest magnitude first.

    returns  () float64
    """
    grads = [as_floats(g) for g in grads]
    scales = [g.abs().max() for g in grads if g.dtype is float64 and g.size]
    scale = _largest(scales) if scales else None
    if not grads:
        raise GradientError("grad_norm: got no gradients\n  call backward() first")
    wide = [g.astype(float64) for g in grads]
    wide = wide if scale is None else [g / scale for g in wide]
    # side by side, then added: a chain of additions would wait for one gradient after another
    total = stack([(g * g).sum() for g in wide]).sum()
    return total.sqrt() if scale is None else total.sqrt() * scale


def _largest(scales: list[Tensor]) -> Tensor:
    largest = scales[0]
    for scale in scales[1:]:
        largest = where(scale > largest, scale, largest)
    # all zero: any other divisor does
    return where(largest > 0.0, largest, 1.0)


def clip_grad_norm_(
    parameters: Iterable[Any], max_norm: float, error_if_nonfinite: bool = True
) -> Tensor:
    """Scale all gradients down together so that their norm is at most `max_norm`.

    parameters           tensors or (name, tensor) pairs; those without a gradient are passed over
    error_if_nonfinite   read the norm, and raise if it is not finite; without it nothing is read
                         (a captured step cannot), and gradients of such a norm stay as they are
    returns              () the norm before scaling
    raises               GradientError that names the parameters whose gradient is not finite;
                         all gradients stay as they are then
    """
    named = [
        item if isinstance(item, tuple) else (f"parameter {index}", item)
        for index, item in enumerate(parameters)
    ]
    named = [(name, p) for name, p in named if p.grad is not None]
    with no_grad():
        norm = grad_norm(p.grad.detach() for _, p in named)
        if error_if_nonfinite and not bool(isfinite(norm).item()):
            raise _not_finite(named)
        scaled = max_norm / norm
        factor = where(isfinite(norm) & (scaled < 1.0), scaled, 1.0)
        for _, parameter in named:
            grad = parameter.grad.detach()
            wide = float32 if grad.dtype.itemsize < 4 else grad.dtype
            # the root twice: a factor below 1e-38 would be 0 in float32
            root = factor.sqrt().astype(wide)
            parameter.grad = (grad.astype(wide) * root * root).astype(grad.dtype)
    return norm


clip_grad_norm = clip_grad_norm_  # both spellings are in use elsewhere


def _not_finite(named: list[tuple[str, Any]]) -> GradientError:
    bad = [name for name, p in named if not bool(isfinite(p.grad.detach()).all().item())]
    return GradientError(
        "clip_grad_norm_: the gradient is not finite\n"
        f"  in {', '.join(bad[:8])}{' and others' if len(bad) > 8 else ''}\n"
        "  no gradient was changed; skip the step, or look at the loss and the inputs"
    )
