"""The walk back: each entry once, after its consumers; freed graphs; hooks; the tape object."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.ops.record import REGISTRY


def leaf(*values: float) -> bp.Tensor:
    return bp.tensor(list(values), dtype=bp.float64, requires_grad=True)


def gradient(x: bp.Tensor) -> Any:
    assert x.grad is not None
    return x.grad.tolist()


def test_each_entry_once() -> None:
    """B37"""
    a = leaf(3.0)
    b = a + a
    (b * b).backward()
    assert gradient(a) == [24.0]


def test_a_diamond_is_linear() -> None:
    """B37"""
    a = leaf(1.0)
    x = a
    for _ in range(30):
        x = x + x
    x.backward()
    assert gradient(a) == [2.0**30]


def test_a_deep_graph_needs_no_recursion() -> None:
    a = leaf(1.0)
    x = a
    for _ in range(20000):
        x = x + 1.0
    root = x._entry
    assert root is not None
    table = bp.Autograd.current().backward(x)
    assert len(table) >= 20000


def test_freed_and_kept() -> None:
    """B38"""
    x = leaf(3.0)
    h = x * x
    y = h * h
    y.backward()
    assert gradient(x) == [108.0]
    with pytest.raises(bp.errors.GradientError, match=r"freed.*backward\(retain_graph=True\)"):
        y.backward()
    assert gradient(x) == [108.0]
    x.grad = None
    h = x * x
    y = h * h
    y.backward(retain_graph=True)
    assert gradient(x) == [108.0]
    y.backward()
    assert gradient(x) == [216.0]
    assert h.grad is None


def test_a_shared_part_that_was_freed() -> None:
    x = leaf(3.0)
    shared = x * x
    (shared * 2).backward()
    with pytest.raises(bp.errors.GradientError, match="the graph behind multiply was freed"):
        (shared * 3).backward()
    assert gradient(x) == [12.0]


def test_two_threads_one_graph() -> None:
    """B46"""
    x = leaf(3.0)
    shared = x * x
    roots = [shared * 2 for _ in range(8)]
    outcomes: list[str] = []
    barrier = threading.Barrier(8)

    def work(root: bp.Tensor) -> None:
        barrier.wait()
        try:
            root.backward()
            outcomes.append("done")
        except bp.errors.GradientError:
            outcomes.append("freed")

    threads = [threading.Thread(target=work, args=(root,)) for root in roots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["done"] + ["freed"] * 7
    assert gradient(x) == [12.0]


def test_broadcast_gradients() -> None:
    """B31"""
    a = bp.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    b = bp.tensor([[1.0], [2.0]], requires_grad=True)
    (a + b).sum().backward()
    assert gradient(a) == [[2.0, 2.0, 2.0]]
    assert gradient(b) == [[3.0], [3.0]]
    s = bp.tensor(2.0, requires_grad=True)
    (s * bp.arange(6).reshape(2, 3)).sum().backward()
    assert gradient(s) == 15.0
    x = bp.tensor(np.arange(12.0).reshape(2, 3, 2), requires_grad=True)
    weights = np.arange(12.0).reshape(3, 2, 2)
    (x.permute(1, 0, -1) * bp.tensor(weights)).sum().backward()
    assert gradient(x) == weights.transpose(1, 0, 2).tolist()


def test_gradients_accumulate_and_have_the_dtype_of_the_leaf() -> None:
    x = bp.tensor([1.0, 2.0], dtype=bp.bfloat16, requires_grad=True)
    for _ in range(3):
        (x.astype(bp.float32) * bp.tensor([1.0, 2.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is bp.bfloat16
    assert gradient(x) == [3.0, 6.0]


def test_mixed_dtypes() -> None:
    a = bp.tensor([1.0], dtype=bp.float16, requires_grad=True)
    b = bp.tensor([2.0], dtype=bp.float32, requires_grad=True)
    (a * b).backward()
    assert a.grad is not None
    assert b.grad is not None
    assert (a.grad.dtype, b.grad.dtype) == (bp.float16, bp.float32)
    assert (gradient(a), gradient(b)) == ([2.0], [1.0])


def test_wrong_roots() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(
        bp.errors.GradientError, match="root of several elements needs its gradient"
    ):
        (x * 2).backward()
    with pytest.raises(bp.errors.GradientError, match="no gradient history"):
        bp.ones(1).backward()
    with pytest.raises(bp.errors.GradientError, match=r"grad  \(3,\)"):
        (x * 2).backward(bp.ones(3))
    (x * 2).backward(bp.tensor([1.0, 10.0]))
    assert gradient(x) == [2.0, 20.0]


def test_no_grad_and_enable_grad() -> None:
    x = leaf(1.0)
    with bp.no_grad():
        assert not (x * 2).requires_grad
        with bp.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad

    @bp.no_grad()
    def plain(y: bp.Tensor) -> bp.Tensor:
        return y * 2

    assert not plain(x).requires_grad
    with pytest.raises(ZeroDivisionError), bp.no_grad():
        _ = 1 / 0
    assert (x * 2).requires_grad


def test_no_grad_is_this_thread_only() -> None:
    x = leaf(1.0)
    seen = []
    with bp.no_grad():
        thread = threading.Thread(target=lambda: seen.append((x * 2).requires_grad))
        thread.start()
        thread.join()
    assert seen == [True]


def test_integers_and_comparisons_carry_no_history() -> None:
    x = leaf(1.0, -1.0)
    assert not (x > 0).requires_grad
    assert not x.argmax().requires_grad
    assert not x.astype(bp.int64).requires_grad


def test_hooks() -> None:
    x = leaf(2.0)
    h = x * 3
    seen: list[float] = []
    remove = h.register_hook(lambda g: seen.append(g.item()))
    h.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    (h * 5).backward(retain_graph=True)
    assert seen == [5.0]
    assert gradient(x) == [151.0]
    remove()
    x.grad = None
    (h * 5).backward()
    assert seen == [5.0]
    with pytest.raises(bp.errors.GradientError, match="has no gradient history"):
        bp.ones(1).register_hook(lambda g: None)


def test_a_hook_with_a_wrong_shape() -> None:
    x = leaf(2.0)
    x.register_hook(lambda g: bp.ones(3))
    with pytest.raises(bp.errors.GradientError, match=r"hook: gave a gradient of shape \(3,\)"):
        (x * 2).backward()
    assert x.grad is None


def test_retain_grad() -> None:
    x = leaf(2.0)
    h = x * 3
    h.retain_grad()
    (h * 5).backward()
    assert gradient(h) == [5.0]


def test_grad_is_checked() -> None:
    x = leaf(2.0)
    with pytest.raises(bp.errors.ShapeError, match="grad: a gradient has the shape of its tensor"):
        x.grad = bp.ones(3)
    with pytest.raises(TypeError, match="expected a Tensor or None"):
        x.grad = 3.0  # type: ignore[assignment]


def test_requires_grad_can_be_taken_back() -> None:
    x = leaf(2.0)
    x.requires_grad = False
    assert not (x * 2).requires_grad
    y = leaf(2.0) * 2
    with pytest.raises(bp.errors.GradientError, match=r"use \.detach\(\)"):
        y.requires_grad = False


def test_create_graph() -> None:
    x = leaf(2.0)
    (x**3).backward(create_graph=True)
    first = x.grad
    assert first is not None
    x.grad = None
    first.backward()
    assert gradient(x) == [12.0]


def test_the_table() -> None:
    x, other = leaf(1.0, 2.0), leaf(1.0)
    h = x * x
    y = h * 3
    table = bp.Autograd.current().backward(y)  # starts from ones
    assert table[x].tolist() == [6.0, 12.0]
    assert table[h].tolist() == [3.0, 3.0]
    assert table[y].tolist() == [1.0, 1.0]
    assert x.grad is None
    assert x in table
    assert other not in table
    assert table.get(other) is None
    assert [t is x for t in table] == [True]
    assert [g.tolist() for _, g in table.items()] == [[6.0, 12.0]]
    with pytest.raises(KeyError, match="no gradient for the tensor"):
        table[other]


def test_recording_by_hand() -> None:
    tape = bp.Autograd.current()
    x = leaf(3.0)
    with bp.no_grad():
        value = x * x
    y = tape.record(REGISTRY["multiply"], (x, x), value)
    assert y is value
    assert tape.backward(y)[x].tolist() == [6.0]
    y = tape.record("multiply", (x, x), x.detach() * x.detach())
    assert tape.backward(y)[x].tolist() == [6.0]


class Cube(bp.Operation):
    """x^3, with a gradient that can be told from the true one."""

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.x = x
        return x * x * x

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        return grad * self.x * 1000


def test_recording_an_operation_by_hand() -> None:
    for tape in (bp.Autograd.current(), bp.Autograd()):
        x = leaf(2.0)
        op = Cube()
        y = tape.record(op, (x,), op.forward(x))
        assert tape.backward(y)[x].tolist() == [2000.0]


def test_a_separate_tape() -> None:
    x = bp.tensor([3.0])
    tape = bp.Autograd()
    h = tape.record("multiply", (x, x), x * x)
    y = tape.record("multiply", (h, h), h * h)
    assert not y.requires_grad
    table = tape.backward(y, retain_graph=True)
    assert table[x].tolist() == [108.0]
    assert table[h].tolist() == [18.0]
    tape.reset()
    with pytest.raises(bp.errors.GradientError, match="not recorded on this tape"):
        tape.backward(y)


def test_reset() -> None:
    x = leaf(3.0)
    y = x * x
    bp.Autograd.current().reset()
    with pytest.raises(bp.errors.GradientError, match="recorded before the tape was reset"):
        y.backward()
    (x * x).backward()
    assert gradient(x) == [6.0]


def test_what_cannot_be_recorded() -> None:
    x = leaf(3.0)
    with pytest.raises(TypeError, match="is no op"):
        bp.Autograd.current().record("nothing", (x,), x)
    with pytest.raises(TypeError, match="give an instance"):
        bp.Autograd.current().record(Cube, (x,), x)


def test_each_thread_has_its_tape() -> None:
    tapes: list[bp.Autograd] = []
    threads = [
        threading.Thread(target=lambda: tapes.append(bp.Autograd.current())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(tape) for tape in [*tapes, bp.Autograd.current()]}) == 5


@pytest.mark.parametrize("op", ["matmul", bp.matmul, bp.TensorOps.matmul, REGISTRY["matmul"]])
def test_an_op_by_any_of_its_names(op: Any) -> None:
    x = bp.tensor([[1.0, 2.0], [3.0, 4.0]])
    tape = bp.Autograd()
    y = tape.record(op, (x, x), x @ x)
    ones = np.ones((2, 2))
    expected = ones @ x.numpy().T + x.numpy().T @ ones
    np.testing.assert_array_equal(tape.backward(y)[x].numpy(), expected)


def test_a_seed_may_be_an_array_or_a_list() -> None:
    x = leaf(1.0, 2.0)
    (x * 3).backward([1.0, 10.0])
    (x * 3).backward(np.ones(2, np.float32))
    assert gradient(x) == [6.0, 33.0]
