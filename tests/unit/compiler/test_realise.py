"""realise: what is stored, what is dropped, threads, errors that stick, plans that are reused."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import bedplate as bp
from bedplate.compiler import realise as realising
from bedplate.compiler.explain import explain
from bedplate.compiler.realise import clear_plans


def last_plan():
    return list(realising._plans.values())[-1]


def test_what_nobody_holds_is_not_stored():
    x = bp.tensor(np.ones(100, np.float32))
    y = (x + 1) * 2
    z = y * 3
    z.realise()
    assert y._node.block is not None and z._node.block is not None
    assert len(last_plan().output_bytes) == 2  # x + 1 is held by nobody


def test_what_nobody_needs_is_not_computed():
    x = bp.tensor(np.ones(100, np.float32))
    for i in range(50):
        x * i
    (x - 5).realise()
    assert [len(region) for region in last_plan().regions] == [1]


def test_results_may_be_views_of_one_value_or_of_an_input():
    x = bp.tensor(np.arange(6.0, dtype=np.float32))
    y = x * 2
    parts = [y.reshape(2, 3), y.reshape(3, 2), y, x.reshape(2, 3), x.reshape(2, 3).T]
    np.testing.assert_array_equal(parts[4].numpy(), x.numpy().reshape(2, 3).T)
    np.testing.assert_array_equal(parts[0].numpy(), 2 * x.numpy().reshape(2, 3))
    assert parts[0]._node.block is parts[1]._node.block is parts[2]._node.block
    assert parts[3]._node.block is x._node.block


def test_an_error_sticks_to_the_values_it_hit():
    table = bp.tensor([1.0, 2.0])
    wrong = table.take(bp.tensor([5]), axis=0)
    for _ in range(2):
        with pytest.raises(IndexError, match="index 5 is out of range for size 2"):
            wrong.numpy()
    assert (table * 2).tolist() == [2.0, 4.0]


def test_sixteen_threads_compile_and_run_the_same_and_different_graphs():
    """B47"""
    clear_plans()
    start = threading.Barrier(16)
    failures = []

    def work(number):
        start.wait()
        rng = np.random.default_rng(number % 4)
        array = rng.standard_normal((17, 23 + number % 4)).astype(np.float32)
        for _ in range(5):
            found = bp.softmax(bp.tensor(array) * 2, axis=-1).numpy()
            e = np.exp(2 * array - (2 * array).max(1, keepdims=True))
            if not np.allclose(found, e / e.sum(1, keepdims=True), atol=1e-6):
                failures.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_plans_are_reused_and_their_number_is_bounded(monkeypatch):
    monkeypatch.setattr(realising, "PLAN_CACHE_SIZE", 4)
    clear_plans()
    for size in range(1, 9):
        bp.tensor(np.ones(size, np.float32)).exp().realise()
    assert len(realising._plans) == 4
    before = last_plan()
    bp.tensor(np.zeros(8, np.float32)).exp().realise()
    assert last_plan() is before


def test_a_long_chain_needs_no_recursion():
    x = bp.tensor(np.ones(4, np.float32))
    with bp.no_grad():
        for _ in range(5000):
            x = x * 1.001
    assert np.allclose(x.numpy(), 1.001**5000, rtol=1e-2)


def test_explain_shows_every_level():
    x = bp.tensor(np.ones((4, 32), np.float32))
    shown = explain(bp.softmax(x, axis=-1)._node)
    assert "softmax" in shown.graph and "after expand_composed" in shown.passes()
    assert "row_max_subtract_exp" in shown.schedule() and "test_realise.py" in shown.schedule()
    assert (
        "loop" in shown.programs()
        and "define" in shown.llvm()
        and "zmm" in shown.assembly("avx512")
    )
    with pytest.raises(ValueError, match="in memory already"):
        explain(x._node)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child_computes_even_if_another_thread_was_compiling():
    x = bp.tensor(np.arange(1000.0, dtype=np.float32))
    (x * 2).sum().item()
    ready, leave = threading.Event(), threading.Event()

    def hold():
        with realising.planning():
            ready.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if (x * 3).sum().item() == 3 * 499500 else 1)
    leave.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_debug_output_grows_with_the_level(capfd):
    def shown(level):
        clear_plans()
        with bp.config(debug=level):
            (bp.tensor([1.0, 2.0]) * 3).exp().realise()
        return capfd.readouterr().err

    one, two, three = shown(1), shown(2), shown(3)
    assert "map_multiply_exp x 1" in one and "GB/s" not in one
    assert "GB/s" in two and "pass fold" not in two
    assert "pass expand_composed" in three and "= multiply(%0" in three


def test_a_piece_of_a_temporary_is_not_written_over_what_another_piece_reads():
    """A column is moved to the end of the buffer that the columns come from."""
    a = np.arange(30.0).reshape(5, 6)
    turned = [bp.concat([x[:, 1:], x[:, :1]], 1) for x in (bp.tensor(a) * 2, bp.tensor(a) * 3)]
    wanted = np.roll(a, -1, 1)
    np.testing.assert_array_equal(
        bp.concat(turned, 0).numpy(), np.concatenate([wanted * 2, wanted * 3])
    )
