"""Settings that make no sense are refused by name, from Python and from the environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bedplate.config import SETTINGS, Setting, _default_cache, config

INTEGERS = [setting for setting in SETTINGS if type(setting.default) is int]


@pytest.mark.parametrize("setting", INTEGERS, ids=lambda setting: setting.name)
def test_numbers_have_a_range(setting: Setting) -> None:
    for bad in (-1, -(1 << 70), 1 << 70):
        with pytest.raises(ValueError, match=f"config.{setting.name}={bad}: expected a number"):
            config.set(**{setting.name: bad})
        with pytest.raises(ValueError, match=f"{setting.variable}='{bad}': expected a number"):
            setting.parse(str(bad))
    for bad in ("abc", "", "1.5"):
        with pytest.raises(ValueError, match=f"{setting.variable}='{bad}': expected int"):
            setting.parse(bad)


def test_types_and_names() -> None:
    with pytest.raises(TypeError, match=r"config.num_threads='2': expected int"):
        config.set(num_threads="2")
    with pytest.raises(TypeError, match=r"config.fusion=1: expected bool"), config(fusion=1):
        pass
    with pytest.raises(AttributeError, match="no setting 'nonsense'"):
        config.set(nonsense=1)


def test_the_environment_is_checked_at_import() -> None:
    environment = {**os.environ, "BEDPLATE_NUM_THREADS": "-2"}
    command = [sys.executable, "-c", "import bedplate"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "BEDPLATE_NUM_THREADS='-2': expected a number from 0" in run.stderr


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert _default_cache() == ""
