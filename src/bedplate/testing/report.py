"""What the kit found: one outcome a check, in sections, as text."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

SHOWN_LINES = 12  # of a check that failed


class Fault(Exception):
    """A rule that a back end breaks, in words."""


@dataclass(frozen=True)
class Check:
    """One thing to be looked at.

    section  of the report
    name     what holds if it passes
    run      looks at it; raises Fault if it does not hold, gives a remark for people or None
    """

    section: str
    name: str
    run: Callable[[], str | None]


@dataclass(frozen=True)
class Outcome:
    """What became of a check: `fault` is None if it passed."""

    check: Check
    fault: str | None
    remark: str | None
    seconds: float


@dataclass
class Report:
    """The outcomes of all checks of a device."""

    device: str
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def failures(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.fault is not None]

    def add(self, checks: Iterable[Check], tell: Callable[[str], Any] | None = None) -> None:
        """Run checks; `tell` hears the line of each when it is done."""
        for check in checks:
            outcome = run_check(check)
            self.outcomes.append(outcome)
            if tell is not None:
                tell(line_of(outcome))

    def raise_failures(self) -> None:
        """raises AssertionError that says what failed, if anything did"""
        if self.failures:
            raise AssertionError("\n".join([str(self), *map(line_of, self.failures)]))

    def __str__(self) -> str:
        """A line a section, and how many checks passed."""
        lines = []
        for section in dict.fromkeys(outcome.check.section for outcome in self.outcomes):
            here = [o for o in self.outcomes if o.check.section == section]
            passed = sum(o.fault is None for o in here)
            word = "passed" if passed == len(here) else "FAILED"
            lines.append(
                f"{word}  {section}: {passed} of {len(here)} ({sum(o.seconds for o in here):.1f} s)"
            )
        failed = len(self.failures)
        verdict = "keeps the protocol" if not failed else f"breaks it in {failed} places"
        return "\n".join([*lines, f"{self.device}: {len(self.outcomes)} checks, {verdict}"])


def run_check(check: Check) -> Outcome:
    """What becomes of one check; whatever it raises is a fault."""
    begin = time.perf_counter()
    fault = remark = None
    try:
        remark = check.run()
    except Fault as error:
        fault = str(error)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        fault = (
            f"it raised {type(error).__name__}: {error}\n"
            f"  at {last.filename}:{last.lineno} in {last.name}"
        )
    return Outcome(check, fault, remark, time.perf_counter() - begin)


def line_of(outcome: Outcome) -> str:
    """The outcome of a check in a line, or more if it failed."""
    check = outcome.check
    if outcome.fault is None:
        remark = f": {outcome.remark}" if outcome.remark else ""
        return f"  ok      {check.section}: {check.name}{remark}"
    lines = outcome.fault.splitlines() or [""]
    shown = lines[:SHOWN_LINES] + (["..."] if len(lines) > SHOWN_LINES else [])
    return "\n".join([f"  FAILED  {check.section}: {check.name}", *[f"    {x}" for x in shown]])


def require(holds: bool, fault: str) -> None:
    """raises Fault unless something holds"""
    if not holds:
        raise Fault(fault)
