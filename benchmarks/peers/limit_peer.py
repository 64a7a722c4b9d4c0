"""The machine's own limits, by kernels in our kernel language, as two more peers.

BENCHMARK_LIMIT=arithmetic runs multiply-adds that never leave the registers, memory reads the
bytes that the case reads and writes those that it writes. Both run a fixed amount of work that
is large against a dispatch, at the case's working set, and scale the time to the case.
"""

from __future__ import annotations

import functools
import os
from importlib.metadata import version
from typing import Any

import numpy as np

from bedplate.devices.cpu.runner import NativePlan, Slot, Task
from bedplate.kernel import (
    constant,
    f32,
    f64,
    fma,
    host,
    i64,
    kernel,
    load,
    loop,
    ptr,
    store,
    var,
    zeros,
)
from bedplate.kernel.task import word_int, word_pointer
from benchmarks.cases import Case

VERSION = version("bedplate")
ACCUMULATORS = 24  # of 32 vector registers; two a cycle with a latency of 4 need 8
ARITHMETIC_LOOPS = 20_000
CHUNK_BYTES = 16 * 1024
LEAST_BYTES = 1 << 24


def as_arrays(results: Any) -> list[np.ndarray]:
    return []


@functools.cache
def _multiply_adds(element: Any) -> Any:
    lanes = host().lanes(element)

    @kernel
    def multiply_adds(args: ptr(i64), begin: i64, end: i64, worker: i64):  # type: ignore[valid-type]
        output = word_pointer(args, 0, element)
        factor, term = constant(element, 0.5, lanes), constant(element, 1.0, lanes)
        # different starts: equal chains would be merged into one
        sums = [var(constant(element, float(i), lanes)) for i in range(ACCUMULATORS)]
        for item in loop(begin, end):
            for _ in loop(ARITHMETIC_LOOPS):
                for total in sums:
                    total.set(fma(total.get(), factor, term))
            for index, total in enumerate(sums):
                store(output + (item * ACCUMULATORS + index) * lanes, total.get())

    return multiply_adds, lanes


@functools.cache
def _stream(reads: bool, writes: bool, nontemporal: bool) -> Any:
    lanes = host().lanes(f32)
    steps, unroll = CHUNK_BYTES // 4 // lanes // 8, 8

    @kernel
    def stream(args: ptr(i64), begin: i64, end: i64, worker: i64):  # type: ignore[valid-type]
        source, target = word_pointer(args, 0, f32), word_pointer(args, 1, f32)
        sums = [var(zeros(f32, lanes)) for _ in range(unroll)]
        for item in loop(begin, end):
            chunk = (item % word_int(args, 2)) * (CHUNK_BYTES // 4)
            for step in loop(steps):
                at = chunk + step * (unroll * lanes)
                for part in range(unroll):
                    value = sums[part].get()
                    if reads:
                        value = load(source + at + part * lanes, lanes)
                    if writes:
                        store(
                            target + at + part * lanes,
                            value,
                            aligned=True,
                            nontemporal=nontemporal,
                        )
                    else:
                        sums[part].set(sums[part].get() + value)
        if not writes:
            for part in range(unroll):
                store(target + (worker * unroll + part) * lanes, sums[part].get())

    return stream


def _plan(kernel: Any, words: list[Any], items: int, arrays: list[np.ndarray], moved: float) -> Any:
    task = Task(kernel.compile(), words, items, "limit", moved, moved)
    plan = NativePlan([[task]], 2 + len(arrays))
    slots = np.zeros(2 + len(arrays), np.int64)
    slots[2:] = [array.ctypes.data for array in arrays]

    def run() -> Any:
        plan.run(slots)
        return arrays

    return run


def _aligned(n_bytes: int) -> np.ndarray:
    whole = np.ones(n_bytes // 4 + 16, np.float32)
    start = (-whole.ctypes.data % 64) // 4
    return whole[start : start + n_bytes // 4]


def _arithmetic(case: Case) -> Any:
    element = f64 if case.parameters.get("dtype") == "float64" else f32
    kernel, lanes = _multiply_adds(element)
    items = 4 * int(os.environ.get("BEDPLATE_NUM_THREADS", "1"))
    output = np.zeros(items * ACCUMULATORS * lanes, element.name.replace("f", "float"))
    flops = 2.0 * items * ARITHMETIC_LOOPS * ACCUMULATORS * lanes
    run = _plan(kernel, [Slot(2)], items, [output], flops)
    return run, case.flops / flops


def _one_stream(n_bytes: float, reads: bool, writes: bool, nontemporal: bool) -> Any:
    """(run, bytes of one side that it moves) over buffers of `n_bytes`."""
    n_chunks = max(1, int(n_bytes) // CHUNK_BYTES)
    passes = max(1, LEAST_BYTES // (n_chunks * CHUNK_BYTES))
    arrays = [_aligned(n_chunks * CHUNK_BYTES) if used else _aligned(1 << 16)
              for used in (reads, writes)]  # fmt: skip
    items = n_chunks * passes
    words = [Slot(2), Slot(3), n_chunks]
    kernel = _stream(reads, writes, nontemporal)
    return _plan(kernel, words, items, arrays, 1e9), items * CHUNK_BYTES


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
