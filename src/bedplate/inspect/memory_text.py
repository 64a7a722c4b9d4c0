"""A memory report as text: plain tables, for a terminal, a file or a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bedplate.inspect.ledger import KINDS
from bedplate.inspect.places import NO_MODULE
from bedplate.inspect.text import percent, short, table, without_numbers

if TYPE_CHECKING:  # the report makes its own text
    from bedplate.inspect.memory_report import MemoryReport

TOP = 15


def report_text(report: MemoryReport, top: int = TOP) -> str:
    """All tables, the most bytes first, at most `top` rows in each."""
    sections = [_kinds(report), _devices(report), _modules(report, top), _lines(report, top)]
    return "\n\n".join(section for section in sections if section)


def _columns(report: MemoryReport, live: int, peak: int) -> tuple[str, ...]:
    if report.peak is None:
        return short(live), percent(live, report.live)
    return short(live), short(peak), percent(peak, report.peak)


def _head(report: MemoryReport, name: str) -> tuple[str, ...]:
    return (name, "now", "") if report.peak is None else (name, "now", "at the peak", "")


def _kinds(report: MemoryReport) -> str:
    found = report.by("kind")
    rows = [
        (f"  {kind}", *_columns(report, *found[kind])) for kind in KINDS if any(found.get(kind, ()))
    ]
    peak = report.peak or 0
    rows.append(("  in all", *_columns(report, report.live, peak)[:-1], ""))
    lines = table(_head(report, "memory"), rows)
    lines.append(f"  {short(report.pooled)} kept by the allocator for reuse")
    if report.peak is None:
        lines.append("  the peak is known inside `with bp.memory.peak() as m:`, by m.report()")
    return "\n".join(lines)


def _devices(report: MemoryReport) -> str:
    found = report.by("device")
    if len(found) < 2:
        return ""
    rows = [(f"  {name}", *_columns(report, *both)) for name, both in found.items()]
    return "\n".join(table(_head(report, "by device"), rows))


def _modules(report: MemoryReport, top: int) -> str:
    merged: dict[str, list[tuple[int, int]]] = {}
    for path, both in report.by("module").items():
        merged.setdefault(without_numbers(path), []).append(both)
    if set(merged) <= {NO_MODULE}:
        return ""
    rows = []
    for path, found in merged.items():
        many = f" x {len(found)}" if len(found) > 1 else ""
        live, peak = (sum(column) for column in zip(*found, strict=True))
        rows.append((max(live, peak), (f"  {path}{many}", *_columns(report, live, peak))))
    rows.sort(key=lambda entry: -entry[0])
    return _cut(_head(report, "by module"), [cells for _, cells in rows], top)


def _lines(report: MemoryReport, top: int) -> str:
    rows = [
        (f"  {line}", kind, *_columns(report, *both))
        for (line, kind), both in report.by("line", "kind").items()
    ]
    name, *columns = _head(report, "by line")
    return _cut((name, "", *columns), rows, top)


def _cut(head: tuple[str, ...], rows: list[tuple[str, ...]], top: int) -> str:
    if not rows:
        return ""
    lines = table(head, rows[:top])
    if len(rows) > top:
        lines.append(f"  and {len(rows) - top} more")
    return "\n".join(lines)
