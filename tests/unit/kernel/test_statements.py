"""Statements: loops, branches, mutable locals, return; in machine code and in the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bedplate.kernel import (
    constant,
    f32,
    give_back,
    i1,
    i64,
    kernel,
    load,
    loop,
    otherwise,
    ptr,
    reduce_add,
    splat,
    store,
    var,
    vec,
    when,
    while_,
    zeros,
)  # fmt: skip

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


def both(kernel_: Any, *args: Any) -> Any:
    """The result by machine code and by the interpreter, which must agree."""
    native = kernel_(*args)
    assert native == kernel_.interpret(*args)
    return native


@pytest.mark.parametrize("step", [1, 2, 3, 7, 8, -1, -2, -3, -8])
def test_loops_count_as_range_does(step: int) -> None:
    @kernel
    def count(start: i64, stop: i64, out: ptr(i64)) -> i64:
        n = var(constant(i64, 0))
        for i in loop(start, stop, step):
            store(out + n.get(), i)
            n.set(n.get() + 1)
        give_back(n.get())

    for start, stop in ((0, 10), (10, 0), (-5, 6), (3, 3), (0, 1), (8, -9), (LOWEST, LOWEST + 5),
                        (HIGHEST - 9, HIGHEST), (HIGHEST, HIGHEST - 9)):  # fmt: skip
        out = np.zeros(32, np.int64)
        n = both(count, start, stop, out)
        assert out[:n].tolist() == list(range(start, stop, step))


def test_loop_step_at_run_time() -> None:
    @kernel
    def count(stop: i64, step: i64) -> i64:
        total = var(constant(i64, 0))
        for i in loop(0, stop, step):
            total.set(total.get() + i + 1)
        give_back(total.get())

    for stop, step in ((10, 1), (10, 3), (9, 3), (0, 1), (5, HIGHEST), (HIGHEST, HIGHEST // 2)):
        total = sum(i + 1 for i in range(0, stop, step))
        assert both(count, stop, step) % 2**64 == total % 2**64
    assert both(count, 5, 0) == both(count, 5, -1) == 0


def test_loops_nest_and_unroll() -> None:
    @kernel
    def table(n: i64, out: ptr(i64)):
        for i in loop(n):
            for j in loop(i, n):
                for k in range(2):
                    store(out + (i * n + j) * 2 + k, i * 100 + j * 10 + k)

    for how in (table, table.interpret):
        out = np.full(18, -1, np.int64)
        how(3, out)
        wanted = [i * 100 + j * 10 + k if j >= i else -1
                  for i in range(3) for j in range(3) for k in range(2)]  # fmt: skip
        assert out.tolist() == wanted


def test_branches() -> None:
    @kernel
    def sign(x: f32) -> i64:
        result = var(constant(i64, 0))
        with when(x > 0):
            result.set(1)
        with otherwise(), when(x < 0):
            result.set(-1)
        give_back(result.get())

    assert [both(sign, x) for x in (2.5, -0.5, 0.0, float("nan"))] == [1, -1, 0, 0]


def test_while_and_early_return() -> None:
    @kernel
    def find(x: ptr(i64), n: i64, wanted: i64) -> i64:
        i = var(constant(i64, 0))
        for _ in while_(lambda: i.get() < n):
            with when(load(x + i.get()) == wanted):
                give_back(i.get())
            i.set(i.get() + 1)
        give_back(-1)

    x = np.arange(0, 100, 7)
    assert both(find, x, len(x), 21) == 3
    assert both(find, x, len(x), 22) == -1
    assert both(find, x, 0, 0) == -1


def test_vectors_in_variables_become_registers() -> None:
    @kernel
    def total(x: ptr(f32), n: i64) -> f32:
        acc = [var(zeros(f32, 16)) for _ in range(4)]
        for i in loop(0, n, 64):
            for k, each in enumerate(acc):
                each.set(each.get() + load(x + i + 16 * k, 16))
        give_back(sum((reduce_add(each.get()) for each in acc), start=constant(f32, 0)))

    x = np.arange(640, dtype=np.float32)
    assert both(total, x, 640) == x.sum()
    assert "rsp" not in total.assembly("avx512")


def test_variables_of_every_kind() -> None:
    @kernel
    def run(x: ptr(f32), flag: i1, out: ptr(f32)):
        pointer, mask = var(x), var(splat(flag, 8))
        for _ in loop(3):
            pointer.set(pointer.get() + 2)
            mask.set(~mask.get())
        store(out, load(pointer.get(), 8, mask.get()))

    x = np.arange(20, dtype=np.float32)
    for how in (run, run.interpret):
        out = np.ones(8, np.float32)
        how(x, False, out)
        assert out.tolist() == list(range(6, 14))
        how(x, True, out)
        assert not out.any()


def test_a_kernel_without_give_back_returns_zero() -> None:
    @kernel
    def nothing(n: i64) -> i64:
        with when(n > 3):
            give_back(7)

    assert both(nothing, 4) == 7
    assert both(nothing, 3) == 0


def test_types_of_vectors_and_results() -> None:
    @kernel
    def run(x: f32) -> f32:
        v = splat(x, 4)
        give_back_type.append(v.type)
        give_back(v_sum(v))

    give_back_type: list[Any] = []

    def v_sum(v: Any) -> Any:
        return reduce_add(v)

    assert both(run, 1.5) == 6
    assert set(give_back_type) == {vec(f32, 4)}
