"""What a captured step must not take for the same: arguments, outer names, relations, gradients."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import pytest

import bedplate as bp
from bedplate.config import config
from bedplate.errors import CaptureError, GradientError

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: object


EQUAL = [[1, True, 1.0, np.float32(1), np.int64(1), 1 + 0j], [0.0, -0.0], [float("nan")] * 2]
HOLDERS = {
    "plain": lambda value: value,
    "tuple": lambda value: (value,),
    "named tuple": lambda value: Pair(0, value),
    "list": lambda value: [value],
    "frozenset": lambda value: frozenset([value]),
    "dataclass": Frozen,
    "key": lambda value: {value: 0},
    "value": lambda value: {"k": value},
    "slice": lambda value: slice(value),
    "complex": lambda value: complex(value.real, 0),
    "numpy": lambda value: np.float64(value.real),
}


def described_by(value):
    return [repr(getattr(value, "value", value)), type(value).__name__]


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("values", EQUAL, ids=["one", "zero", "nan"])
def test_values_that_are_equal_but_differ_do_not_share_a_capture(holder, values):
    step = bp.jit(lambda x, k: (x * 2, described_by(k)))
    x = bp.tensor([1.0])
    for value in [*values, *values]:
        argument = HOLDERS[holder](value)
        for _ in range(3):
            assert step(x, argument)[1] == described_by(argument)


def test_a_named_tuple_of_tensors_is_replayed():
    step = bp.jit(lambda pair: Pair(pair.first * 2, pair.second))
    for i in range(5):
        result = step(Pair(bp.tensor([float(i)]), "x"))
        assert result.first.item() == 2 * i and result.second == "x"
    assert "replayed" in step.report() and "capture 3" not in step.report()


SCALE = 1.0
WEIGHT = bp.tensor([1.0, 2.0])


def scaled(x):
    return x * WEIGHT * SCALE


def test_outer_names_that_are_bound_anew_are_seen():
    global SCALE, WEIGHT
    own = bp.tensor([1.0, 1.0])
    step = bp.jit(lambda x: scaled(x) + own)
    x = bp.tensor([3.0, 5.0])

    def check():
        for _ in range(4):
            assert step(x).tolist() == (x * WEIGHT * SCALE + own).tolist()

    check()
    WEIGHT = WEIGHT * 3
    check()
    SCALE = 0.5
    check()
    own = own * 7
    check()
    SCALE, WEIGHT = 1.0, bp.tensor([1.0, 2.0])
    check()


def test_a_step_whose_outer_number_changes_at_each_call_is_right_and_bounded():
    k = 0
    step = bp.jit(lambda x: x + k)
    for k in range(300):
        assert step(bp.tensor([1.0])).item() == k + 1
    assert len(step.report().splitlines()) < 250


def updated(a, b):
    b += 1.0
    return a * 2, b * 1


def test_one_tensor_passed_twice_is_one_tensor():
    step = bp.jit(updated)
    for _ in range(4):
        a, b = bp.tensor([1.0]), bp.tensor([1.0])
        assert [t.item() for t in step(a, b)] == [2.0, 2.0] and (a.item(), b.item()) == (1, 2)
        a = bp.tensor([1.0])
        assert [t.item() for t in step(a, a)] == [4.0, 2.0] and a.item() == 2
        a = bp.tensor([1.0])
        assert [t.item() for t in step(a, a.detach())] == [2.0, 2.0] and a.item() == 1


@pytest.mark.parametrize("first", [True, False])
def test_an_argument_that_the_step_knows_from_outside(first):
    w = bp.tensor([1.0])
    other = bp.tensor([10.0])

    def function(x):
        w.assign(w + 1.0)
        x += 1.0
        return x * 2 + w

    step = bp.jit(function)
    for argument in ([w, other] if first else [other, w]) * 5:
        states = w.item(), argument.item()
        with config(jit=False):
            expected = step(argument).item(), w.item(), argument.item()
        with bp.no_grad():
            w.assign(bp.tensor([states[0]]))
            argument.assign(bp.tensor([states[1]]))
        assert (step(argument).item(), w.item(), argument.item()) == expected


def test_tracking_that_is_switched_on_or_off_is_seen():
    v, w = bp.tensor([1.0], requires_grad=True), bp.tensor([1.0])

    @bp.jit
    def step(x):
        (x * v + x * w).sum().backward()

    for tracked in (False, True, False, True):
        w.requires_grad = tracked
        for _ in range(4):
            v.grad = w.grad = None
            step(bp.tensor([3.0]))
            assert v.grad.item() == 3.0
            assert (w.grad is not None) == tracked


def test_a_backward_from_outside_does_not_lose_gradients_silently():
    square = bp.jit(lambda x: (x * x).sum())
    for _ in range(4):
        x = bp.tensor([1.0, 2.0], requires_grad=True)
        with pytest.raises(GradientError, match="result of a captured step"):
            square(x).backward()
        with pytest.raises(GradientError, match="result of a captured step"):
            bp.grad(lambda x: square(x) + x.sum())(bp.tensor([1.0, 2.0]))
        with pytest.raises(GradientError, match="result of a captured step"):
            (square(x) + x.sum()).backward()
        (square(x).detach() + x.sum()).backward()
        assert x.grad.tolist() == [1.0, 1.0]
        with bp.no_grad():
            assert not square(x).requires_grad


def test_a_loss_whose_graph_was_freed_inside_is_not_tracked():
    w = bp.tensor([1.0], requires_grad=True)

    @bp.jit
    def step(x):
        loss = (w * x).sum()
        loss.backward()
        w.grad = None
        return loss

    assert not any(step(bp.tensor([2.0])).requires_grad for _ in range(4))


def test_a_backward_into_the_history_of_an_argument_is_refused():
    w = bp.tensor([1.0], requires_grad=True)
    step = bp.jit(lambda h: (h * 3).sum().backward())
    for _ in range(4):
        with pytest.raises(CaptureError, match="came to an argument that was itself computed"):
            step(w * 2)
    assert w.grad is None
    leaf = bp.tensor([1.0], requires_grad=True)
    for _ in range(4):
        leaf.grad = None
        step(leaf)
        assert leaf.grad.item() == 3.0


def test_settings_and_devices_of_the_caller_hold():
    step = bp.jit(lambda n: bp.ones((n,)) * 2)
    for _ in range(3):
        assert step(3).device.name == "cpu"
        with bp.default_device("reference"):
            assert step(3).device.name == "reference"
        with config(fusion=False):
            assert step(3).tolist() == [2.0] * 3
    assert "3 other kinds" not in step.report() and "2 other kinds" in step.report()


@pytest.mark.parametrize("make", [bp.ones, bp.zeros, lambda shape: bp.full(shape, 2.0)])
def test_a_constant_from_outside_may_be_bound_to_another_value(make):
    w, x = make(4), bp.tensor(3.0)
    step = bp.jit(lambda x: (w + 1) * x)
    for _ in range(3):
        first = step(x)
    w.assign(w * 5 + 1)
    for _ in range(3):
        np.testing.assert_array_equal(step(x).numpy(), ((w + 1) * x).numpy())
    assert first.tolist() != step(x).tolist()


def test_a_constant_gradient_may_be_replaced():
    v, x = bp.zeros(3).requires_grad_(), bp.tensor(2.0)
    step = bp.jit(lambda x: v.grad * x)
    for value in (1.0, 1.0, 7.0, 7.0, 3.0):
        v.grad = bp.ones(3) * value if value == 7.0 else bp.full((3,), value)
        assert step(x).tolist() == [2 * value] * 3


def test_a_constant_that_the_step_itself_binds_is_captured_twice_at_most():
    c, x = bp.zeros(()), bp.tensor(2.0)

    @bp.jit
    def step(x):
        c.assign(c + 1)
        return c * x + bp.ones(2)

    assert [step(x).tolist()[0] for _ in range(6)] == [3, 5, 7, 9, 11, 13]
    assert len(step.report().splitlines()) <= 4
