"""Memory: loads and stores with masks, gathers, scatters, local arrays, prefetch."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from bedplate.kernel import (
    bf16,
    cast,
    f16,
    f32,
    f64,
    gather,
    give_back,
    i1,
    i8,
    i16,
    i32,
    i64,
    iota,
    kernel,
    load,
    local,
    loop,
    prefetch,
    ptr,
    scatter,
    store,
    tail_mask,
    u8,
    u16,
    u32,
    u64,
    when,
    zeros,
)  # fmt: skip
from bedplate.kernel.arguments import numpy_dtype
from bedplate.kernel.target import find_target

TYPES = (i1, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)


def ramp(type_: Any, n: int) -> np.ndarray[Any, Any]:
    return (np.arange(n) % (2 if type_ is i1 else 100)).astype(numpy_dtype(type_))


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_masked_copy_touches_only_the_tail(type_: Any, lanes: int) -> None:
    @kernel
    def copy(n: i64, x: ptr(type_), y: ptr(type_)):
        for i in loop(0, n, lanes):
            mask = tail_mask(n - i, lanes)
            store(y + i, load(x + i, lanes, mask), mask)

    x = ramp(type_, 37)
    for how in (copy, copy.interpret):
        y = ramp(type_, 40)[::-1].copy()
        rest = y[37:].copy()
        how(37, x, y)
        assert y[:37].tobytes() == x.tobytes()
        assert y[37:].tobytes() == rest.tobytes()


def test_lanes_off_the_mask_are_other() -> None:
    @kernel
    def run(x: ptr(f32), y: ptr(f32)):
        store(y, load(x, 8, tail_mask(3, 8), other=-1))
        store(y + 8, load(x, None, zeros(i1), other=-2))

    for how in (run, run.interpret):
        x, y = np.ones(3, np.float32), np.zeros(9, np.float32)
        how(x, y)
        assert y.tolist() == [1, 1, 1, -1, -1, -1, -1, -1, -2]


def test_masked_scalar_store() -> None:
    @kernel
    def run(x: ptr(i32), n: i64):
        store(x, 5, mask=n > 0)

    for how in (run, run.interpret):
        x = np.zeros(1, np.int32)
        how(x, 0)
        assert x[0] == 0
        how(x, 1)
        assert x[0] == 5


@pytest.mark.parametrize("index_type", [i32, i64, u32, u8], ids=str)
@pytest.mark.parametrize("type_", [i8, bf16, f32, f64], ids=str)
def test_gather_and_scatter(type_: Any, index_type: Any) -> None:
    @kernel
    def run(x: ptr(type_), at: ptr(index_type), y: ptr(type_), n: i64):
        mask = tail_mask(n, 8)
        store(y, gather(x, load(at, 8), mask, other=7))
        scatter(y + 8, load(at, 8), load(x, 8), mask)

    x = ramp(type_, 20)
    at = np.array([19, 0, 3, 3, 200, 200, 200, 200]).astype(numpy_dtype(index_type))
    for how in (run, run.interpret):
        y = np.zeros(28, numpy_dtype(type_))
        how(x, at, y, 4)
        assert y[:8].astype(int).tolist() == [19, 0, 3, 3, 7, 7, 7, 7]
        assert y[8 + 19] == x[0] and y[8] == x[1]
        assert y[8 + 3] == x[3]  # where indices meet, the highest lane wins


def test_local_array_and_prefetch() -> None:
    @kernel
    def reverse(n: i64, x: ptr(f32)):
        buffer = local(f32, 64)
        for i in loop(n):
            prefetch(x + i + 1000000, write=True, locality=1)
            store(buffer + i, load(x + i))
        for i in loop(n):
            store(x + i, load(buffer + (n - 1 - i)))

    for how in (reverse, reverse.interpret):
        x = np.arange(10, dtype=np.float32)
        how(10, x)
        assert x.tolist() == list(range(9, -1, -1))
    assert "prefetch" in reverse.assembly("avx512")


def test_local_arrays_are_aligned() -> None:
    @kernel
    def run(out: ptr(i64)):
        for i, count in enumerate((1, 3, 100)):
            store(out + i, cast(local(i8, count), i64))

    out = np.zeros(3, np.int64)
    run(out)
    assert not (out % 64).any()


def test_aligned_and_nontemporal_stores() -> None:
    @kernel
    def fill(x: ptr(f32)):
        store(x, zeros(f32, 16), aligned=True, nontemporal=True)
        store(x + 16, load(x, 16, aligned=True))

    assert re.search("vmovntps(.|\n)*sfence(.|\n)*ret", fill.assembly("avx512"))
    raw = np.ones(64 + 32, np.float32)
    x = raw[(-raw.ctypes.data % 64) // 4 :][:32]
    fill(x)
    assert not x.any()


def test_pointer_arithmetic_takes_any_integer() -> None:
    @kernel
    def run(x: ptr(f32), i: i32, j: u8) -> f32:
        give_back(load(x + i + j - 1))

    x = np.arange(10, dtype=np.float32)
    assert run(x, -2, 5) == run.interpret(x, -2, 5) == 2


def test_pointers_in_memory() -> None:
    @kernel
    def run(table: ptr(ptr(f32)), n: i64) -> f32:
        pointer = load(table + n)
        with when(pointer == load(table)):
            give_back(-1)
        store(table, pointer)
        give_back(load(load(table) + 1))

    a, b = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    for how, extra in ((run, {}), (run.interpret, {"memory": [a, b]})):
        table = np.array([a.ctypes.data, b.ctypes.data], np.uint64)
        assert how(table, 1, **extra) == 4
        assert table[0] == b.ctypes.data


def test_bytes_of_masks_are_zero_or_one() -> None:
    @kernel
    def run(x: ptr(i8), mask: ptr(i1), y: ptr(i8)):
        store(mask, load(x, 16) > 3)
        picked = load(mask + 1, 15 + 1, tail_mask(15, 16))
        store(y, iota(i8, 16), picked)

    x = np.arange(16, dtype=np.int8)
    for how in (run, run.interpret):
        mask, y = np.zeros(16, np.bool_), np.zeros(16, np.int8)
        how(x, mask, y)
        assert mask.view(np.uint8).tolist() == [0] * 4 + [1] * 12
        assert y.tolist() == [0, 0, 0, *range(3, 15), 0]


@pytest.mark.parametrize("lane", [0, 5])
@pytest.mark.parametrize("type_", [i8, u16, bf16, f16, i32], ids=str)
def test_constant_masks_write_no_more_than_their_lanes(type_: Any, lane: int) -> None:
    @kernel
    def run(x: ptr(f64), y: ptr(type_)):
        bits = cast(load(x, 8), i64) if type_ is i32 else cast(load(x, 8), f32)
        mask = tail_mask(lane + 1, 8) & ~tail_mask(lane, 8)
        store(y, cast(bits, type_), mask)

    x, y = np.full(8, 3.0), np.full(8, 7).astype(numpy_dtype(type_))
    run(x, y)
    assert y.astype(int).tolist() == [3 if i == lane else 7 for i in range(8)]


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_masks_on_a_machine_without_masked_instructions(type_: Any) -> None:
    @kernel
    def copy(n: i64, x: ptr(type_), y: ptr(type_)):
        for i in loop(0, n, 8):
            mask = tail_mask(n - i, 8)
            store(y + i, load(x + i, 8, mask), mask)

    if not find_target("avx2").runs_here:
        return
    x, y = ramp(type_, 21), ramp(type_, 24)[::-1].copy()
    rest = y[21:].copy()
    copy.compile("avx2")(21, x, y)
    assert y.tobytes() == x.tobytes() + rest.tobytes()


def test_full_masks_are_one_access_without_masked_instructions() -> None:
    @kernel
    def copy(n: i64, x: ptr(i8), y: ptr(i8)):
        mask = tail_mask(n, 16)
        store(y, load(x, 16, mask), mask)

    assert re.search(r"vmovdqu|vmovups", copy.assembly("avx2"))
    assert re.search(r"ldr\s+q", copy.assembly("aarch64"))
