"""The doctor: what it finds, and that it tells a failing self-test from a passing one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from bedplate.cli import doctor
from bedplate.cli.main import main
from bedplate.config import config


def test_the_self_test_passes_and_everything_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["doctor"])
    shown = capsys.readouterr().out
    assert not left.value.code, shown
    for word in ("numpy", "llvmlite", "features", "cpu", "reference", "folder", "passed in"):
        assert word in shown
    assert shown.rstrip().endswith("everything works")


def test_a_wrong_result_fails_the_self_test(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong() -> tuple[np.ndarray, np.ndarray]:
        """arithmetic"""
        return np.array([1.0]), np.array([2.0])

    monkeypatch.setattr(doctor, "CHECKS", (wrong,))
    with pytest.raises(SystemExit) as left:
        main(["doctor"])
    assert left.value.code == 1
    shown = capsys.readouterr()
    assert "FAILED: AssertionError" in shown.out
    assert "the self-test failed" in shown.err


def test_what_a_check_raises_is_its_result() -> None:
    def broken() -> tuple[np.ndarray, np.ndarray]:
        raise RuntimeError("no such luck")

    result = doctor.run_check(broken)
    assert not result.passed
    assert "RuntimeError: no such luck" in result.text


def test_a_missing_extra_comes_with_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "requirements_by_extra", lambda: {"sail": ["no-such-package"]})
    assert doctor.optional_parts() == [
        (
            "sail",
            f"missing no-such-package: {sys.executable} -m pip install 'bedplate[sail]'",
        )
    ]
    with pytest.raises(SystemExit):
        main(["doctor"])
    assert "'bedplate[sail]'" in capsys.readouterr().out


def test_extras_come_from_the_distribution() -> None:
    extras = doctor.requirements_by_extra()
    assert "matplotlib" in extras["plot"]
    assert not set(extras) & set(doctor.DEVELOPMENT)


def test_cache_states(tmp_path: Path) -> None:
    (tmp_path / "kernel.o").write_bytes(b"x" * 2**20)
    with config(cache_dir=str(tmp_path)):
        assert ("holds", f"1 files, 1.0 of {config.cache_size} MiB") in doctor.cache()
    with config(cache_dir=""):
        assert doctor.cache() == [("folder", "none: kernels are compiled anew in each process")]
