"""What changed between two runs: our medians, and their ratios to the best peer.

Peers are measured in both runs, so the ratio tells of a change even if the machine was slower;
a change within the spreads of both runs is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.report import Row, best, by_case, ratio, shown

LEAST = 0.03  # relative: smaller changes are not named, whatever the spread
FAR = 0.10  # relative: larger changes are named in the summary, whatever the spread


@dataclass(frozen=True)
class Change:
    """One case in both runs.

    before, now   our best rows
    ratios        to the best peer, before and now; None where no peer took part
    """

    case: str
    before: Row
    now: Row
    ratios: tuple[float | None, float | None]

    @property
    def time(self) -> float:
        """Our time now / before: below 1 it became faster."""
        return self.now["median_seconds"] / self.before["median_seconds"]

    @property
    def ratio(self) -> float | None:
        """Our ratio to the best peer, now / before: above 1 it became better."""
        before, now = self.ratios
        return now / before if before and now else None

    @property
    def gain(self) -> float:
        """The change of the ratio where there is one, else of our speed: above 1 it is better."""
        return self.ratio or 1 / self.time

    @property
    def spread(self) -> float:
        """What both runs leave open, relative."""
        return max(LEAST, self.before["spread"] + self.now["spread"])

    @property
    def verdict(self) -> str:
        """Of the ratio where there is one, else of our time; beyond the spread."""
        if abs(self.gain - 1) <= self.spread:
            return ""
        return "better" if self.gain > 1 else "worse"


def changes(old: list[Row], new: list[Row]) -> list[Change]:
    """The cases that both runs have."""
    before = {group[0]["case"]: group for group in by_case(old)}
    found = []
    for group in by_case(new):
        earlier = before.get(group[0]["case"], [])
        rows = best(earlier, True), best(group, True)
        if rows[0] and rows[1]:
            ratios = ratio(earlier), ratio(group)
            found.append(Change(group[0]["case"], rows[0], rows[1], ratios))
    return found


@dataclass(frozen=True)
class Summary:
    """All cases of a comparison in a few numbers, each by `Change.gain`.

    n_cases        the cases that both runs have
    mean           the geometric mean of the changes: above 1 it became better
    better, worse  the names of those beyond FAR, the furthest first
    """

    n_cases: int
    mean: float
    better: list[str]
    worse: list[str]

    def lines(self) -> list[str]:
        def named(names: list[str]) -> str:
            return f"{len(names)}: {', '.join(names)}" if names else "none"

        return [
            f"{self.n_cases} cases, in the geometric mean x {self.mean:.3f} (above 1: better)",
            f"better by more than {FAR:.0%}: {named(self.better)}",
            f"worse by more than {FAR:.0%}: {named(self.worse)}",
        ]


def summary(found: list[Change]) -> Summary | None:
    """What all changes come to; None where the runs have no case in common."""
    if not found:
        return None
    by_gain = sorted(found, key=lambda change: change.gain)
    mean = math.exp(sum(math.log(change.gain) for change in found) / len(found))
    better = [f"{c.case} x {c.gain:.2f}" for c in reversed(by_gain) if c.gain > 1 + FAR]
    worse = [f"{c.case} x {c.gain:.2f}" for c in by_gain if 1 / c.gain > 1 + FAR]
    return Summary(len(found), mean, better, worse)


def print_comparison(old: list[Row], new: list[Row], console: Console) -> None:
    """The table, then by name what got worse by more than the spread, and the summary."""
    table = Table("case", "before", "now", "time", "spread", "x best peer", "verdict")
    found = changes(old, new)
    for change in found:
        before, now = change.ratios
        table.add_row(
            change.case,
            *(shown(row["median_seconds"], row.get("unit", "s"))
              for row in (change.before, change.now)),
            f"x {change.time:.2f}",
            f"±{change.spread:.0%}",
            f"{before:.2f} -> {now:.2f}" if before and now else "-",
            change.verdict,
        )  # fmt: skip
    console.print(table)
    worse = [change.case for change in found if change.verdict == "worse"]
    console.print(f"worse by more than the spread: {', '.join(worse) or 'nothing'}")
    whole = summary(found)
    for line in whole.lines() if whole else ["no case is in both runs"]:
        console.print(line)
