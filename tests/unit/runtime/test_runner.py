"""Plans run every item once, in region order, with the same result for any number of workers."""

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from bedplate.config import config
from bedplate.devices.cpu import NativePlan, Slot, Task, n_workers, native
from bedplate.devices.cpu.workers import workers
from bedplate.errors import InternalError
from bedplate.kernel import (
    f64,
    i64,
    kernel,
    load,
    loop,
    ptr,
    store,
    word_float,
    word_int,
    word_pointer,
)

HUGE = 1e12  # flops that make a region worth sharing, whatever it does


@kernel
def add_index(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """out[i] = 3 * out[i] + i + word 1; who[i] = worker"""
    out, who = word_pointer(args, 0, i64), word_pointer(args, 2, i64)
    for item in loop(begin, end):
        store(out + item, load(out + item) * 3 + item + word_int(args, 1))
        store(who + item, worker)


@kernel
def scale(args: ptr(i64), begin: i64, end: i64, worker: i64):
    out = word_pointer(args, 0, f64)
    for item in loop(begin, end):
        store(out + item, load(out + item) * word_float(args, 1))


def slots_of(*arrays):
    slots = (ctypes.c_int64 * len(arrays))(*(a.ctypes.data for a in arrays))
    slots.keep = arrays
    return slots


def add_task(items, flops=HUGE, first=0, addend=1):
    words = [Slot(0, 8 * first), addend, Slot(1, 8 * first)]
    return Task(add_index.compile(), words, items, "add_index", flops=flops)


def expected(items, n_regions):
    out = np.zeros(items, np.int64)
    for _ in range(n_regions):
        out = 3 * out + np.arange(items) + 1
    return out


@pytest.mark.parametrize("items", [0, 1, 2, 3, 17, 1000])
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("flops", [1.0, HUGE])
def test_every_item_once_and_regions_in_order(items, threads, flops):
    with config(num_threads=threads):
        plan = NativePlan([[add_task(items, flops)] for _ in range(4)], 2)
        for _ in range(20):
            out, who = np.zeros((2, max(items, 1)), np.int64)
            plan.run(slots_of(out, who))
            np.testing.assert_array_equal(out[:items], expected(items, 4))
            assert who.max() < threads


def test_tasks_of_a_region_run_side_by_side():
    sizes = [5, 0, 1, 300, 2]
    starts = np.cumsum([0, *sizes])
    tasks = [
        add_task(n, first=int(s), addend=7 + int(s)) for n, s in zip(sizes, starts, strict=False)
    ]
    plan = NativePlan([tasks, tasks], 2)
    for _ in range(50):
        out, who = np.zeros((2, 308), np.int64)
        plan.run(slots_of(out, who))
        for n, s in zip(sizes, starts, strict=False):
            value = np.arange(n) + 7 + s
            np.testing.assert_array_equal(out[s : s + n], 3 * value + value)


def test_words_carry_integers_floats_and_offsets():
    out = np.ones(8)
    plan = NativePlan([[Task(scale.compile(), [Slot(0, 32), 2.5], 4)]], 1)
    plan.run(np.array([out.ctypes.data]))
    np.testing.assert_array_equal(out, [1, 1, 1, 1, 2.5, 2.5, 2.5, 2.5])


def test_a_slot_that_is_not_there_is_refused():
    with pytest.raises(InternalError, match="slot 3 of 2"):
        NativePlan([[Task(scale.compile(), [Slot(3), 1.0], 1, "scale")]], 2)


def test_empty_plan_and_empty_region():
    NativePlan([], 0).run((ctypes.c_int64 * 1)())
    NativePlan([[], []], 0).run((ctypes.c_int64 * 1)())


def test_settings_choose_the_workers():
    with config(threads=False):
        assert n_workers() == 1
    with config(num_threads=3):
        assert n_workers() == 3
        plan = NativePlan([[add_task(1000)]], 2)
        assert plan.n_workers == 3
    # made for 3, run with 1: scratch is large enough, and nobody helps
    with config(threads=False):
        out, who = np.zeros((2, 1000), np.int64)
        plan.run(slots_of(out, who))
        assert not who.any()
        np.testing.assert_array_equal(out, expected(1000, 1))


def test_timed_run_gives_seconds_for_each_region():
    plan = NativePlan([[add_task(10)], [add_task(10)]], 2)
    out, who = np.zeros((2, 10), np.int64)
    with config(debug=2):
        plan.run(slots_of(out, who))
    assert len(plan.region_seconds) == 2
    assert all(s > 0 for s in plan.region_seconds)
    np.testing.assert_array_equal(out, expected(10, 2))


def test_workers_do_help():
    with config(num_threads=2):
        plan = NativePlan([[add_task(1_000_000)]], 2)
        for _ in range(1000):  # on a busy machine a worker may come too late many times
            out, who = np.zeros((2, 1_000_000), np.int64)
            plan.run(slots_of(out, who))
            if who.any():
                return
    pytest.fail("no worker ever took a chunk")


def test_several_python_threads_and_plans_at_once():
    plans = [NativePlan([[add_task(n)] for _ in range(5)], 2) for n in (3, 50, 2000)]
    wrong = []

    def work(seed):
        generator = np.random.default_rng(seed)
        for _ in range(400):
            plan = plans[int(generator.integers(3))]
            items = plan.regions[0][0].items
            out, who = np.zeros((2, items), np.int64)
            plan.run(slots_of(out, who))
            if not (out == expected(items, 5)).all():
                wrong.append(items)

    with config(num_threads=3):
        plans[0].run(slots_of(*np.zeros((2, 3), np.int64)))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_thousands_of_tiny_plans():
    out, who = np.zeros((2, 4), np.int64)
    slots = slots_of(out, who)
    for count in range(3000):
        out[:] = 0
        NativePlan([[add_task(4, flops=HUGE if count % 2 else 1.0)]] * 2, 2).run(slots)
        np.testing.assert_array_equal(out, expected(4, 2))


def test_stopped_workers_come_back():
    plan = NativePlan([[add_task(100)]], 2)
    for _ in range(50):
        out, who = np.zeros((2, 100), np.int64)
        plan.run(slots_of(out, who))
        workers.stop()
        assert workers.n_threads == 0
        np.testing.assert_array_equal(out, expected(100, 1))


def test_idle_workers_burn_no_cpu():
    with config(num_threads=4):
        plan = NativePlan([[add_task(100)]], 2)
        plan.run(slots_of(*np.zeros((2, 100), np.int64)))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_fork_while_another_thread_runs_plans():
    plan = NativePlan([[add_task(500)] for _ in range(3)], 2)
    stop = threading.Event()

    def keep_running():
        while not stop.is_set():
            plan.run(slots_of(*np.zeros((2, 500), np.int64)))

    thread = threading.Thread(target=keep_running)
    thread.start()
    try:
        children = []
        for _ in range(10):
            child = os.fork()
            if child == 0:
                out, who = np.zeros((2, 500), np.int64)
                plan.run(slots_of(out, who))
                os._exit(0 if (out == expected(500, 3)).all() else 1)
            children.append(child)
        statuses = [os.waitpid(child, 0)[1] for child in children]
    finally:
        stop.set()
        thread.join()
    assert statuses == [0] * 10


SCRIPT = """
    import ctypes, os, signal, sys, threading, time
    import numpy as np
    from bedplate.devices.cpu import NativePlan, Slot, Task
    from bedplate.kernel import i64, kernel, load, loop, ptr, store, word_pointer

    @kernel
    def count(args: ptr(i64), begin: i64, end: i64, worker: i64):
        out = word_pointer(args, 0, i64)
        for item in loop(begin, end):
            for _ in loop(1000):
                store(out + item, load(out + item) + 1)

    out = np.zeros(5000, np.int64)
    plan = NativePlan([[Task(count.compile(), [Slot(0)], 5000, flops=1e12)]], 1)
    slots = (ctypes.c_int64 * 1)(out.ctypes.data)
    plan.run(slots)
"""


def run_script(ending, **environment):
    code = textwrap.dedent(SCRIPT) + textwrap.dedent(ending)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
        env={**os.environ, "BEDPLATE_NUM_THREADS": "3", **environment},
    )  # fmt: skip


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "sys.exit(0)",
        "os._exit(0)",
        """
        def forever():
            while True:
                plan.run(slots)
        threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.05)
        """,
    ],
    ids=["falls off the end", "sys.exit", "os._exit", "a daemon thread in a plan"],
)
def test_exit_neither_hangs_nor_crashes(ending):
    result = run_script(ending)
    assert (result.returncode, result.stderr) == (0, "")


