"""A profile: which kernels ran, from which lines and modules; nothing is changed by looking."""

from __future__ import annotations

import importlib
import inspect
import json
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import nn, optim
from bedplate.config import config
from bedplate.errors import SettingError
from bedplate.inspect.ledger import Ledger
from bedplate.inspect.places import Places
from bedplate.inspect.recorder import Recorder
from bedplate.inspect.report import KernelRow
from bedplate.inspect.tracker import Tracker
from bedplate.memory import Block
from bedplate.nn import Module
from bedplate.observer import hooks
from bedplate.optim.optimizer import Optimizer

profiling = importlib.import_module("bedplate.inspect.profile")  # the function has its name


def here() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    return frame.f_back.f_lineno if frame is not None and frame.f_back is not None else 0


def rows_named(report: Any, name: str) -> list[KernelRow]:
    return [row for row in report.kernels if name in row.name]


def lines_of(report: Any, name: str) -> set[int]:
    """The lines of this file that made kernels of a name."""
    found = [line for row in rows_named(report, name) for line in row.lines]
    return {int(line.rpartition(":")[2]) for line in found if "test_profile.py" in line}


class Net(nn.Module):
    def __init__(self) -> None:
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        return self.down(self.up(x).tanh())


def data(*shape: int) -> bp.Tensor:
    return bp.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def test_kernels_are_counted_with_their_lines() -> None:
    x = data(32, 32)
    with bp.profile() as report:
        for _ in range(3):
            first = here() + 1
            y = (x @ x).realise()
        second = here() + 1
        (y @ x).realise()
    assert lines_of(report, "matmul") == {first, second}  # one plan each, though alike
    rows = {row.lines[0].rpartition(":")[2]: row for row in rows_named(report, "matmul")}
    assert rows[str(first)].launches == 3
    assert rows[str(second)].launches == 1
    row = rows[str(first)]
    assert row.flops == 3 * 2 * 32**3
    assert row.nbytes == 3 * 3 * 4 * 32**2
    assert 0 < row.median_seconds <= row.seconds < report.seconds


def test_a_fused_kernel_has_the_lines_of_all_its_operations() -> None:
    x = data(100)
    with bp.profile() as report:
        y = x.exp()
        z = y * 3.5
        z.realise()
    (row,) = rows_named(report, "map_exp")
    assert len({line for line in row.lines if "test_profile.py" in line}) == 2


def test_a_step_has_modules_and_phases() -> None:
    with bp.profile() as report:
        net = Net()
        optimiser = optim.AdamW(net.parameters(), lr=0.1)
        for _ in range(2):
            loss = (net(data(8, 16)) ** 2).mean()
            loss.backward()
            optimiser.step()
    times = {row.path: row.seconds for row in report.modules}
    assert {"Net.up", "Net.down", "Net", "AdamW.step"} <= times.keys()
    assert times["Net.up"].keys() >= {"forward", "backward"}
    assert set(times["AdamW.step"]) == {"optimiser"}
    kinds = {row.path: row.nbytes for row in report.modules}
    # the old and the new values may live at once, while they are updated
    size = (16 * 32 + 32) * 4
    assert kinds["Net.up"]["parameter"] in (size, 2 * size)
    assert kinds["Net.up"]["optimiser state"] in (2 * size, 4 * size)


def test_the_gradient_of_an_operation_has_its_line() -> None:
    x = bp.tensor(data(50), requires_grad=True)
    with bp.profile() as report:
        line = here() + 1
        y = x.tanh()
        y.sum().backward()
        assert x.grad is not None
        x.grad.realise()
    assert any(line in lines_of(report, row.name) for row in report.kernels)
    assert any("backward" in row.seconds for row in report.modules)


@pytest.mark.parametrize("before", [True, False])
def test_a_captured_step_has_lines(before: bool) -> None:
    line = here() + 4

    @bp.jit
    def step(x: bp.Tensor) -> bp.Tensor:
        return (x.tanh() @ x).exp()

    x = data(24, 24)
    calls = [lambda: step(x) for _ in range(4)]
    if before:
        [call() for call in calls]
    with bp.profile() as report:
        [call() for call in calls]
    (row,) = rows_named(report, "matmul")
    assert row.launches == 4
    assert lines_of(report, "matmul") == {line}


def test_the_times_add_up() -> None:
    x = data(64, 64)
    with bp.profile() as report:
        for _ in range(20):
            (x @ x).realise()
    assert report.elsewhere == []
    assert "beside it" not in str(report)
    assert sum(report.spent.values()) == pytest.approx(report.seconds, rel=0.02)
    assert sum(row.seconds for row in report.kernels) == pytest.approx(report.spent["kernels"])
    assert sum(row.total_seconds for row in report.modules) == pytest.approx(
        report.spent["kernels"]
    )


