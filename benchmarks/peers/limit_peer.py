"""The machine's own limits, by kernels in our kernel language, as two more peers.

BENCHMARK_LIMIT=arithmetic runs multiply-adds that never leave the registers, memory reads the
bytes that the case reads and writes those that it writes. Both run a fixed amount of work that
is large against a dispatch, at the case's working set, and scale the time to the case.
"""

from __future__ import annotations

import os
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
from bedplate.kernel import f32, f64, host
from benchmarks.cases import Case

VERSION = version("bedplate")
ARITHMETIC_LOOPS = 20_000
# of a stream: less is repeated, of more a part is measured, which no cache holds either
LEAST_BYTES, MOST_BYTES = 1 << 24, 1 << 29


def as_arrays(results: Any) -> list[np.ndarray]:
    return []


def _arithmetic(case: Case) -> Any:
    element = f64 if case.parameters.get("dtype") == "float64" else f32
    kernel, item_flops = multiply_adds(element, ARITHMETIC_LOOPS)
    items = 4 * int(os.environ.get("BEDPLATE_NUM_THREADS", "1"))
    output = aligned(items * ACCUMULATORS * host().lanes(element) * element.itemsize)
    flops = float(items * item_flops)
    run = plan_of(kernel, [Slot(2)], items, [output], flops)
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
