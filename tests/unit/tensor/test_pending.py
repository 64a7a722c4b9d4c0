"""The pending list: bounded, dropped when dead, one a thread, and it knows the user's line."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.compiler.realise import realise
from bedplate.graph.pending import CHECK_EVERY, thread_state


def test_a_long_loop_is_bounded() -> None:
    """B44"""
    bp.synchronize()
    x = bp.ones(4)
    longest = 0
    with bp.no_grad(), bp.config(pending_nodes=500):
        for _ in range(3000):
            x = x * 0.999
            longest = max(longest, len(thread_state().nodes))
    assert longest <= 500 + CHECK_EVERY
    expected = np.ones(4, np.float32)
    for _ in range(3000):
        expected = expected * np.float32(0.999)
    np.testing.assert_array_equal(x.numpy(), expected)


def test_data_is_bounded() -> None:
    total = bp.zeros(())
    refs = []
    with bp.config(pending_size=1):
        for _ in range(40):
            batch = bp.tensor(np.ones(1 << 16, np.float32))
            refs.append(weakref.ref(batch._node))
            total = total + batch.sum()
            del batch
        assert sum(ref() is not None for ref in refs) < 10
    assert total.item() == 40 * (1 << 16)


def test_reading_one_value_computes_what_is_held() -> None:
    x = bp.ones(3)
    y, z = x + 1, x + 2
    dead = weakref.ref((x + 3)._node)
    assert y.tolist() == [2.0, 2.0, 2.0]
    assert z._node.block is not None
    assert dead() is None
    assert not thread_state().nodes


def test_synchronize_computes_all() -> None:
    y = bp.ones(3) + 1
    bp.synchronize()
    assert y._node.block is not None
    with pytest.raises(bp.errors.DeviceError, match="'nowhere' is unknown"):
        bp.synchronize("nowhere")


def test_threads_do_not_share() -> None:
    x = bp.ones(3) + 1
    here = thread_state()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(thread_state().nodes))
    thread.start()
    thread.join()
    assert seen == [[]]
    assert here.nodes[-1] is x._node


def test_a_tensor_can_be_read_in_another_thread() -> None:
    tensors = [bp.ones(3) * i for i in range(8)]
    results: list[list[float]] = [[] for _ in tensors]

    def read(i: int) -> None:
        results[i] = (tensors[i] + tensors[i - 1]).tolist()

    threads = [threading.Thread(target=read, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[float(i + (i - 1) % 8)] * 3 for i in range(8)]


def test_a_node_knows_the_line_of_the_user() -> None:
    x = bp.ones(3) + 1
    assert __file__ in x._node.line()
    y = bp.tensor([1.0])
    assert y._node.line().startswith(f"{__file__}:")


def test_an_error_leaves_the_rest_usable() -> None:
    good = bp.ones(3) + 1
    bad = bp.ones(3)[bp.tensor([7])]
    with pytest.raises(IndexError, match="index 7 is out of range"):
        bad.numpy()
    assert good.tolist() == [2.0, 2.0, 2.0]
    del bad
    assert (good + 1).tolist() == [3.0, 3.0, 3.0]


def test_a_deep_chain_is_dropped_without_recursion() -> None:
    x = bp.tensor([1.0], requires_grad=True)
    with bp.config(pending_nodes=10**6):
        y = x
        for _ in range(50000):
            y = y + 1
        thread_state().take()
        del y
    gc.collect()


def test_a_neighbour_of_the_package_is_not_inside() -> None:
    """A user's file counts as such also if its path starts like the package's."""
    place = Path(bp.__file__).parent
    code = compile("x = bp.ones(3) + 1", f"{place}_extra/model.py", "exec")
    names: dict[str, Any] = {"bp": bp}
    exec(code, names)
    assert names["x"]._node.line() == f"{place}_extra/model.py:1"


def test_a_package_that_is_reached_through_a_link(tmp_path: Path) -> None:
    link = tmp_path / "elsewhere"
    link.symlink_to(Path(bp.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", "import bedplate as bp; print((bp.ones(3) + 1)._node.line())"],
        env={**os.environ, "PYTHONPATH": str(link)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "<string>:1"


def test_a_number_that_pending_work_uses_can_be_asked_for_too() -> None:
    x = bp.ones(2)
    y = x - 3.0
    number = y._node.inputs[1]
    realise([y._node, number])
    assert number.array() == 3.0 and y.tolist() == [-2.0, -2.0]