def test_ctrl_c_reaches_the_main_thread():
    result = run_script("""
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                plan.run(slots)
        except KeyboardInterrupt:
            plan.run(slots)
            print("interrupted")
    """)
    assert (result.returncode, result.stdout) == (0, "interrupted\n"), result.stderr


def test_the_environment_chooses_the_number_of_workers():
    result = run_script("""
        from bedplate.devices.cpu import n_workers
        from bedplate.devices.cpu.workers import workers
        print(n_workers(), workers.n_threads)
    """)
    assert result.stdout == "3 2\n", result.stderr


def test_every_record_of_the_runner_interprets():
    for each in (native.run_plan, native.worker_main, native.take_pool, native.tell_to_stop):
        assert each.name in str(each.ir)
        assert "lock" in each.assembly("avx2") or "xchg" in each.assembly("avx2")


def test_an_interrupt_while_a_worker_is_started_leaves_signals_open(monkeypatch):
    original = signal.pthread_sigmask

    def interrupted(how, signals):
        result = original(how, signals)
        if how == signal.SIG_BLOCK and signals:
            raise KeyboardInterrupt
        return result

    workers.stop()
    monkeypatch.setattr(signal, "pthread_sigmask", interrupted)
    before = original(signal.SIG_BLOCK, ())
    with pytest.raises(KeyboardInterrupt):
        workers.ensure(2)
    monkeypatch.undo()
    assert original(signal.SIG_BLOCK, ()) == before
    workers.ensure(2)
    assert workers.n_threads >= 1
