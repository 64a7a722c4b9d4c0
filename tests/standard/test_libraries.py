"""SciPy and scikit-learn run on tensors: what they write for any array library, they get."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("library", ["scipy", "sklearn"])
def test_functions_take_tensors_and_give_tensors(library: str) -> None:
    command = [sys.executable, "-m", "tests.standard.libraries_program", library]
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *complaints, count = done.stdout.strip().splitlines()
    assert not complaints
    assert int(count.split()[0]) >= 19
