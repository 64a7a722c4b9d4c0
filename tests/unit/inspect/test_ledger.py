"""Memory: the peak and what it consists of, beside an independent count."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import nn, optim
from bedplate.inspect import ledger as ledgers
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
    before = bp.memory.report()
    with bp.profile() as report:
        a, b = filled(8 * MIB), filled(4 * MIB)
        del a
        c = filled(2 * MIB)
    assert report.peak.nbytes == pytest.approx(before.live + 12 * MIB, rel=0.02)
    assert report.end.nbytes == pytest.approx(before.live + 6 * MIB, rel=0.02)
    more = report.peak.kinds[ACTIVATION] - before.by("kind").get(ACTIVATION, (0, 0))[0]
    assert more == pytest.approx(12 * MIB, rel=0.02)
    assert b.nbytes + c.nbytes == 6 * MIB


def test_each_kind_is_what_it_is() -> None:
    size = 4 * 512 * 512
    x = np.random.default_rng(0).standard_normal((64, 512)).astype(np.float32)
    before = bp.memory.report().by("kind")
    with bp.profile() as report:
        net = nn.Linear(512, 512, bias=False)
        optimiser = optim.AdamW(net.parameters(), lr=0.1)
        given = bp.tensor(x)
        net(given).sum().backward()
        optimiser.step()
    end = {kind: held - before.get(kind, (0, 0))[0] for kind, held in report.end.kinds.items()}
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


def test_what_is_freed_is_only_logged_and_named_later() -> None:
    weight = filled(MIB)
    looked: list[int] = []

    def holders() -> Any:
        looked.append(1)
        return [(id(weight._node.block), PARAMETER, "net")]

    ledger = Ledger(holders)
    window = ledger.open()
    ledger.adopt([(weight._node.block, None, DATA, "cpu")])
    before = len(looked)
    other = filled(MIB)._node.block
    ledger.made(other)
    ledger.gone((id(other), other.site))  # the most lived just now
    assert len(looked) == before and ledger.live == 0  # the log was not read yet
    at_peak, at_end = ledger.look(window)
    assert sum(share.nbytes for share in at_peak) == window.peak == 2 * MIB
    assert [(share.kind, share.module) for share in at_end] == [(PARAMETER, "net")]


def test_blocks_come_and_go_on_many_threads_while_others_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledgers, "READ_AT", 16)
    weight = filled(MIB)
    blocks = [[bp.empty((8,)).realise()._node.block for _ in range(50)] for _ in range(4)]
    ledger = Ledger(lambda: [(id(weight._node.block), PARAMETER, "net")])
    window = ledger.open()
    ledger.adopt([(weight._node.block, None, DATA, "cpu")])

    def work(mine: Any) -> None:
        for _ in range(20):
            [ledger.made(block) for block in mine]
            [ledger.gone((id(block), block.site)) for block in mine]

    threads = [threading.Thread(target=work, args=(mine,)) for mine in blocks]
    [thread.start() for thread in threads]
    for _ in range(50):
        ledger.name_holders()
        ledger.look(window)
    [thread.join() for thread in threads]
    ledger.look(window)
    assert ledger.live == weight.nbytes
    assert weight.nbytes < window.peak <= weight.nbytes + 4 * 50 * 32


def test_windows_have_peaks_of_their_own() -> None:
    ledger = Ledger(list)
    big, small = filled(4 * MIB)._node.block, filled(MIB)._node.block
    outer = ledger.open()
    ledger.made(big)
    ledger.gone((id(big), big.site))
    inner = ledger.open()
    ledger.made(small)
    at_peak, _ = ledger.look(inner)
    ledger.close(inner)
    ledger.close(outer)
    assert (inner.before, inner.peak, outer.peak) == (0, MIB, 4 * MIB)
    assert sum(share.nbytes for share in at_peak) == MIB


def test_the_curve_is_thinned_out_and_keeps_its_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "MAX_POINTS", 8)
    ledger = Ledger(list)
    blocks = [filled(MIB * (1 + n % 7))._node.block for n in range(50)]
    window = ledger.open()
    for block in blocks:
        ledger.made(block)
        ledger.gone((id(block), block.site))
        ledger.read()
    ledger.look(window)
    assert len(ledger.curve) <= 16
    assert max(sum(kinds) for _, kinds in ledger.curve) == window.peak == 7 * MIB


def temporary(nbytes: int, offset: int, first: int, last: int) -> Temporary:
    return Temporary(nbytes, offset, first, last, TEMPORARY, None)


def test_the_fullest_region_of_an_arena() -> None:
    early, wide = temporary(10, 0, 0, 1), temporary(30, 64, 1, 3)
    late = temporary(25, 0, 3, 4)
    assert sum(share.nbytes for share in fullest([early, wide, late])) == 55
    assert fullest([]) == []


def plainly(temporaries: list[Temporary]) -> int:
    regions = {t.first for t in temporaries}
    return max(
        sum({t.offset: t.nbytes for t in temporaries if t.first <= r <= t.last}.values())
        for r in regions
    )


def test_the_fullest_region_is_that_of_a_plain_search() -> None:
    random = np.random.default_rng(0)
    for _ in range(100):
        temporaries, end = [], {}
        for first in sorted(random.integers(0, 30, 40).tolist()):
            offset = int(random.integers(0, 6)) * 64
            if end.get(offset, -1) >= first:
                continue  # taken
            end[offset] = first + int(random.integers(0, 9))
            nbytes = int(random.integers(1, 64))
            temporaries.append(temporary(nbytes, offset, first, end[offset]))
        shares = fullest(temporaries)
        assert sum(share.nbytes for share in shares) == plainly(temporaries)


def test_two_temporaries_in_one_place_count_once() -> None:
    below, above = temporary(64, 0, 0, 2), temporary(64, 0, 2, 4)
    assert sum(share.nbytes for share in fullest([below, above])) == 64
