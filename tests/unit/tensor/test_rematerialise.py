"""rematerialise gives the same values and gradients, and keeps less."""

from __future__ import annotations

import threading
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import nn
from bedplate.compiler.explain import explain
from bedplate.errors import GradientError


def _block(x: Any, w: Any, v: Any) -> Any:
    return (bp.matmul(x, w).tanh() * x).exp() @ v


def _numbers(*shape: int, seed: int = 0) -> Any:
    return bp.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32) * 0.3)


def _gradients(call: Any, *given: Any) -> list[Any]:
    for x in given:
        x.grad = None
        x.requires_grad_()
    value = call(*given)
    value.sum().backward()
    return [value.numpy(), *[x.grad.numpy() for x in given]]


def _same(found: list[Any], expected: list[Any]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("jitted", [False, True])
def test_the_same_bits(jitted: bool) -> None:
    given = [_numbers(8, 16), _numbers(16, 16, seed=1), _numbers(16, 4, seed=2)]

    def step(block: Any) -> Any:
        def run(x: Any, w: Any, v: Any) -> Any:
            return bp.value_and_grad(lambda *all: block(*all).sum(), (0, 1, 2))(x, w, v)

        return bp.jit(run) if jitted else run

    for _ in range(3):
        plain = step(_block)(*given)
        again = step(bp.rematerialise(_block))(*given)
        _same([again[0].numpy(), *[g.numpy() for g in again[1]]],
              [plain[0].numpy(), *[g.numpy() for g in plain[1]]])  # fmt: skip


def test_parameters_that_it_closes_over() -> None:
    module = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6))
    x = _numbers(5, 6)
    x.requires_grad_()

    def gradients(call: Any) -> list[Any]:
        module.zero_grad()
        x.grad = None
        (call(call(x)) * x).sum().backward()
        return [x.grad.numpy(), *[p.grad.numpy() for p in module.parameters()]]

    _same(gradients(bp.rematerialise(module)), gradients(module))


def test_a_computed_value_that_it_closes_over() -> None:
    w, x = _numbers(4, 4), _numbers(3, 4, seed=1)

    def gradients(wrap: Any) -> list[Any]:
        w.requires_grad_()
        x.requires_grad_()
        w.grad = x.grad = None
        half = w * 0.5
        wrap(lambda x: (x @ half).tanh())(x).sum().backward()
        return [w.grad.numpy(), x.grad.numpy()]

    _same(gradients(bp.rematerialise), gradients(lambda f: f))


def test_random_numbers_are_drawn_again() -> None:
    x = _numbers(50, 40)
    own = bp.Generator(7)

    def noisy(x: Any) -> Any:
        return bp.random.dropout(x, 0.5) * own.normal((40,))

    def nested(x: Any) -> Any:
        return bp.rematerialise(noisy)(x).tanh() * bp.random.uniform((50, 40))

    for call in (noisy, nested):
        outcomes = []
        for wrap in (lambda f: f, bp.rematerialise):
            bp.manual_seed(3)
            own.manual_seed(7)
            outcomes.append(_gradients(wrap(call), x))
            outcomes[-1].append(bp.random.uniform((3,)).numpy())  # the generators stand alike
            outcomes[-1].append(own.uniform((3,)).numpy())
        _same(*outcomes)


def test_running_statistics_move_on_once() -> None:
    states = []
    for wrap in (lambda f: f, bp.rematerialise):
        norm = nn.BatchNorm1d(4)
        x = _numbers(16, 4).requires_grad_()
        for _ in range(2):
            (wrap(norm)(x) * x).sum().backward()
        states.append([value.numpy() for value in norm.state_dict().values()])
    _same(*states)


def test_second_gradients() -> None:
    x = _numbers(5).astype(bp.float64)

    def f(x: Any) -> Any:
        return bp.rematerialise(lambda x: (x * x).sin() * x)(x)

    assert bp.gradcheck(f, (x.requires_grad_(),))
    assert bp.gradgradcheck(f, (x.requires_grad_(),))


def test_several_results_and_integers() -> None:
    def both(x: Any, ids: Any, scale: float = 1.0) -> Any:
        rows = x[ids] * scale
        return rows.exp(), ids + 1, rows.sum()

    ids = bp.tensor([1, 0, 2])
    outcomes = []
    for wrap in (lambda f: f, bp.rematerialise):
        x = _numbers(3, 4).requires_grad_()
        rows, more, total = wrap(both)(x, ids, scale=2.0)
        (rows.sum() * total).backward()
        outcomes.append([x.grad.numpy(), more.numpy()])
    _same(*outcomes)


def test_hooks_run_once() -> None:
    seen = []
    w = _numbers(4, 4).requires_grad_()
    w.register_hook(lambda grad: seen.append(grad.shape))
    x = _numbers(2, 4)
    bp.rematerialise(lambda x: (x @ w).tanh())(x).sum().backward()
    assert seen == [(4, 4)]


