"""Operations on devices with memory of their own have the bits of the CPU, and so do gradients."""

from __future__ import annotations

from typing import Any

import pytest
from examples import accelerator

import bedplate as bp
from bedplate.devices import backends, register
from bedplate.testing import LoopbackBackend, check_tensors
from bedplate.testing.backend import check_backend
from bedplate.testing.samples import cases


@pytest.fixture(scope="module")
def loopback() -> bp.Device:
    if "loopback" not in backends():
        register(LoopbackBackend("loopback"))
    return bp.Device("loopback")


def test_the_loopback_device_has_the_bits_of_the_cpu(loopback: bp.Device, sweep: str) -> None:
    number = 0
    for case in cases(dtypes=sweep == "full"):
        if case.number and sweep == "quick":
            continue
        here, there = (check_tensors._computed(case, d) for d in (loopback, bp.Device("cpu")))
        assert [x.tobytes() for x in here] == [x.tobytes() for x in there], str(case)
        number += 1
    assert number > 180


def test_the_example_computes_every_operation(sweep: str, monkeypatch: Any) -> None:
    names = sorted({case.op.name for case in cases(False)})
    chosen = set(names if sweep == "full" else names[::9])
    monkeypatch.setattr(
        check_tensors, "cases", lambda every: (c for c in cases(every) if c.op.name in chosen)
    )
    register(accelerator.BACKEND)
    report = check_backend("accelerator", ["operations"])
    report.raise_failures()
    assert len(report.outcomes) == len(chosen)
