"""Custom operations under every switch, captured, in threads, with several outputs."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.config import SETTINGS

SWITCHES = [setting.name for setting in SETTINGS if isinstance(setting.default, bool)]
X = [0.5, -1.0, 2.0]


class Cube(bp.Operation):
    """factor * x^3."""

    factor = 2.0

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.x = x
        return x * x * x * self.factor

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        return grad * self.x * self.x * (3 * self.factor)


class Polar(bp.Operation):
    """Length, angle and quadrant of (x, y)."""

    def forward(self, x: bp.Tensor, y: bp.Tensor) -> Any:
        self.x, self.y = x, y
        quadrant = (x < 0).astype(bp.int64) + 2 * (y < 0).astype(bp.int64)
        return bp.sqrt(x * x + y * y), bp.atan2(y, x), quadrant

    def grad_fn(self, length: bp.Tensor, angle: bp.Tensor, quadrant: bp.Tensor) -> Any:
        square = self.x * self.x + self.y * self.y
        root = bp.sqrt(square)
        return (
            length * self.x / root - angle * self.y / square,
            length * self.y / root + angle * self.x / square,
        )


def leaf(values: Any) -> bp.Tensor:
    return bp.tensor(values, dtype=bp.float64, requires_grad=True)


def gradients(operation: Any) -> tuple[Any, ...]:
    """Value, gradient and second gradient of sum(op(x))."""
    x = leaf(X)
    y = operation.apply(x)
    first = bp.Autograd.current().backward(y.sum(), create_graph=True)[x]
    second = bp.Autograd.current().backward(first.sum())[x]
    return y.tolist(), first.tolist(), second.tolist()


WANTED = ([0.25, -2.0, 16.0], [1.5, 6.0, 24.0], [6.0, -12.0, 24.0])


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", [True, False])
def test_under_every_switch(name: str, value: bool) -> None:
    with bp.config(**{name: value}):
        assert gradients(Cube) == WANTED


@pytest.mark.parametrize("changes", [{"pending_nodes": 1}, {"num_threads": 1}, {"pool_size": 1}])
def test_under_settings_that_are_numbers(changes: Any) -> None:
    with bp.config(**changes):
        assert gradients(Cube) == WANTED


def test_on_the_reference_device() -> None:
    with bp.default_device("reference"):
        assert gradients(Cube) == WANTED


def test_captured_it_follows_its_state() -> None:
    operation = Cube()

    @bp.jit
    def step(x: bp.Tensor) -> Any:
        return bp.value_and_grad(lambda v: operation.apply(v).sum())(x)

    x = bp.tensor(X, dtype=bp.float64)
    for factor in (2.0, 2.0, 2.0, 5.0, 5.0, 5.0, 2.0):
        operation.factor = factor
        value, gradient = step(x)
        assert value.item() == 7.125 * factor
        assert gradient.tolist() == [0.75 * factor, 3.0 * factor, 12.0 * factor]


def test_captured_it_follows_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    step = bp.jit(lambda x: Cube.apply(x).sum())
    x = bp.tensor(X, dtype=bp.float64)
    assert [step(x).item() for _ in range(3)] == [14.25] * 3
    monkeypatch.setattr(Cube, "factor", 4.0)
    assert [step(x).item() for _ in range(3)] == [28.5] * 3


def test_captured_a_read_of_a_value_is_refused() -> None:
    class Reads(bp.Operation):
        def forward(self, x: bp.Tensor) -> bp.Tensor:
            return x * float(x.numpy().max())

    with pytest.raises(bp.errors.CaptureError, match="a value was read inside a captured step"):
        bp.jit(Reads.apply)(bp.tensor(X))


def test_eight_threads_train_through_one_captured_operation() -> None:
    step = bp.jit(lambda x: bp.grad(lambda v: Cube.apply(v).sum())(x))
    faults: list[Any] = []
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(10):
            found = step(bp.full((4,), float(number))).tolist()
            plain = leaf([float(number)] * 4)
            Cube.apply(plain).sum().backward()
            assert plain.grad is not None
            if found != [6.0 * number**2] * 4 or plain.grad.tolist() != found:
                faults.append((number, found))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


# ------------------------------------------------------------------------- several outputs


def polar_gradients(weights: tuple[float, float]) -> Any:
    x, y = leaf([3.0, -1.0]), leaf([4.0, 2.0])
    length, angle, quadrant = Polar.apply(x, y)
    assert quadrant.tolist() == [0, 1]
    assert not quadrant.requires_grad
    (length * weights[0] + angle * weights[1]).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    return x.grad.numpy(), y.grad.numpy()


def test_several_outputs() -> None:
    x, y = np.array([3.0, -1.0]), np.array([4.0, 2.0])
    r = np.hypot(x, y)
    to_x, to_y = polar_gradients((2.0, 5.0))
    np.testing.assert_allclose(to_x, 2 * x / r - 5 * y / r**2)
    np.testing.assert_allclose(to_y, 2 * y / r + 5 * x / r**2)


@pytest.mark.parametrize("number", [0, 1])
def test_an_output_that_nobody_uses_counts_as_zero(number: int) -> None:
    a, b = bp.tensor([3.0, -1.0]), bp.tensor([4.0, 2.0])
    assert bp.gradcheck(lambda x, y: Polar.apply(x, y)[number], [a, b])
    assert bp.gradgradcheck(lambda x, y: Polar.apply(x, y)[number], [a, b])
    assert bp.gradgradcheck(lambda x, y: Polar.apply(x, y)[0] * Polar.apply(x, y)[1], [a, b])


def test_outputs_have_hooks_and_the_graph_is_freed_once() -> None:
    x, y = leaf([3.0]), leaf([4.0])
    length, angle, _ = Polar.apply(x, y)
    seen: list[Any] = []
    length.register_hook(lambda g: seen.append(g.item()))
    length.backward(retain_graph=True)
    assert seen == [1.0]
    (length + angle).backward()
    with pytest.raises(bp.errors.GradientError, match="was freed by an earlier backward"):
        angle.backward()


def test_without_gradient_outputs_are_plain() -> None:
    outputs = Polar.apply(bp.tensor([3.0]), bp.tensor([4.0]))
    assert [o.requires_grad for o in outputs] == [False] * 3
    with pytest.raises(TypeError, match="None: forward must return a tensor, got none"):
        type("None", (bp.Operation,), {"forward": lambda self, x: ()}).apply(bp.ones(1))


def test_integer_inputs_and_plain_ones() -> None:
    class Pick(bp.Operation):
        """x[index] * scale."""

        def forward(self, x: bp.Tensor, index: bp.Tensor, scale: float) -> bp.Tensor:
            self.x, self.index, self.scale = x, index, scale
            return bp.take(x, index) * scale

        def grad_fn(self, grad: bp.Tensor) -> Any:
            places = bp.arange(self.x.shape[0])[:, None] == self.index
            spread = bp.where(places, grad * self.scale, 0.0)
            return spread.sum(axis=1), None, None

    x, index = leaf([1.0, 2.0, 3.0]), bp.tensor([2, 0, 2])
    Pick.apply(x, index, 10.0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [10.0, 0.0, 20.0]
    assert bp.gradgradcheck(lambda v: Pick.apply(v * v, index, 2.0), x.detach())
