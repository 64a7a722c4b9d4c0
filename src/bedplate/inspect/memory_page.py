"""A memory report as a page that needs nothing else, and its picture: the bytes of each kind over
time, one area on the other (SVG).
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from bedplate.inspect.ledger import KINDS
from bedplate.inspect.text import percent, seconds_text, short

if TYPE_CHECKING:  # the report makes its own page
    from bedplate.inspect.memory_report import MemoryReport

COLOURS = dict(
    zip(KINDS, ("#3b6ea5", "#d0743c", "#7b5ea7", "#4f9d69", "#b8b2a7", "#5bb5c5"), strict=True)
)
WIDTH, HEIGHT = 900, 320
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 40, 40  # margins around the areas
TICKS = 4
TABLES = {"by kind": ("kind",), "by module": ("module",), "by line": ("line", "kind"),
          "by device": ("device",)}  # fmt: skip
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; color: #222;
       padding: 0 1rem; }
table { border-collapse: collapse; margin: 0 0 2rem; width: 100%; }
th, td { text-align: right; padding: .15rem .6rem; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
td.share { width: 30%; }
td.share div { background: #3b6ea5; height: .7rem; }
svg { width: 100%; height: auto; }
"""


def page(report: MemoryReport) -> str:
    """The whole page."""
    peak = "" if report.peak is None else f"{short(report.peak)} at the peak, "
    head = f"{peak}{short(report.live)} now, {short(report.pooled)} kept for reuse"
    parts = [f"<h1>Memory</h1><p>{escape(head)}</p>"]
    if report.curve:
        parts.append(picture(report))
    parts += [_table(report, title, names) for title, names in TABLES.items()]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Memory</title>'
        f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _table(report: MemoryReport, title: str, names: tuple[str, ...]) -> str:
    tracked = report.peak is not None
    whole = report.peak if report.peak is not None else report.live
    head = "".join(f"<th>{name}</th>" for name in (title, "now", "at the peak", "share"))
    rows = []
    for key, (live, most) in report.by(*names).items():
        name = escape(", ".join(key) if isinstance(key, tuple) else key)
        share = most if tracked else live
        width = 100 * share / whole if whole else 0
        bar = f'<div style="width:{width:.1f}%" title="{percent(share, whole)}"></div>'
        most_text = short(most) if tracked else "-"
        rows.append(
            f"<tr><td>{name}</td><td>{short(live)}</td><td>{most_text}</td>"
            f'<td class="share">{bar}</td></tr>'
        )
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def picture(report: MemoryReport) -> str:
    """The bytes of each kind over time."""
    points = report.curve
    most = max([sum(kinds.values()) for _, kinds in points] + [1])
    seconds = report.seconds or 1.0

    def place(at: float, nbytes: float) -> str:
        x = LEFT + (WIDTH - LEFT - RIGHT) * at / seconds
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * nbytes / most
        return f"{x:.1f},{y:.1f}"

    below = [0] * len(points)
    areas = []
    for kind in KINDS:
        above = [low + kinds[kind] for low, (_, kinds) in zip(below, points, strict=True)]
        if above != below:
            outline = _steps(points, above) + _steps(points, below)[::-1]
            shape = " ".join(place(at, nbytes) for at, nbytes in outline)
            areas.append(f'<polygon points="{shape}" fill="{COLOURS[kind]}"/>')
        below = above
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12">{"".join(areas)}{_axes(most, seconds)}'
        f"{_legend(report)}</svg>"
    )


def _steps(
    points: list[tuple[float, dict[str, int]]], levels: list[int]
) -> list[tuple[float, int]]:
    """The corners of a line that keeps each level until the next point."""
    corners = []
    for number, (at, _) in enumerate(points):
        if number:
            corners.append((at, levels[number - 1]))
        corners.append((at, levels[number]))
    return corners


def _axes(most: int, seconds: float) -> str:
    """Lines and numbers: bytes to the left, time below."""
    parts = []
    for tick in range(TICKS + 1):
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * tick / TICKS
        x = LEFT + (WIDTH - LEFT - RIGHT) * tick / TICKS
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#999" '
            f'stroke-width="0.5"/><text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{short(most * tick / TICKS)}</text>"
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
            f"{seconds_text(seconds * tick / TICKS)}</text>"
        )
    return "".join(parts)


def _legend(report: MemoryReport) -> str:
    shown = [kind for kind in KINDS if any(kinds[kind] for _, kinds in report.curve)]
    parts = []
    for number, kind in enumerate(shown):
        x = LEFT + 130 * number
        parts.append(
            f'<rect x="{x}" y="12" width="12" height="12" fill="{COLOURS[kind]}"/>'
            f'<text x="{x + 17}" y="22">{kind}</text>'
        )
    return "".join(parts)
