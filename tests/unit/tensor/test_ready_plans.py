"""One op on values that are there: the plan that is at hand must be that op's, in any thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp

X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
CASES: dict[str, Callable[[Any], Any]] = {
    "subtract": lambda x: x - x[:1],
    "itself": lambda x: x - x,
    "known number": lambda x: x * 2,
    "other number": lambda x: x * 2.5,
    "another number": lambda x: x * -3.25,
    "number first": lambda x: 2.5 - x,
    "number last": lambda x: x - 2.5,
    "zero": lambda x: x * 0.0,
    "minus zero": lambda x: x * -0.0,
    "compared": lambda x: x > 1,
    "sum of rows": lambda x: x.sum(0),
    "sum of columns": lambda x: x.sum(1),
}


def test_ops_that_come_again_and_again_are_told_apart() -> None:
    x = bp.tensor(X)
    for _ in range(3):
        for name, function in CASES.items():
            got, wanted = function(x).numpy(), np.asarray(function(X))
            np.testing.assert_allclose(got, wanted, rtol=1e-6, err_msg=name)
            assert (np.signbit(got) == np.signbit(wanted)).all(), name


def test_a_setting_that_changes_is_seen() -> None:
    x = bp.tensor(X)
    for check in (False, True, False, True):
        with bp.config(check=check):
            np.testing.assert_array_equal((x + x).numpy(), X + X)


def test_an_index_out_of_range_is_named_each_time() -> None:
    table, wrong, right = bp.tensor(X), bp.tensor([0, 7]), bp.tensor([0, 2])
    for _ in range(3):
        np.testing.assert_array_equal(bp.take(table, right, axis=0).numpy(), X[[0, 2]])
        with pytest.raises(IndexError, match="index 7 is out of range for size 3"):
            bp.take(table, wrong, axis=0).numpy()


def test_threads_share_plans_without_a_lock() -> None:
    x, wrong = bp.tensor(X), []

    def work(number: float) -> None:
        for _ in range(300):
            y = (x + number).realise()
            if not ((y * y).numpy() == (X + np.float32(number)) ** 2).all():
                wrong.append(number)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2.5, 3, 4.5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
