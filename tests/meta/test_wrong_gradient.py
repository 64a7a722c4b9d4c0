"""The gradient checks catch what they are for: a gradient wrong by 0.1 %, in one element even."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import bedplate as bp

X = bp.tensor([0.3, -0.7, 1.9])


def operation(gradient: Callable[[bp.Tensor, bp.Tensor], bp.Tensor]) -> type[bp.Operation]:
    class Cube(bp.Operation):
        def forward(self, x: bp.Tensor) -> bp.Tensor:
            self.x = x
            return x * x * x

        def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
            return gradient(grad, self.x)

    return Cube


RIGHT = operation(lambda g, x: g * 3 * x * x)
WRONG = {
    "by 0.1 %": operation(lambda g, x: g * 3.003 * x * x),
    "by -0.1 %": operation(lambda g, x: g * 2.997 * x * x),
    "in one element": operation(lambda g, x: g * 3 * x * x * bp.tensor([1.0, 1.0, 1.001])),
    "in the smallest": operation(lambda g, x: g * 3 * x * x * bp.tensor([1.001, 1.0, 1.0])),
    "by a constant": operation(lambda g, x: g * (3 * x * x + 0.001)),
    "by its sign": operation(lambda g, x: g * -3 * x * x),
    "by nan": operation(lambda g, x: g * 3 * x * x * bp.tensor([1.0, float("nan"), 1.0])),
}


def test_a_right_one_passes() -> None:
    assert bp.gradcheck(RIGHT.apply, X)
    assert bp.gradgradcheck(RIGHT.apply, X)


@pytest.mark.parametrize("name", list(WRONG))
def test_a_wrong_one_fails(name: str) -> None:
    with pytest.raises(
        bp.errors.GradientError, match=r"the gradient of input 0 is wrong at \d of 3"
    ):
        bp.gradcheck(WRONG[name].apply, X)
    with pytest.raises(bp.errors.GradientError, match="check_operation: gradient"):
        bp.check_operation(WRONG[name], X)


def test_a_wrong_second_gradient_fails() -> None:
    class Wrong(bp.Operation):
        """exp(x) whose gradient is right at first order only."""

        constants = ("y",)

        def forward(self, x: bp.Tensor) -> bp.Tensor:
            self.y = bp.tensor(np.exp(x.numpy()))
            return self.y

        def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
            return grad * self.y

    assert bp.gradcheck(Wrong.apply, X)
    with pytest.raises(bp.errors.GradientError, match="is wrong at"):
        bp.gradgradcheck(Wrong.apply, X)


def test_check_operation_sees_a_wrong_value() -> None:
    with pytest.raises(bp.errors.GradientError, match="differs from the reference by"):
        bp.check_operation(RIGHT, X, reference=lambda x: x**3 * 1.001)


def test_check_operation_sees_shared_state() -> None:
    """State that is kept on the class mixes applications of several threads."""
    shared: list[bp.Tensor] = []

    class Leaky(bp.Operation):
        def forward(self, x: bp.Tensor) -> bp.Tensor:
            shared.append(x)
            return x * x

        def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
            return 2 * grad * shared[0]

    with pytest.raises(bp.errors.GradientError, match="check_operation"):
        bp.check_operation(Leaky, X)
        bp.check_operation(Leaky, X * 2)
