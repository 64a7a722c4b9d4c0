"""Memory reports and peaks, beside counts of our own and what the system says."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest

import bedplate as bp
from bedplate import nn, optim
from bedplate.errors import SettingError
from bedplate.memory import Block
from bedplate.nn import Module
from bedplate.observer import hooks

MIB = 1 << 20
HERE = "test_memory_report.py"


def filled(n_bytes: int) -> bp.Tensor:
    return bp.full((n_bytes // 4,), 1.5).realise()


def test_the_report_tells_what_is_held_by_kind_and_line() -> None:
    before = bp.memory.report()
    net = nn.Linear(512, 256, bias=False)
    optimiser = optim.AdamW(net.parameters(), lr=0.1)
    given = bp.tensor([[1.0] * 512] * 64)
    net(given).sum().backward()
    optimiser.step()
    report = bp.memory.report()
    size = 4 * 512 * 256
    now, old = report.by("kind"), before.by("kind")

    def more(kind: str) -> int:
        return now.get(kind, (0, 0))[0] - old.get(kind, (0, 0))[0]

    assert more("parameter") == more("gradient") == size
    assert more("optimiser state") == pytest.approx(2 * size, rel=0.01)
    assert report.live - before.live == pytest.approx(4 * size + given.nbytes, rel=0.05)
    assert any(HERE in line and kind == "data" for line, kind in report.by("line", "kind"))
    assert report.by("module")["Linear"][0] >= size
    assert "cpu" in report.by("device")  # other tests may hold values elsewhere
    assert report.peak is None and "the peak is known inside" in str(report)


def test_peaks_are_nested() -> None:
    with bp.memory.peak() as outer:
        a = filled(8 * MIB)
        del a
        with bp.memory.peak() as inner:
            b, c = filled(2 * MIB), filled(3 * MIB)
            assert inner.added == 5 * MIB
            del c
        d = filled(MIB)
    assert (inner.added, outer.added) == (5 * MIB, 8 * MIB)
    assert outer.before == inner.before == outer.bytes - outer.added
    assert outer.report().live == outer.before + b.nbytes + d.nbytes
    assert inner.report().peak == inner.bytes


def test_a_training_step_beside_own_arithmetic() -> None:
    batch, width = 256, 512
    others = bp.memory.report().by("kind").get("parameter", (0, 0))[0]  # held by other tests
    with bp.memory.peak() as m:
        up, down = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        optimiser = optim.SGD([*up.parameters(), *down.parameters()], lr=0.1)
        x = bp.full((batch, width), 0.5).realise()
        for _ in range(3):
            optimiser.zero_grad()
            hidden = up(x).tanh()
            (down(hidden) ** 2).mean().backward()
            optimiser.step()
            bp.synchronize()
    value, weight = 4 * batch * width, 4 * width * width
    kinds = {kind: most for kind, (_, most) in m.report().by("kind").items()}
    # two weights, the new ones beside the old while they are updated
    assert kinds["parameter"] - others in (2 * weight, 3 * weight, 4 * weight)
    assert m.added >= 4 * weight + 2 * value
    assert sum(kinds.values()) == pytest.approx(m.bytes, rel=0.02)


PROGRAM = """
import bedplate as bp

