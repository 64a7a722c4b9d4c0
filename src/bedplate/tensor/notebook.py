"""How a tensor looks in a notebook: a small table of facts and a picture of its values.

A matrix is a heat map, anything else with many values a histogram. Both are drawn of a bounded
number of values, evenly spread, so that neither time nor text grows with the tensor.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from bedplate.graph.pending import LOCAL
from bedplate.memory import readable
from bedplate.tensor.text import tensor_text, values_text

Array = np.ndarray[Any, Any]
CELLS = 24  # along each side of a heat map
SAMPLES = 4096  # values that a histogram is made of
BINS = 24
FEW = 16  # values that are shown as they are
PIXELS = 168
# from the least to the greatest: blue through white to red
COLOURS = ("#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d",
           "#b2182b")  # fmt: skip
NOT_A_NUMBER = "#000"


def tensor_html(tensor: Any) -> str:
    """The facts as a table, the picture beside it."""
    if LOCAL.state.watcher is not None:
        return f"<pre>{escape(tensor_text(tensor))}</pre>"
    array = tensor.detach().numpy(copy=False)
    facts = {
        type(tensor).__name__: f"{array.size} values",
        "shape": str(tensor.shape),
        "dtype": str(tensor.dtype),
        "device": str(tensor.device),
        "bytes": readable(tensor.nbytes),
    }
    if tensor.requires_grad:
        facts["gradient"] = "leaf" if tensor.is_leaf else "computed"
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts.items())
    table = f'<table style="text-align:left">{rows}</table>'
    return f'<div style="display:flex;gap:1em;align-items:center">{table}{_picture(array)}</div>'


def _picture(array: Array) -> str:
    if array.size <= FEW:
        return f"<pre>{escape(values_text(array))}</pre>"
    return _heat_map(array) if array.ndim == 2 and min(array.shape) > 1 else _histogram(array)


def _numbers(array: Array) -> Array:
    """Real numbers that stand for the values: of complex ones the absolute value."""
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        numbers = array.astype(wide)
        return np.abs(numbers) if array.dtype.kind == "c" else numbers


def _spread(size: int, most: int) -> Array:
    """At most `most` indices, evenly spread over an axis, both ends included."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.int64))


def _heat_map(array: Array) -> str:
    rows, columns = (_spread(size, CELLS) for size in array.shape)
    numbers = _numbers(array[np.ix_(rows, columns)])
    low, high = _bounds(numbers)
    paths: dict[str, list[str]] = {}
    for y, row in enumerate(numbers):
        for x, number in enumerate(row):
            paths.setdefault(_colour(float(number), low, high), []).append(f"M{x} {y}.5h1")
    drawn = "".join(f'<path stroke="{c}" d="{"".join(d)}"/>' for c, d in paths.items())
    whole = (len(rows), len(columns)) == array.shape
    what = "each value" if whole else f"{len(rows)} x {len(columns)} of {array.shape}"
    return _svg(len(columns), len(rows), drawn, f"{what}, {low:.4g} to {high:.4g}")


def _colour(number: float, low: float, high: float) -> str:
    if number != number:
        return NOT_A_NUMBER
    if low == high and low <= number <= high:
        return COLOURS[len(COLOURS) // 2]
    share = (min(max(number, low), high) - low) / ((high - low) or 1.0)
    return COLOURS[round(share * (len(COLOURS) - 1))]


def _bounds(numbers: Array) -> tuple[float, float]:
    """Least and greatest finite value; halved, so that their distance is finite too."""
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return 0.0, 0.0
    largest = np.finfo(np.float64).max / 2
    return float(max(finite.min(), -largest)), float(min(finite.max(), largest))


def _histogram(array: Array) -> str:
    chosen = np.unravel_index(_spread(array.size, SAMPLES), array.shape)
    numbers = _numbers(array[chosen])
    low, high = _bounds(numbers)
    finite = numbers[np.isfinite(numbers)]
    width = (high - low) or 1.0
    shares = (finite.clip(low, high) - low) / width
    places = np.clip((shares * BINS).astype(np.int64), 0, BINS - 1)
    counts = np.bincount(places, minlength=BINS)
    heights = counts / max(counts.max(), 1) * BINS
    bars = "".join(f"M{x}.5 {BINS}V{BINS - h:.2f}" for x, h in enumerate(heights) if h)
    odd = numbers.size - finite.size
    what = f"{low:.4g} to {high:.4g}" + (f", {odd} not finite" if odd else "")
    if numbers.size < array.size:
        what += f" (of {numbers.size} values)"
    return _svg(BINS, BINS, f'<path stroke="{COLOURS[1]}" d="{bars}"/>', what)


def _svg(width: int, height: int, drawn: str, what: str) -> str:
    across = PIXELS * width // max(width, height)
    down = PIXELS * height // max(width, height)
    return (
        f'<figure style="margin:0"><svg role="img" width="{across}" height="{down}" '
        f'viewBox="0 0 {width} {height}" preserveAspectRatio="none" shape-rendering="crispEdges">'
        f"<title>{escape(what)}</title>{drawn}</svg>"
        f"<figcaption><small>{escape(what)}</small></figcaption></figure>"
    )
