"""Children of fork and of spawn, made in the middle of the work of other threads."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bedplate as bp

ROOT = Path(__file__).resolve().parents[2]
N_CHILDREN = 8


def train(x: bp.Tensor) -> Any:
    """A few captured steps; also what a child computes."""
    w = bp.ones((x.shape[1], 4))

    @bp.jit
    def step(x: bp.Tensor) -> bp.Tensor:
        loss, grad = bp.value_and_grad(lambda w: ((x @ w).tanh() - 1).square().sum())(w)
        w.assign(w - grad * 0.01)
        return loss

    for _ in range(3):
        step(x)
    return w.numpy()


FORKED = """
import os, sys, threading, warnings
sys.path.insert(0, {root!r})
import numpy as np
import bedplate as bp
from tests.integration.test_processes import train

warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads, from Python 3.12 on
x = bp.tensor(np.linspace(-1, 1, 60).reshape(10, 6).astype(np.float32))
expected = train(x).tobytes()
total, pending = (x * 2).sum().item(), (x * 2).sum()
end = threading.Event()

def work():
    while not end.is_set():
        assert train(x).tobytes() == expected

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
failed = 0
for _ in range({children}):
    child = os.fork()
    if child == 0:
        good = train(x).tobytes() == expected and pending.item() == total
        fresh = bp.tensor(np.arange(7)).cumsum().tolist()[-1] == 21
        os._exit(0 if good and fresh else 1)
    failed += os.waitpid(child, 0)[1] != 0
end.set()
for thread in threads:
    thread.join()
sys.exit(failed)
"""


def test_children_of_fork_beside_working_threads() -> None:
    code = FORKED.format(root=str(ROOT), children=N_CHILDREN)
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200
    )
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_children_of_spawn_get_tensors(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        return
    x = bp.tensor(np.linspace(-1, 1, 60).reshape(10, 6).astype(np.float32))
    expected = train(x)
    with multiprocessing.get_context(method).Pool(2) as pool:
        for found in pool.map(train, [x, x, x]):
            assert found.tobytes() == expected.tobytes()


def test_threads_compile_each_kernel_once(tmp_path: Path) -> None:
    code = """
import threading, collections
import numpy as np
import bedplate as bp
from bedplate.observer import hooks
from bedplate.kernel import native

made = collections.Counter()
load = native.cache.write
def write(key, image):
    made[key] += 1
    load(key, image)
native.cache.write = write
start = threading.Barrier(8)
found = []
def work(number):
    start.wait()
    x = bp.tensor(np.arange(24.0).reshape(4, 6))
    found.append(((x.tanh() @ x.T).sum(axis=0) + bp.sort(x, axis=1).sum()).numpy().tobytes())
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert len(found) == 8 and len(set(found)) == 1
assert made and set(made.values()) == {1}, made
"""
    environment = {**os.environ, "BEDPLATE_CACHE_DIR": str(tmp_path)}
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert answer.returncode == 0, answer.stderr
