"""The tile sizes of products against other sizes: is what the formula gives a good choice here?

    python -m benchmarks.tiles      prints a table, and keeps benchmarks/results/tiles.json

The formula is `tiles` in src/bedplate/ops/matmul/tiles.py. For each problem the kernels are made
with its sizes and with one of them changed at a time; all are timed in turns, and the table says
what the best would gain. A user's run searches nothing: this is how the formula is checked on a
new machine, about 20 seconds.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console
from rich.table import Table

from bedplate import dtypes
from bedplate.compiler.builder import BufferRef, PlanBuilder, View, contiguous_view
from bedplate.devices.cpu.caches import cache_bytes
from bedplate.devices.cpu.runner import NativePlan, Slot, Task
from bedplate.devices.cpu.workers import n_workers
from bedplate.kernel import f32, host
from bedplate.memory import allocate
from bedplate.ops.matmul import lower as matmul_lower
from bedplate.ops.matmul.tiles import Tiles, tiles

PROBLEMS = ((128, 128, 128), (512, 512, 512), (512, 3072, 768), (1024, 1024, 1024))
ROUNDS, SECONDS = 7, 0.01
KEPT = Path(__file__).parent / "results" / "tiles.json"


def changed(cut: Tiles) -> Iterator[tuple[str, Tiles]]:
    """The formula's sizes, and those with one of them changed."""
    yield "formula", cut
    for rows, vectors in ((cut.rows - 2, cut.vectors), (cut.rows // 2, cut.vectors), (8, 3)):
        other = dataclasses.replace(cut, rows=rows, vectors=vectors)
        if other != cut and rows * vectors + vectors + 1 <= 32:
            yield f"tile {rows} x {vectors}", other
    for name in ("depth", "panels", "tiles"):
        for factor in (0.25, 0.5, 2, 4):
            value = int(getattr(cut, name) * factor)
            if value:
                yield f"{name} {value}", dataclasses.replace(cut, **{name: value})


def product(m: int, k: int, n: int, cut: Tiles) -> Callable[[], None]:
    """One product by kernels of that cut, as a call of its plan."""
    generator = np.random.default_rng(7)
    shapes = ((m, k), (k, n), (m, n))
    blocks = [allocate(4 * rows * columns) for rows, columns in shapes]
    for block, shape in zip(blocks, shapes, strict=True):
        block.array("float32", shape)[:] = generator.standard_normal(shape, dtype=np.float32)
    a, b, out = (
        contiguous_view(BufferRef(block.nbytes, slot=slot), shape, dtypes.float32)
        for slot, (block, shape) in enumerate(zip(blocks, shapes, strict=True), 1)
    )
    builder = PlanBuilder()
    with mock.patch.object(matmul_lower, "tiles", lambda accumulate: cut):
        matmul_lower.lower(builder, None, (a, b), (out,))
    arena, regions = _placed(builder)
    plan = NativePlan(regions, 4)
    slots = (ctypes.c_int64 * 4)(arena.address, *(block.address for block in blocks))
    kept = [arena, *blocks]
    return lambda: plan.run(slots) if kept else None


def _placed(builder: PlanBuilder) -> tuple[Any, list[list[Task]]]:
    """The memory of the launches' temporaries, and a region for each launch."""
    size = 0

    def word(entry: Any) -> Any:
        nonlocal size
        ref = entry.buffer if isinstance(entry, View) else entry
        if not isinstance(ref, BufferRef):
            return entry
        if ref.slot is None and ref.offset is None:
            ref.offset, size = size, size + -(-ref.nbytes // 64) * 64
        moved = entry.offset * entry.dtype.itemsize if isinstance(entry, View) else 0
        return Slot(ref.slot or 0, (ref.offset or 0) + moved)

    regions = [
        [Task(launch.kernel.compile(), [word(w) for w in launch.words], launch.items,
              launch.name, launch.flops, launch.nbytes)]
        for launch in builder.launches
    ]  # fmt: skip
    return allocate(max(size, 64)), regions


def timed(runs: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Median microseconds of each, in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            count, start = 0, time.perf_counter()
            while time.perf_counter() - start < SECONDS:
                run()
                count += 1
            times[name].append((time.perf_counter() - start) / count * 1e6)
    return {name: round(statistics.median(each), 1) for name, each in times.items()}


def main() -> None:
    cut = tiles(f32)
    found = {
        f"{m} x {k} x {n}": timed({name: product(m, k, n, each) for name, each in changed(cut)})
        for m, k, n in PROBLEMS
    }
    table = Table("product", "formula", "best", "best / formula", "worst", "worst / formula")
    for name, times in found.items():
        best, worst = (pick(times, key=lambda cut: times[cut]) for pick in (min, max))
        ratios = [f"{times[each] / times['formula']:.2f}" for each in (best, worst)]
        table.add_row(name, f"{times['formula']} us", best, ratios[0], worst, ratios[1])
    Console().print(table)
    machine = {
        "processor": host().cpu, "vector bits": host().vector_bits, "threads": n_workers(),
        "first cache": cache_bytes(1), "second cache": cache_bytes(2),
    }  # fmt: skip
    kept = {"machine": machine, "formula": dataclasses.asdict(cut), "microseconds": found}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
