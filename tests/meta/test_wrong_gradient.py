"""The gradient checks catch what they are for: a gradient wrong by 0.1 %, in one element even."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def wrong(power: int, factor: Any) -> type[bp.Operation]:
    """x^power with a gradient that is wrong by a factor, and right of its own."""

    class Power(bp.Operation):
        def forward(self, x: Any) -> Any:
            self.x = x
            return x**power

        def grad_fn(self, grad: Any) -> Any:
            return grad * (factor * power) * self.x ** (power - 1)

    return Power


SIZES = bp.tensor([1e-6, 3e-3, 1.0, 4e2, 2e5])


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("spoiled", range(5))
def test_a_wrong_one_fails_at_every_magnitude(power: int, spoiled: int) -> None:
    factors = bp.tensor([1.001 if i == spoiled else 1.0 for i in range(5)], dtype=bp.float64)
    right, bad = wrong(power, 1.0), wrong(power, factors)
    assert bp.gradcheck(right.apply, SIZES)
    with pytest.raises(bp.errors.GradientError, match="is wrong at 1 of 5"):
        bp.gradcheck(bad.apply, SIZES)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_outputs_of_other_magnitudes_hide_nothing(size: float) -> None:
    def function(x: Any, operation: Any) -> Any:
        return operation.apply(x) * size, (x * x).sum() / size

    assert bp.gradcheck(lambda x: function(x, RIGHT), X)
    with pytest.raises(bp.errors.GradientError, match="is wrong at"):
        bp.gradcheck(lambda x: function(x, WRONG["by 0.1 %"])[0], X)


class Outer(bp.Operation):
    """x^3, whose gradient is an operation with a gradient that is wrong by `factor`."""

    factor = 1.001

    def forward(self, x: Any) -> Any:
        self.x = x
        return x * x * x

    def grad_fn(self, grad: Any) -> Any:
        return grad * Inner.apply(self.x)


class Inner(bp.Operation):
    def forward(self, x: Any) -> Any:
        self.x = x
        return 3 * x * x

    def grad_fn(self, grad: Any) -> Any:
        return grad * 6 * Outer.factor * self.x


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e6])
def test_a_second_gradient_wrong_by_a_thousandth_fails(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def both(x: Any) -> Any:
        return Outer.apply(x * scale), x.sum()

    assert bp.gradcheck(both, X)
    with pytest.raises(bp.errors.GradientError, match="the gradient of input 1 is wrong at 3 of 3"):
        bp.gradgradcheck(both, X)
    monkeypatch.setattr(Outer, "factor", 1.0)
    assert bp.gradgradcheck(both, X)


def test_tuples_complex_numbers_and_integers() -> None:
    z = bp.tensor([1 + 2j, -0.5 + 0.3j])
    n = bp.tensor([2, 3])
    assert bp.gradcheck(lambda z, n: (z * z * n, bp.abs(z), n), [z, n])
    assert bp.gradgradcheck(lambda z, n: (z * z * n, bp.abs(z), n), [z, n])

    class Conjugated(bp.Operation):
        """z^2 with the gradient that forgets to conjugate."""

        def forward(self, z: Any) -> Any:
            self.z = z
            return z * z

        def grad_fn(self, grad: Any) -> Any:
            return grad * 2 * self.z

    with pytest.raises(bp.errors.GradientError, match="is wrong at 2 of 2"):
        bp.gradcheck(Conjugated.apply, z)


def test_masks_leave_out_kinks_and_nothing_else() -> None:
    x = bp.tensor([0.0, 1.0, -2.0])
    with pytest.raises(
        bp.errors.GradientError, match=r"wrong at 1 of 3 elements\n  worst at \(0,\)"
    ):
        bp.gradcheck(bp.relu, x)
    assert bp.gradcheck(bp.relu, x, masks=[[False, True, True]])
    assert bp.gradgradcheck(bp.relu, x, masks=[[False, True, True]])
    with pytest.raises(bp.errors.GradientError, match="wrong at 1 of 3"):
        bp.gradcheck(bp.relu, x, masks=[[True, False, False]])
    with pytest.raises(bp.errors.GradientError, match="no input is floating point"):
        bp.gradcheck(bp.relu, bp.tensor([1, 2]))
    with pytest.raises(TypeError, match="gradcheck: input 0 is list, not a tensor"):
        bp.gradcheck(bp.relu, [[1.0, 2.0]])
    with pytest.raises(TypeError, match="the function must return tensors, got float"):
        bp.gradcheck(lambda x: x.sum().item(), x)
