"""Programs print by the grammar of ir.py and read back; the interpreter runs what was read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bedplate.errors import KernelError
from bedplate.kernel import (
    bf16,
    call,
    constant,
    f32,
    give_back,
    i64,
    kernel,
    load,
    local,
    loop,
    otherwise,
    ptr,
    shuffle,
    store,
    var,
    when,
    while_,
)  # fmt: skip
from bedplate.kernel.ir import print_program
from bedplate.kernel.lower import lower
from bedplate.kernel.machine import interpret
from bedplate.kernel.read import read_program
from bedplate.kernel.target import find_target
from bedplate.kernel.types import SCALARS, parse_type, vec

TEXT = """\
kernel first(%1: i64 n, %2: ptr(f32) x) -> i64:
  %3 = var i64 0:i64
  loop %4 = 0:i64 to %1 step 2:i64
    %5 = offset ptr(f32) %2 %4
    %6 = load vec(f32,2) %5
    %7 = mul vec(f32,2) %6 -0.5:vec(f32,2)
    store %5 %7
  while
    %8 = get i64 %3
    %9 = less i1 %8 %1
  holds %9 do
    %10 = get i64 %3
    %11 = add i64 %10 1:i64
    set %3 %11
  %12 = equal i1 %1 4:i64
  when %12
    %13 = local ptr(f32) {count=3}
    store %13 inf:f32
  otherwise
    fence {order='seq_cst'}
  %14 = get i64 %3
  give_back %14

kernel second(%1: ptr(f32) x) -> i64:
  %2 = call i64 4:i64 %1 {callee=0}
  give_back %2
"""


def test_text_reads_back_and_runs() -> None:
    program = read_program(TEXT)
    assert print_program(program) == TEXT
    x = np.ones(4, np.float32)
    assert interpret(program, (x,)) == 4
    assert (x == -0.5).all()
    assert "define internal" in lower(program, find_target("avx2"))


def test_traced_program_reads_back() -> None:
    @kernel
    def inner(x: ptr(bf16)) -> f32:
        give_back(constant(f32, 0.1))

    @kernel
    def outer(n: i64, x: ptr(bf16)):
        total = var(constant(f32, float("-inf")))
        buffer = local(f32, 8)
        for i in loop(n - 1, -1, -1):
            with when(i > 3):
                total.set(total.get() + call(inner, x + i))
            with otherwise():
                store(buffer, shuffle(load(buffer, 4), None, [3, 2, 1, 0]), aligned=True)
        for _ in while_(lambda: total.get() < 3):
            total.set(total.get() * 2)

    text = print_program(outer.ir)
    again = read_program(text)
    assert print_program(again) == text
    assert lower(again, find_target("avx512")) == outer.llvm("avx512")


@pytest.mark.parametrize("type_", [vec(f32, 8), ptr(ptr(bf16)), i64], ids=str)
def test_results_of_every_kind_read_back(type_: Any) -> None:
    def same(x: type_, y: ptr(f32)) -> type_:
        give_back(x)

    text = print_program(kernel(same).ir)
    assert read_program(text).result is type_
    assert print_program(read_program(text)) == text


@pytest.mark.parametrize("type_", SCALARS, ids=str)
def test_types_read_back(type_: Any) -> None:
    for each in (type_, vec(type_, 8), parse_type(f"ptr({type_})")):
        assert parse_type(str(each)) is each


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("  %3 = ad i64 %1 %1", "there is no instruction 'ad'"),
        ("  %3 = add i64 %1 %9", "%9 is used before it is defined"),
        ("  %3 = add int %1 %1", "'int' is not a type"),
        ("  loop %3 = 0:i64 to %1", "expected `loop %i = a to b step c`"),
        ("      fence", "deeper than its block"),
        ("  %3 = call i64 %1 {callee=5}", "the kernel called does not stand before"),
        ("  %3 = local ptr(f32) {count=f()}", "attributes are Python literals"),
    ],
)
def test_wrong_text_is_refused(line: str, what: str) -> None:
    with pytest.raises(KernelError, match=what.replace("(", r"\(")):
        read_program(f"kernel k(%1: i64 n):\n{line}\n")


def test_wrong_head_is_refused() -> None:
    for text in ("kernel k(n)\n", "kernel k(%1 i64 n):\n", ""):
        with pytest.raises(KernelError, match="read_program"):
            read_program(text)
