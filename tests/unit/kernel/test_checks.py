"""Bounds: the interpreter and check mode name kernel, line, array and index."""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bedplate.config import config
from bedplate.errors import KernelBoundsError, KernelError
from bedplate.kernel import (
    atomic_add,
    call,
    cast,
    constant,
    f32,
    gather,
    give_back,
    i8,
    i32,
    i64,
    kernel,
    load,
    local,
    loop,
    ptr,
    scatter,
    store,
    tail_mask,
    var,
    while_,
    word_pointer,
    zeros,
)  # fmt: skip
from bedplate.kernel.checks import watch


@pytest.fixture(params=["native", "interpreter"])
def checked(request: pytest.FixtureRequest) -> Iterator[Any]:
    """How a kernel is run with bounds checks: run(kernel, *args)."""
    with config(check=True):
        if request.param == "native":
            yield lambda kernel_, *args: kernel_(*args)
        else:
            yield lambda kernel_, *args: kernel_.interpret(*args)


def line_number(kernel_: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(kernel_.function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_load_behind_the_end(checked: Any) -> None:
    @kernel
    def total(n: i64, x: ptr(f32)) -> f32:
        acc = var(constant(f32, 0))
        for i in loop(n):
            acc.set(acc.get() + load(x + i))
        give_back(acc.get())

    x = np.ones(10, np.float32)
    assert checked(total, 10, x) == 10
    with pytest.raises(KernelBoundsError) as raised:
        checked(total, 11, x)
    text = str(raised.value)
    assert "kernel total: load at" in text
    assert f"test_checks.py:{line_number(total, 'acc.set')}: access out of range" in text
    assert "x  10 elements of 4 bytes" in text
    assert "index  10" in text and "legal: 0 to 9" in text
    assert isinstance(raised.value, IndexError) and isinstance(raised.value, KernelError)


def test_store_before_the_start(checked: Any) -> None:
    @kernel
    def fill(x: ptr(i64), first: i64):
        store(x + first, 1)

    x = np.zeros(4, np.int64)
    with pytest.raises(KernelBoundsError, match=r"store at .*\n  x  4 elements.*\n  index  -1"):
        checked(fill, x, -1)
    assert not x.any()
    checked(fill, x, 3)
    assert x.tolist() == [0, 0, 0, 1]


def test_vectors_and_masks(checked: Any) -> None:
    @kernel
    def copy(n: i64, x: ptr(f32), y: ptr(f32)):
        store(y, load(x, 8, tail_mask(n, 8)), tail_mask(n, 8))

    @kernel
    def whole(x: ptr(f32)):
        store(x, zeros(f32, 8))

    x, y = np.ones(5, np.float32), np.zeros(5, np.float32)
    checked(copy, 5, x, y)
    assert y.tolist() == [1] * 5
    with pytest.raises(KernelBoundsError, match="index  5"):
        checked(copy, 6, x, y)
    with pytest.raises(KernelBoundsError, match="whole: store"):
        checked(whole, x)


def test_gather_scatter_and_atomics(checked: Any) -> None:
    @kernel
    def pick(x: ptr(f32), at: ptr(i32), n: i64):
        mask = tail_mask(n, 4)
        scatter(x, load(at, 4), gather(x, load(at, 4), mask), mask)

    @kernel
    def bump(x: ptr(i64), i: i64):
        atomic_add(x + i, 1)

    x, at = np.ones(3, np.float32), np.array([0, 2, -1, 9], np.int32)
    checked(pick, x, at, 2)
    with pytest.raises(KernelBoundsError, match=r"gather at(.|\n)*index  -1"):
        checked(pick, x, at, 3)
    with pytest.raises(KernelBoundsError, match="atomic_add at"):
        checked(bump, np.zeros(1, np.int64), 1)


def test_local_arrays(checked: Any) -> None:
    @kernel
    def run(i: i64) -> f32:
        buffer = local(f32, 4)
        for k in loop(4):
            store(buffer + k, 1)
        give_back(load(buffer + i))

    assert checked(run, 3) == 1
    with pytest.raises(KernelBoundsError, match="local  4 elements of 4 bytes"):
        checked(run, 4)


def test_extents_follow_calls_and_casts(checked: Any) -> None:
    @kernel
    def inner(x: ptr(i32), i: i64):
        store(x + i, 7)

    @kernel
    def outer(x: ptr(f32), i: i64):
        call(inner, cast(x + 1, ptr(i32)), i)

    x = np.zeros(4, np.float32)
    checked(outer, x, 2)
    assert x.view(np.int32).tolist() == [0, 0, 0, 7]
    with pytest.raises(KernelBoundsError, match="kernel inner: store"):
        checked(outer, x, 3)


def test_pointers_in_variables_are_looked_up(checked: Any) -> None:
    @kernel
    def run(x: ptr(i64), y: ptr(i64), n: i64) -> i64:
        at = var(x)
        at.set(at.get() + n)
        give_back(load(at.get()))

    x, y = np.zeros(2, np.int64), np.zeros(2, np.int64)
    assert checked(run, x, y, 1) == 0
    with pytest.raises(KernelBoundsError, match="kernel run: load"):
        checked(run, x, y, 1 << 40)


def test_while_loops_end_after_a_failure() -> None:
    @kernel
    def wait(x: ptr(i64)):
        for _ in while_(lambda: load(x + 1) == 0):
            pass

    with config(check=True), pytest.raises(KernelBoundsError, match="kernel wait: load"):
        wait(np.zeros(1, np.int64))


def test_native_callers_name_their_memory() -> None:
    @kernel
    def task(args: ptr(i64), begin: i64, end: i64, worker: i64):
        x = word_pointer(args, 0, f32)
        for i in loop(begin, end):
            store(x + i, 1)

    x = np.zeros(4, np.float32)
    args = np.array([x.ctypes.data], np.int64)
    with config(check=True):
        compiled = task.compile()
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(compiled.address)
    memory = [(x.ctypes.data, x.nbytes), (args.ctypes.data, args.nbytes)]
    with watch(memory):
        run(args.ctypes.data, 0, 4, 0)
    assert x.tolist() == [1] * 4
    with pytest.raises(KernelBoundsError, match="kernel task: store"), watch(memory):
        run(args.ctypes.data, 2, 6, 0)
    run(args.ctypes.data, 0, 4, 0)  # nothing is watched: nothing is known


def test_checked_and_unchecked_code_live_side_by_side() -> None:
    @kernel
    def run(x: ptr(i64)) -> i64:
        give_back(load(x) + 1)

    x = np.ones(1, np.int64)
    plain = run.compile()
    with config(check=True):
        checked = run.compile()
        assert checked is not plain and checked is run.compile()
        assert checked(x) == 2
    assert run.compile() is plain


def test_interpreter_refuses_unknown_addresses_and_garbage() -> None:
    @kernel
    def run(x: ptr(i64)) -> i64:
        give_back(load(x))

    @kernel
    def garbage() -> i64:
        give_back(load(local(i64, 1)))

    with pytest.raises(KernelBoundsError, match="in no array that is known"):
        run.interpret(4096)
    with pytest.raises(KernelError, match="reads a local array before it is written"):
        garbage.interpret()


def test_interpreter_shows_each_step() -> None:
    @kernel
    def run(n: i64) -> i64:
        total = var(constant(i64, 0))
        for i in loop(n):
            total.set(total.get() + i)
        give_back(total.get())

    steps: list[tuple[str, Any]] = []
    run.interpret(3, watch=lambda instruction, value: steps.append((instruction.op, value)))
    assert [op for op, _ in steps] == ["var", *["get", "add", "set"] * 3, "get"]
    assert [value for op, value in steps if op == "add"] == [0, 1, 3]


@pytest.mark.parametrize("lanes", [1, 2, 64, 128, 256])
def test_masks_of_every_width(checked: Any, lanes: int) -> None:
    @kernel
    def copy(n: i64, x: ptr(i8), y: ptr(i8), at: ptr(i32)):
        mask = tail_mask(n, lanes)
        store(y, load(x, lanes, mask) + gather(x, load(at, lanes), mask), mask)
        scatter(y, load(at, lanes), load(y, lanes, mask), mask)

    n = max(lanes - 3, 1)
    x, at = (np.arange(n) % 50).astype(np.int8), np.arange(lanes, dtype=np.int32)
    y = np.zeros(n, np.int8)
    checked(copy, n, x, y, at)
    assert (y == 2 * x).all()
    at[n - 1] = n
    with pytest.raises(KernelBoundsError, match=f"gather at(.|\n)*index  {n}"):
        checked(copy, n, x, y, at)
    if n + 1 <= lanes:
        with pytest.raises(KernelBoundsError, match=f"load_masked at(.|\n)*index  {n}"):
            checked(copy, n + 1, x, y, at)
