"""The dot instructions: their machine code, what they stand for, who may have them."""

import numpy as np
import pytest

from bedplate import dtypes
from bedplate.errors import KernelError
from bedplate.kernel import (
    Target,
    bfloat16_dot,
    byte_dot,
    f32,
    host,
    i32,
    i64,
    kernel,
    load,
    ptr,
    store,
    u32,
)
from bedplate.kernel.target import Processor


@kernel
def dots(a: ptr(u32), b: ptr(u32), c: ptr(f32), n: i64):
    for i in range(0, 64, 16):
        store(c + i, bfloat16_dot(load(a + i, 16), load(b + i, 16), load(c + i, 16)))


def words(seed):
    pairs = np.random.default_rng(seed).standard_normal(128) * 100
    return pairs.astype(dtypes.bfloat16.numpy).view(np.uint32)


def test_upper_halves_are_added_first_and_each_is_rounded_once():
    a, b = words(1), words(2)
    c = np.random.default_rng(3).standard_normal(64).astype(np.float32)
    native, stepped, expected = c.copy(), c.copy(), c.astype(np.float64)
    dots(a, b, native, 64)
    dots.interpret(a, b, stepped, 64)
    np.testing.assert_array_equal(native, stepped)
    for half in (1, 0):
        # products of bfloat16 are exact in float64, and so is almost every sum with a float32
        x, y = (w.view(dtypes.bfloat16.numpy)[half::2].astype(np.float64) for w in (a, b))
        expected = (x * y + expected).astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(native, expected.astype(np.float32))


SPECIAL = [
    (np.inf, 0.0, 1.0, np.inf), (np.inf, 1.0, -np.inf, np.nan), (np.nan, 0.0, 1.0, np.nan),
    (0.0, -1.0, 1.0, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("upper", "lower", "start", "expected"), SPECIAL)
def test_special_values(upper, lower, start, expected):
    dtype = dtypes.bfloat16.numpy
    a = np.tile(np.array([lower, upper], dtype), 64).view(np.uint32)
    b = np.tile(np.array([1.0, 1.0], dtype), 64).view(np.uint32)
    for run in (dots, dots.interpret):
        c = np.full(64, start, np.float32)
        run(a, b, c, 64)
        np.testing.assert_array_equal(c, np.full(64, expected, np.float32))


def test_only_processors_that_have_it_get_the_instruction():
    assert "vdpbf16ps" not in dots.assembly("avx512")
    assert "vfmadd" in dots.assembly("avx512")
    zen = Target("zen", 512, Processor("x86_64-unknown-linux-gnu", "znver4", "+avx512bf16"))
    rapids = Target("spr", 512, Processor(zen.triple, "sapphirerapids", "+avx512bf16"))
    assert "vdpbf16ps" in dots.assembly(zen)
    assert zen.has_fast_bfloat16_dot
    assert rapids.has_bfloat16_dot
    assert not rapids.has_fast_bfloat16_dot
    assert host().has_bfloat16_dot >= host().has_fast_bfloat16_dot


def test_other_types_are_refused():
    with pytest.raises(KernelError, match="bfloat16_dot needs pairs"):

        @kernel
        def wrong(a: ptr(f32), c: ptr(f32)):
            store(c, bfloat16_dot(load(a, 16), load(a, 16), load(c, 16)))

        wrong.compile()


@kernel
def byte_dots(a: ptr(u32), b: ptr(u32), c: ptr(i32), n: i64):
    for i in range(0, 64, 16):
        store(c + i, byte_dot(load(a + i, 16), load(b + i, 16), load(c + i, 16)))


def test_bytes_are_unsigned_times_signed_and_sums_wrap():
    generator = np.random.default_rng(4)
    a, b = (generator.integers(0, 2**32, 64, np.uint32) for _ in range(2))
    c = generator.integers(-(2**31), 2**31, 64).astype(np.int32)
    a[:2], b[:2], c[:2] = 0xFFFFFFFF, (0x7F7F7F7F, 0x80808080), (2**31 - 1, -(2**31))
    products = a.view(np.uint8).astype(np.int64) * b.view(np.int8).astype(np.int64)
    expected = (c + products.reshape(64, 4).sum(1)).astype(np.int32)
    for run in (byte_dots, byte_dots.interpret):
        out = c.copy()
        run(a, b, out, 64)
        np.testing.assert_array_equal(out, expected)


FEATURES = [
    ("+avx512vnni", 16, True), ("+avx512vnni", 8, False), ("+avx512vnni,+avx512vl", 8, True),
    ("+avxvnni", 8, True), ("+avxvnni", 16, False), ("+avx512bf16", 16, False),
]  # fmt: skip


@pytest.mark.parametrize(("features", "lanes", "expected"), FEATURES)
def test_only_processors_that_multiply_bytes_get_that_instruction(features, lanes, expected):
    processor = Processor("x86_64-unknown-linux-gnu", "x86-64", "+avx512f,+avx512bw," + features)
    target = Target("named", 512, processor)
    assert target.has_byte_dot(lanes) is expected

    @kernel
    def one(a: ptr(u32), c: ptr(i32)):
        store(c, byte_dot(load(a, lanes), load(a, lanes), load(c, lanes)))

    assert ("vpdpbusd" in one.assembly(target)) is expected


def test_bytes_of_other_types_are_refused():
    with pytest.raises(KernelError, match="byte_dot needs words of bytes"):

        @kernel
        def wrong(a: ptr(u32), c: ptr(f32)):
            store(c, byte_dot(load(a, 16), load(a, 16), load(c, 16)))

        wrong.compile()
