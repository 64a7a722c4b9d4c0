"""The switches: each names a case and settings that there are; graphs differ as they should."""

from __future__ import annotations

import re

import pytest

from bedplate.config import SETTINGS
from benchmarks import cases, graphs, switches
from benchmarks.peers import plain_peer

NAMES = {setting.name for setting in SETTINGS}


@pytest.mark.parametrize("switch", switches.SWITCHES, ids=lambda s: f"{s.name} {s.case}")
def test_a_switch_names_what_there_is(switch: switches.Switch) -> None:
    assert switch.case in {case.name for case in cases.all_cases()}
    assert set(switch.off) <= NAMES
    assert switch.off or switch.peer != switches.ON


def test_the_gain_is_of_the_medians() -> None:
    outcome = switches.Outcome(switches.SWITCHES[0], [1.0, 2.0, 3.0], [4.0, 4.0, 9.0])
    assert outcome.gain == 2.0
    assert outcome.range == (2.0, 4.0)


def test_fusion_shows_in_the_launches() -> None:
    off = {"fusion": False}
    fused, plain = (graphs.plans_of("elementwise/chain-1e3", more) for more in ({}, off))
    assert graphs.summary(fused).startswith("1 plans, 1 regions, 1 launches in 1 tasks")
    assert graphs.summary(plain).startswith("1 plans, 3 regions, 3 launches in 3 tasks")


def test_merging_shows_in_the_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    graphs.show_graphs("merging", "optimiser/adamw-200x64x64", {"merging": "0"})
    merged, single = (line for line in capsys.readouterr().out.splitlines() if "plans" in line)
    counts = [re.search(r"(\d+) launches in (\d+) tasks", line) for line in (merged, single)]
    launches, tasks = zip(*(map(int, found.groups()) for found in counts if found), strict=True)
    assert launches[0] == launches[1] == tasks[1]
    assert 10 * tasks[0] < tasks[1]


def test_the_plain_order_gives_the_same_bits_as_the_product() -> None:
    case = cases.Case("m", "matmul", {"m": 5, "k": 33, "n": 64})
    inputs = case.inputs()
    run = plain_peer.matmul(case.parameters, inputs)
    assert run is not None
    ours = graphs.bedplate_peer.matmul(case.parameters, inputs)()[0].numpy()
    assert run()[0].reshape(5, 64).tolist() == ours.tolist()
    assert plain_peer.matmul({"m": 5, "k": 33, "n": 3}, inputs) is None
