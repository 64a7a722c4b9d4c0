"""Calls: kernels, addresses, C functions; atomics; what Python passes and gets back."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

import numpy as np
import pytest

from bedplate import dtypes
from bedplate.errors import KernelError
from bedplate.kernel import (
    atomic_add,
    atomic_cas,
    atomic_exchange,
    atomic_load,
    atomic_store,
    bf16,
    bitcast,
    call,
    call_pointer,
    cast,
    constant,
    element,
    extern,
    f16,
    f32,
    f64,
    fence,
    from_dtype,
    give_back,
    host,
    i1,
    i8,
    i16,
    i32,
    i64,
    kernel,
    load,
    loop,
    pause,
    ptr,
    store,
    u8,
    u16,
    u32,
    u64,
    vec,
    word_float,
    word_int,
    word_pointer,
)  # fmt: skip


def both(kernel_: Any, *args: Any) -> Any:
    native = kernel_(*args)
    assert native == kernel_.interpret(*args)
    return native


@kernel
def scaled(x: vec(f32, 8), factor: f32) -> vec(f32, 8):
    give_back(x * factor)


@kernel
def bump(x: ptr(i64), n: i64):
    for i in loop(n):
        store(x + i, load(x + i) + 1)


def test_call_of_a_kernel_with_vectors() -> None:
    @kernel
    def run(x: ptr(f32)):
        store(x, call(scaled, load(x, 8), 3))
        store(x, scaled(load(x, 8), constant(f32, 0.5)))  # inside a kernel: the same

    for how in (run, run.interpret):
        x = np.ones(8, np.float32)
        how(x)
        assert (x == 1.5).all()


def test_callees_of_callees_are_one_module() -> None:
    @kernel
    def middle(x: ptr(i64)) -> i64:
        call(bump, x, 2)
        give_back(load(x))

    @kernel
    def outer(x: ptr(i64)) -> i64:
        call(bump, x, 1)
        give_back(call(middle, x) * 10)

    for how in (outer, outer.interpret):
        x = np.zeros(2, np.int64)
        assert how(x) == 20
        assert x.tolist() == [2, 1]


def test_large_callees_stay_functions() -> None:
    @kernel
    def large(x: ptr(i64)):
        for i in range(200):
            store(x + i, i)

    @kernel
    def caller(x: ptr(i64)):
        call(large, x)
        call(large, x + 200)

    assert "call" in caller.assembly("avx2")
    x = np.zeros(400, np.int64)
    caller(x)
    assert x.tolist() == [*range(200)] * 2


def test_call_of_an_address() -> None:
    @kernel
    def run(address: i64, x: ptr(i64), n: i64):
        call_pointer(address, (ptr(i64), i64), x, n)

    x = np.zeros(4, np.int64)
    run(bump.compile().address, x, 3)
    run.interpret(bump.compile().address, x, 3)
    assert x.tolist() == [2, 2, 2, 0]


def test_call_of_the_c_library() -> None:
    getpid = extern("getpid", i32, ())
    labs = extern("labs", i64, (i64,))

    @kernel
    def run(x: i64) -> i64:
        give_back(labs(x) + cast(getpid(), i64) - cast(getpid(), i64))

    assert both(run, -5) == 5

    @kernel
    def process() -> i32:
        give_back(getpid())

    assert process() == os.getpid()


def test_unknown_symbol() -> None:
    missing = extern("no_such_function_anywhere", None, ())

    @kernel
    def run():
        missing()

    with pytest.raises(KernelError, match="no_such_function_anywhere"):
        run()


@pytest.mark.parametrize("type_", [i32, i64, u32, u64], ids=str)
def test_atomics(type_: Any) -> None:
    @kernel
    def run(x: ptr(type_), out: ptr(type_)):
        store(out, atomic_add(x, 5))
        store(out + 1, atomic_exchange(x, 9, "acq_rel"))
        store(out + 2, atomic_cas(x, 9, 11))
        store(out + 3, atomic_cas(x, 9, 12, "acquire"))
        fence()
        pause()
        atomic_store(x + 1, atomic_load(x, "acquire"), "release")

    for how in (run, run.interpret):
        x = np.array([1, 0]).astype(f"{'i' if type_.is_signed else 'u'}{type_.itemsize}")
        out = np.zeros(4, x.dtype)
        how(x, out)
        assert out.tolist() == [1, 6, 9, 11]
        assert x.tolist() == [11, 11]


def test_atomic_add_from_several_threads() -> None:
    @kernel
    def add(x: ptr(i64), n: i64):
        for _ in loop(n):
            atomic_add(x, 1)

    x = np.zeros(1, np.int64)
    threads = [threading.Thread(target=add, args=(x, 20000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x[0] == 80000


@pytest.mark.parametrize(
    ("type_", "value"),
    [(i1, True), (i8, -128), (u8, 255), (i16, -5), (u16, 65535), (i32, -(2**31)), (u32, 2**32 - 1),
     (i64, -(2**63)), (u64, 2**64 - 1), (f16, 1.5), (bf16, -2.5), (f32, 0.1), (f64, 0.1)],
)  # fmt: skip
def test_numbers_through_the_boundary(type_: Any, value: Any) -> None:
    @kernel
    def same(x: type_) -> type_:
        give_back(x)

    wanted = float(np.float32(value)) if type_ is f32 else value
    assert both(same, value) == wanted
    assert type(same(value)) is type(value)


def test_pointers_through_the_boundary() -> None:
    @kernel
    def following(x: ptr(f32)) -> ptr(f32):
        give_back(x + 1)

    x = np.zeros(2, np.float32)
    assert following(x) == following(x.ctypes.data) == x.ctypes.data + 4
    assert following.interpret(x) == x.ctypes.data + 4
    native = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_size_t)(following.compile().address)
    assert native(100) == 104


def test_task_words() -> None:
    @kernel
    def task(args: ptr(i64), begin: i64, end: i64, worker: i64):
        out = word_pointer(args, 0, f64)
        for i in loop(begin, end):
            store(out + i, word_float(args, 2) * cast(word_int(args, 1) + i + worker, f64))

    for how, extra in ((task, {}), (task.interpret, {"memory": True})):
        out = np.zeros(4)
        words = np.array([out.ctypes.data, 10, np.float64(0.5).view(np.int64)], np.int64)
        how(words, 1, 3, 100, **({"memory": [out]} if extra else {}))
        assert out.tolist() == [0, 55.5, 56.0, 0]


def test_bool_arrays_and_bytes() -> None:
    @kernel
    def flip(x: ptr(i1), n: i64):
        for i in loop(n):
            store(x + i, ~load(x + i))

    for x in (np.array([True, False]), np.array([1, 0], np.uint8)):
        flip(x, 2)
        assert x.tolist() == [0, 1]


def test_types() -> None:
    assert element(ptr(f32)) is element(vec(f32, 4)) is element(f32) is f32
    assert from_dtype(dtypes.bfloat16) is bf16 and from_dtype(dtypes.bool_) is u8
    assert vec(f32, 8) is vec(f32, 8)
    assert host().lanes(f32) * 4 == host().lanes(i8)
    assert (f32.bits, f32.is_float, i8.is_signed, u8.is_signed) == (32, True, True, False)


def test_f32_bits() -> None:
    @kernel
    def bits(x: f32) -> u32:
        give_back(bitcast(x, u32))

    assert both(bits, 1.0) == 0x3F800000
