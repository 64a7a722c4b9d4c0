"""Edges of the language where LLVM or Python would say something else than the reader expects."""

from __future__ import annotations

import ast
import functools
import sys
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import bedplate
from bedplate import dtypes
from bedplate.config import config
from bedplate.kernel import (
    bf16,
    call,
    cast,
    constant,
    extract,
    f16,
    f32,
    f64,
    give_back,
    i8,
    i16,
    i32,
    i64,
    insert,
    iota,
    kernel,
    load,
    otherwise,
    ptr,
    store,
    tail_mask,
    u8,
    u16,
    u32,
    u64,
    when,
)  # fmt: skip
from bedplate.kernel.arguments import numpy_dtype
from bedplate.kernel.exits import exits


@pytest.mark.parametrize("type_", [i8, i16, i32, i64, u8, u16, u32, u64], ids=str)
def test_a_pointer_moves_back_by_any_integer(type_: Any) -> None:
    low = -(1 << (type_.bits - 1))

    @kernel
    def back(x: ptr(u8), k: type_, least: type_, out: ptr(u8)):
        store(out, load(x + 7 - k))
        store(out + 1, load(x - least + low if type_.is_signed else x - least))

    for how in (back, back.interpret):
        out = np.zeros(2, np.uint8)
        how(np.arange(8, dtype=np.uint8), 3, low if type_.is_signed else 0, out)
        assert out.tolist() == [4, 0]


@pytest.mark.parametrize("lanes", [1, 4, 16, 64])
def test_a_constant_lane_out_of_range_counts_modulo(lanes: int) -> None:
    places = (0, lanes, 5 * lanes + 1, -1, -(1 << 63), (1 << 63) - 1)

    @kernel
    def pick(x: ptr(i32), out: ptr(i32)):
        v = load(x, lanes)
        for n, place in enumerate(places):
            store(out + n, extract(v, constant(i64, place)))
            replaced = insert(v, constant(i64, place), constant(i32, 77))
            store(out + 8 + n, extract(replaced, constant(i64, place % lanes)))

    x = np.arange(10, 10 + lanes, dtype=np.int32)
    for how in (pick, pick.interpret):
        out = np.zeros(16, np.int32)
        how(x, out)
        assert out[: len(places)].tolist() == [10 + place % lanes for place in places]
        assert (out[8 : 8 + len(places)] == 77).all()


@pytest.mark.parametrize("type_, bits", [(f16, 11), (bf16, 8)], ids=str)
def test_numbers_are_rounded_once(type_: Any, bits: int) -> None:
    """As literals, as arguments and in casts: a hair above a tie goes up."""
    number = 1 + 2.0**-bits + 2.0**-40

    @kernel
    def run(out: ptr(type_), argument: type_, wide: f64):
        store(out, constant(type_, number))
        store(out + 1, argument)
        store(out + 2, cast(wide, type_))

    dtype = np.float16 if type_ is f16 else ml_dtypes.bfloat16
    for how in (run, run.interpret):
        out = np.zeros(3, dtype)
        how(out, number, number)
        assert out.astype(np.float64).tolist() == [1 + 2.0 ** (1 - bits)] * 3
    assert float(dtypes.rounded(number, np.dtype(dtype))) == 1 + 2.0 ** (1 - bits)


@pytest.mark.parametrize("type_", [i8, u8, i64, f16, bf16, f32], ids=str)
def test_the_longest_iota(type_: Any) -> None:
    @kernel
    def count(out: ptr(type_)):
        store(out, iota(type_, 1024))

    wanted = np.zeros(1024, numpy_dtype(type_))
    count.interpret(wanted)
    out = np.zeros_like(wanted)
    count(out)
    assert out.tobytes() == wanted.tobytes() == np.arange(1024).astype(out.dtype).tobytes()


def test_integers_beyond_all_floats_are_infinite() -> None:
    @kernel
    def run(x: f64, y: f32, out: ptr(f64)):
        store(out, x)
        store(out + 1, cast(y, f64))
        store(out + 2, constant(f64, -(10**400)))

    out = np.zeros(3)
    run(10**400, -(10**400), out)
    assert out.tolist() == [np.inf, -np.inf, -np.inf]


def test_kernels_of_one_function_may_call_each_other() -> None:
    @functools.cache
    def make(n: int) -> Any:
        @kernel
        def f(x: i64) -> i64:
            give_back(call(make(n - 1), x + 1) if n else x)

        return f

    assert make(5)(10) == make(5).interpret(10) == 15


def test_names_that_look_like_symbols_of_callees() -> None:
    @kernel
    def f(x: i64) -> i64:
        give_back(x + 1)

    @kernel
    def f_0(x: i64) -> i64:
        give_back(call(f, x) * 2)

    @kernel
    def f_1(x: i64) -> i64:
        give_back(call(f_0, x) + call(f, x))

    assert f_1(3) == 12


def test_a_kernel_without_source() -> None:
    space: dict[str, Any] = {"kernel": kernel, "i64": i64, "give_back": give_back}
    exec("@kernel\ndef f(x: i64) -> i64:\n    give_back(x + 1)\n", space)
    assert space["f"](2) == 3
    exec("def g(x: i64) -> i64:\n    give_back(y)\n", space)
    with pytest.raises(bedplate.errors.KernelError, match=r"'y' is not defined\n  at <string>:2"):
        kernel(space["g"])(2)


def test_the_program_is_there_while_another_thread_compiles() -> None:
    def make(number: int) -> Any:
        @kernel
        def f(x: i64) -> i64:
            give_back(x + number)

        return f

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    missing = []
    try:
        for number in range(20):
            f = make(number)
            thread = threading.Thread(target=f.compile)
            thread.start()
            missing += [1 for _ in range(50) if f.ir is None]
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not missing


def test_no_kernel_of_bedplate_leaves_a_branch_under_trace() -> None:
    names = {"when": when, "otherwise": otherwise}
    for path in Path(bedplate.__file__).parent.rglob("*.py"):
        assert not list(exits(ast.parse(path.read_text()), names)), path


@pytest.mark.parametrize("masked", [False, True])
def test_a_promise_of_alignment_that_is_broken(masked: bool) -> None:
    """Machine code may crash on it; the interpreter says so, and check mode does not rely on it."""

    @kernel
    def copy(x: ptr(f32), y: ptr(f32), n: i64):
        mask = tail_mask(n, 16) if masked else None
        store(y + 1, load(x + 1, 16, mask=mask, aligned=True), mask=mask, aligned=True)

    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    with pytest.raises(bedplate.errors.KernelError, match="aligned=True, but the address is"):
        copy.interpret(x, y, 16)
    with config(check=True):
        copy(x, y, 16)
    assert y.tolist() == [0, *range(1, 17), *[0] * 15]
