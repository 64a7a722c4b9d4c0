"""The list of passes, in order, and the runner.

The runner, not the pass, times it, prints what changed, verifies, and keeps the graphs
before and after for whoever wants to look.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from bedplate.compiler.passes.algebra import algebra
from bedplate.compiler.passes.broadcast import broadcast
from bedplate.compiler.passes.cse import cse
from bedplate.compiler.passes.empty import empty
from bedplate.compiler.passes.expand_composed import expand_composed
from bedplate.compiler.passes.fold import fold
from bedplate.compiler.passes.legalise_complex import legalise_complex
from bedplate.compiler.passes.reductions import reductions
from bedplate.compiler.passes.rematerialise import rematerialise
from bedplate.compiler.passes.store_in_order import store_in_order
from bedplate.compiler.passes.turn_products import turn_products
from bedplate.compiler.passes.verify import verify
from bedplate.compiler.passes.views import views
from bedplate.compiler.print_graph import graph_text
from bedplate.compiler.rewrite import Roots
from bedplate.config import config
from bedplate.graph.node import topological_order


@dataclass(frozen=True)
class Pass:
    """One pass: the function, and the setting that switches it off, if one may."""

    run: Callable[[Roots], Roots]
    setting: str | None = None

    @property
    def name(self) -> str:
        return self.run.__name__


@dataclass
class Step:
    """What one pass did: kept for inspection."""

    name: str
    seconds: float
    before: Roots
    after: Roots


def passes() -> tuple[Pass, ...]:
    """All passes, in the order in which they run."""
    return (
        Pass(legalise_complex),
        Pass(expand_composed),
        Pass(empty),
        Pass(broadcast),
        Pass(fold, "folding"),
        Pass(cse, "cse"),
        Pass(algebra, "algebra"),
        Pass(turn_products, "algebra"),
        Pass(store_in_order, "fusion"),
        Pass(reductions),
        Pass(rematerialise, "fusion"),
        Pass(views),
    )


def run_passes(roots: Roots, steps: list[Step] | None = None) -> Roots:
    """The graph after all passes that are switched on.

    steps   gets what each pass did
    """
    for each in passes():
        if each.setting is not None and not getattr(config, each.setting):
            continue
        started = time.perf_counter()
        after = each.run(roots)
        seconds = time.perf_counter() - started
        if config.verify:
            verify(after, each.name)
        if config.debug >= 3:
            _show(each.name, seconds, roots, after)
        if steps is not None:
            steps.append(Step(each.name, seconds, roots, after))
        roots = after
    return roots


def _show(name: str, seconds: float, before: Roots, after: Roots) -> None:
    changed = graph_text(before) != graph_text(after)
    counts = f"{len(topological_order(before))} -> {len(topological_order(after))} nodes"
    print(f"pass {name}: {counts}, {seconds * 1e3:.2f} ms", file=sys.stderr)
    if changed:
        print(graph_text(after), file=sys.stderr)
