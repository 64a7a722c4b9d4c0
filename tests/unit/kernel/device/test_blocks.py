"""Blocks of threads: what lanes do together, and what the interpreter says of those who miss it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from bedplate.errors import KernelBoundsError, KernelError
from bedplate.kernel import (
    bf16,
    block_barrier,
    call,
    cast,
    extract,
    f16,
    f32,
    f64,
    from_lane,
    i64,
    kernel,
    load,
    load_matrices,
    loop,
    mma,
    ptr,
    shared,
    store,
    thread_lane,
    thread_warp,
    vec,
    warp_barrier,
    when,
    word_pointer,
    zeros,
)
from bedplate.kernel.blocks import warps_of
from bedplate.kernel.device.ptx import ARCHITECTURES, make_ptx, ptx_text
from bedplate.kernel.device.spirv import spirv_text
from bedplate.kernel.read import read_program

NARROW = {bf16: ml_dtypes.bfloat16, f16: np.float16}


def make_mma(element: Any) -> Any:
    @kernel
    def multiply(a: ptr(element), b: ptr(element), c: ptr(f32), d: ptr(f32)):
        lane = thread_lane()
        given = mma(load(a + lane * 8, 8), load(b + lane * 4, 4), load(c + lane * 4, 4))
        store(d + lane * 4, given)

    return multiply


def elements_of_a(lane: int, i: int) -> tuple[int, int]:
    """(row, column) as the PTX ISA has it for .m16n8k16 with elements of 16 bits."""
    group, in_group = lane >> 2, lane % 4
    row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
    return row, in_group * 2 + (i & 1) + (8 if i >= 4 else 0)


def elements_of_b(lane: int, i: int) -> tuple[int, int]:
    return (lane % 4) * 2 + (i & 1) + (8 if i >= 2 else 0), lane >> 2


def elements_of_c(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)


def spread(matrix: Any, places: Any, count: int) -> Any:
    """A matrix as lanes hold it: (32, count)."""
    return np.array([[matrix[places(lane, i)] for i in range(count)] for lane in range(32)])


@pytest.mark.parametrize("element", NARROW)
def test_a_product_of_fragments(element: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=size).astype(NARROW[element]) for size in ((16, 16), (16, 8)))
    c = rng.normal(size=(16, 8)).astype(np.float32)
    d = np.zeros((32, 4), np.float32)
    make_mma(element).interpret(
        spread(a, elements_of_a, 8), spread(b, elements_of_b, 4), spread(c, elements_of_c, 4), d
    )
    expected = (c.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)).astype("f4")
    np.testing.assert_array_equal(d, spread(expected, elements_of_c, 4))


@pytest.mark.parametrize("element", NARROW)
def test_every_lane_and_element_has_its_place(element: Any) -> None:
    """One element of a and its whole row of c at a time: 256 products of one number."""
    multiply = make_mma(element)
    b = np.arange(1, 129, dtype=np.float64).reshape(16, 8)
    given_b, nothing = spread(b, elements_of_b, 4).astype(NARROW[element]), np.zeros((32, 4), "f4")
    for place in range(0, 256, 15):
        lane, i = divmod(place, 8)
        a, d = np.zeros((32, 8), NARROW[element]), np.zeros((32, 4), np.float32)
        a[lane, i] = 2
        multiply.interpret(a, given_b, nothing, d)
        row, k = elements_of_a(lane, i)
        expected = np.zeros((16, 8))
        expected[row] = 2 * b[k]
        np.testing.assert_array_equal(d, spread(expected, elements_of_c, 4))


def test_nan_and_infinity_stay_in_their_row() -> None:
    a, b = np.ones((16, 16), ml_dtypes.bfloat16), np.ones((16, 8), ml_dtypes.bfloat16)
    a[3, 5], a[4, 1], a[5, 0], a[5, 1] = np.nan, np.inf, np.inf, -np.inf
    d = np.zeros((32, 4), np.float32)
    make_mma(bf16).interpret(
        spread(a, elements_of_a, 8), spread(b, elements_of_b, 4), np.zeros((32, 4), "f4"), d
    )
    expected = np.full((16, 8), 16.0)
    expected[3], expected[4], expected[5] = np.nan, np.inf, np.nan
    np.testing.assert_array_equal(d, spread(expected, elements_of_c, 4))


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_from_shared_memory(transposed: bool) -> None:
    @kernel
    def deal(x: ptr(f16), y: ptr(f16)):
        lane = thread_lane()
        rows = shared(f16, 4 * 64)
        store(rows + lane * 8, load(x + lane * 8, 8))
        block_barrier()
        store(y + lane * 8, load_matrices(rows + lane * 8, transposed))

    x = np.arange(256).astype(np.float16).reshape(4, 8, 8)
    y = np.zeros((32, 4, 2), np.float16)
    deal.interpret(x, y)
    for lane in range(32):
        for m in range(4):
            matrix = x[m].T if transposed else x[m]
            first = lane % 4 * 2
            assert y[lane, m].tolist() == matrix[lane // 4, first : first + 2].tolist()


def test_values_of_other_lanes() -> None:
    @kernel
    def turn(x: ptr(f32)):
        lane = thread_lane()
        store(x + lane, from_lane(load(x + lane), lane + 5))

    x = np.arange(32, dtype=np.float32)
    turn.interpret(x)
    assert x.tolist() == [(lane + 5) % 32 for lane in range(32)]


def test_a_block_of_several_warps() -> None:
    @kernel
    def reverse(x: ptr(i64)):
        thread = thread_warp(3) * 32 + thread_lane()
        all_of_it = shared(i64, 96)
        store(all_of_it + thread, load(x + thread))
        block_barrier()
        store(x + thread, load(all_of_it + (95 - thread)))

    x = np.arange(96)
    reverse.interpret(x)
    assert x.tolist() == list(range(95, -1, -1))
    assert warps_of(reverse.ir) == 3


def test_a_lane_that_does_not_come() -> None:
    @kernel
    def absent(x: ptr(f32)):
        lane = thread_lane()
        with when(lane != 7):
            store(x + lane, from_lane(load(x + lane), 0))

    with pytest.raises(KernelError, match=r"from_lane at .*: not all threads come to it\n"
                       r"  thread 0  is there\n  thread 7  has ended"):  # fmt: skip
        absent.interpret(np.zeros(32, np.float32))


def test_a_warp_that_waits_elsewhere() -> None:
    @kernel
    def apart(x: ptr(f32)):
        lane = thread_lane()
        with when(thread_warp(2) == 0):
            block_barrier()
        with when(thread_warp(2) == 1):
            block_barrier()
        store(x + lane, 1.0)

    with pytest.raises(KernelError, match="thread 32  is at block_barrier"):
        apart.interpret(np.zeros(32, np.float32))


def test_a_lane_that_misses_its_warp() -> None:
    @kernel
    def absent(x: ptr(f32)):
        with when(thread_lane() < 31):
            warp_barrier()

    with pytest.raises(KernelError, match=r"warp_barrier at .*\n.*\n  thread 31  has ended"):
        absent.interpret(np.zeros(1, np.float32))


def test_a_failure_of_one_thread_ends_all() -> None:
    @kernel
    def outside(x: ptr(f32)):
        store(x + thread_lane(), 1.0)
        block_barrier()

    with pytest.raises(KernelBoundsError, match="31 elements of 4 bytes\n  index  31"):
        outside.interpret(np.zeros(31, np.float32))


def make_racing(reads: bool) -> Any:
    @kernel
    def racing(x: ptr(f32)):
        lane = thread_lane()
        place = shared(f32, 33)
        store(place + (lane if reads else 0), load(x + lane))
        if reads:
            with when(lane > 0):
                store(x + lane, load(place + (lane - 1)))

    return racing


@pytest.mark.parametrize("reads", [False, True])
def test_shared_memory_without_a_barrier(reads: bool) -> None:
    with pytest.raises(KernelError, match="thread 1 and thread 0 use the same shared memory"):
        make_racing(reads).interpret(np.zeros(32, np.float32))


def test_rows_of_matrices_are_checked() -> None:
    @kernel
    def misplaced(by: i64):
        rows = shared(bf16, 256)
        for i in loop(8):
            store(rows + thread_lane() * 8 + i, cast(thread_lane(), bf16))
        block_barrier()
        load_matrices(rows + thread_lane() * 8 + by)

    with pytest.raises(KernelError, match="the address is 2 past a multiple of 16 bytes"):
        misplaced.interpret(1)
    with pytest.raises(KernelBoundsError, match="256 elements of 2 bytes"):
        misplaced.interpret(8)


def test_only_gpus_have_warps() -> None:
    @kernel
    def task(args: ptr(i64), begin: i64, end: i64, worker: i64):
        store(word_pointer(args, 0, i64) + thread_lane(), begin)

    with pytest.raises(KernelError, match=r"thread_lane: host has no warps\n  at .*test_blocks"):
        task.compile()
    with pytest.raises(KernelError, match=r"thread_lane: .* has no warps"):
        spirv_text(task.ir, "task")


def test_wrong_words_are_refused() -> None:
    def traced(body: Any) -> Any:
        @kernel
        def wrong(x: ptr(f64)):
            body(x)

        return wrong.ir

    for body, text in (
        (lambda x: thread_warp(0), "a block of 0 warps"),
        (lambda x: thread_warp(33), "legal: 1 to 32"),
        (lambda x: shared(f32, thread_lane()), "a size known under trace"),
        (lambda x: shared(f32, 12 * 1024 + 1), "shared arrays of 49216 bytes"),
        (lambda x: from_lane(load(x), 0), "from_lane exchanges 32 bits"),
        (lambda x: load_matrices(x), "load_matrices reads 16-bit floats"),
        (lambda x: mma(zeros(f32, 8), zeros(bf16, 4), 0.0), r"mma: wrong a"),
        (lambda x: mma(zeros(bf16, 8), zeros(bf16, 8), 0.0), r"mma: wrong b"),
        (lambda x: mma(zeros(bf16, 8), zeros(f16, 4), 0.0), "mma mixes two types"),
        (lambda x: mma(zeros(bf16, 8), zeros(bf16, 4), load(x)), "c of mma has the wrong type"),
    ):
        with pytest.raises(KernelError, match=text):
            traced(body)


def test_one_size_of_block() -> None:
    @kernel
    def four(x: ptr(i64)):
        store(x, thread_warp(4))

    @kernel
    def two(x: ptr(i64)):
        call(four, x)
        store(x, thread_warp(2))

    with pytest.raises(KernelError, match="blocks of 2, 4 warps"):
        two.interpret(np.zeros(1, np.int64))


@kernel
def everything(args: ptr(i64), begin: i64, end: i64, worker: i64):
    lane = thread_lane() + thread_warp(2) * 32
    x, y = word_pointer(args, 0, bf16), word_pointer(args, 1, f32)
    rows = shared(bf16, 512)
    for item in loop(begin, end):
        store(rows + lane * 8, load(x + item * 512 + lane * 8, 8))
        block_barrier()
        a = load_matrices(rows + lane * 8)
        b = load_matrices(rows + lane * 8, transposed=True)
        c = mma(a, load(x, 4), zeros(f32, 4))
        warp_barrier()
        store(y + lane, from_lane(extract(c, 0) + cast(extract(b, 7), f32), lane ^ 1))
        block_barrier()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_text_of_a_block(name: str) -> None:
    ptx = make_ptx(ptx_text(everything.ir, "entry", name))
    for word in (".reqntid 64", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "bar.sync",
                 "bar.warp.sync",
                 "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m8n8.x4.trans",
                 "shfl.sync.idx.b32"):  # fmt: skip
        assert word in ptx, word


def test_what_prints_can_be_read_back() -> None:
    text = str(everything.ir)
    assert str(read_program(text)) == text
    assert vec(bf16, 8).name in text
