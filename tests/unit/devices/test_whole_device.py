"""What stands above plans, on devices with memory of their own: looking, forking, level 0."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.devices import backends, register
from bedplate.errors import DeviceError, NonFiniteError
from bedplate.testing import LoopbackBackend
from bedplate.testing.backend import check_backend

ROOT = Path(__file__).resolve().parents[3]


class WithoutKernels(LoopbackBackend):
    """A device that keeps values and computes nothing."""

    def open(self, index: int) -> Any:
        driver: Any = super().open(index)
        driver.target = None
        return driver


@pytest.fixture
def level_zero() -> bp.Device:
    if "level_zero" not in backends():
        register(WithoutKernels("level_zero"))
    return bp.Device("level_zero")


def test_a_device_without_kernels_computes_by_the_references(level_zero: bp.Device) -> None:
    assert not level_zero.is_planned
    x = bp.tensor([[1.0, 2.0], [3.0, 4.0]], device=level_zero, requires_grad=True)
    y = ((x @ x).tanh() * 2 + bp.linalg.svd(x)[1].sum()).sum()
    y.backward()
    assert x.grad is not None
    plain = bp.tensor(x.numpy(), requires_grad=True)
    z = ((plain @ plain).tanh() * 2 + bp.linalg.svd(plain)[1].sum()).sum()
    z.backward()
    assert plain.grad is not None
    np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), plain.grad.numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(IndexError, match="7"):
        bp.take(x, bp.tensor([7], device=level_zero), axis=0).numpy()


def test_the_kit_checks_a_device_without_kernels(level_zero: bp.Device) -> None:
    report = check_backend(level_zero, ["memory", "copies", "kernels", "errors", "moves"])
    report.raise_failures()
    assert {o.check.section for o in report.outcomes} == {"memory", "copies", "moves"}


def test_three_kinds_of_devices_in_one_graph(level_zero: bp.Device, loopback: bp.Device) -> None:
    x = bp.tensor([1.0, 2.0])
    y = ((x.to(level_zero) * 2).to(loopback).exp().to(level_zero) + 1).to("cpu")
    np.testing.assert_allclose(y.numpy(), np.exp([2.0, 4.0]) + 1, rtol=1e-6)


def test_faults_pass_through_moves(loopback: bp.Device, level_zero: bp.Device) -> None:
    x = bp.tensor([1.0, 2.0], device=loopback)
    bad = bp.take(x, bp.tensor([5], device=loopback), axis=0)
    for moved in (bad.to("cpu"), bad.to("cpu") * 2, bad.to("reference") + 1):
        for _ in range(2):
            with pytest.raises(IndexError, match="index 5 is out of range"):
                moved.numpy()
    with pytest.raises(IndexError, match="index 5 is out of range"):
        bad.to(level_zero).numpy()


def test_explain(loopback: bp.Device) -> None:
    x = bp.tensor([1.0, 2.0], device=loopback)
    assert "exp" in bp.explain((x + 1).exp()).schedule()
    y = (x + 1).to("cpu") * 2
    with pytest.raises(
        DeviceError, match=r"explain: .* moves from loopback to cpu(.|\n)*realise it"
    ):
        bp.explain(y)
    assert y.tolist() == [4.0, 6.0]


def test_looking_for_nan(loopback: bp.Device) -> None:
    x = bp.tensor([-1.0, 2.0], device=loopback)
    with pytest.raises(NonFiniteError, match="log: made a NaN"), bp.detect_nan():
        x.log().sum().item()


def test_settings_that_look_at_runs(loopback: bp.Device) -> None:
    x = bp.tensor([1.0, 2.0], device=loopback)
    for settings in ({"check": True}, {"debug": 1}, {"fusion": False}, {"merging": False}):
        with bp.config(**settings):
            assert ((x * 2).exp() + x).sum().item() == pytest.approx(np.exp([2.0, 4.0]).sum() + 3)


def test_shapes_that_depend_on_values(loopback: bp.Device) -> None:
    x = bp.tensor([[1.0, 2.0], [2.0, 4.0]], device=loopback)
    assert bp.unique(x).tolist() == [1.0, 2.0, 4.0]
    assert [i.tolist() for i in bp.nonzero(x > 1)] == [[0, 1, 1], [1, 0, 1]]
    assert x[x > 1].tolist() == [2.0, 2.0, 4.0]
    x[0] = 9.0
    assert x.tolist() == [[9.0, 9.0], [2.0, 4.0]]


PROGRAM = """
import os, sys
import bedplate as bp
from bedplate.testing import LoopbackBackend
bp.devices.register(LoopbackBackend("far"))
x = bp.tensor([1.0, 2.0], device="far")
(x + 1).realise()
child = os.fork()
if child == 0:
    try:
        (x + 1).tolist()
    except bp.errors.DeviceError as error:
        fine = "before this process was forked" in str(error)
        os._exit(0 if fine and (bp.ones(2) + 1).tolist() == [2.0, 2.0] else 1)
    os._exit(2)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), (x + 1).tolist())
"""


def test_a_forked_child_says_that_it_has_no_device() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    text = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True, env=environment)
    assert text == "0 [2.0, 3.0]\n"


def test_it_ends_while_work_is_under_way() -> None:
    program = PROGRAM.split("child =")[0] + "y = [(x * n).realise() for n in range(50)]"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
