"""The roofline verdict: which limit a kernel is near, and how near."""

from __future__ import annotations

import math

import pytest

from bedplate.inspect.limits import Bandwidth, Limits, Machine, measure
from bedplate.inspect.verdict import COMPUTE, MEMORY, NEITHER, OVERHEAD, Work, judge

RATES = [Bandwidth(1 << 20, 100e9, 120e9), Bandwidth(1 << 26, 20e9, 25e9)]
MACHINE = Machine(
    Limits(1, {4: 100e9, 8: 50e9}, RATES),
    Limits(2, {4: 200e9, 8: 100e9}, [Bandwidth(b.nbytes, 2 * b.copy, 2 * b.read) for b in RATES]),
)


def work(seconds: float, flops: float, nbytes: float, **changes: object) -> Work:
    given = {"written": 0.5, "wide": False, "several": True, **changes}
    return Work(1, seconds, flops, nbytes, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("works", "kind", "text"),
    [
        ([work(1.0, 182e9, 1e6)], COMPUTE, "compute-bound at 91 % of peak"),
        ([work(1.0, 91e9, 1e6, wide=True)], COMPUTE, "compute-bound at 91 % of peak"),
        ([work(1.0, 0, 33.2e9)], MEMORY, "memory-bound at 83 % of the measured bandwidth"),
        ([work(1.0, 0, 45e9, written=0.0)], MEMORY, "memory-bound at 90 % of the measured band"),
        ([work(1.0, 0, 15e9, several=False)], MEMORY, "75 % of the measured bandwidth, one core"),
        ([work(1.5e-6, 10, 10)], OVERHEAD, "overhead-bound: 1.5 us of work"),
        ([work(1.0, 8e9, 4e9)], NEITHER, "neither limit: 10 % of bandwidth, 4 % of peak"),
        ([work(1.0, 200e9, 1e6), work(1.0, 100e9, 1e6)], COMPUTE, "at 75 % of peak"),
    ],
)
def test_verdicts(works: list[Work], kind: str, text: str) -> None:
    verdict = judge(works, MACHINE)
    assert verdict.kind == kind
    assert text in verdict.text


def test_no_time_is_no_work() -> None:
    assert judge([work(0.0, 0, 0)], MACHINE).kind == OVERHEAD


def test_bandwidth_lies_between_those_measured() -> None:
    limits = MACHINE.one
    assert limits.bandwidth(1) == limits.bandwidth(1 << 20) == 100e9
    assert limits.bandwidth(1 << 30) == 20e9
    assert math.isclose(limits.bandwidth(1 << 23), 60e9)
    assert limits.bandwidth(1 << 20, reads_only=True) == 120e9


def test_a_machine_is_measured() -> None:
    machine = measure()
    for limits in (machine.one, machine.all):
        assert limits.flops[4] > limits.flops[8] > 0
        assert [b.nbytes for b in limits.bandwidths] == sorted(b.nbytes for b in limits.bandwidths)
        assert all(b.copy > 0 and b.read > 0 for b in limits.bandwidths)
    assert machine.all.flops[4] >= machine.one.flops[4]
