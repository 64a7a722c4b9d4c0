"""The loss curve of a run, drawn as SVG by hand, so that no plotting library is needed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from bedplate.tensor.atomic import write_atomically

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 40, 48
MAX_POINTS = 1200
STYLE = "font-family='sans-serif' font-size='12' fill='#444'"

Point = tuple[float, float]


def write_curve(path: Path, records: list[dict[str, Any]]) -> Path:
    """Draw training loss (thin: each step, thick: smoothed) and held-out loss over steps."""
    losses = [(float(r["step"]), float(r["loss"])) for r in records if math.isfinite(r["loss"])]
    held_out = [
        (float(r["step"]), float(r["held_out"])) for r in records if r.get("held_out") is not None
    ]
    axes = _Axes(losses + held_out)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' "
        f"width='{WIDTH}' height='{HEIGHT}'>",
        f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>",
        *axes.grid(),
        axes.line(_thinned(losses), "#b9d3ee", 1.0),
        axes.line(_thinned(_smoothed(losses)), "#1f6fb4", 2.0),
        axes.line(held_out, "#c8501e", 2.0),
        *(axes.dot(point, "#c8501e") for point in held_out),
        _legend(),
        "</svg>\n",
    ]
    write_atomically(path, ["\n".join(parts).encode()])
    return path


def _smoothed(points: list[Point], share: float = 0.02) -> list[Point]:
    """An exponential average over about a fiftieth of the run, free of its start's bias."""
    rate = min(1.0, 1.0 / max(1.0, share * len(points)))
    average = weight = 0.0
    result: list[Point] = []
    for step, loss in points:
        average += rate * (loss - average)
        weight += rate * (1.0 - weight)
        result.append((step, average / weight))
    return result


def _thinned(points: list[Point]) -> list[Point]:
    stride = max(1, math.ceil(len(points) / MAX_POINTS))
    return points[::stride] + points[-1:]


class _Axes:
    """From steps and nats to places in the picture."""

    def __init__(self, points: list[Point]) -> None:
        points = points or [(0.0, 0.0), (1.0, 1.0)]
        self.last = max(step for step, _ in points) or 1.0
        low, high = min(y for _, y in points), max(y for _, y in points)
        self.low, self.high = math.floor(low * 2) / 2, max(math.ceil(high * 2) / 2, low + 0.5)

    def place(self, point: Point) -> Point:
        x = LEFT + (WIDTH - LEFT - RIGHT) * point[0] / self.last
        y = TOP + (HEIGHT - TOP - BOTTOM) * (self.high - point[1]) / (self.high - self.low)
        return round(x, 2), round(y, 2)

    def line(self, points: list[Point], colour: str, width: float) -> str:
        places = " ".join(f"{x},{y}" for x, y in map(self.place, points))
        return (
            f"<polyline points='{places}' fill='none' stroke='{colour}' stroke-width='{width}' "
            "stroke-linejoin='round'/>"
        )

    def dot(self, point: Point, colour: str) -> str:
        x, y = self.place(point)
        return f"<circle cx='{x}' cy='{y}' r='3' fill='{colour}'/>"

    def grid(self) -> list[str]:
        """Lines and numbers at round values."""
        parts: list[str] = []
        for value in _round_values(self.low, self.high):
            x, y = self.place((0.0, value))
            parts.append(f"<path d='M{x} {y}H{WIDTH - RIGHT}' stroke='#e4e4e4'/>")
            parts.append(
                f"<text x='{x - 8}' y='{y + 4}' text-anchor='end' {STYLE}>{value:g}</text>"
            )
        for step in _round_values(0.0, self.last):
            x, y = self.place((step, self.low))
            parts.append(f"<text x='{x}' y='{y + 18}' text-anchor='middle' {STYLE}>{step:g}</text>")
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f"<text x='{middle}' y='{HEIGHT - 8}' text-anchor='middle' {STYLE}>step</text>"
        )
        return parts


def _round_values(low: float, high: float) -> list[float]:
    """Four to nine multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(s - rough))
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _legend() -> str:
    return (
        f"<text x='{LEFT}' y='24' font-family='sans-serif' font-size='14' fill='#222'>loss, nats: "
        "<tspan fill='#1f6fb4'>training, a token</tspan> · "
        "<tspan fill='#c8501e'>held out, a byte</tspan></text>"
    )
