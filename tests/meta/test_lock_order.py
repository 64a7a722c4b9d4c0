"""Each lock of the library stands in the documented order, and what breaks an order is seen."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lock_order import LockOrder, documented

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/bedplate"


def test_each_file_that_makes_a_lock_is_in_the_table() -> None:
    makes = re.compile(r"\bthreading\.R?Lock\(\)")
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if makes.search(path.read_text()) and "testing" not in path.parts
    }
    assert found == set(documented())


@pytest.fixture
def order() -> Iterator[LockOrder]:
    """Records the locks of this package."""
    kept = threading.Lock, threading.RLock
    found = LockOrder(__name__.partition(".")[0])
    found.record()
    yield found
    threading.Lock, threading.RLock = kept


def test_opposite_orders_are_seen(order: LockOrder) -> None:
    here = f"{__name__.partition('.')[2].replace('.', '/')}.py"
    a = threading.Lock()
    b = threading.RLock()
    with a, b, b:
        pass
    order.check([here])
    with b, a:
        pass
    with pytest.raises(SystemExit, match="against the order"):
        order.check([here])


def test_a_short_stress(tmp_path: Path) -> None:
    """`make stress` is the long one."""
    command = [sys.executable, str(ROOT / "tests/stress_threads.py"), "--seconds", "5"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert answer.returncode == 0, answer.stderr
    assert "no wrong bit" in answer.stdout


@pytest.mark.parametrize(
    "fault, said",
    [
        ("run.seen[stress.JOBS.index(stress.mlp), 0] = {'other'}", r"mlp\(0\) gave 2"),
        ("stress.LEAF.added[1] += 1", "AssertionError"),
    ],
)  # fmt: skip
def test_the_stress_sees_a_wrong_bit(fault: str, said: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests import stress_threads as stress\n"
        "run = stress.Run(2, 1, 0); run.run()\n"
        "stress.LEAF.job(0)\n"
        f"{fault}\nrun.check()"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.returncode != 0 and re.search(said, answer.stderr)
