"""No reference cycles: reference counts alone free whatever nobody can reach."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.autograd.tape import Entry
from bedplate.graph.node import Node
from bedplate.graph.pending import thread_state


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def living() -> dict[str, int]:
    """How many tensors, nodes and entries there are."""
    bp.synchronize()
    counts = {"Tensor": 0, "Node": 0, "Entry": 0}
    # a plain loop: a comprehension has a cell, which the list of all objects would contain
    for thing in gc.get_objects():
        for kind in (bp.Tensor, Node, Entry):
            if isinstance(thing, kind):
                counts[kind.__name__] += 1
    return counts


def grown(before: dict[str, int]) -> dict[str, int]:
    """What there is more of than before."""
    return {kind: count - before[kind] for kind, count in living().items() if count > before[kind]}


def step(w: bp.Tensor, b: bp.Tensor, x: bp.Tensor) -> float:
    """One step of a small regression, with every kind of thing that could hold a graph."""
    h = (x * w + b).tanh()
    h.register_hook(lambda g: None)
    h.retain_grad()
    loss = (h * h).sum()
    loss.backward()
    assert w.grad is not None
    assert b.grad is not None
    with bp.no_grad():
        w -= w.grad * 0.01
        b -= b.grad * 0.01
    w.grad = b.grad = None
    return loss.item()


def parameters() -> tuple[bp.Tensor, bp.Tensor, bp.Tensor]:
    w = bp.tensor([0.5, -0.5], requires_grad=True)
    b = bp.tensor([0.1, 0.2], requires_grad=True)
    return w, b, bp.tensor([1.0, 2.0])


def test_training_is_flat() -> None:
    w, b, x = parameters()
    for _ in range(5):
        step(w, b, x)
    before = living()
    for _ in range(300):
        step(w, b, x)
    assert not grown(before)


class Doubled(bp.Operation):
    """2 x^2, which keeps its input, a value made of it, and its result."""

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.x = x
        self.twice = x * 2
        self.result = self.twice * x
        return self.result

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        return grad * self.twice * 2


def forget_without_backward(x: bp.Tensor) -> None:
    (x * 2).exp().sum()


def custom(x: bp.Tensor) -> None:
    Doubled.apply(x).sum().backward()
    x.grad = None


def custom_forgotten(x: bp.Tensor) -> None:
    Doubled.apply(x)


def second_order(x: bp.Tensor) -> None:
    bp.grad(lambda v: (bp.grad(lambda u: (u**3).sum())(v) ** 2).sum())(x)


def kept_graph(x: bp.Tensor) -> None:
    y = (x**3).sum()
    y.backward(retain_graph=True, create_graph=True)
    x.grad = None


def tables(x: bp.Tensor) -> None:
    y = (x * x).sum()
    bp.Autograd.current().backward(y)[x].numpy()
    own = bp.Autograd()
    z = own.record("multiply", (x, x), x.detach() * x.detach())
    own.backward(z)[x].numpy()


def products(x: bp.Tensor) -> None:
    bp.jvp(lambda u: u.exp(), [x], [x.detach()])
    bp.vjp(lambda u: u.exp(), x)[1](x.detach())


@pytest.mark.parametrize(
    "work",
    [forget_without_backward, custom, custom_forgotten, second_order, kept_graph, tables, products],
)
def test_nothing_stays(work: Any) -> None:
    x = bp.tensor([0.5, 1.5], requires_grad=True)
    for _ in range(3):
        work(x)
    before = living()
    for _ in range(20):
        work(x)
    assert not grown(before)


class Raises(bp.Operation):
    """Raises on the way back."""

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.x = x
        return x * 2

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        raise ZeroDivisionError("on the way back")


def shape_error(x: bp.Tensor) -> None:  # B41
    with pytest.raises(bp.errors.ShapeError, match="add: the shapes do not broadcast"):
        (x * 2).exp() + bp.ones(3)


def error_in_backward(x: bp.Tensor) -> None:
    y = (Raises.apply(x * 3) + x.exp()).sum()
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert x.grad is None


def error_in_forward(x: bp.Tensor) -> None:
    class Bad(Raises):
        def forward(self, x: bp.Tensor) -> bp.Tensor:
            self.x = x * 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Bad().apply(x)


def index_error(x: bp.Tensor) -> None:
    y = (x * 2)[bp.tensor([9])].sum()
    with pytest.raises(IndexError, match="index 9 is out of range"):
        y.item()


def out_of_memory(x: bp.Tensor) -> None:
    y = (x.broadcast_to(1 << 22, 2) * 2).exp()
    y.sum().backward(retain_graph=True)
    with bp.config(memory_limit=16), pytest.raises(bp.errors.OutOfMemoryError, match="no memory"):
        y.numpy()
    assert (x * 2).tolist() == [1.0, 3.0]
    x.grad = None


@pytest.mark.parametrize("fail", [shape_error, error_in_backward, index_error, out_of_memory])
def test_errors_leave_nothing_alive(fail: Any) -> None:
    """B41"""
    x = bp.tensor([0.5, 1.5], requires_grad=True)
    for _ in range(3):
        fail(x)
    gc.collect()  # pytest.raises makes cycles of its own: frames and the exception
    before = living()
    for _ in range(20):
        fail(x)
    gc.collect()
    assert not grown(before)


def test_errors_leave_nothing_alive_without_the_collector() -> None:
    """B41"""
    x = bp.tensor([0.5, 1.5], requires_grad=True)

    def attempt() -> None:
        with contextlib.suppress(ZeroDivisionError):
            (Raises.apply(x * 3) + x.exp()).sum().backward()
        with contextlib.suppress(bp.errors.ShapeError):
            (x * 2).exp() + bp.ones(3)

    for _ in range(3):
        attempt()
    before = living()
    for _ in range(100):
        attempt()
    assert not grown(before)


def test_a_loss_that_is_summed_up_keeps_its_graph() -> None:
    """B43"""
    x = bp.tensor([0.5, 1.5], requires_grad=True)
    total = bp.zeros(())
    before = living()["Entry"]
    for _ in range(10):
        total = total + (x * x).sum()
    assert living()["Entry"] >= before + 20
    del total
    assert living()["Entry"] == before


def test_results_do_not_depend_on_the_collector() -> None:
    w, b, x = parameters()
    without = [step(w, b, x) for _ in range(5)]
    gc.enable()
    w, b, x = parameters()
    np.testing.assert_array_equal(without, [step(w, b, x) for _ in range(5)])
    assert thread_state().recording


def test_a_failed_backward_lets_go_of_what_was_saved() -> None:
    """B41"""
    x = bp.tensor([0.5, 1.5], requires_grad=True)
    middle = x.exp()
    y = (Raises.apply(x * 3) + middle.exp()).sum()
    value = weakref.ref(middle._node)
    del middle
    assert value() is not None
    with contextlib.suppress(ZeroDivisionError):
        y.backward()
    bp.synchronize()
    assert y.numpy() > 0
    assert value() is None
    with pytest.raises(bp.errors.GradientError, match="was freed"):
        y.backward()
