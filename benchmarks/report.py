"""What is shown: the table with ratios to the best peer and distances to the limit.

All of it is made from rows (see `results.py`), hence from a kept file as from a run.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.peer import PEERS

Row = dict[str, Any]
UNITS = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "B": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
}


def shown(value: float, unit: str = "s") -> str:
    """Three digits with a fitting unit.

    >>> shown(0.0000123), shown(0.0456), shown(2.5), shown(5 << 20, "B")
    ('12.3 us', '45.6 ms', '2.5 s', '5 MiB')
    """
    units = UNITS[unit]
    factor, name = next((pair for pair in units if value >= pair[0]), units[-1])
    return f"{value / factor:.3g} {name}"


def is_ours(peer: str) -> bool:
    return peer in PEERS and PEERS[peer].is_ours


def by_case(rows: list[Row]) -> list[list[Row]]:
    return [list(group) for _, group in groupby(rows, key=lambda row: row["case"])]


def best(rows: list[Row], ours: bool) -> Row | None:
    """The fastest row of one case, of ours or of the peers."""
    found = (row for row in rows if is_ours(row["peer"]) == ours)
    return min(found, key=lambda row: row["median_seconds"], default=None)


def ratio(rows: list[Row]) -> float | None:
    """Time of the best peer / our best time, of one case; above 1 we are faster."""
    ours, theirs = best(rows, True), best(rows, False)
    return theirs["median_seconds"] / ours["median_seconds"] if ours and theirs else None


def reached(rows: list[Row]) -> float | None:
    """The limit / our best time, of one case."""
    ours, limit = best(rows, True), rows[0]["limit_seconds"]
    return limit / ours["median_seconds"] if ours and limit else None


def mean_ratio(rows: list[Row]) -> tuple[float, int] | None:
    """(geometric mean of the ratios to the best peer, number of cases that have one)"""
    gains = [gain for group in by_case(rows) if (gain := ratio(group))]
    return (math.exp(sum(map(math.log, gains)) / len(gains)), len(gains)) if gains else None


def row_text(row: Row) -> str:
    """One peer: its median, the spread, and tokens a second if the case is about tokens."""
    rate = row.get("tokens_per_second")
    tokens = f" ({rate:,.0f} tokens/s)" if rate else ""
    value = shown(row["median_seconds"], row.get("unit", "s"))
    return f"{row['peer']} {value} ±{row['spread']:.0%}{tokens}"


def cells(rows: list[Row]) -> list[list[str]]:
    """case, limit, ours, share of the limit, peers, ratio; of one case, a list of lines each"""
    limit, share, gain = rows[0]["limit_seconds"], reached(rows), ratio(rows)
    ordered = sorted(rows, key=lambda row: row["median_seconds"])
    ours, theirs = ([row_text(row) for row in ordered if is_ours(row["peer"]) == mine]
                    for mine in (True, False))  # fmt: skip
    return [
        [rows[0]["case"]],
        [shown(limit) if limit else "-"],
        ours or ["-"],
        [f"{share:.0%}" if share else "-"],
        theirs or ["-"],
        [f"{gain:.2f}" if gain else "-"],
    ]


HEAD = ("case", "limit", "bedplate", "of limit", "peers", "x best peer")


def print_table(rows: list[Row], console: Console) -> None:
    """The table, and the geometric mean of the ratios to the best peer."""
    table = Table(*HEAD)
    for group in by_case(rows):
        table.add_row(*("\n".join(lines) for lines in cells(group)))
    console.print(table)
    mean = mean_ratio(rows)
    if mean:
        console.print(f"geometric mean over {mean[1]} cases: {mean[0]:.2f}x the best peer")
