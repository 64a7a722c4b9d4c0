"""The printed table of all ops: `python -m bedplate.ops.table`.

One line an op: its kind, whether it has a gradient (or the reason why not), how a device computes
it, the dtypes of its first input, and how many samples test it.
"""

from __future__ import annotations

from bedplate.dtypes import ALL, FLOATS, INTEGERS, DType
from bedplate.ops.record import REGISTRY, NoGradient, Op

HEADINGS = ("op", "kind", "gradient", "computed by", "dtypes", "samples")
GROUPS = (
    (ALL, "all"),
    (tuple(d for d in ALL if d.kind != "c"), "bool, integers, floats"),
    (INTEGERS + FLOATS, "integers, floats"),
    (FLOATS, "floats"),
    (INTEGERS, "integers"),
)
BY_NAME = {
    "leaf": "the compiler",
    "view": "indices of the reader",
    "gather": "the compiler",
    "assemble": "the compiler",
    "host": "NumPy",
}


def named_dtypes(dtypes: tuple[DType, ...]) -> str:
    """The dtypes in words."""
    for group, name in GROUPS:
        if set(dtypes) == set(group):
            return name
    return ", ".join(dtype.name for dtype in dtypes)


def computed_by(op: Op) -> str:
    """Which field of the record, or which rule of the compiler, computes the op."""
    for name in ("emit", "lower", "expand", "combine"):
        if getattr(op, name) is not None:
            return name
    return BY_NAME.get(op.kind, "the compiler")


def row(op: Op) -> tuple[str, ...]:
    """The cells of one op."""
    gradient = op.gradient
    shown = f"none: {gradient.reason}" if isinstance(gradient, NoGradient) else gradient.__name__
    return (
        op.name,
        op.kind,
        shown,
        computed_by(op),
        named_dtypes(op.dtypes),
        str(len(op.samples)),
    )


def table() -> str:
    """All ops as text, sorted by kind and name.

    >>> print(table().splitlines()[0].split()[:3])
    ['op', 'kind', 'gradient']
    """
    rows = sorted((row(op) for op in REGISTRY.values()), key=lambda cells: (cells[1], cells[0]))
    rows.insert(0, HEADINGS)
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    )


if __name__ == "__main__":
    print(table())
