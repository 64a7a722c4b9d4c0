"""Graphs that are built in parallel never mix: 8 threads, the same leaves, other numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

import bedplate as bp

N_THREADS = 8
ROUNDS = 10


def in_threads(work: Callable[[int], None]) -> None:
    """Run `work(number)` in all threads at once; the first error is raised here."""
    faults: list[BaseException] = []
    barrier = threading.Barrier(N_THREADS)

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


class Power(bp.Operation):
    """x^n with n kept on the instance."""

    def __init__(self, n: int = 2) -> None:
        self.n = n

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.x = x
        return x**self.n

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        return grad * self.n * self.x ** (self.n - 1)


def test_own_leaves() -> None:
    def work(number: int) -> None:
        for _ in range(ROUNDS):
            x = bp.tensor([1.0, 2.0, 3.0], dtype=bp.float64, requires_grad=True)
            y = x * number
            z = Power(2 + number % 3).apply(y).sum()
            z.backward()
            n = 2 + number % 3
            assert x.grad is not None
            expected = n * number * (x.numpy() * number) ** (n - 1)
            np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)

    in_threads(work)


def test_shared_leaf_and_own_tables() -> None:
    x = bp.tensor([1.0, 2.0, 3.0], dtype=bp.float64, requires_grad=True)

    def work(number: int) -> None:
        for _ in range(ROUNDS):
            y = (x * x * number).sum()
            table = bp.Autograd.current().backward(y)
            np.testing.assert_allclose(table[x].numpy(), 2 * number * x.numpy(), rtol=1e-12)

    in_threads(work)
    assert x.grad is None


def test_modes_and_random_numbers() -> None:
    x = bp.tensor([1.0], requires_grad=True)

    def work(number: int) -> None:
        own = bp.Generator(number)
        first = own.uniform((16,)).tolist()
        for _ in range(ROUNDS):
            with bp.no_grad():
                assert not (x * number).requires_grad
            assert (x * number).requires_grad
            assert bp.Generator(number).uniform((16,)).tolist() == first

    in_threads(work)


def test_one_generator_for_all() -> None:
    bp.manual_seed(11)
    drawn: list[list[float]] = []

    def work(number: int) -> None:
        for _ in range(ROUNDS):
            drawn.append(bp.random.uniform((4,)).tolist())

    in_threads(work)
    assert len({tuple(values) for values in drawn}) == N_THREADS * ROUNDS
    bp.manual_seed(11)
    again = [bp.random.uniform((4,)).tolist() for _ in range(N_THREADS * ROUNDS)]
    assert sorted(drawn) == sorted(again)


def test_gradients_of_all_threads_add_up() -> None:
    x = bp.tensor([1.0, 2.0], dtype=bp.float64, requires_grad=True)

    def work(number: int) -> None:
        for _ in range(ROUNDS):
            (x * (number + 1)).sum().backward()

    in_threads(work)
    assert x.grad is not None
    assert x.grad.tolist() == [ROUNDS * sum(range(1, N_THREADS + 1))] * 2
