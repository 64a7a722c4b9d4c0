"""What a case launches with a feature and without it: kernels, items, bytes, flops.

The case runs once for each side, and every plan that is made for it is looked at; a long list of
launches is shown as the number of launches of each kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import bedplate as bp
from bedplate.compiler.explain import schedule_text
from bedplate.observer import hooks
from benchmarks.cases import all_cases
from benchmarks.peers import bedplate_peer

LONG = 12  # launches


@contextmanager
def made_plans() -> Iterator[list[Any]]:
    """The plans that are made within the block; those that were made before are made again."""
    plans: list[Any] = []
    mark = object()
    hooks.planned = lambda plan, regions, buffers: plans.append(plan)
    hooks.plan_key = lambda signature: mark
    try:
        yield plans
    finally:
        hooks.clear()


def plans_of(case_name: str, settings: dict[str, Any]) -> list[Any]:
    """The plans of one run of a case under some settings."""
    case = next(case for case in all_cases() if case.name == case_name)
    with bp.config(**settings):
        run = getattr(bedplate_peer, case.kind)(case.parameters, case.inputs())
        with made_plans() as plans:
            run()
    return plans


def summary(plans: list[Any]) -> str:
    """Plans by their launches, or by the number of launches of each kernel."""
    launches = [launch for plan in plans for region in plan.regions for launch in region]
    tasks = sum(len(region) for plan in plans for region in plan.native.regions)
    moved = sum(launch.nbytes for launch in launches)
    head = (
        f"{len(plans)} plans, {sum(len(plan.regions) for plan in plans)} regions, "
        f"{len(launches)} launches in {tasks} tasks, {moved / 2**20:,.1f} MiB moved"
    )
    if len(launches) <= LONG:
        parts = [schedule_text(plan.regions, plan.arena_bytes) for plan in plans]
        return "\n".join([head, *parts])
    counts = Counter(launch.name for launch in launches).most_common()
    return "\n".join([head, *(f"  {count:5} x {name}" for name, count in counts)])


def show_graphs(feature: str, case_name: str, off: dict[str, str]) -> None:
    """Print both sides; where the other side is another program there is but one."""
    print(f"== {feature} at {case_name}\n-- with: {summary(plans_of(case_name, {}))}")
    if off:
        settings = {name: value not in ("", "0") for name, value in off.items()}
        print(f"-- without: {summary(plans_of(case_name, settings))}")
    else:
        print("-- without: another program, `benchmarks/peers/plain_peer.py`")
