"""The machine's own limits, by kernels in our kernel language, as two more peers.

BENCHMARK_LIMIT=arithmetic runs multiply-adds that never leave the registers, memory reads the
bytes that the case reads and writes those that it writes. Both run a fixed amount of work that
is large against a dispatch, at the case's working set, and scale the time to the case.
"""

from __future__ import annotations

import functools
import os
import time
from importlib.metadata import version
from typing import Any

import numpy as np

from bedplate.devices.cpu.runner import Slot
from bedplate.inspect.limits import (
    ACCUMULATORS,
    CHUNK_BYTES,
    aligned,
    multiply_adds,
    plan_of,
    stream,
)
from bedplate.kernel import (
    bfloat16_dot,
    byte_dot,
    constant,
    f32,
    f64,
    host,
    i32,
    i64,
    kernel,
    loop,
    ptr,
    store,
    u32,
    var,
)
from bedplate.kernel.task import word_pointer
from benchmarks.cases import Case

VERSION = version("bedplate")
ARITHMETIC_LOOPS = 20_000
# of a stream: less is repeated, of more a part is measured, which no cache holds either
LEAST_BYTES, MOST_BYTES = 1 << 24, 1 << 29


def as_arrays(results: Any) -> list[np.ndarray]:
    return []


@functools.cache
def _dots(dot: Any, total: Any, word: int, flops: int, loops: int) -> tuple[Any, int]:
    """Like `multiply_adds`, by a dot instruction of the processor.

    dot    of the kernel language
    total  what it adds to
    word   what it multiplies by itself
    flops  of each word
    """
    lanes = host().lanes(total)

    @kernel
    def dots(args: ptr(i64), begin: i64, end: i64, worker: i64):  # type: ignore[valid-type] - a call
        output = word_pointer(args, 0, total)
        words = constant(u32, word, lanes)
        sums = [var(constant(total, i, lanes)) for i in range(ACCUMULATORS)]
        for item in loop(begin, end):
            for _ in loop(loops):
                for each in sums:
                    each.set(dot(words, words, each.get()))
            for index, each in enumerate(sums):
                store(output + (item * ACCUMULATORS + index) * lanes, each.get())

    return dots, flops * loops * ACCUMULATORS * lanes


def _arithmetic(case: Case) -> Any:
    dtype = case.parameters.get("dtype")
    if dtype == "int8":
        return _bytes_multiplied(case)
    element = f64 if dtype == "float64" else f32
    plain = _multiplied(case, element, *multiply_adds(element, ARITHMETIC_LOOPS))
    if dtype != "bfloat16" or not host().has_bfloat16_dot:
        return plain
    pairs = _dots(bfloat16_dot, f32, 0x3F003F00, 4, ARITHMETIC_LOOPS)  # 0.5, 0.5
    # the quicker of both: on some processors widening to float32 is
    return min(plain, _multiplied(case, f32, *pairs), key=_seconds)


def _bytes_multiplied(case: Case) -> Any:
    """Nothing where the processor has no instruction for it: then memory alone is the limit."""
    if not host().has_byte_dot(host().lanes(i32)):
        return None
    return _multiplied(case, i32, *_dots(byte_dot, i32, 0x03020100, 8, ARITHMETIC_LOOPS))


def _seconds(found: Any) -> float:
    run, factor = found
    run()
    start = time.perf_counter()
    run()
    return factor * (time.perf_counter() - start)


def _multiplied(case: Case, element: Any, made: Any, item_flops: int) -> Any:
    items = 4 * int(os.environ.get("BEDPLATE_NUM_THREADS", "1"))
    output = aligned(items * ACCUMULATORS * host().lanes(element) * element.itemsize)
    flops = float(items * item_flops)
    run = plan_of(made, [Slot(2)], items, [output], flops)
    return run, case.flops / flops


def _one_stream(n_bytes: float, reads: bool, writes: bool, nontemporal: bool) -> Any:
    """(run, bytes of one side that it moves) over buffers of `n_bytes`."""
    n_chunks = max(1, int(min(n_bytes, MOST_BYTES)) // CHUNK_BYTES)
    passes = max(1, LEAST_BYTES // (n_chunks * CHUNK_BYTES))
    arrays = [aligned(n_chunks * CHUNK_BYTES) if used else aligned(1 << 16)
              for used in (reads, writes)]  # fmt: skip
    items = n_chunks * passes
    words = [Slot(2), Slot(3), n_chunks]
    kernel = stream(reads, writes, nontemporal)
    return plan_of(kernel, words, items, arrays, 1e9), items * CHUNK_BYTES


def _memory(case: Case) -> Any:
    read, written = case.moved
    nontemporal = "BENCHMARK_NONTEMPORAL" in os.environ
    if written < read / 100:
        run, moved = _one_stream(read, True, False, False)
        return run, read / moved
    run, moved = _one_stream((read + written) / 2, True, True, nontemporal)
    return run, (read + written) / 2 / moved


def any_case(case: Case) -> Any:
    """(run, factor): the time of run x factor is the least time that the case can take."""
    arithmetic = os.environ["BENCHMARK_LIMIT"] == "arithmetic"
    if not (case.flops if arithmetic else sum(case.moved)):
        return None
    return _arithmetic(case) if arithmetic else _memory(case)
