"""What is imported at its first use is there, and is not imported before."""

import copy
import importlib
import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest

import bedplate
from bedplate.later import DEFERRED, NAMES, Later

# parts that `import bedplate` must leave alone, since they cost more than they are worth there
LEFT_ALONE = (
    "bedplate.compiler.plan", "bedplate.devices.cpu", "bedplate.ops.attention.tiles",
    "bedplate.ops.convolution.tiles", "bedplate.tensor.capturing",
    "bedplate.tensor.safetensors", "bedplate.nn", "bedplate.olmo",
    "hashlib", "zipfile", "statistics", "rich", "typer", "tokenizers",
)  # fmt: skip


@pytest.mark.parametrize("module, name", sorted(set(DEFERRED)))
def test_what_is_deferred_is_there(module: str, name: str) -> None:
    found = importlib.import_module(module)
    assert not name or callable(getattr(found, name))


@pytest.mark.parametrize("name", sorted(NAMES))
def test_names_of_deferred_parts_are_at_the_top(name: str) -> None:
    module = importlib.import_module(f"bedplate.{NAMES[name]}")
    assert getattr(bedplate, name) is getattr(module, name)
    assert name in (*bedplate.__all__, "kaiming_init")


def test_import_leaves_alone_what_it_does_not_need() -> None:
    text = "import bedplate, sys; print(*sys.modules)"
    modules = subprocess.check_output([sys.executable, "-c", text], text=True).split()
    assert not set(LEFT_ALONE) & set(modules)


def test_every_public_name_is_listed() -> None:
    text = "import bedplate; print(*dir(bedplate))"
    listed = subprocess.check_output([sys.executable, "-c", text], text=True).split()
    assert {*bedplate.__all__, *NAMES} <= set(listed)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda later: pickle.loads(pickle.dumps(later))]
)
def test_a_late_module_can_be_copied(copied: Callable[[Later], Later]) -> None:
    known = list(DEFERRED)
    try:
        assert copied(Later("json")).loads("[1]") == [1]
    finally:
        DEFERRED[:] = known