def resident(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

def filled(n):
    return bp.full((n << 18,), 1.5).realise()

warm = [filled(1) + 1, filled(3)]
bp.memory.release_cache()
before = resident("VmRSS:")
with bp.memory.peak() as m:
    kept = [filled(64), filled(96)]
    kept.append(filled(48))
    now = resident("VmRSS:")
    del kept[0]
    kept.append(filled(32))
print(m.added, now - before, m.report().live - m.before)
"""


def test_the_peak_is_what_the_system_says() -> None:
    printed = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True).split()
    added, resident, live = map(int, printed)
    assert added == 208 * MIB and live == 176 * MIB
    assert resident == pytest.approx(added, rel=0.05)


def test_pooled_is_what_the_allocator_keeps() -> None:
    bp.memory.release_cache()
    before = bp.memory.report()
    x = filled(32 * MIB)
    between = bp.memory.report()
    del x
    after = bp.memory.report()
    assert between.live - before.live == 32 * MIB
    assert after.pooled - between.pooled == pytest.approx(32 * MIB, rel=0.05)


def test_all_threads_count() -> None:
    def work() -> None:
        kept.append(filled(4 * MIB))

    kept: list[Any] = []
    with bp.memory.peak() as m:
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert m.added == 16 * MIB


def test_the_lines_of_a_captured_step() -> None:
    @bp.jit
    def doubled(x: bp.Tensor) -> bp.Tensor:
        return x * 2

    x = filled(MIB)
    results = [doubled(x) for _ in range(4)]
    lines = bp.memory.report().by("line")
    first = doubled.function.__code__.co_firstlineno
    assert any(f"{HERE}:{first + 2}" in line for line in lines)
    assert results[0].nbytes == MIB


def test_a_page_and_a_picture(tmp_path: Path) -> None:
    with bp.memory.peak() as m:
        x = filled(4 * MIB)
        y = (x + 1).realise()
        del x
    report = m.report()
    report.html(tmp_path / "memory.html")
    page = (tmp_path / "memory.html").read_text()
    assert "<svg" in page and HERE in page and "http" not in page.replace("http://www.w3.org", "")
    report.timeline(tmp_path / "memory.svg")
    picture = xml.parse(tmp_path / "memory.svg").getroot()
    assert picture.findall("{http://www.w3.org/2000/svg}polygon")
    assert max(sum(kinds.values()) for _, kinds in report.curve) == m.bytes
    assert json.loads(report.json())["peak"] == m.bytes
    assert y.nbytes == 4 * MIB


def test_what_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    report = bp.memory.report()
    with pytest.raises(SettingError, match="nothing was watched"):
        report.timeline(tmp_path / "x.svg")
    with pytest.raises(SettingError, match="give one or more of device, module"):
        report.by("colour")
    report.html(tmp_path / "x.html")
    assert "<svg" not in (tmp_path / "x.html").read_text()


def test_a_block_that_fails_has_a_peak() -> None:
    with pytest.raises(KeyError, match="mine"), bp.memory.peak() as m:
        filled(2 * MIB)
        raise KeyError("mine")
    assert m.added == 2 * MIB and m.report().peak == m.bytes


def test_nothing_is_left_when_nobody_watches() -> None:
    plain = Block.__init__, Block.__del__, Module.__call__
    with bp.memory.peak(), bp.profile(), bp.memory.peak():
        filled(MIB)
        assert Block.__init__ is not plain[0]
    assert (Block.__init__, Block.__del__, Module.__call__) == plain
    assert all(getattr(hooks, name) is None for name in hooks.__slots__)


def test_a_profile_inside_a_peak_leaves_it_watching() -> None:
    gc.collect()  # what other tests left must not be freed in between
    with bp.memory.peak() as m:
        with bp.profile() as profile:
            filled(3 * MIB)
        kept = filled(5 * MIB)
    assert m.added == 5 * MIB and kept.nbytes == 5 * MIB
    assert profile.peak.nbytes - m.before == 3 * MIB


def test_the_kinds_are_those_of_a_profile_which_marks_all_nodes() -> None:
    net = nn.Sequential(nn.Linear(64, 256), nn.RMSNorm(256), nn.GELU(), nn.Linear(256, 8))
    optimiser = optim.AdamW(net.parameters(), lr=0.1)
    x = bp.full((128, 64), 0.5).realise()

    def step() -> None:
        optimiser.zero_grad()
        (net(x) ** 2).mean().backward()
        optimiser.step()
        bp.synchronize()

    step()
    with bp.profile() as profile:
        step()
    with bp.memory.peak() as m:
        step()
    kinds = {kind: most for kind, (_, most) in m.report().by("kind").items()}
    for kind, nbytes in profile.peak.kinds.items():
        assert kinds.get(kind, 0) == pytest.approx(nbytes, rel=0.01, abs=2048), kind
    assert kinds["activation"] >= 4 * 128 * 256


def test_other_threads_may_make_tuples_while_all_memory_is_looked_at() -> None:
    code = """
import sys, threading, time
sys.setswitchinterval(1e-6)
import bedplate as bp
faults, end = [], threading.Event()

def work():
    while not end.is_set():
        try:
            tuple(i for i in range(30))
        except SystemError as error:
            faults.append(error)

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
stop = time.monotonic() + 1.5
while time.monotonic() < stop:
    bp.memory.report()
end.set()
assert not faults, len(faults)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
