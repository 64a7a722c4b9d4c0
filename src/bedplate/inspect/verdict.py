"""The roofline verdict on a kernel: which limit of the machine it is near, and how near."""

from __future__ import annotations

from dataclasses import dataclass

from bedplate.inspect.limits import Machine

MEMORY, COMPUTE, OVERHEAD, NEITHER = "memory", "compute", "overhead", "neither"
# To hand a region to a worker takes about 1 us: a launch of no more than that is mostly overhead.
OVERHEAD_SECONDS = 2e-6
# Below this share of both limits something else is: instructions that flops do not count (integers,
# the polynomials of exp), or waiting for what comes one after the other.
NEAR = 0.3
READS_ONLY = 1 / 8  # a kernel that writes less of its bytes is compared with a plain reading


@dataclass(frozen=True)
class Work:
    """Launches of one task: how often, how long (the median), and what one of them does."""

    count: int
    seconds: float
    flops: float
    nbytes: float
    written: float
    wide: bool
    several: bool

    def of_peak(self, machine: Machine) -> float:
        """Seconds of one launch at the peak of multiply-adds."""
        return self.flops / machine.of(self.several).flops[8 if self.wide else 4]

    def of_bandwidth(self, machine: Machine) -> float:
        """Seconds of one launch at the bandwidth of its working set."""
        limits = machine.of(self.several)
        return self.nbytes / limits.bandwidth(self.nbytes, self.written < READS_ONLY)


@dataclass(frozen=True)
class Verdict:
    """kind: one of those above; bandwidth, peak: shares of the limits, 1 for a limit reached."""

    kind: str
    bandwidth: float
    peak: float
    text: str


def judge(works: list[Work], machine: Machine) -> Verdict:
    """The verdict on launches that stand in one row."""
    seconds = sum(work.count * work.seconds for work in works)
    count = sum(work.count for work in works)
    if not seconds:
        return Verdict(OVERHEAD, 0.0, 0.0, "overhead-bound: no work")
    peak = sum(work.count * work.of_peak(machine) for work in works) / seconds
    bandwidth = sum(work.count * work.of_bandwidth(machine) for work in works) / seconds
    alone = (
        "" if any(work.several for work in works) or machine.all is machine.one else ", one core"
    )
    if seconds / count < OVERHEAD_SECONDS:
        kind, text = OVERHEAD, f"overhead-bound: {seconds / count * 1e6:.1f} us of work"
    elif max(peak, bandwidth) < NEAR:
        kind = NEITHER
        text = f"neither limit: {bandwidth:.0%} of bandwidth, {peak:.0%} of peak{alone}"
    elif peak > bandwidth:
        kind, text = COMPUTE, f"compute-bound at {peak:.0%} of peak{alone}"
    else:
        kind = MEMORY
        text = f"memory-bound at {bandwidth:.0%} of the measured bandwidth{alone}"
    return Verdict(kind, bandwidth, peak, text.replace("%", " %"))
