"""The page of the documentation that shows kept results.

    python -m benchmarks.page            prints it
    python -m benchmarks.page --write    writes docs/benchmarks-results.md

It shows the newest file of each machine; a test holds the page to the files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peer import ROOT
from benchmarks.report import HEAD, Row, by_case, cells, mean_ratio, ratio, reached
from benchmarks.results import kept_files, read_rows

PAGE = ROOT / "docs" / "benchmarks-results.md"
TOP = """# Benchmark results

<!-- made by `python -m benchmarks.page --write` from benchmarks/results/; edit neither here -->

Medians over interleaved rounds with the distance of the quartiles, each figure beside its peers in
the same run; [Benchmarks](benchmarks.md) says how they are made. The limit is what the machine
itself did in the same rounds; the ratio is the best peer's time over ours, above 1 is faster.
"""
NOTHING = "\nNothing is kept yet: `python -m benchmarks --keep`.\n"


def newest(files: Sequence[Path]) -> list[Path]:
    """The newest file of each machine; files begin with the newest."""
    found: dict[str, Path] = {}
    for path in files:
        found.setdefault(path.stem[:-11], path)
    return list(found.values())


def _summary(rows: list[Row]) -> str:
    groups = by_case(rows)
    gains = [(gain, group[0]["case"]) for group in groups if (gain := ratio(group))]
    shares = [share for group in groups if (share := reached(group))]
    mean = mean_ratio(rows)
    behind = sorted(pair for pair in gains if pair[0] < 1)
    lines = [f"- {len(groups)} cases, {len(shares)} with a limit: "
             f"{sum(share >= 0.85 for share in shares)} at 85 % of it or more"]  # fmt: skip
    if mean:
        lines.append(
            f"- geometric mean over {mean[1]} cases with a peer: {mean[0]:.2f}x the best peer"
        )
    names = ", ".join(f"{case} ({gain:.2f})" for gain, case in behind)
    lines.append(f"- behind the best peer: {names or 'none'}")
    return "\n".join(lines)


def _table(rows: list[Row]) -> str:
    lines = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    for group in by_case(rows):
        lines.append("| " + " | ".join("<br>".join(part) for part in cells(group)) + " |")
    return "\n".join(lines)


def section(path: Path) -> str:
    """One machine: what it is, a summary, the table."""
    rows = read_rows(path)
    first = rows[0]
    versions = {row["peer"]: row["version"] for row in rows}
    named = ", ".join(f"{peer} {version}" for peer, version in versions.items())
    return (
        f"\n## {first['machine']}, {first['cpus']} processors\n\n"
        f"{first['date']}, commit `{first['commit']}`, {first['threads']} threads: {named}.\n\n"
        f"{_summary(rows)}\n\n{_table(rows)}\n"
    )


def text(files: Sequence[Path]) -> str:
    """The whole page."""
    return TOP + ("".join(map(section, newest(files))) or NOTHING)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    made = text(kept_files())
    if parser.parse_args(arguments).write:
        PAGE.write_text(made, encoding="utf-8")
    else:
        print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