@pytest.mark.parametrize("late", [False, True])
def test_several_results_are_walked_together(late: bool) -> None:
    """A value behind several results has all of its gradient when its hook sees it."""
    calls = []

    def clipped(gradient: Any) -> Any:
        calls.append(gradient.tolist())
        return bp.clip(gradient, -1, 1)

    def function(x: Any) -> Any:
        h = x.sin()
        h.register_hook(clipped)
        return h, (h * h).exp(), x.detach(), h

    found = []
    for call in (function, bp.rematerialise(function)):
        x = _numbers(5).requires_grad_()
        a, b, c, d = call(x)
        loss = (a * 0.4 + b * c).sum() + (d.sum() if late else 0)
        loss.backward()
        found.append(x.grad.numpy())
    assert len(calls) == 2
    np.testing.assert_allclose(calls[0], calls[1], rtol=1e-6)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_a_named_tuple_stays_one() -> None:
    kind = namedtuple("kind", "first second")
    x = _numbers(3).requires_grad_()
    found = bp.rematerialise(lambda x: kind(x.exp(), x * 2))(x)
    assert type(found) is kind
    found.second.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda x: x.exp(), lambda x: x.exp()[:2]),
        (lambda x: x.exp(), lambda x: x.exp().reshape(3, 1)),
        (lambda x: x.exp(), lambda x: x.exp().astype("float64")),
        (lambda x: x.exp(), lambda x: (x.exp(), x)),
        (lambda x: x * bp.random.normal((3,)), lambda x: x * 2),
        (lambda x: x * 2, lambda x: x * bp.random.normal((3,))),
    ],
)
def test_a_function_that_behaves_differently_is_refused(first: Any, second: Any) -> None:
    functions = [second, first]
    x = _numbers(3).requires_grad_()
    value = bp.rematerialise(lambda x: functions.pop()(x))(x)
    with pytest.raises(GradientError, match="rematerialise: the function"):
        value.sum().backward()
    assert x.grad is None
    state = bp.random.get_state().tolist()
    bp.random.normal((3,))
    assert bp.random.get_state().tolist() != state  # draws count again


def test_nothing_to_differentiate() -> None:
    x = _numbers(3)
    assert not bp.rematerialise(lambda x: x.exp())(x).requires_grad
    with bp.no_grad():
        assert not bp.rematerialise(lambda x: x.exp())(x.requires_grad_()).requires_grad


def test_freed_and_retained() -> None:
    x = _numbers(3).requires_grad_()
    y = bp.rematerialise(lambda x: x.exp() * x)(x).sum()
    y.backward(retain_graph=True)
    first = x.grad.numpy().copy()
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), first * 2)
    with pytest.raises(GradientError, match="freed by an earlier backward"):
        y.backward()


def test_refusals() -> None:
    x, w = _numbers(3).requires_grad_(), _numbers(3).requires_grad_()
    with pytest.raises(TypeError, match="must give a tensor, or a tuple or list of tensors"):
        bp.rematerialise(lambda x: 3)(x)
    y = bp.rematerialise(lambda x: (x * w).exp())(x).sum()
    with bp.no_grad():
        w.assign(w * 2)
    with pytest.raises(GradientError, match="was assigned to between its call and the gradient"):
        y.backward()
    calls = []

    def draws_more(x: Any) -> Any:
        calls.append(1)
        for _ in calls:
            x = x * bp.random.uniform((3,))
        return x

    with pytest.raises(GradientError, match="draws more random numbers the second time"):
        bp.rematerialise(draws_more)(x).sum().backward()


def test_threads() -> None:
    expected = _gradients(
        _block, _numbers(8, 16), _numbers(16, 16, seed=1), _numbers(16, 4, seed=2)
    )
    found: list[Any] = []

    def work() -> None:
        given = [_numbers(8, 16), _numbers(16, 16, seed=1), _numbers(16, 4, seed=2)]
        found.append(_gradients(bp.rematerialise(_block), *given))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    for each in found:
        _same(each, expected)


def test_the_arena_is_smaller() -> None:
    """Twelve blocks of which each keeps several values of (64, 256): with it one of each."""
    weights = [_numbers(256, 256, seed=i).requires_grad_() for i in range(12)]

    def arena(wrap: Any) -> int:
        x = _numbers(64, 256)
        for w in weights:
            x = wrap(lambda x, w=w: (x @ w).tanh().exp().sin() + x)(x)
        table = bp.Autograd.current().backward(x.sum())
        return explain(*[table[w]._node for w in weights]).plan.arena_bytes

    plain, again = arena(lambda f: f), arena(bp.rematerialise)
    assert again < 0.6 * plain, (again, plain)
