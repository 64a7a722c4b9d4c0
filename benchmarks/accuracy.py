"""How far sums, means, variances, norms and products are from exact, for each way to accumulate.

    python -m benchmarks.accuracy            prints the tables
    python -m benchmarks.accuracy --write    writes them into docs/in-depth/accumulation.md

Errors are in units in the last place of the exact result: 0.5 is what rounding it once costs. The
exact result comes from `math.fsum`, whose only rounding is the last, or from exact fractions.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import bedplate as bp

PAGE = Path(__file__).resolve().parents[1] / "docs" / "in-depth" / "accumulation.md"
MODES = ("", "float64", "compensated")
LENGTHS = (100, 10_000, 1_000_000)
BLOCKS = (16, 256, 4096, 65_536, 1_048_576)
DTYPES = (bp.bfloat16, bp.float32, bp.float64)
DEPTHS = (64, 1000)
Array = np.ndarray[Any, Any]


def even(length: int, seed: int = 0) -> Array:
    """Numbers between 0 and 1: what a long sum loses grows with its length."""
    return np.random.default_rng(seed).random(length)


def cancelling(length: int, seed: int = 0) -> Array:
    """Numbers of sizes from 0.001 to 1000 that nearly cancel."""
    generator = np.random.default_rng(seed)
    pairs = (length - 2) // 2
    half = generator.normal(size=pairs) * 10.0 ** generator.uniform(-3, 3, pairs)
    return generator.permutation(
        np.concatenate([half, -half, generator.normal(size=length - 2 * pairs)])
    )


def units(found: float, exact: float, dtype: Any) -> float:
    """The error in units in the last place of the exact result, in a dtype."""
    digits = bp.finfo(dtype).eps
    if found == exact:
        return 0.0
    return abs(found - exact) / (digits * 2.0 ** math.floor(math.log2(abs(exact))))


def exact_sum(x: Array) -> float:
    return math.fsum(x.astype(np.float64))


def exact_mean(x: Array) -> float:
    return float(Fraction(exact_sum(x)) / x.size)


def exact_var(x: Array) -> float:
    """By deviations in extended precision, whose own error is 1e-19."""
    wide = x.astype(np.longdouble)
    return float(np.mean((wide - wide.mean()) ** 2))


def exact_norm(x: Array) -> float:
    wide = x.astype(np.longdouble)
    return float(np.sqrt(np.sum(wide * wide)))


# name -> (function of ours, exact value, numbers)
REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[[Array], float], Any]] = {
    "sum": (bp.sum, exact_sum, even),
    "sum, cancelling": (bp.sum, exact_sum, cancelling),
    "mean": (bp.mean, exact_mean, even),
    "var": (bp.var, exact_var, even),
    "vector_norm": (bp.linalg.vector_norm, exact_norm, even),
}


def reduction_rows(lengths: Iterable[int]) -> list[list[str]]:
    """One row for each reduction, dtype and length."""
    rows = []
    for name, (function, exact, numbers) in REDUCTIONS.items():
        for dtype in DTYPES:
            for length in lengths:
                x = bp.tensor(numbers(length)).astype(dtype)
                wanted = exact(x.astype(bp.float64).numpy())
                errors = [
                    units(function(x, accumulate=mode).astype(bp.float64).item(), wanted, dtype)
                    for mode in MODES
                ]
                rows.append([name, dtype.name, f"{length:,}", *map(shown, errors)])
    return rows


def block_rows(blocks: Iterable[int]) -> list[list[str]]:
    """A sum of 2**20 float32 numbers that cancel, in blocks and then over the blocks."""
    x = bp.tensor(cancelling(1 << 20)).astype(bp.float32)
    wanted = exact_sum(x.numpy())
    rows = []
    for block in blocks:
        errors = []
        for mode in MODES:
            parts = x.reshape(-1, block).sum(axis=1, accumulate=mode)
            errors.append(units(parts.sum(accumulate=mode).item(), wanted, bp.float32))
        rows.append([f"{block:,}", *map(shown, errors)])
    return rows


def product_rows(depths: Iterable[int]) -> list[list[str]]:
    """The worst element of a product of 4 x K and K x 4 matrices that cancel."""
    rows = []
    for dtype in DTYPES:
        for depth in depths:
            a = bp.tensor(cancelling(4 * depth)).astype(dtype).reshape(4, depth)
            b = bp.tensor(even(depth * 4, 1)).astype(dtype).reshape(depth, 4)
            wanted = exact_product(*(x.astype(bp.float64).numpy() for x in (a, b)))
            errors = []
            for mode in MODES:
                found = bp.matmul(a, b, accumulate=mode).astype(bp.float64).numpy()
                pairs = zip(found.flat, wanted, strict=True)
                errors.append(max(units(float(f), w, dtype) for f, w in pairs))
            rows.append([dtype.name, f"{depth:,}", *map(shown, errors)])
    return rows


def exact_product(a: Array, b: Array) -> list[float]:
    """The elements of a product, each rounded once."""
    rows = [[Fraction(float(x)) for x in row] for row in a]
    columns = [[Fraction(float(x)) for x in column] for column in b.T]
    pairs = [(row, column) for row in rows for column in columns]
    return [float(sum(x * y for x, y in zip(*pair, strict=True))) for pair in pairs]


def shown(error: float) -> str:
    return f"{error:.2g}" if error < 100 else f"{error:,.0f}"


def table(head: Sequence[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables(
    lengths: Sequence[int] = LENGTHS, blocks: Sequence[int] = BLOCKS,
    depths: Sequence[int] = DEPTHS,
) -> dict[str, str]:  # fmt: skip
    """The tables by name."""
    modes = ["default", *MODES[1:]]
    return {
        "reductions": table(["", "dtype", "length", *modes], reduction_rows(lengths)),
        "blocks": table(["block", *modes], block_rows(blocks)),
        "products": table(["dtype", "K", *modes], product_rows(depths)),
    }


def written(page: str, made: dict[str, str]) -> str:
    """The page with each table in its place, between two comments."""
    for name, text in made.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not place.search(page):
            raise ValueError(f"the page has no place for the table {name!r}")
        page = place.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write them into {PAGE.name}")
    options = parser.parse_args(arguments)
    made = tables()
    if options.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
    else:
        print("\n\n".join(made.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
