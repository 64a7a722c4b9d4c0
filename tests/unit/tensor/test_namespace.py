"""The namespace: derived from the ops, complete, typed, and quick to import."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import bedplate as bp
from bedplate.later import OTHER_NAMES
from bedplate.ops.operators import ALSO, Operators

ROOT = Path(__file__).resolve().parents[3]


def test_derived_modules_are_fresh() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "namespace.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_all_names_are_there() -> None:
    for name in bp.__all__:
        assert hasattr(bp, name), name


def test_everything_public_says_what_it_is() -> None:
    for name in bp.functions.__all__:
        assert inspect.getdoc(getattr(bp, name)), name
    for name, member in inspect.getmembers(bp.Tensor):
        if not name.startswith("_") and callable(member):
            assert inspect.getdoc(member), name


def test_nodes_have_the_methods_of_tensors() -> None:
    for name, member in vars(Operators).items():
        if not name.startswith("__"):
            assert hasattr(bp.Tensor, name), name
            assert member is not None


def test_second_names_are_methods() -> None:
    for also, name in ALSO.items():
        assert getattr(bp.Tensor, also) is getattr(bp.Tensor, name)
        assert not hasattr(bp, also), "a second name is a method alone"


def test_parts_come_when_they_are_named() -> None:
    code = (
        "import sys, bedplate as bp\n"
        "heavy = {'llvmlite.binding', 'tokenizers', 'rich', 'typer', 'bedplate.olmo',"
        " 'bedplate.nn'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert bp.nn.Linear and 'bedplate.nn' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="module 'bedplate' has no attribute 'nothing'"):
        bp.nothing


def test_a_name_of_another_space_is_told() -> None:
    for name, place in (("randn", "random"), ("Linear", "nn"), ("AdamW", "optim")):
        with pytest.raises(AttributeError, match=f"there is bedplate.{place}.{name}$"):
            getattr(bp, name)


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_the_names_of_others_lead_to_ours(name: str) -> None:
    with pytest.raises(AttributeError, match=f"there is bedplate.{OTHER_NAMES[name]}$"):
        getattr(bp, name)
    assert hasattr(bp, OTHER_NAMES[name])
