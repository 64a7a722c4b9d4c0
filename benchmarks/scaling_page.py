"""The page of the documentation that shows how time and memory grow.

python -m benchmarks.scaling_page --write    writes docs/benchmarks-scaling.md from the kept points
python -m benchmarks.pictures                draws its pictures (needs the extra `plot`)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.peer import ROOT
from benchmarks.scaling import HEAD, TOLERANCE, Fit, cells, fits, read

PAGE = ROOT / "docs" / "benchmarks-scaling.md"
PICTURES = ROOT / "docs" / "pictures"
TOP = """# How time and memory grow

<!-- made by `python -m benchmarks.scaling_page --write` from benchmarks/results/scaling.json -->

`python -m benchmarks.scaling --keep` measures every point in a process of its own: the median time
of a captured run, and the most bytes that tensors held at once during it. A power law is fitted by
least squares on the logarithms, and beside it, over the same points, to what the algorithm counts
(operations or bytes moved; for memory weights, their gradients and moments, and what the gradient
of each layer needs again). An exponent more than {tolerance} above the algorithm's is named.
"""


def slug(name: str) -> str:
    """The name of a picture's file.

    >>> slug("attention, window 256")
    'scaling-attention-window-256'
    """
    return "scaling-" + name.replace(",", "").replace(" ", "-")


def _row(fit: Fit) -> str:
    return "| " + " | ".join(cells(fit)) + " |"


def text(kept: dict[str, Any]) -> str:
    """The whole page."""
    found = fits(kept)
    parts = [TOP.format(tolerance=TOLERANCE)]
    if not found:
        return parts[0] + "\nNothing is kept yet.\n"
    about = kept["about"]
    parts.append(
        f"{about['machine']}, {about['cpus']} processors, {about['threads']} threads, "
        f"commit `{about['commit']}`.\n"
    )
    parts.append("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    parts[-1] = "\n".join([parts[-1], *map(_row, found)]) + "\n"
    parts += [f"![{fit.name}](pictures/{slug(fit.name)}.svg)\n" for fit in found]
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling_page")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    made = text(read())
    if parser.parse_args(arguments).write:
        PAGE.write_text(made, encoding="utf-8")
    else:
        print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
