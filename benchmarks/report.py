"""What is shown and kept: the table with ratios and distances to the limit, and the JSON rows."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness import Measured
from benchmarks.limits import PREFIX, limit_seconds
from benchmarks.peer import PEERS, ROOT


def processor() -> str:
    """The processor's name, as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit of the working tree, with a plus sign if it has changes."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine(threads: int) -> dict[str, Any]:
    return {"machine": processor(), "threads": threads, "commit": commit()}


def show_seconds(seconds: float) -> str:
    """Three digits with a fitting unit.

    >>> show_seconds(0.0000123), show_seconds(0.0456), show_seconds(2.5)
    ('12.3 us', '45.6 ms', '2.5 s')
    """
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def is_ours(peer: str) -> bool:
    return peer.split(" ")[0] in PEERS and PEERS[peer.split(" ")[0]].is_ours


def by_case(measured: list[Measured]) -> list[list[Measured]]:
    return [list(rows) for _, rows in groupby(measured, key=lambda row: row.case.name)]


def ratio(rows: list[Measured]) -> float | None:
    """Time of the best peer / our best time; above 1 we are faster."""
    ours = [row.median for row in rows if is_ours(row.peer) and not row.peer.startswith(PREFIX)]
    theirs = [row.median for row in rows if not is_ours(row.peer)]
    return min(theirs) / min(ours) if ours and theirs else None


def _peer_cells(rows: list[Measured], ours: bool) -> str:
    mine = sorted(
        (row for row in rows if is_ours(row.peer) == ours and not row.peer.startswith(PREFIX)),
        key=lambda row: row.median,
    )
    return "\n".join(
        f"{row.peer} {show_seconds(row.median)} ±{row.spread:.0%}{_tokens(row)}" for row in mine
    )


def tokens_per_second(row: Measured) -> float | None:
    if row.case.kind != "train_step":
        return None
    return row.case.parameters["batch"] * row.case.parameters["time"] / row.median


def _tokens(row: Measured) -> str:
    rate = tokens_per_second(row)
    return "" if rate is None else f" ({rate:,.0f} tokens/s)"


def table(measured: list[Measured]) -> Table:
    """One row a case: limit, ours, distance to the limit, peers, ratio to the best peer."""
    result = Table("case", "limit", "bedplate", "of limit", "peers", "x best peer")
    for rows in by_case(measured):
        limit, gain = limit_seconds(rows), ratio(rows)
        ours = [row.median for row in rows if is_ours(row.peer) and PREFIX not in row.peer]
        reached = f"{limit / min(ours):.0%}" if limit and ours else "-"
        result.add_row(
            rows[0].case.name,
            show_seconds(limit) if limit else "-",
            _peer_cells(rows, ours=True) or "-",
            reached,
            _peer_cells(rows, ours=False) or "-",
            f"{gain:.2f}" if gain else "-",
        )
    return result


def print_table(measured: list[Measured], console: Console) -> None:
    """The table, and the geometric mean of the ratios to the best peer."""
    console.print(table(measured))
    gains = [gain for rows in by_case(measured) if (gain := ratio(rows))]
    if gains:
        mean = math.exp(sum(map(math.log, gains)) / len(gains))
        console.print(f"geometric mean over {len(gains)} cases: {mean:.2f}x the best peer")


def json_rows(measured: list[Measured], threads: int) -> list[dict[str, Any]]:
    """One row a case and peer; the first five keys are what tools rely on."""
    about = {**machine(threads), "cpus": os.cpu_count()}
    rows = []
    for group in by_case(measured):
        limit = limit_seconds(group)
        rows += [
            {
                "case": row.case.name,
                "peer": row.peer,
                "median_seconds": row.median,
                "spread": row.spread,
                "limit_seconds": limit,
                "first_seconds": row.first_seconds,
                "best_seconds": min(row.rounds),
                "rounds": len(row.rounds),
                "tokens_per_second": tokens_per_second(row),
                "version": row.version,
                **about,
            }
            for row in group
            if not row.peer.startswith(PREFIX)
        ]
    return rows


def write_json(path: Path, measured: list[Measured], threads: int) -> None:
    path.write_text(json.dumps(json_rows(measured, threads), indent=1) + "\n")
