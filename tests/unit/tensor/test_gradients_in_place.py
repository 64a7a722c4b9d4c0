"""Gradients that a replayed step writes where those of the call before lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp


def step_of(weight: Any) -> Callable[..., Any]:
    @bp.jit
    def step(x: Any, targets: Any) -> Any:
        weight.grad = None
        loss = bp.nn.functional.cross_entropy(x @ weight, targets)
        loss.backward()
        return loss

    return step


@pytest.fixture
def weight() -> Any:
    values = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    return bp.tensor(values, requires_grad=True)


def batch(seed: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((5, 4)).astype(np.float32)
    return bp.tensor(x), bp.tensor(generator.integers(0, 3, 5))


def expected(weight: Any, seed: int) -> Any:
    leaf = weight.detach().requires_grad_()
    x, targets = batch(seed)
    bp.nn.functional.cross_entropy(x @ leaf, targets).backward()
    return leaf.grad.numpy()


def test_memory_is_used_again_if_nobody_holds_it(weight: Any) -> None:
    step = step_of(weight)
    addresses = set()
    for seed in range(6):
        step(*batch(seed))
        addresses.add(weight.grad.realise()._node.block.address)
        np.testing.assert_allclose(weight.grad.numpy(), expected(weight, seed), rtol=1e-5)
    assert len(addresses) < 6


@pytest.mark.parametrize("hold", ["tensor", "array", "graph", "alias"])
def test_what_somebody_holds_stays(weight: Any, hold: str) -> None:
    step = step_of(weight)
    for seed in range(4):
        step(*batch(seed))
    before = weight.grad.numpy().copy()
    if hold == "tensor":
        held = weight.grad
    elif hold == "array":
        held = weight.grad.numpy()
    elif hold == "graph":
        held = weight.grad * 1  # not computed yet
    else:
        held = weight.grad.detach()
    step(*batch(9))
    np.testing.assert_array_equal(np.asarray(held), before)
    np.testing.assert_allclose(weight.grad.numpy(), expected(weight, 9), rtol=1e-5)


def test_a_gradient_that_was_changed_in_between_is_replaced(weight: Any) -> None:
    step = step_of(weight)
    for seed in range(4):
        step(*batch(seed))
    for other in (None, bp.ones((4, 3)), bp.ones((4, 3)).realise(), bp.zeros((4, 3))):
        weight.grad = other
        if other is not None:
            weight.grad.requires_grad_()
        del other
        step(*batch(7))
        np.testing.assert_allclose(weight.grad.numpy(), expected(weight, 7), rtol=1e-5)
        assert not weight.grad.requires_grad


def test_a_step_that_fails_leaves_the_gradient(weight: Any) -> None:
    step = step_of(weight)
    for seed in range(4):
        step(*batch(seed))
    before = weight.grad.numpy().copy()
    x, _ = batch(5)
    with pytest.raises(IndexError, match="target"):
        step(x, bp.tensor(np.array([0, 1, 2, 3, 0])))
    np.testing.assert_array_equal(weight.grad.numpy(), before)
    step(*batch(6))
    np.testing.assert_allclose(weight.grad.numpy(), expected(weight, 6), rtol=1e-5)
