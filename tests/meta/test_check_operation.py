"""check_operation: for each of its checks an operation that breaks that promise alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.graph.pending import LOCAL
from bedplate.tensor.check_operation import CHECKS

X = bp.tensor([[0.3, -0.7, 1.9], [1.1, 0.2, -0.4]])


class Square(bp.Operation):
    """x^2; what follows changes one thing each."""

    def forward(self, x: bp.Tensor) -> Any:
        self.x = x
        return x * x

    def grad_fn(self, grad: bp.Tensor) -> Any:
        return grad * 2 * self.x


class WrongDtype(Square):
    def forward(self, x: bp.Tensor) -> Any:
        return super().forward(x).astype(bp.float64)


def changes_its_input(x: bp.Tensor) -> Any:
    y = x * x
    x += 1
    return y


class WrongGradient(Square):
    def grad_fn(self, grad: bp.Tensor) -> Any:
        return grad * 2.002 * self.x


class _Twice(bp.Operation):
    """2 grad x whose own gradient is wrong by 0.1 %."""

    def forward(self, grad: bp.Tensor, x: bp.Tensor) -> Any:
        self.grad, self.x = grad, x
        return grad * 2 * x

    def grad_fn(self, grad: bp.Tensor) -> Any:
        return grad * 2 * self.x, grad * 2.002 * self.grad


class WrongSecond(Square):
    def grad_fn(self, grad: bp.Tensor) -> Any:
        return _Twice.apply(grad, self.x)


class WrongForViews(Square):
    def forward(self, x: bp.Tensor) -> Any:
        return super().forward(x * 2 if x._node.op.name == "permute" else x)


class WrongForExpanded(Square):
    def grad_fn(self, grad: bp.Tensor) -> Any:
        return grad * (4 if grad._node.op.name == "expand" else 2) * self.x


class WrongForEmpty(Square):
    def grad_fn(self, grad: bp.Tensor) -> Any:
        return grad * 2 * self.x if self.x.size else grad.sum()


class WrongForNumbers(Square):
    def grad_fn(self, grad: bp.Tensor) -> Any:
        return grad * (2 if self.x.ndim else 3) * self.x


class SharedState(Square):
    kept: dict[int, Any] = {}

    def forward(self, x: bp.Tensor) -> Any:
        SharedState.kept.setdefault(LOCAL.state.__hash__(), len(SharedState.kept))
        return super().forward(x) * (1 + SharedState.kept[LOCAL.state.__hash__()])

    def grad_fn(self, grad: bp.Tensor) -> Any:
        return super().grad_fn(grad) * (1 + SharedState.kept[LOCAL.state.__hash__()])


class WrongCaptured(Square):
    def forward(self, x: bp.Tensor) -> Any:
        return super().forward(x) + (LOCAL.state.watcher is not None)


class WrongElsewhere(Square):
    def forward(self, x: bp.Tensor) -> Any:
        return super().forward(x) + (str(x.device) == "reference")


BREACHES: dict[str, tuple[Any, str]] = {
    "value": (lambda x: x * x * 1.001, "differs from the reference by"),
    "dtype and shape": (WrongDtype, "float32 inputs give float64"),
    "inputs left alone": (changes_its_input, "input 0 was changed"),
    "gradient": (WrongGradient, "the gradient of input 0 is wrong at 6 of 6"),
    "second gradient": (WrongSecond, "the gradient of input 1 is wrong at 6 of 6"),
    "strides": (WrongForViews, "an input laid out transposed changes result 0"),
    "broadcast gradient": (WrongForExpanded, "a broadcast gradient changes result 1"),
    "empty input": (WrongForEmpty, r"gradient 0 has the wrong shape"),
    "0-d input": (WrongForNumbers, "the gradient of input 0 is wrong at 1 of 1"),
    "threads": (SharedState, "another thread changes result 0"),
    "captured": (WrongCaptured, "a captured call gives other bits"),
    "devices": (WrongElsewhere, "the device 'reference' changes result 0"),
}


@pytest.mark.parametrize("name", CHECKS)
def test_each_breach_is_caught_by_its_own_check(name: str) -> None:
    operation, text = BREACHES[name]
    reference = (lambda x: x**2) if name == "value" else None
    x = X.detach()
    with pytest.raises(bp.errors.GradientError, match=rf"check_operation: {name}\n  .*{text}"):
        bp.check_operation(operation, x, reference=reference)


def test_a_sound_one_passes_all() -> None:
    report = bp.check_operation(Square, X, reference=np.square)
    assert list(report) == list(CHECKS)
    assert {text.split(":")[0] for text in report.values()} == {"passed"}
    assert report["devices"] == "passed: " + ", ".join(sorted(bp.devices.registry.BACKENDS))


def test_several_outputs_and_inputs_of_other_kinds() -> None:
    class Split(bp.Operation):
        """x y, and where x is greater than y."""

        def forward(self, x: bp.Tensor, y: bp.Tensor, n: bp.Tensor) -> Any:
            self.x, self.y, self.n = x, y, n
            return x * y * n, x - y, (x > y).astype(bp.int32)

        def grad_fn(self, product: bp.Tensor, difference: bp.Tensor, more: bp.Tensor) -> Any:
            return (
                product * self.y * self.n + difference, product * self.x * self.n - difference, None
            )  # fmt: skip

    n = bp.tensor([[2], [3]])
    report = bp.check_operation(Split, X, X.flip(1), n * bp.ones((1, 3), dtype=bp.int64))
    assert report["second gradient"] == report["captured"] == "passed"


def test_refusals_are_reported_in_a_word() -> None:
    class Exponential(bp.Operation):
        """exp by NumPy: it cannot be captured, nor differentiated twice; nor has it 0-d inputs."""

        def forward(self, x: bp.Tensor) -> Any:
            if not x.ndim:
                raise ValueError("needs axes")
            self.y = bp.Tensor(np.exp(x.numpy()), x.device)
            return self.y

        def grad_fn(self, grad: bp.Tensor) -> Any:
            return grad * self.y

    report = bp.check_operation(Exponential, X, second=False)
    assert report["0-d input"] == "refused: needs axes"
    assert report["captured"].startswith("refused: jit: a value was read")
    assert report["second gradient"].startswith("refused: Exponential: self.y was computed")
    with pytest.raises(bp.errors.GradientError, match="check_operation: second gradient"):
        bp.check_operation(Exponential, X)
