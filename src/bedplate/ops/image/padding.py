"""Padding as networks use it: a number, mirrored, repeated or wrapped, by pairs from the last axis.

`bp.pad` of regions.py puts numbers around all axes. Here negative widths cut off, and the modes
other than "constant" are pieces of the value itself, put beside it axis by axis.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from bedplate.errors import ShapeError
from bedplate.ops.build import Value
from bedplate.ops.refusal import refuse
from bedplate.ops.shape import regions
from bedplate.ops.shape.regions import concat, flip, narrow
from bedplate.ops.shape.views import broadcast_to

Pairs = list[tuple[int, int]]
# NumPy's words -> PyTorch's
WORDS = {"edge": "replicate", "wrap": "circular"}


def _pairs(x: Value, widths: Any) -> Pairs:
    """(before, after) for each axis, from a flat list that starts at the last, or from pairs."""
    given = list(widths) if isinstance(widths, Sequence) else [widths]
    if given and isinstance(given[0], Sequence):
        pairs = [(int(before), int(after)) for before, after in given]
        if len(pairs) != len(x.shape):
            refuse(ShapeError, "pad", f"there are {len(pairs)} pairs", {"x": x},
                   "expected one (before, after) for each axis")  # fmt: skip
        return pairs
    if len(given) % 2 or len(given) > 2 * len(x.shape):
        refuse(ShapeError, "pad", f"{tuple(given)} are no pairs for this value", {"x": x},
               "expected (before, after) of the last axis, then of the one before")  # fmt: skip
    flat = [
        (operator.index(given[i]), operator.index(given[i + 1])) for i in range(0, len(given), 2)
    ]
    return [(0, 0)] * (len(x.shape) - len(flat)) + flat[::-1]


def _cropped(x: Value, pairs: Pairs) -> Value:
    """x without what negative widths cut off."""
    for axis, (before, after) in enumerate(pairs):
        if min(before, after) < 0:
            start = max(-before, 0)
            size = x.shape[axis] - start - max(-after, 0)
            if size < 0:
                refuse(ShapeError, "pad", f"nothing is left of axis {axis}", {"x": x},
                       f"{(before, after)} cuts off more than there is")  # fmt: skip
            x = narrow(x, axis, start, size)
    return x


def _mirrored(x: Value, axis: int, before: int, after: int, edge: int) -> list[Value]:
    """The pieces before and after, mirrored at the border; edge 0 counts the border in."""
    size = x.shape[axis]
    return [
        flip(narrow(x, axis, edge, before), axis),
        x,
        flip(narrow(x, axis, size - edge - after, after), axis),
    ]


def _replicate(x: Value, axis: int, before: int, after: int) -> list[Value]:
    def many(start: int, count: int) -> Value:
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        return broadcast_to(narrow(x, axis, start, 1), shape)

    return [many(0, before), x, many(x.shape[axis] - 1, after)]


def _circular(x: Value, axis: int, before: int, after: int) -> list[Value]:
    size = x.shape[axis]
    return [narrow(x, axis, size - before, before), x, narrow(x, axis, 0, after)]


Pieces = Callable[[Value, int, int, int], list[Value]]
# mode -> (the pieces, how much of the axis one side may take, at least this size)
MODES: dict[str, tuple[Pieces, Callable[[int], int]]] = {
    "reflect": (lambda x, axis, b, a: _mirrored(x, axis, b, a, 1), lambda size: max(size - 1, 0)),
    "symmetric": (lambda x, axis, b, a: _mirrored(x, axis, b, a, 0), lambda size: size),
    "replicate": (_replicate, lambda size: 2**62 if size else 0),
    "circular": (_circular, lambda size: size),
}


def pad_(
    x: Value, pad: Any, mode: str = "constant", value: bool | int | float | None = None
) -> Value:
    """Put numbers, or parts of a value itself, around it.

    With size n and i from -before to n + after:
      constant  y[i] = value outside           reflect    y[-i] = x[i], y[n - 1 + i] = x[n - 1 - i]
      replicate y[i] = x[clip(i, 0, n - 1)]    symmetric  y[-1 - i] = x[i], y[n + i] = x[n - 1 - i]
      circular  y[i] = x[i mod n]

    x        any shape and dtype
    pad      (before, after) of the last axis, of the one before it, ..., as one flat list; or, as
             in NumPy, a pair (before, after) for each axis from the first on. Negative: cut off
    mode     NumPy's words "edge" and "wrap" are "replicate" and "circular"
    value    for "constant"; None is 0
    returns  sizes grown by before + after
    gradient the sum over all places that show the element
    raises   ShapeError for pairs that do not fit, for more than n - 1 (reflect) or n (symmetric,
             circular) on one side; ValueError for an unknown mode
    cost     one copy for each padded axis; "constant" is folded into what reads it
    >>> import bedplate as bp
    >>> x = bp.tensor([1, 2, 3])
    >>> bp.nn.functional.pad(x, (2, 1), mode="reflect").tolist()
    [3, 2, 1, 2, 3, 2]
    >>> bp.nn.functional.pad(x, (1, -1), value=7).tolist()
    [7, 1, 2]
    """
    mode = WORDS.get(mode, mode)
    if mode != "constant" and mode not in MODES:
        words = ", ".join(["constant", *MODES])
        raise ValueError(f"pad: unknown mode {mode!r}; there are {words}")
    if mode != "constant" and value is not None and value != 0:
        raise ValueError(f"pad: mode {mode!r} takes no value, got {value!r}")
    pairs = _pairs(x, pad)
    x = _cropped(x, pairs)
    pairs = [(max(before, 0), max(after, 0)) for before, after in pairs]
    if mode == "constant":
        return regions.pad(x, pairs, 0 if value is None else value) if x.shape else x
    pieces, most = MODES[mode]
    for axis, (before, after) in enumerate(pairs):
        if max(before, after) > most(x.shape[axis]):
            refuse(ShapeError, "pad", f"{(before, after)} is too much for axis {axis}", {"x": x},
                   f"mode {mode!r} gives at most {most(x.shape[axis])} on one side")  # fmt: skip
        if before or after:
            parts = [part for part in pieces(x, axis, before, after) if part.shape[axis]]
            x = concat(parts, axis) if parts else x
    return x
