"""How reductions run inside a fused kernel: accumulators, and the fixed tree that joins them.

Each of `unroll` vectors accumulates its own columns; they are joined pairwise, then the lanes
by halves. The order depends on the number of columns alone, never on threads or rows. Long
rows are cut in blocks whose results are added in order, so that the error stays small and
2e7 ones add up to 2e7.
"""

from __future__ import annotations

from typing import Any

from bedplate.compiler.program import Reduce
from bedplate.errors import InternalError
from bedplate.kernel import cast, constant, extract, from_dtype, i32, i64, select, shuffle, var

# columns that one set of accumulators takes; also the chunk of a split reduction, so that a
# row gives the same bits whether it is split or not
BLOCK = 16384
NO_INDEX = 2**62


class Accumulator:
    """One running reduction of vectors (lanes > 0) or scalars."""

    def __init__(self, reduce: Reduce, lanes: int | None) -> None:
        self.reduce = reduce
        self.lanes = lanes
        self.type = accumulator_type(reduce)
        self.cells = [var(start) for start in self._start()]

    def _start(self) -> list[Any]:
        first = constant(self.type, initial_value(self.reduce), self.lanes)
        if not is_arg(self.reduce):
            return [first]
        return [first, constant(i64, NO_INDEX, self.lanes)]

    def take(self, parts: list[Any], mask: Any = None) -> None:
        """Combine with new parts; lanes that the mask leaves out do not count."""
        old = [cell.get() for cell in self.cells]
        new = combine(self.reduce, old, parts)
        for cell, before, after in zip(self.cells, old, new, strict=True):
            cell.set(after if mask is None else select(mask, after, before))

    def parts(self) -> list[Any]:
        return [cell.get() for cell in self.cells]


def is_arg(reduce: Reduce) -> bool:
    """Whether the result is where the extreme stands: argmax or argmin."""
    return reduce.op.name in ("argmax", "argmin")


def accumulator_type(reduce: Reduce) -> Any:
    """Booleans accumulate as 32-bit integers 0 and 1."""
    return i32 if reduce.accumulate.kind == "b" else from_dtype(reduce.accumulate)


def initial_value(reduce: Reduce) -> Any:
    """The value that changes nothing."""
    dtype = reduce.accumulate
    if not is_arg(reduce):
        value = rule(reduce.op, "initial")(dtype)
        return int(value) if dtype.kind in "biu" else float(value)
    lowest = reduce.op.name == "argmax"
    if dtype.kind == "f":
        return float("-inf") if lowest else float("inf")
    if dtype.kind == "b":
        return 0 if lowest else 1
    bits = dtype.itemsize * 8
    least = -(2 ** (bits - 1)) if dtype.kind == "i" else 0
    most = 2 ** (bits - 1) - 1 if dtype.kind == "i" else 2**bits - 1
    return least if lowest else most


def rule(op: Any, name: str) -> Any:
    """A field that the record of a reduction must have."""
    found = getattr(op, name)
    if found is None:
        raise InternalError(f"{op.name} has no {name}")
    return found


def combine(reduce: Reduce, a: list[Any], b: list[Any]) -> list[Any]:
    """Two partial results as one."""
    if not is_arg(reduce):
        return [rule(reduce.op, "combine")(a[0], b[0])]
    (value_a, index_a), (value_b, index_b) = a, b
    ahead = value_b > value_a if reduce.op.name == "argmax" else value_b < value_a
    equal = value_b == value_a
    if reduce.accumulate.kind == "f":
        nan_a, nan_b = value_a != value_a, value_b != value_b
        ahead = ahead | (nan_b & ~nan_a)
        equal = equal | (nan_a & nan_b)
    better = ahead | (equal & (index_b < index_a))
    return [select(better, value_b, value_a), select(better, index_b, index_a)]


def join(reduce: Reduce, accumulators: list[list[Any]], lanes: int) -> list[Any]:
    """The parts of several vector accumulators as scalars, by a fixed tree."""
    while len(accumulators) > 1:
        accumulators = [
            combine(reduce, accumulators[i], accumulators[i + 1])
            for i in range(0, len(accumulators), 2)
        ]
    parts = accumulators[0]
    width = lanes
    while width > 1:
        width //= 2
        upper = [(i + width) % lanes for i in range(lanes)]
        parts = combine(reduce, parts, [shuffle(part, part, upper) for part in parts])
    return [extract(part, 0) for part in parts]


def accumulated(reduce: Reduce, value: Any) -> Any:
    """A value as the accumulator takes it."""
    return cast(value, accumulator_type(reduce))


def finished(reduce: Reduce, parts: list[Any]) -> Any:
    """The result in its own dtype."""
    result = parts[-1]
    if reduce.dtype.kind == "b":
        return result != 0
    return cast(result, from_dtype(reduce.dtype))
