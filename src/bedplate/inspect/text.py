"""The report as text: plain tables, for a terminal, a file or a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bedplate.inspect.ledger import (
    ACTIVATION,
    GRADIENT,
    KINDS,
    OPTIMISER_STATE,
    PARAMETER,
    TEMPORARY,
)
from bedplate.inspect.places import BACKWARD, FORWARD, NO_MODULE, OPTIMISER
from bedplate.memory import readable

if TYPE_CHECKING:  # the report makes its own text
    from bedplate.inspect.report import KernelRow, MemoryTable, ModuleRow, Report

TOP = 20
MAX_LINES = 4  # source lines of a fused kernel that are shown
PHASES = (FORWARD, BACKWARD, OPTIMISER)
HELD = {  # kind -> the head of its column beside the modules; data belongs to none
    PARAMETER: "parameter", GRADIENT: "gradient", OPTIMISER_STATE: "state",
    ACTIVATION: "activation", TEMPORARY: "temporary",
}  # fmt: skip


def report_text(report: Report, top: int = TOP) -> str:
    """All tables, the longest rows first, at most `top` in each."""
    sections = [_spent(report), _limits(report), _kernels(report, top), _modules(report, top),
                _memory(report, top), _compiled(report, top)]  # fmt: skip
    return "\n\n".join(section for section in sections if section)


def seconds_text(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size * 0.9995 or unit == "us":
            value = seconds / size
            digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
            return f"{value:.{digits}f} {unit}"
    return ""


def percent(part: float, whole: float) -> str:
    """A share, for a column."""
    return f"{part / whole:.1%}".replace("%", " %") if whole else "-"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 0) -> list[str]:
    """Columns of equal width; all but column `left` are set to the right."""
    cells = [list(head), *map(list, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if i == left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _spent(report: Report) -> str:
    rows = [
        (f"  {name}", seconds_text(seconds), percent(seconds, report.seconds))
        for name, seconds in report.spent.items()
        if seconds or name in ("kernels", "Python")
    ]
    lines = table((f"time  {seconds_text(report.seconds)}", "", ""), rows)
    lines[0] += "  of the thread that profiles"
    if report.elsewhere:
        n_others = len(report.elsewhere)
        others = "another thread" if n_others == 1 else f"{n_others} other threads"
        lines.append(f"  beside it, kernels of {others}: {seconds_text(sum(report.elsewhere))}")
    return "\n".join(lines)


def _limits(report: Report) -> str:
    lines = ["limits of this machine, measured just now"]
    machine = report.limits
    for found in [machine.one] if machine.one is machine.all else [machine.all, machine.one]:
        rates = ", ".join(
            f"{b.copy / 1e9:.0f} GB/s at {readable(b.nbytes)}" for b in found.bandwidths
        )
        who = "1 worker " if found.workers == 1 else f"{found.workers} workers"
        lines.append(f"  {who}  {found.flops[4] / 1e9:.0f} GFLOP/s float32, copy {rates}")
    return "\n".join(lines)


def _kernels(report: Report, top: int) -> str:
    if not report.kernels:
        return "kernels: none ran"
    total = sum(row.seconds for row in report.kernels)
    lines = [f"kernels, by time  ({len(report.kernels)}, {seconds_text(total)})"]
    shown = report.kernels[:top]
    cells = [_kernel_cells(row, total) for row in shown]
    head = ("  time", "share", "launches", "median", "GB/s", "GFLOP/s", "verdict")
    rows = table(head, cells, left=6)
    lines.append(rows[0])
    for row, line in zip(shown, rows[1:], strict=True):
        lines += [line, f"      {row.name}", f"      {_origin(row)}"]
    return "\n".join(lines + _left_out(report.kernels[top:], total))


def _kernel_cells(row: KernelRow, total: float) -> tuple[str, ...]:
    seconds = row.seconds or 1e-12
    return (
        f"  {seconds_text(row.seconds)}", percent(row.seconds, total), str(row.launches),
        seconds_text(row.median_seconds), f"{row.nbytes / seconds / 1e9:.1f}",
        f"{row.flops / seconds / 1e9:.1f}", row.verdict.text,
    )  # fmt: skip


def _origin(row: KernelRow) -> str:
    """Source lines, phases, and the modules with their numbers left out."""
    lines = ", ".join(row.lines[:MAX_LINES]) or "unknown line"
    if len(row.lines) > MAX_LINES:
        lines += f" and {len(row.lines) - MAX_LINES} more"
    modules = list(dict.fromkeys(without_numbers(path) for path in row.modules))
    if modules:
        more = f" and {len(modules) - 1} more" if len(modules) > 1 else ""
        lines += f"   in {modules[0]}{more}"
    return f"{lines}   {' and '.join(row.phases)}"


def _left_out(rows: Sequence[Any], total: float) -> list[str]:
    if not rows:
        return []
    seconds = sum(row.seconds for row in rows)
    return [f"  {seconds_text(seconds)}  {percent(seconds, total)}  in {len(rows)} more"]


def without_numbers(path: str) -> str:
    """`layers.*.mlp` for the path of one of many equal layers."""
    return re.sub(r"\.\d+(?=\.|$)", ".*", path)


def _modules(report: Report, top: int) -> str:
    merged: dict[str, list[ModuleRow]] = {}
    for row in report.modules:
        merged.setdefault(without_numbers(row.path), []).append(row)
    if set(merged) <= {NO_MODULE}:
        return ""
    rows = []
    ordered = sorted(merged.items(), key=lambda entry: -sum(r.total_seconds for r in entry[1]))
    for path, found in ordered[:top]:
        times = [sum(row.seconds.get(phase, 0.0) for row in found) for phase in PHASES]
        held = [sum(row.nbytes.get(kind, 0) for row in found) for kind in HELD]
        many = f" x {len(found)}" if len(found) > 1 else ""
        rows.append(
            (f"  {path}{many}", *(seconds_text(t) if t else "-" for t in times),
             *(short(n) if n else "-" for n in held))
        )  # fmt: skip
    head = ("modules", *PHASES, *HELD.values())
    lines = table(head, rows)
    if len(ordered) > top:
        lines.append(f"  and {len(ordered) - top} more")
    return "\n".join(["by module: time in kernels, and memory at the peak", *lines])


def short(nbytes: float) -> str:
    """A number of bytes, for a column."""
    return readable(int(nbytes)).replace(" bytes", " B")


def _memory(report: Report, top: int) -> str:
    peak, end = report.peak, report.end
    rows = [
        (f"  {kind}", short(peak.kinds[kind]), percent(peak.kinds[kind], peak.nbytes),
         short(end.kinds[kind]))
        for kind in KINDS if peak.kinds[kind] or end.kinds[kind]
    ]  # fmt: skip
    rows.append(("  in all", short(peak.nbytes), "", short(end.nbytes)))
    lines = table(("memory", "peak", "", "at the end"), rows)
    return "\n".join([*lines, *_memory_lines(peak, top)])


def _memory_lines(peak: MemoryTable, top: int) -> list[str]:
    if not peak.lines:
        return []
    rows = [(f"  {line}", kind, short(nbytes)) for line, kind, nbytes in peak.lines[:top]]
    lines = table(("memory at the peak, by line", "", ""), rows)
    if len(peak.lines) > top:
        rest = sum(nbytes for _, _, nbytes in peak.lines[top:])
        lines.append(f"  {short(rest)} at {len(peak.lines) - top} more")
    return ["", *lines]


def _compiled(report: Report, top: int) -> str:
    if not report.compiled:
        return ""
    cold = [row for row in report.compiled if row.cold]
    seconds = report.spent["compiling kernels"]  # on the clock; LLVM makes several side by side
    head = f"kernels made ready: {len(report.compiled)} in {seconds_text(seconds)}"
    if not cold:
        return f"{head}, all from the disk cache"
    lines = [f"{head}, of these compiled anew: {len(cold)}"]
    lines += [f"  {seconds_text(row.seconds):>8}  {row.name}" for row in cold[:top]]
    if len(cold) > top:
        rest = sum(row.seconds for row in cold[top:])
        lines.append(f"  {seconds_text(rest):>8}  {len(cold) - top} more")
    return "\n".join(lines)