def test_other_threads_are_watched() -> None:
    x = data(16, 16)

    def work() -> None:
        for _ in range(5):
            (x @ x).numpy()

    with bp.profile() as report:
        threads = [threading.Thread(target=work) for _ in range(3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    (row,) = rows_named(report, "matmul")
    assert row.launches == 15
    assert report.spent["kernels"] == 0.0  # of the thread that profiles
    assert sum(report.elsewhere) == pytest.approx(sum(row.seconds for row in report.kernels))
    assert "beside it, kernels of" in str(report)
    json.loads(report.json())


def test_numpy_functions_of_the_host_are_rows() -> None:
    x = data(8, 8)
    with bp.profile() as report:
        bp.linalg.inv(x).realise()
    assert rows_named(report, "numpy_")
    assert report.spent["NumPy functions"] > 0


def test_a_profile_without_kernels_says_so() -> None:
    with bp.profile() as report:
        pass
    assert report.kernels == []
    assert "kernels: none ran" in str(report)


def test_what_raises_is_profiled_up_to_there() -> None:
    x = data(16, 16)
    with pytest.raises(ValueError, match="on purpose"), bp.profile() as report:
        (x @ x).realise()
        raise ValueError("on purpose")
    assert rows_named(report, "matmul")
    assert hooks.run is None


def test_a_report_that_fails_does_not_hide_what_was_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no report")

    monkeypatch.setattr(profiling, "make_report", fail)
    with pytest.raises(ValueError, match="on purpose") as raised, bp.profile():
        raise ValueError("on purpose")
    assert raised.value.__notes__ == ["profile: no report could be made: RuntimeError('no report')"]
    with pytest.raises(RuntimeError, match="no report"), bp.profile():
        pass
    assert hooks.run is None


@pytest.mark.parametrize(
    "place", [(Places, "search"), (Ledger, "adopt"), (Tracker, "listen"), (Recorder, "_listen")]
)
def test_a_start_that_fails_undoes_what_it_did(
    place: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (Module.__call__, Optimizer._begin, Optimizer._update, Block.__init__, Block.__del__)

    def fail(*_: Any) -> None:
        hooks.run = fail
        raise RuntimeError("half-way")

    with monkeypatch.context() as changed:
        changed.setattr(*place, fail)
        with pytest.raises(RuntimeError, match="half-way"), bp.profile():
            pass
    after = (Module.__call__, Optimizer._begin, Optimizer._update, Block.__init__, Block.__del__)
    assert before == after
    assert place[0] is not Recorder or hooks.run is None
    hooks.clear()
    with bp.profile():
        pass


def test_one_profile_at_a_time() -> None:
    with (
        bp.profile(),
        pytest.raises(SettingError, match="profile: one is running already"),
        bp.profile(),
    ):
        pass
    with bp.profile():
        pass


def test_a_run_that_is_timed_already_is_not_profiled() -> None:
    with (
        config(debug=2),
        pytest.raises(SettingError, match=r"config\.debug=2 times each run itself"),
        bp.profile(),
    ):
        pass


def test_a_running_profile_has_no_numbers_yet() -> None:
    with bp.profile() as report:
        with pytest.raises(SettingError, match="kernels is known when the profile has ended"):
            _ = report.kernels
        assert "still running" in str(report)


def test_everything_is_as_before_afterwards() -> None:
    before = (Module.__call__, Optimizer._update, Block.__init__, Block.__del__)
    step = bp.jit(lambda x: x @ x + 1)
    x = data(16, 16)
    [step(x) for _ in range(4)]
    with bp.profile() as report:
        step(x)
    assert before == (Module.__call__, Optimizer._update, Block.__init__, Block.__del__)
    assert all(getattr(hooks, name) is None for name in type(hooks).__slots__)
    launches = rows_named(report, "matmul")[0].launches
    np.testing.assert_array_equal(step(x).numpy(), (x @ x + 1).numpy())
    assert rows_named(report, "matmul")[0].launches == launches == 1


def test_objects_that_refuse_to_be_looked_at_are_passed_over() -> None:
    target = Net()
    proxy = weakref.proxy(target)
    with bp.profile() as report:
        del target
        (data(4, 4) @ data(4, 4)).realise()
    assert rows_named(report, "matmul")
    with pytest.raises(ReferenceError, match="no longer exists"):
        proxy.up.weight


def test_a_run_that_comes_too_late_stamps_nothing() -> None:
    """A thread may have read the hook before the profile ended, and call it afterwards."""
    x = data(8, 8)
    step = bp.jit(lambda a: a @ a + 1)
    for _ in range(3):
        expected = step(x).numpy()
    recorder = Recorder()
    recorder.start()
    late = hooks.run
    made = recorder.stop()
    hooks.run = late
    try:
        np.testing.assert_array_equal(step(x).numpy(), expected)
    finally:
        hooks.clear()
    assert made.plans == [] and made.run_ns == {}


@pytest.mark.parametrize("threads", [True, False])
def test_the_bits_are_the_same(threads: bool) -> None:
    def step() -> np.ndarray[Any, Any]:
        bp.manual_seed(0)
        net = Net()
        x = bp.tensor(data(300, 16), requires_grad=True)
        (net(x).softmax(axis=-1) * x).sum().backward()
        assert x.grad is not None
        return x.grad.numpy()

    plain = step()
    with config(threads=threads), bp.profile():
        profiled = step()
    np.testing.assert_array_equal(plain, profiled)


def test_the_text_shows_as_many_rows_as_asked_for() -> None:
    x = data(64)
    with bp.profile() as report:
        for function in (bp.exp, bp.sin, bp.tanh, bp.sqrt):
            function(x).realise()
    assert "in 3 more" in report.text(top=1)
    assert "more" not in report.text().partition("by line")[0]
