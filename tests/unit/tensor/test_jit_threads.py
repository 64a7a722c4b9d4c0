"""Replays beside other threads, and after what they knew from outside has changed its kind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import bedplate as bp
from bedplate.tensor.jit import jit


@pytest.mark.parametrize("dtype", [bp.float64, bp.float16, bp.int64])
def test_an_outer_tensor_of_another_dtype_is_captured_again(dtype):
    w = bp.tensor(np.arange(24, dtype=np.float32))
    step = jit(lambda x: w * x)
    x = bp.tensor(3)
    for _ in range(3):
        step(x)
    w._rebind(w.astype(dtype)._node)
    for _ in range(3):
        result = step(x)
        assert result.dtype is dtype
        assert result.tolist() == [3 * i for i in range(24)]


def test_a_module_that_is_cast_is_captured_again():
    layer = bp.nn.Linear(8, 8)
    step = jit(lambda x: layer(x))
    x = bp.ones((2, 8))
    for _ in range(3):
        step(x)
    for dtype in (bp.float64, bp.bfloat16, bp.float32):
        layer.to(dtype)
        for _ in range(3):
            assert step(x).dtype is layer(x).dtype
            assert np.array_equal(step(x).numpy(), layer(x).numpy())


def test_a_state_of_another_shape_is_captured_again():
    w = bp.ones(4)

    @jit
    def up():
        w._rebind((w + 1)._node)

    for _ in range(4):
        up()
    w._rebind(bp.ones((3, 5))._node)
    for _ in range(3):
        up()
    assert w.tolist() == [[4.0] * 5] * 3


def test_a_gradient_of_another_dtype_is_captured_again():
    w = bp.ones(4, requires_grad=True)

    @jit
    def step():
        return w.grad * 2

    for dtype in (bp.float32, bp.float64):
        w.grad = bp.tensor([1.0] * 4, dtype=dtype)
        for _ in range(3):
            assert step().dtype is dtype
            assert step().tolist() == [2.0] * 4


@pytest.mark.parametrize("how", ["replayed", "eager", "read"])
def test_a_state_that_is_read_in_another_thread_is_whole(how):
    w = bp.zeros(1 << 17)
    w.numpy()
    one = bp.tensor(1.0)

    @jit
    def up():
        w.assign(w + 1.0)

    product = jit(lambda x: w * x)
    read = {
        "replayed": lambda: product(one).numpy(),
        "eager": lambda: (w * one).numpy(),
        "read": lambda: w.numpy().copy(),
    }[how]
    for _ in range(4):
        up()
        read()
    stop = threading.Event()

    def update():
        while not stop.is_set():
            up()

    thread = threading.Thread(target=update)
    thread.start()
    try:
        found = [(value.min(), value.max()) for value in (read() for _ in range(100))]
    finally:
        stop.set()
        thread.join()
    assert all(low == high for low, high in found)
    assert [low for low, _ in found] == sorted(low for low, _ in found)


def test_a_step_that_fails_gives_its_state_back_to_who_waits():
    w = bp.tensor(np.arange(4.0, dtype=np.float32))

    @jit
    def step(i):
        w.assign(w + w.take(i, axis=0).sum())

    good, wrong = bp.tensor([0, 1]), bp.tensor([0, 9])
    for _ in range(4):
        step(good)
    before = w.tolist()
    for _ in range(2):
        with pytest.raises(IndexError, match="index 9 is out of range for size 4"):
            step(wrong)
        assert w.tolist() == before
    held = w * 1
    step(good)
    assert held.tolist() == before
    assert w.tolist() == [x + before[0] + before[1] for x in before]


FORK = """
import os, signal, threading
import bedplate as bp

step, x = bp.jit(lambda x: x * 2 + 1), bp.ones(4)
for _ in range(3):
    step(x)
held, go = threading.Event(), threading.Event()

def inside_a_call():
    with step._lock:
        held.set()
        go.wait(20)

thread = threading.Thread(target=inside_a_call)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(15)
    os._exit(0 if step(x).tolist() == [3.0] * 4 else 1)
_, status = os.waitpid(child, 0)
go.set()
thread.join()
assert status == 0, status
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_can_call_a_step_that_a_thread_of_its_parent_was_inside() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]


HANDLER = """
import signal, time
import bedplate as bp

step, xs = bp.jit(lambda x: x * 2 + 1), [bp.full((64,), float(i)).realise() for i in range(5)]
for _ in range(3):
    step(xs[0])
inside = []

# what the handler runs is compiled: a kernel cannot be traced in the middle of its own tracing
(xs[0] * 2 + 1).numpy()
(xs[1] + xs[2]).numpy()

def handler(*_):
    inside.append(step(xs[3]).numpy()[-1])
    assert (xs[1] + xs[2]).numpy()[0] == 3  # an op of a plan that may be running

signal.signal(signal.SIGALRM, handler)
start = time.monotonic()
signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-3)
while len(inside) < 100 and time.monotonic() - start < 30:
    for i, x in enumerate(xs):
        assert (step(x).numpy() == 2 * i + 1).all()
        assert ((xs[1] + x).numpy() == 1 + i).all()
signal.setitimer(signal.ITIMER_REAL, 0)
assert len(inside) >= 100, len(inside)
assert set(inside) == {7.0}, set(inside)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_a_signal_handler_may_call_the_step_and_the_op_that_it_interrupts() -> None:
    run = subprocess.run(
        [sys.executable, "-c", HANDLER], capture_output=True, text=True, timeout=50, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
