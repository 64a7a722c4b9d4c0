"""Replay the traces with each strategy: python -m benchmarks.allocation.replay [TRACE ...]

Each replay has a process of its own, in turns. It makes and frees the blocks of the trace in their
order, and writes a byte to every page of each block that is made: the first write to a fresh page
is what memory costs. Twice: the first time the process is new (cold), the second time whatever the
strategy keeps is there (warm). The floor is the same loop over memory that is there, without an
allocator; the cost of a strategy is both passes less the floor. Peak is what the process had
resident at most, less what it had before. Times are the lowest of the rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.kernel import i8, i64, kernel, loop, ptr, store
from bedplate.memory import Block
from benchmarks.allocation.record import TRACES
from benchmarks.allocation.strategies import SINGLE, STRATEGIES

PAGE_BYTES = 4096
Result = dict[str, float]


@kernel
def touch(block: ptr(i8), pages: i64):
    """A byte to every page."""
    for page in loop(pages):
        store(block + page * PAGE_BYTES, 1)


def _floor() -> Callable[[int], Block]:
    """Always the same memory, touched before."""
    memory = np.ones(1 << 28, np.int8)
    address = memory.ctypes.data
    return lambda nbytes: Block(address, nbytes, None, -1, None, memory)


def replayed(events: list[int], nbytes: list[int], allocate: Callable[[int], Block]) -> float:
    """Seconds of one replay; what still lives at its end goes then, as when a program ends."""
    write: Any = touch.compile()
    blocks: list[Block | None] = [None] * len(nbytes)
    gc.collect()
    begin = time.perf_counter()
    for event in events:
        if event >= 0:
            size = nbytes[event]
            block = blocks[event] = allocate(size)
            write(block.address, (size + PAGE_BYTES - 1) // PAGE_BYTES)
            del block
        else:
            blocks[~event] = None
    seconds = time.perf_counter() - begin
    blocks.clear()
    return seconds


def _status(name: str) -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def measured(trace: str, strategy: str) -> Result:
    """Cold and warm seconds and peak bytes, in this process."""
    with np.load(TRACES / f"{trace}.npz") as arrays:
        events, nbytes = arrays["events"].tolist(), arrays["nbytes"].tolist()
    allocate = _floor() if strategy == "floor" else STRATEGIES[strategy]()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak counts from here
    before = _status("VmRSS")
    cold = replayed(events, nbytes, allocate)
    warm = replayed(events, nbytes, allocate)
    return {"cold": cold, "warm": warm, "peak": _status("VmHWM") - before}


def in_a_child(trace: str, strategy: str) -> Result:
    """The same in a fork of this process, which has imported everything and mapped nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with open(writing, "w") as answer:
            answer.write(json.dumps(measured(trace, strategy)))
        os._exit(0)
    os.close(writing)
    with open(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Replay the traces")
    parser.add_argument("traces", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    traces = chosen.traces or sorted(path.stem for path in TRACES.glob("*.npz"))
    touch.compile()
    results: dict[tuple[str, str], list[Result]] = {}
    for _ in range(chosen.rounds):
        for trace in traces:
            for strategy in ("floor", *STRATEGIES):
                results.setdefault((trace, strategy), []).append(in_a_child(trace, strategy))
    # what the machine does meanwhile only adds
    table = {
        key: {what: min(r[what] for r in found) for what in found[0]}
        for key, found in results.items()
    }
    for (trace, _), row in table.items():
        floor = table[trace, "floor"]
        row["cost"] = max(sum(row[w] - floor[w] for w in ("cold", "warm")), 1e-4)
    _print("cold", "ms", 1e3, traces, table)
    _print("warm", "ms", 1e3, traces, table)
    _print("cost", "ms", 1e3, traces, table)
    _print("peak", "MiB", 2**-20, traces, table)


def _print(what: str, unit: str, scale: float, traces: list[str], table: dict[Any, Result]) -> None:
    columns = [*(("floor",) if what in ("cold", "warm") else ()), *STRATEGIES]
    print(f"\n{f'{what}, {unit}':16}" + "".join(f"{name:>16}" for name in columns))
    for trace in traces:
        cells = [f"{scale * table[trace, name][what]:16.1f}" for name in columns]
        print(f"{trace:16}" + "".join(cells))
    means = {name: _mean(what, traces, table, name) for name in columns}
    print(f"{'geometric mean':16}" + "".join(f"{scale * means[name]:16.2f}" for name in columns))
    best = min(SINGLE, key=means.__getitem__)
    print(f"the best single one is {best}, with {means[best] / means['tiers']:.2f} x the tiers'")


def _mean(what: str, traces: list[str], table: dict[Any, Result], name: str) -> float:
    return math.exp(statistics.fmean([math.log(table[t, name][what]) for t in traces]))


if __name__ == "__main__":
    main()
