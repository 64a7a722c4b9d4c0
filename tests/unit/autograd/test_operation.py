"""Custom operations: state, gradients, second gradients right or refused, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp


def leaf(*values: float) -> bp.Tensor:
    return bp.tensor(list(values), dtype=bp.float64, requires_grad=True)


class Scale(bp.Operation):
    """factor * x, with state from the constructor and from forward."""

    def __init__(self, factor: float = 2.0) -> None:
        self.factor = factor

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.shape = x.shape
        return x * self.factor

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        assert grad.shape == self.shape
        return grad * self.factor


class Product(bp.Operation):
    """x * y, with a gradient for each."""

    def forward(self, x: bp.Tensor, y: Any) -> bp.Tensor:
        self.x, self.y = x, y
        return x * y

    def grad_fn(self, grad: bp.Tensor) -> tuple[Any, Any]:
        return grad * self.y, grad * self.x if isinstance(self.y, bp.Tensor) else None


def test_on_the_class_and_on_an_instance() -> None:
    x = leaf(1.0, 2.0)
    Scale.apply(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]
    triple = Scale(3.0)
    x.grad = None
    y = triple.apply(x)
    z = triple.apply(x[:1])
    assert not hasattr(triple, "shape")
    (y.sum() + z.sum()).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0, 3.0]


def test_several_inputs_and_plain_values() -> None:
    x, y = leaf(2.0), leaf(5.0)
    Product.apply(x, y).backward()
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.item(), y.grad.item()) == (5.0, 2.0)
    x.grad = None
    Product.apply(x, 7.0).backward()
    assert x.grad is not None
    assert x.grad.item() == 7.0


def test_without_gradient_nothing_is_recorded() -> None:
    assert not Scale.apply(bp.ones(2)).requires_grad
    with bp.no_grad():
        assert not Scale.apply(leaf(1.0)).requires_grad


class KeepsTwice(bp.Operation):
    """4 x^2 with a value that forward computes and the gradient uses (B40)."""

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.twice = 2 * x
        return 4 * x * x

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        return grad * 4 * self.twice


def test_second_derivative_of_saved_values() -> None:
    """B40"""
    x = leaf(3.0)
    for _ in range(2):
        y = KeepsTwice.apply(x)
        first = bp.Autograd.current().backward((y * y).sum(), create_graph=True)[x]
        second = bp.Autograd.current().backward(first)[x]
        assert first.item() == 1728.0
        assert second.item() == 1728.0


class ThroughNumpy(bp.Operation):
    """exp(x), computed outside the graph."""

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.y = bp.tensor(np.exp(x.numpy()))
        return self.y

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        return grad * self.y


class GradientThroughNumpy(bp.Operation):
    """x^2 with a gradient that is computed outside the graph."""

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.x = x
        return x * x

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        return bp.tensor(grad.numpy() * 2 * self.x.numpy())


class KeepsNumber(bp.Operation):
    """x * mean(x) with the mean kept as a Python number."""

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.parts = {"mean": [x.mean().item()]}
        return x * self.parts["mean"][0]

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        return grad * self.parts["mean"][0]


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (ThroughNumpy, r"self\.y was computed in forward"),
        (GradientThroughNumpy, "grad_fn took values out of the graph"),
        (KeepsNumber, r"self\.parts was computed in forward"),
    ],
)
def test_second_derivatives_that_would_be_wrong_are_refused(operation: Any, name: str) -> None:
    x = leaf(0.5, 1.0)
    operation.apply(x).sum().backward()
    assert x.grad is not None
    first = bp.grad(lambda v: operation.apply(v).sum())(x)
    np.testing.assert_allclose(first.numpy(), x.grad.numpy())
    with pytest.raises(bp.errors.GradientError, match=name):
        bp.grad(lambda v: (bp.grad(lambda u: operation.apply(u).sum())(v)).sum())(x)


class Masked(bp.Operation):
    """x where a random mask is 1: the mask depends on no input."""

    constants = ("mask",)

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.mask = bp.tensor((x.numpy() > 0).astype(np.float64))
        return x * x * self.mask

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        raise AssertionError("replaced below")


def test_constants_are_trusted() -> None:
    class Square(Masked):
        def forward(self, x: bp.Tensor) -> bp.Tensor:
            self.x = x
            return super().forward(x)

        def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
            return grad * 2 * self.x * self.mask

    x = leaf(-1.0, 3.0)
    second = bp.grad(lambda v: bp.grad(lambda u: Square.apply(u).sum())(v).sum())(x)
    assert second.tolist() == [0.0, 2.0]


def bad(gradient: Any) -> type[bp.Operation]:
    class Bad(bp.Operation):
        def forward(self, x: bp.Tensor) -> bp.Tensor:
            return x * 2

        def grad_fn(self, grad: bp.Tensor) -> Any:
            return gradient(grad)

    return Bad


def test_a_gradient_must_match() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(bp.errors.GradientError, match="gave 2 gradients for 1 inputs"):
        bad(lambda g: (g, g)).apply(x).sum().backward()
    with pytest.raises(bp.errors.GradientError, match="Bad: gradient 0 has the wrong shape"):
        bad(lambda g: g.sum()).apply(x).sum().backward()
    assert x.grad is None
    bad(lambda g: None).apply(x).sum().backward()
    assert x.grad is None


def test_missing_parts_are_named() -> None:
    class Half(bp.Operation):
        def forward(self, x: bp.Tensor) -> bp.Tensor:
            return x / 2

    with pytest.raises(
        bp.errors.GradientError, match=r"Half: grad_fn\(self, grad\) is not defined"
    ):
        Half.apply(leaf(1.0)).backward()
    with pytest.raises(bp.errors.GradientError, match="forward"):
        bp.Operation.apply(leaf(1.0))
    with pytest.raises(TypeError, match="at least one tensor"):
        Half.apply(3.0)

    class Wrong(bp.Operation):
        def forward(self, x: bp.Tensor) -> Any:
            return x.numpy()

    with pytest.raises(TypeError, match="Wrong: forward must return a tensor, got ndarray"):
        Wrong.apply(leaf(1.0))


def test_forward_cannot_change_its_arguments() -> None:
    class InPlace(bp.Operation):
        def forward(self, x: bp.Tensor) -> bp.Tensor:
            x *= 2
            return x

        def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
            return grad * 2

    x = leaf(1.0)
    y = InPlace.apply(x)
    y.backward()
    assert (x.tolist(), y.tolist()) == ([1.0], [2.0])
    assert x.grad is not None
    assert x.grad.tolist() == [2.0]


def test_check_operation_reports() -> None:
    report = bp.check_operation(
        Product, bp.tensor([[0.5, 1.0]]), bp.tensor([[2.0, -1.0]]), reference=lambda x, y: x * y
    )
    assert report["value"] == report["gradient"] == report["second gradient"] == "passed"
    assert report["strides"] == report["threads"] == report["empty input"] == "passed"
