"""A legalised program gives what the traced one gives, and has only what devices have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bedplate.errors import KernelError
from bedplate.kernel import (
    bf16,
    bfloat16_dot,
    bitcast,
    call,
    call_pointer,
    cast,
    constant,
    extern,
    extract,
    f16,
    f32,
    f64,
    gather,
    give_back,
    i8,
    i32,
    i64,
    insert,
    iota,
    kernel,
    load,
    local,
    loop,
    maximum,
    minimum,
    mul_high,
    otherwise,
    pause,
    prefetch,
    ptr,
    reduce_add,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_mul,
    reduce_or,
    scatter,
    select,
    shuffle,
    splat,
    store,
    tail_mask,
    u8,
    u16,
    u32,
    u64,
    var,
    vec,
    when,
)
from bedplate.kernel.arguments import numpy_dtype
from bedplate.kernel.device.legalise import legalise
from bedplate.kernel.device.split import WIDEST
from bedplate.kernel.ir import all_instructions, all_programs
from bedplate.kernel.machine import interpret

LANES = (1, 2, 16, 32, 64)
ILLEGAL = {"gather", "scatter", "prefetch", "pause", "bfloat16_dot"}


def assert_legal(program: Any) -> None:
    """No wide vector, no masked vector access, no hint."""
    for each in all_programs(program):
        for instruction in all_instructions(each.body):
            types = [instruction.type, *(operand.type for operand in instruction.operands)]
            assert all(t is None or t.lanes in (0, *range(2, WIDEST + 1)) for t in types)
            assert instruction.op not in ILLEGAL
            if instruction.op in ("load_masked", "store_masked"):
                assert not any(t is not None and t.lanes for t in types)


def assert_same_results(function: Any, *arguments: Any) -> None:
    """Interpreted as traced and as legalised, the arrays end equal, bit by bit."""
    program = function.ir
    legal = legalise(program)
    assert_legal(legal)
    results = []
    for each in (program, legal):
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
        given = interpret(each, tuple(copies))
        arrays = [x.tobytes() for x in copies if isinstance(x, np.ndarray)]
        results.append((arrays, given))
    assert results[0] == results[1]


def numbers(type_: Any, count: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(count)
    dtype = numpy_dtype(type_)
    if type_.is_float:
        values = generator.standard_normal(count) * 100
        values[0] = np.nan
        return values.astype(dtype)
    info = np.iinfo(dtype)
    return generator.integers(info.min, info.max, count, dtype, endpoint=True)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("type_", [f32, f16, i8, u64])
def test_arithmetic_masks_and_lanes(type_: Any, lanes: int) -> None:
    @kernel
    def run(x: ptr(type_), n: i64, out: ptr(type_), bits: ptr(u8)):
        mask = tail_mask(n, lanes)
        a = load(x, lanes, mask=mask, other=3)
        b = load(x + lanes, lanes)
        total = select(a < b, a + b, minimum(a, b) * a)
        total = insert(total, n, extract(b, n + 5))
        total = insert(total, lanes - 1, extract(total, lanes // 2))
        best = var(maximum(total, iota(type_, lanes)))
        with when(n > 7):
            best.set(best.get() - splat(extract(b, 0), lanes))
        with otherwise():
            best.set(constant(type_, 2, lanes))
        store(out, best.get(), mask=mask)
        store(bits, cast(mask, u8))

    for count in (0, 5, lanes - 1, lanes, 200, -(1 << 63)):
        x, out = numbers(type_, 2 * lanes), np.zeros(lanes, numpy_dtype(type_))
        assert_same_results(run, x, count, out, np.zeros(lanes, np.uint8))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("type_", [f32, bf16, u16, i64])
def test_reductions_keep_their_tree(type_: Any, lanes: int) -> None:
    @kernel
    def run(x: ptr(type_), out: ptr(type_)):
        a = load(x, lanes)
        kinds = [reduce_add, reduce_mul, reduce_min, reduce_max]
        kinds += [] if type_.is_float else [reduce_and, reduce_or]
        for place, kind in enumerate(kinds):
            store(out + place, kind(a))

    assert_same_results(run, numbers(type_, lanes), np.zeros(6, numpy_dtype(type_)))


@pytest.mark.parametrize("lanes", LANES)
def test_gather_and_scatter(lanes: int) -> None:
    @kernel
    def run(x: ptr(f32), places: ptr(u8), n: i64, out: ptr(f32)):
        where, mask = load(places, lanes), tail_mask(n, lanes)
        some = gather(x, where, mask=mask, other=-1.0)
        every = gather(x, where)
        scatter(out, where, some + every, mask=mask)
        scatter(out + 256, where, every)

    places = np.random.default_rng(0).integers(0, 255, lanes, np.uint8, endpoint=True)
    for count in (0, lanes // 2, lanes):
        assert_same_results(run, numbers(f32, 256), places, count, np.zeros(512, np.float32))


@pytest.mark.parametrize("lanes", [2, 8, 32, 64])
def test_shuffles_across_parts(lanes: int) -> None:
    order = np.random.default_rng(lanes).permutation(2 * lanes).tolist()

    @kernel
    def run(x: ptr(i32), out: ptr(i32)):
        a, b = load(x, lanes), load(x + lanes, lanes)
        store(out, shuffle(a, b, order))
        store(out + 2 * lanes, shuffle(a, None, [i % lanes for i in order[: lanes // 2]]))
        store(out + 3 * lanes, shuffle(a, b, [*range(0, lanes, 2), *range(lanes, 2 * lanes, 2)]))
        store(out + 5 * lanes, shuffle(a, b, [order[0]]))

    assert_same_results(run, numbers(i32, 2 * lanes), np.zeros(6 * lanes, np.int32))


@pytest.mark.parametrize(
    ("source", "target", "lanes"),
    [(u16, u32, 2), (u16, u32, 32), (u8, u64, 8), (u8, u64, 64), (u16, u32, 64), (f64, f32, 16)],
)
def test_bitcast_to_elements_of_another_width(source: Any, target: Any, lanes: int) -> None:
    to = lanes * source.bits // target.bits

    @kernel
    def run(x: ptr(source), out: ptr(target), back: ptr(source)):
        there = bitcast(load(x, lanes), vec(target, to))
        store(out, there)
        store(back, bitcast(there, vec(source, lanes)))

    x = numbers(source, lanes)
    assert_same_results(run, x, np.zeros(to, numpy_dtype(target)), np.zeros_like(x))


@pytest.mark.parametrize("type_", [i64, u64, i32])
@pytest.mark.parametrize("lanes", [None, 8])
def test_high_products(type_: Any, lanes: int | None) -> None:
    @kernel
    def run(x: ptr(type_), y: ptr(type_), out: ptr(type_)):
        for i in loop(0, 64, lanes or 1):
            store(out + i, mul_high(load(x + i, lanes), load(y + i, lanes)))
        store(out + 64, mul_high(load(x), 7))

    x, y = numbers(type_, 64), numbers(type_, 65)[:64].copy()
    info = np.iinfo(x.dtype)
    x[:6] = [0, 1, info.max, info.min, info.max, info.min]
    y[:6] = [info.max, info.max, info.max, info.min, info.min, 1]
    assert_same_results(run, x, y, np.zeros(65, x.dtype))


def test_nan_and_infinity_as_integers() -> None:
    @kernel
    def run(x: ptr(f32), out: ptr(i32)):
        store(out, cast(load(x, 32), i32))
        store(out + 32, cast(cast(load(x + 3), bf16), i32))

    x = numbers(f32, 32)
    x[1:4] = [np.inf, -np.inf, 3e9]
    assert_same_results(run, x, np.zeros(33, np.int32))


def test_pairs_of_bfloat16_with_subnormals_as_zeros() -> None:
    @kernel
    def run(a: ptr(u32), b: ptr(u32), c: ptr(f32)):
        store(c, bfloat16_dot(load(a, 32), load(b, 32), load(c, 32)))

    a, b = numbers(u32, 32), numbers(u32, 33)[:32].copy()
    a[:4], b[:4] = [1, 0x00010001, 0x3F80, 0x3F803F80], [0x3F803F80, 0x7F7F7F7F, 1, 0x00400040]
    c = numbers(f32, 32)
    c[:2] = [1e-40, 0]
    assert_same_results(run, a, b, c)


def test_calls_locals_and_hints() -> None:
    @kernel
    def inner(x: vec(f32, 32), y: ptr(f32), one: vec(f32, 1)) -> f32:
        pause()
        store(y, x * splat(extract(one, 0), 32))
        give_back(reduce_add(x))

    @kernel
    def run(x: ptr(f32), out: ptr(f32)):
        place = local(f32, 32)
        prefetch(x)
        total = call(inner, load(x, 32), place, load(x, 1))
        for i in loop(0, 32, 8):
            store(out + i, load(place + i, 8) + total)

    x = numbers(f32, 32)
    x[0] = 2
    assert_same_results(run, x, np.zeros(32, np.float32))


def test_what_no_device_has_is_refused_at_its_line() -> None:
    getpid = extern("getpid", i32, ())

    @kernel
    def outside() -> i32:
        give_back(getpid())

    @kernel
    def address(code: i64):
        call_pointer(code, ())

    @kernel
    def wide(x: ptr(f32)) -> vec(f32, 32):
        give_back(load(x, 32))

    with pytest.raises(KernelError, match=r"kernel outside: extern: a device cannot call functions"
                       r" of this process\n  at .*test_legalise.py"):  # fmt: skip
        legalise(outside.ir)
    with pytest.raises(KernelError, match="cannot call machine code of this process"):
        legalise(address.ir)
    with pytest.raises(KernelError, match="kernel wide: gives back 32 lanes, devices have 16"):
        legalise(wide.ir)
