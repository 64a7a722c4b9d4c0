"""The trace: what Chrome and Perfetto read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import nn


@pytest.fixture
def events(tmp_path: Path) -> list[dict[str, Any]]:
    x = bp.tensor(np.ones((64, 64), np.float32))
    with bp.profile() as report:
        net = nn.Linear(64, 64)
        for _ in range(3):
            net(x).exp().realise()
    path = tmp_path / "trace.json"
    report.trace(path)
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]
    return json.loads(path.read_text())["traceEvents"]


def test_every_event_has_what_the_format_asks_for(events: list[dict[str, Any]]) -> None:
    needed = {"X": {"name", "ts", "dur", "pid", "tid"}, "M": {"name", "args"}, "C": {"args", "ts"}}
    for event in events:
        assert needed[event["ph"]] <= event.keys()
        assert event.get("dur", 0) >= 0
        assert event.get("ts", 0) >= 0


def test_kernels_modules_and_plans_are_there(events: list[dict[str, Any]]) -> None:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_kind.setdefault(event.get("cat", event["ph"]), []).append(event)
    assert {"kernel", "run", "plan", "python", "C", "M"} <= by_kind.keys()
    assert "Linear" in {event["name"] for event in by_kind["python"]}
    kernel = next(event for event in by_kind["kernel"] if "matmul" in event["name"])
    assert kernel["args"]["modules"] == ["Linear"]
    assert any("test_trace.py" in line for line in kernel["args"]["lines"])
    names = {event["args"]["name"] for event in by_kind["M"]}
    assert "MainThread" in names


def test_a_kernel_that_is_made_ready_is_an_event(tmp_path: Path) -> None:
    x = bp.tensor(np.ones(8, np.float32))
    with bp.profile() as report:
        (x.exp().sin().exp().cos().exp() * 0.25).realise()  # nobody else's kernel
    path = tmp_path / "trace.json"
    report.trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    (made,) = [event for event in events if event.get("cat") == "compile"]
    assert made["name"] == report.compiled[0].name
    assert report.compiled[0].cold == any(event.get("cat") == "llvm" for event in events)


def test_kernels_of_the_caller_lie_inside_their_run(events: list[dict[str, Any]]) -> None:
    runs = [e for e in events if e.get("cat") == "run"]
    for kernel in (e for e in events if e.get("cat") == "kernel" and e["tid"] == 1):
        assert any(
            run["ts"] <= kernel["ts"] and kernel["ts"] + kernel["dur"] <= run["ts"] + run["dur"]
            for run in runs
        )


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with bp.profile() as report:
        pass
    with pytest.raises(FileNotFoundError, match="no such"):
        report.trace(tmp_path / "no such" / "trace.json")
