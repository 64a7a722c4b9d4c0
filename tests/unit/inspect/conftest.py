"""Profiles in tests take the limits of a made-up machine, which costs nothing to measure."""

from __future__ import annotations

import pytest

from bedplate.inspect import report
from bedplate.inspect.limits import Bandwidth, Limits, Machine


@pytest.fixture(autouse=True)
def made_up_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(1, {4: 1e11, 8: 5e10}, [Bandwidth(1 << 20, 5e10, 5e10)])
    monkeypatch.setattr(report, "measure", lambda: Machine(limits, limits))
