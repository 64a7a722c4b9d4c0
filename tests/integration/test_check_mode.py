"""BEDPLATE_CHECK=1 end to end: plans run with every access checked, and give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.compiler.realise import clear_plans
from bedplate.config import config
from bedplate.devices.cpu.runner import NativePlan, Slot, Task
from bedplate.errors import KernelBoundsError
from bedplate.kernel import checks, f32, i64, kernel, loop, ptr, store, word_int, word_pointer


def values() -> list[Any]:
    generator = np.random.default_rng(5)
    x = bp.tensor(generator.standard_normal((37, 48)).astype(np.float32))
    w = bp.tensor(generator.standard_normal((48, 70)).astype(np.float32))
    y = bp.softmax((x @ w) * 0.5 + 1, axis=-1)
    rows = bp.take(y, bp.tensor([3, 0, 36]), axis=0)
    return [each.numpy() for each in (y, (y * y).sum(axis=0), rows, x.T[::-1, 3:5])]


def test_checked_plans_give_the_same_bits() -> None:
    clear_plans()
    plain = values()
    with config(check=True):
        checked = values()
    for a, b in zip(plain, checked, strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_task_that_leaves_its_memory_is_named() -> None:
    @kernel
    def fill(args: ptr(i64), begin: i64, end: i64, worker: i64):
        x = word_pointer(args, 0, f32)
        for i in loop(begin, end):
            store(x + i + word_int(args, 1), 1)

    x = np.zeros(8, np.float32)
    slots = np.array([x.ctypes.data], np.int64)
    with config(check=True):
        plan = NativePlan([[Task(fill.compile(), [Slot(0), 0], 8)]], 1)
        wrong = NativePlan([[Task(fill.compile(), [Slot(0), 3], 8)]], 1)
    memory = (x.ctypes.data, x.nbytes)
    with checks.watch([memory, plan.extent]):
        plan.run(slots)
    assert x.tolist() == [1] * 8
    with (
        pytest.raises(KernelBoundsError, match=r"kernel fill: store at .*test_check_mode\.py"),
        checks.watch([memory, wrong.extent]),
    ):
        wrong.run(slots)
