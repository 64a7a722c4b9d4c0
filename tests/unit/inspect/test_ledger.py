"""Memory: the peak and what it consists of, beside an independent count."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import nn, optim
from bedplate.inspect.ledger import (
    ACTIVATION,
    DATA,
    GRADIENT,
    OPTIMISER_STATE,
    PARAMETER,
    TEMPORARY,
    Ledger,
    Temporary,
    fullest,
)

MIB = 1 << 20


def filled(n_bytes: int) -> bp.Tensor:
    return bp.full((n_bytes // 4,), 1.5).realise()


def test_the_peak_is_what_lived_at_once() -> None:
    with bp.profile() as report:
        a, b = filled(8 * MIB), filled(4 * MIB)
        del a
        c = filled(2 * MIB)
    assert report.peak.nbytes == pytest.approx(12 * MIB, rel=0.05)
    assert report.end.nbytes == pytest.approx(6 * MIB, rel=0.05)
    assert report.peak.kinds[ACTIVATION] == pytest.approx(12 * MIB, rel=0.05)
    assert b.nbytes + c.nbytes == 6 * MIB


def test_each_kind_is_what_it_is() -> None:
    size = 4 * 512 * 512
    x = np.random.default_rng(0).standard_normal((64, 512)).astype(np.float32)
    with bp.profile() as report:
        net = nn.Linear(512, 512, bias=False)
        optimiser = optim.AdamW(net.parameters(), lr=0.1)
        given = bp.tensor(x)
        net(given).sum().backward()
        optimiser.step()
    end = report.end.kinds
    assert end[PARAMETER] == end[GRADIENT] == size
    assert end[OPTIMISER_STATE] == 2 * size
    assert end[DATA] == pytest.approx(x.nbytes, rel=0.01)
    assert report.peak.nbytes >= 4 * size
    assert sum(report.peak.kinds.values()) == pytest.approx(report.peak.nbytes, rel=0.02)


def test_what_a_module_held_before_counts() -> None:
    net = nn.Linear(512, 256, bias=False)
    net.weight.realise()
    with bp.profile() as report:
        net(bp.ones((2, 512))).realise()
    assert report.end.kinds[PARAMETER] >= 4 * 512 * 256
    assert {"Linear"} <= {row.path for row in report.modules}


def test_a_captured_step_tells_activations_from_temporaries() -> None:
    with bp.profile() as report:
        weight = bp.tensor(np.ones((256, 256), np.float32), requires_grad=True)
        x = bp.tensor(np.ones((1024, 256), np.float32))

        @bp.jit
        def step() -> Any:
            weight.grad = None
            loss = ((x @ weight).tanh() @ weight).tanh().sum()
            loss.backward()
            assert weight.grad is not None
            with bp.no_grad():
                weight.assign(weight - weight.grad * 0.1)
            weight.grad = None
            return loss.detach()

        for _ in range(4):
            step()
    assert report.peak.kinds[ACTIVATION] >= x.nbytes  # the inner tanh
    lines = {line for line, kind, _ in report.peak.lines if kind == ACTIVATION}
    assert any("test_ledger.py" in line for line in lines)


def test_a_finaliser_looks_at_no_holder() -> None:
    weight = filled(MIB)
    looked: list[int] = []

    def holders() -> Any:
        looked.append(1)
        yield weight, PARAMETER, "net"

    ledger = Ledger(holders)
    ledger.adopt()
    before = len(looked)
    block, other = weight._node.block, filled(MIB)._node.block
    ledger.made(other)
    ledger.gone(other)  # the most lived just now: noted
    assert len(looked) == before
    assert ledger.unnamed and block is not None
    ledger.ran(None, [0])  # the next run names what was noted
    assert len(looked) == before + 1
    at_peak, at_end = ledger.close()
    assert sum(share.nbytes for share in at_peak) == 2 * MIB
    assert [(share.kind, share.module) for share in at_end] == [(PARAMETER, "net")]


def test_blocks_come_and_go_while_others_are_named() -> None:
    weight = filled(MIB)
    blocks = [bp.empty((8,)).realise()._node.block for _ in range(50)]
    ledger = Ledger(lambda: iter([(weight, PARAMETER, "net")]))
    ledger.adopt()

    def work() -> None:
        for _ in range(20):
            [ledger.made(block) for block in blocks]
            [ledger.gone(block) for block in blocks]

    threads = [threading.Thread(target=work) for _ in range(1)]
    [thread.start() for thread in threads]
    for _ in range(50):
        ledger.name_holders()
        ledger.close()
    [thread.join() for thread in threads]
    assert ledger.live == weight._node.block.nbytes  # type: ignore[union-attr]


def temporary(nbytes: int, offset: int, first: int, last: int) -> Temporary:
    return Temporary(nbytes, offset, first, last, TEMPORARY, None)


def test_the_fullest_region_of_an_arena() -> None:
    early, wide = temporary(10, 0, 0, 1), temporary(30, 64, 1, 3)
    late = temporary(25, 0, 3, 4)
    assert sum(share.nbytes for share in fullest([early, wide, late])) == 55
    assert fullest([]) == []


def test_two_temporaries_in_one_place_count_once() -> None:
    below, above = temporary(64, 0, 0, 2), temporary(64, 0, 2, 4)
    assert sum(share.nbytes for share in fullest([below, above])) == 64
