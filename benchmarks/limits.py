"""The limit of a case: what the machine itself could do, measured in the same rounds.

The larger of two times: its operations at the peak rate of multiply-adds, and its bytes (each
input read once, each output written once) at the bandwidth of a plain copy, or of a plain read
where next to nothing is written, at the same working set. Copies are tried with and without
non-temporal stores; the faster counts.
"""

from __future__ import annotations

from benchmarks.harness import Measured

PREFIX = "limit-"
ARITHMETIC = "limit-arithmetic"
MEMORY = ("limit-memory", "limit-memory-nontemporal")


def limit_seconds(rows: list[Measured]) -> float | None:
    """The limit of the case that `rows` (all peers at one case) are about, if it was measured."""
    times = {row.peer: row.median for row in rows if row.peer.startswith(PREFIX)}
    memory = [times[name] for name in MEMORY if name in times]
    bounds = [times[ARITHMETIC]] if ARITHMETIC in times else []
    if memory:
        bounds.append(min(memory))
    return max(bounds, default=None)
