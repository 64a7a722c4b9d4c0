"""The checkers of kernels are checked: a wrong instruction must make their tests fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bedplate.config import config
from bedplate.kernel import f32, fma, i64, kernel, load, ptr, quotient, store
from bedplate.kernel.instructions.operation import OPERATIONS, Operation


def wrong_emit(operation: Operation, fault: Any) -> Operation:
    return Operation(operation.name, fault(operation.emit), operation.meaning)


def swapped(emit: Any) -> Any:
    """Machine code with the first two operands exchanged."""

    def run(lowering: Any, instruction: Any) -> str:
        a, b, *rest = instruction.operands
        instruction.operands = (b, a, *rest)
        text = emit(lowering, instruction)
        instruction.operands = (a, b, *rest)
        return text

    return run


def unfused(emit: Any) -> Any:
    """fma as two roundings."""

    def run(lowering: Any, instruction: Any) -> str:
        a, b, c = map(lowering.text, instruction.operands)
        t = instruction.type.llvm
        return lowering.new(f"fadd {t} {lowering.new(f'fmul {t} {a}, {b}')}, {c}")

    return run


def unguarded(emit: Any) -> Any:
    """An integer division that gives x for x // 0."""

    def run(lowering: Any, instruction: Any) -> str:
        a, b = map(lowering.text, instruction.operands)
        zero = lowering.new(f"icmp eq i64 {b}, 0")
        divisor = lowering.new(f"select i1 {zero}, i64 1, i64 {b}")
        return lowering.new(f"sdiv i64 {a}, {divisor}")

    return run


@pytest.mark.parametrize(
    ("name", "fault"), [("fma", unfused), ("quotient", unguarded), ("sub", swapped)]
)
def test_a_wrong_instruction_is_caught(
    name: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @kernel
    def run(x: ptr(f32), n: ptr(i64)):
        store(x + 2, fma(load(x), load(x), load(x + 1)))
        store(x + 3, load(x) - load(x + 1))
        store(n + 2, quotient(load(n), load(n + 1)) - load(n))

    def both() -> bool:
        results = []
        for how in (run, run.interpret):
            x = np.array([1 + 2.0**-12, -1 - 2.0**-11, 0, 0], np.float32)
            n = np.array([7, 0, 0], np.int64)
            how(x, n)
            results.append(x.tobytes() + n.tobytes())
        return results[0] == results[1]

    assert both()
    run._compiled = None
    monkeypatch.setitem(OPERATIONS, name, wrong_emit(OPERATIONS[name], fault))
    with config(cache_dir=""):
        assert not both()
