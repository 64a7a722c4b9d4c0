"""`pytest --bedplate-leaks` in a process of its own, and the annotations of pipelines."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

from bedplate.inspect.annotations import error

ROOT = Path(__file__).parents[3]
MODULE = """
import bedplate as bp, pytest

KEPT, MEMO = [], []

class Trainer:
    def __init__(self):
        self.history = []

@pytest.fixture
def trainer():
    return Trainer()

@pytest.fixture(scope="session")
def model():
    return bp.nn.Linear(4, 4)

def test_clean(model):
    loss = model(bp.ones((2, 4))).sum()
    loss.backward()
    assert loss.item() == loss.item()

def test_fixture(trainer):
    for _ in range(5):
        trainer.history.append(bp.ones((4,)).realise())

def test_refusal():
    x = bp.ones((2, 3)).realise()
    with pytest.raises(bp.errors.ShapeError) as caught:
        x @ x
    assert "matmul" in str(caught.value)

def test_failing():
    KEPT.append(bp.ones((8,)).realise())
    assert False, "my own fault"

def test_leaking():
    KEPT.append((bp.ones((1024,)) * 3).realise())
"""
LEAKING_LINE = 2 + MODULE.splitlines().index("def test_leaking():")


def run(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(MODULE)
    known = importlib.metadata.entry_points(group="pytest11")
    if not any(found.value == "bedplate_pytest.plugin" for found in known):
        options = ("-p", "bedplate_pytest.plugin", *options)
    env = {name: value for name, value in os.environ.items() if name not in ("GITHUB_ACTIONS",)}
    env |= {"PYTHONPATH": str(ROOT / "src"), **environment}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_a_test_that_leaks_fails_and_says_who_holds_it(tmp_path: Path) -> None:
    out = run(tmp_path, "--bedplate-leaks", GITHUB_ACTIONS="true").stdout
    assert "2 failed, 3 passed" in out, out
    assert "my own fault" in out
    assert f"made at test_it.py:{LEAKING_LINE}" in out
    assert "held by test_it.KEPT[1]" in out
    assert "FAILED test_it.py::test_leaking - memory leaks: 4.0 KiB from 1 line" in out
    place = f"file=test_it.py,line={LEAKING_LINE},title=memory leak"
    assert f"::error {place}::1 value, 4.0 KiB, made at" in out


def test_without_the_option_nothing_is_watched_nor_imported(tmp_path: Path) -> None:
    found = run(tmp_path, "-k", "leaking", GITHUB_ACTIONS="true")
    assert "1 passed" in found.stdout
    assert "::error" not in found.stdout
    code = "import sys, bedplate_pytest.plugin; print('bedplate' in sys.modules)"
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert printed.strip() == "False"


def test_with_workers(tmp_path: Path) -> None:
    out = run(tmp_path, "--bedplate-leaks", "-n", "1", "-k", "leaking", TF_BUILD="True").stdout
    assert "1 failed" in out, out
    place = f"sourcepath=test_it.py;linenumber={LEAKING_LINE};"
    assert f"##vso[task.logissue type=error;{place}]memory leak: 1 value" in out


def test_annotations_are_escaped() -> None:
    text = "50% of a,\nb]; c"
    github = error("/w/a,b.py", 3, "x: y", text, {"GITHUB_ACTIONS": "1", "GITHUB_WORKSPACE": "/w"})
    assert github == "::error file=a%2Cb.py,line=3,title=x%3A y::50%25 of a,%0Ab]; c"
    azure = error("", 0, "leak", text, {"TF_BUILD": "True"})
    assert azure == "##vso[task.logissue type=error;]leak: 50%AZP25 of a,%0Ab%5D%3B c"
    assert error("a.py", 1, "leak", text, {}) == ""
