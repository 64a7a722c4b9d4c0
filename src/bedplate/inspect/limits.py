"""The limits of this machine, measured: multiply-adds a second, bytes a second by where they lie.

Arithmetic is chains of multiply-adds that never leave the registers. Memory is a copy, or a plain
reading, of buffers that fit a level of the caches, or none. Both with one worker and with all.
The benchmarks measure by the same kernels.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bedplate.config import config
from bedplate.devices.cpu.caches import cache_bytes
from bedplate.devices.cpu.runner import NativePlan, Slot, Task, n_workers
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
    word_int,
    word_pointer,
    zeros,
)

ACCUMULATORS = 24  # of 32 vector registers; two a cycle with a latency of 4 need 8
CHUNK_BYTES = 16 * 1024
UNROLL = 8
# of a report: large against a dispatch of 1 us, and some dozens of them in 0.3 s
ARITHMETIC_LOOPS = 4_000
LEAST_BYTES = 1 << 21
MEASURE_SECONDS = 0.006
ROUNDS = 2  # apart in time: who disturbs the one may be gone in the other
# a core's share of what is neither in its second cache nor surely in memory, and what surely is
SHARED_CACHE, MEMORY = 4, 64  # times the second cache: 4 MiB and 64 MiB where that has 1 MiB


@functools.cache
def multiply_adds(element: Any, loops: int) -> tuple[Any, int]:
    """(kernel, its flops an item): ACCUMULATORS chains of `loops` multiply-adds of vectors.

    words  the address of ACCUMULATORS vectors for each item, where the sums go
    """
    lanes = host().lanes(element)

    @kernel
    def multiply_adds(args: ptr(i64), begin: i64, end: i64, worker: i64):  # type: ignore[valid-type] - a call
        output = word_pointer(args, 0, element)
        factor, term = constant(element, 0.5, lanes), constant(element, 1.0, lanes)
        # different starts: equal chains would be merged into one
        sums = [var(constant(element, float(i), lanes)) for i in range(ACCUMULATORS)]
        for item in loop(begin, end):
            for _ in loop(loops):
                for total in sums:
                    total.set(fma(total.get(), factor, term))
            for index, total in enumerate(sums):
                store(output + (item * ACCUMULATORS + index) * lanes, total.get())

    return multiply_adds, 2 * loops * ACCUMULATORS * lanes


@functools.cache
def stream(reads: bool, writes: bool, nontemporal: bool) -> Any:
    """A kernel that reads, writes or copies: item i takes chunk i of CHUNK_BYTES, round and round.

    words  source, target, number of chunks; a reading leaves its sums at the target
    """
    lanes = host().lanes(f32)
    steps = CHUNK_BYTES // 4 // lanes // UNROLL

    @kernel
    def stream(args: ptr(i64), begin: i64, end: i64, worker: i64):  # type: ignore[valid-type] - a call
        source, target = word_pointer(args, 0, f32), word_pointer(args, 1, f32)
        sums = [var(zeros(f32, lanes)) for _ in range(UNROLL)]
        for item in loop(begin, end):
            chunk = (item % word_int(args, 2)) * (CHUNK_BYTES // 4)
            for step in loop(steps):
                at = chunk + step * (UNROLL * lanes)
                for part in range(UNROLL):
                    here = at + part * lanes
                    value = load(source + here, lanes) if reads else sums[part].get()
                    if writes:
                        store(target + here, value, aligned=True, nontemporal=nontemporal)
                    else:
                        sums[part].set(sums[part].get() + value)
        if not writes:
            for part in range(UNROLL):
                store(target + (worker * UNROLL + part) * lanes, sums[part].get())

    return stream


def aligned(n_bytes: int) -> np.ndarray[Any, Any]:
    """Ones in float32 at an address that 64 divides."""
    whole = np.ones(n_bytes // 4 + 16, np.float32)
    start = (-whole.ctypes.data % 64) // 4
    return whole[start : start + n_bytes // 4]


def plan_of(
    kernel: Any, words: list[Any], items: int, arrays: list[np.ndarray[Any, Any]], work: float
) -> Callable[[], Any]:
    """A function that runs one kernel over `items`; Slot(2) and on are the arrays.

    work  flops or bytes of it all, so that it is shared
    """
    task = Task(kernel.compile(), words, items, "limit", work, work)
    plan = NativePlan([[task]], 2 + len(arrays))
    slots = np.zeros(2 + len(arrays), np.int64)
    slots[2:] = [array.ctypes.data for array in arrays]

    def run() -> Any:
        plan.run(slots)
        return arrays

    return run


@dataclass(frozen=True)
class Bandwidth:
    """Bytes a second over a working set of `nbytes`: of a copy (both ways), and of a reading."""

    nbytes: int
    copy: float
    read: float


@dataclass(frozen=True)
class Limits:
    """What so many workers reach.

    workers     how many
    flops       a second, by bytes of an element: 4 or 8
    bandwidths  from small working sets to large ones
    """

    workers: int
    flops: dict[int, float]
    bandwidths: list[Bandwidth] = field(default_factory=list)

    def bandwidth(self, nbytes: float, reads_only: bool = False) -> float:
        """Bytes a second of a working set, between those that were measured by its logarithm."""
        sizes = [math.log(b.nbytes) for b in self.bandwidths]
        rates = [max(b.copy, b.read) if reads_only else b.copy for b in self.bandwidths]
        return float(np.interp(math.log(max(nbytes, 1.0)), sizes, rates))


@dataclass(frozen=True)
class Machine:
    """The limits of one worker, and of all."""

    one: Limits
    all: Limits

    def of(self, several: bool) -> Limits:
        return self.all if several else self.one


def measure() -> Machine:
    """Measure this machine: the best of ROUNDS.

    cost  about 0.3 s
    """
    with config(threads=False):
        one = _measure(1)
    count = n_workers()
    everyone = _measure(count) if count > 1 else one
    for _ in range(ROUNDS - 1):
        with config(threads=False):
            one = _no_less(_measure(1), one)
        if count > 1:
            everyone = _no_less(_measure(count), everyone)
    return Machine(one, _no_less(everyone, one) if count > 1 else one)


def _no_less(found: Limits, other: Limits) -> Limits:
    """Limits that are no less than others: of another round, or of fewer workers."""
    flops = {size: max(rate, other.flops[size]) for size, rate in found.flops.items()}
    rates = [
        Bandwidth(b.nbytes, max(b.copy, other.bandwidth(b.nbytes)),
                  max(b.read, other.bandwidth(b.nbytes, reads_only=True)))
        for b in found.bandwidths
    ]  # fmt: skip
    return Limits(found.workers, flops, rates)


def _measure(workers: int) -> Limits:
    flops = {4: _arithmetic(f32, workers), 8: _arithmetic(f64, workers)}
    second = cache_bytes(2)
    sizes = [second // 2 * workers, second * SHARED_CACHE, second * MEMORY]
    bandwidths = [_bandwidth(size, size >= second * MEMORY) for size in sorted(set(sizes))]
    return Limits(workers, flops, bandwidths)


def _arithmetic(element: Any, workers: int) -> float:
    kernel, flops = multiply_adds(element, ARITHMETIC_LOOPS)
    items = 4 * workers
    output = aligned(items * ACCUMULATORS * host().lanes(element) * element.itemsize)
    return items * flops / _best(plan_of(kernel, [Slot(2)], items, [output], 1e9))


def _bandwidth(n_bytes: int, far: bool) -> Bandwidth:
    read = _stream_rate(n_bytes, True, False, False)
    copies = [_stream_rate(n_bytes // 2, True, True, False)]
    if far:  # stores that pass the caches by save a reading of what they overwrite
        copies.append(_stream_rate(n_bytes // 2, True, True, True))
    return Bandwidth(n_bytes, 2 * max(copies), read)


def _stream_rate(n_bytes: int, reads: bool, writes: bool, nontemporal: bool) -> float:
    """Bytes of one side a second."""
    n_chunks = max(1, n_bytes // CHUNK_BYTES)
    items = n_chunks * max(1, LEAST_BYTES // (n_chunks * CHUNK_BYTES))
    sizes = [n_chunks * CHUNK_BYTES, n_chunks * CHUNK_BYTES if writes else 1 << 16]
    words = [Slot(2), Slot(3), n_chunks]
    run = plan_of(
        stream(reads, writes, nontemporal), words, items, [aligned(n) for n in sizes], 1e9
    )
    return items * CHUNK_BYTES / _best(run)


def _best(run: Callable[[], Any]) -> float:
    """Seconds of the quickest run, of as many as fit into MEASURE_SECONDS and two at least."""
    run()
    best, ends = math.inf, time.perf_counter() + MEASURE_SECONDS
    for turn in range(1000):
        begin = time.perf_counter()
        run()
        now = time.perf_counter()
        best = min(best, now - begin)
        if now > ends and turn:
            break
    return best
