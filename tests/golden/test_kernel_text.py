"""Printed kernels stay as they are: program and LLVM text of a few that use the whole language.

After a change that is meant: REFRESH_GOLDEN=1 python -m pytest tests/golden, and read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bedplate.kernel import (
    atomic_add,
    bf16,
    call,
    cast,
    constant,
    f32,
    fma,
    gather,
    give_back,
    i32,
    i64,
    kernel,
    load,
    local,
    loop,
    maximum,
    otherwise,
    ptr,
    reduce_add,
    select,
    store,
    tail_mask,
    var,
    vec,
    when,
    while_,
    word_pointer,
    zeros,
)  # fmt: skip

FOLDER = Path(__file__).parent / "kernels"
LANES = 16


@kernel
def relu_task(args: ptr(i64), begin: i64, end: i64, worker: i64):
    x, y = word_pointer(args, 0, f32), word_pointer(args, 1, f32)
    for i in loop(begin * LANES, end * LANES, LANES):
        mask = tail_mask(load(args + 2) - i, LANES)
        store(y + i, maximum(load(x + i, LANES, mask), 0), mask)


@kernel
def square(x: vec(f32, LANES)) -> vec(f32, LANES):
    give_back(x * x)


@kernel
def norm(n: i64, x: ptr(bf16)) -> f32:
    total = var(zeros(f32, LANES))
    for i in loop(0, n, LANES):
        part = cast(load(x + i, LANES, tail_mask(n - i, LANES)), f32)
        total.set(total.get() + call(square, part))
    give_back(reduce_add(total.get()))


@kernel
def collect(n: i64, at: ptr(i32), x: ptr(f32), counter: ptr(i64)) -> i64:
    buffer = local(f32, 8)
    left = var(n)
    for _ in while_(lambda: left.get() > 0):
        values = gather(x, load(at, 8), tail_mask(left.get(), 8), other=-1)
        store(buffer, fma(values, 2.0, select(values < 0, values, 1.0)), aligned=True)
        with when(load(buffer) > 0):
            atomic_add(counter, 1)
        with otherwise():
            give_back(left.get() // 3 % n)
        left.set(left.get() - 8)
    give_back(constant(i64, 0))


KERNELS = {each.name: each for each in (relu_task, norm, collect)}


@pytest.mark.parametrize("what", ["program", "llvm"])
@pytest.mark.parametrize("name", KERNELS)
def test_text_is_as_kept(name: str, what: str) -> None:
    found: Any = KERNELS[name]
    text = str(found.ir) if what == "program" else found.llvm("avx512")
    path = FOLDER / f"{name}.{what}.txt"
    if os.environ.get("REFRESH_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
