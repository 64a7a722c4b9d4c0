"""Every instruction of the language has a way to SPIR-V, or is refused; the same text each time."""

from __future__ import annotations

from typing import Any

import pytest

from bedplate.kernel import (
    atomic_add,
    atomic_cas,
    atomic_exchange,
    atomic_load,
    atomic_store,
    bfloat16_dot,
    bitcast,
    byte_dot,
    call,
    cast,
    ceil,
    copysign,
    ctlz,
    cttz,
    extract,
    f32,
    fence,
    floor,
    fma,
    gather,
    give_back,
    i32,
    i64,
    insert,
    iota,
    kernel,
    load,
    local,
    maximum,
    minimum,
    mul_high,
    pause,
    popcount,
    prefetch,
    ptr,
    quotient,
    raw_max,
    raw_min,
    reduce_add,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_mul,
    reduce_or,
    remainder,
    round_even,
    scale,
    scatter,
    select,
    shuffle,
    splat,
    sqrt,
    store,
    tail_mask,
    trunc,
    u32,
    var,
    word_pointer,
)
from bedplate.kernel.device.legalise import REFUSED
from bedplate.kernel.device.spirv import make_spirv, spirv_text
from bedplate.kernel.instructions import OPERATIONS
from bedplate.kernel.instructions.blocks import BLOCK_OPS
from bedplate.kernel.ir import all_instructions, all_programs

LANES = 32


def floats(args: Any, worker: Any) -> None:
    x = word_pointer(args, 0, f32)
    a, b = load(x, LANES), load(x + LANES, LANES, mask=tail_mask(worker, LANES))
    a = a + b * a - a / b // b % a
    a = remainder(fma(a, -b, abs(a)), maximum(b, minimum(a, 1)))
    a = copysign(raw_min(a, raw_max(b, floor(a))), ceil(trunc(round_even(sqrt(a)))))
    a = scale(a, trunc(b)) + cast(iota(i32, LANES), f32)
    a = select((a < b) | (a <= b), a, shuffle(b, None, range(LANES)))
    a = insert(a, worker, extract(b, 3)) + gather(x, iota(i32, LANES), mask=a > 0)
    for kind in (reduce_add, reduce_mul, reduce_min, reduce_max):
        a = a * splat(kind(a), LANES)
    scatter(x, iota(i32, LANES), a, mask=(a == b) ^ (a != b) ^ (a >= 1))
    store(x, a, mask=~(a < 0))
    place, total = local(f32, 4), var(extract(a, 0))
    prefetch(x)
    store(place, total.get())
    total.set(load(place) + 1)
    store(x, total.get())


def integers(args: Any) -> None:
    x = word_pointer(args, 1, u32)
    a = mul_high(load(x, LANES), load(x + LANES, LANES)) >> 3 << 2 & 7
    a = popcount(a) + ctlz(a) + cttz(quotient(a, load(x, LANES)))
    c = byte_dot(a, a, bitcast(bfloat16_dot(a, a, bitcast(a, f32)), i32))
    store(x, cast(c, u32) + splat(reduce_and(a) + reduce_or(a), LANES))
    atomic_store(x, atomic_add(x, 1) + atomic_exchange(x, 2) + atomic_cas(x, 2, atomic_load(x)))
    fence()
    pause()


def test_every_instruction_has_a_way() -> None:
    @kernel
    def inner(x: i64) -> i64:
        give_back(x + 1)

    @kernel
    def task(args: ptr(i64), begin: i64, end: i64, worker: i64):
        floats(args, call(inner, worker))
        integers(args)

    used = {
        instruction.op
        for program in all_programs(task.ir)
        for instruction in all_instructions(program.body)
    }
    assert used | set(REFUSED) | set(BLOCK_OPS) == set(OPERATIONS)
    text = spirv_text(task.ir, "every")
    assert text == spirv_text(task.ir, "every")
    assert "masked" not in text and "x86" not in text
    for _ in range(3):
        assert make_spirv(text) == make_spirv(text)


@pytest.mark.parametrize("number", range(20))
def test_no_number_is_given_twice(number: int) -> None:
    """What LLVM does to the second module of a process, were it not written in one of its own."""

    @kernel
    def task(args: ptr(i64), begin: i64, end: i64, worker: i64):
        x = word_pointer(args, number, f32)
        with_all = load(x) * number
        store(x, with_all)

    content = make_spirv(spirv_text(task.ir, "task"))
    words = [int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content), 4)]
    defined, place = [], 5
    while place < len(words):
        length, opcode = words[place] >> 16, words[place] & 0xFFFF
        if opcode == 248 or 19 <= opcode <= 33:  # OpLabel
            defined.append(words[place + 1])
        elif opcode in (43, 46, 54, 55, 61, 128, 132, 133, 134, 137):  # with a type before it
            defined.append(words[place + 2])
        place += length
    assert len(defined) > 10 and len(set(defined)) == len(defined)
