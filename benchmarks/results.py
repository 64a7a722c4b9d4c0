"""Rows as they are written, kept and read: one for each case and peer.

python -m benchmarks --json FILE    a list of rows, each with all that is known
python -m benchmarks --keep         benchmarks/results/MACHINE-DATE.json: what all rows share is
                                    said once; `read_rows` reads both
"""

from __future__ import annotations

import datetime
import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.harness import Measured
from benchmarks.limits import PREFIX, limit_seconds
from benchmarks.machine import machine

RESULTS = Path(__file__).resolve().parent / "results"
SHARED = ("machine", "cpus", "threads", "commit", "date")
DIGITS = 5  # of a kept number: the spread of a figure is seldom under a hundredth

Row = dict[str, Any]


def json_rows(measured: list[Measured], threads: int) -> list[Row]:
    """One row a case and peer; the first five keys are what tools rely on."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    about = {**machine(threads), "date": today}
    rows = []
    for _, case_rows in groupby(measured, key=lambda row: row.case.name):
        group = list(case_rows)
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
                "tokens_per_second": row.case.tokens / row.median or None,
                "version": row.version,
                "unit": row.case.unit,
                **about,
            }
            for row in group
            if not row.peer.startswith(PREFIX)
        ]
    return rows


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write a list of rows; whoever is killed meanwhile leaves the file as it was."""
    whole = path.with_name(f".{path.name}.part")
    whole.write_text(json.dumps(rows, indent=1) + "\n")
    whole.replace(path)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, of either layout."""
    found = json.loads(path.read_text())
    if isinstance(found, list):
        return found
    versions = found["versions"]
    shared = {"limit_seconds": None, "tokens_per_second": None, **found["about"]}
    return [{**shared, **row, "version": versions[row["peer"]]} for row in found["rows"]]


def _short(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def kept_text(rows: list[Row]) -> str:
    """The text of a kept file: a line for each row."""
    about = {key: rows[0][key] for key in SHARED}
    versions = {row["peer"]: row["version"] for row in rows}
    apart = {*SHARED, "version"}
    lines = [
        json.dumps({k: _short(v) for k, v in row.items() if k not in apart and v is not None})
        for row in rows
    ]
    head = f'"about": {json.dumps(about)},\n"versions": {json.dumps(versions)}'
    return "{" + head + ',\n"rows": [\n' + ",\n".join(lines) + "\n]}\n"


def keep(rows: list[Row]) -> Path:
    """Write rows to the folder of results, under the machine's name and the day."""
    name = re.sub(r"[^a-z0-9]+", "-", rows[0]["machine"].lower()).strip("-")
    path = RESULTS / f"{name}-{rows[0]['cpus']}cpus-{rows[0]['date']}.json"
    RESULTS.mkdir(exist_ok=True)
    path.write_text(kept_text(rows))
    return path


def kept_files() -> list[Path]:
    """The kept files, the newest first."""
    return sorted(RESULTS.glob("*-????-??-??.json"), key=lambda path: path.stem[-10:], reverse=True)
