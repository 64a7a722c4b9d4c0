"""Every record is complete, and the printed table shows all of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import bedplate  # noqa: F401 - fills the registry
from bedplate.errors import InternalError
from bedplate.ops.complex_numbers.form import FORMS
from bedplate.ops.record import REGISTRY, NoGradient, Op, register
from bedplate.ops.table import HEADINGS, table

KINDS = {
    "leaf", "elementwise", "view", "reduce", "gather", "assemble", "kernel", "host", "composed",
}  # fmt: skip
# what computes an op of each kind, beside the kinds that the compiler knows by name
COMPUTED_BY = {"elementwise": "emit", "kernel": "lower", "composed": "expand"}
# ops that are tested through others: leaves, projections, and a gradient that is an op
WITHOUT_SAMPLES = {"buffer", "placeholder", "constant", "output", "attention_backward"}


@pytest.mark.parametrize("op", REGISTRY.values(), ids=lambda op: op.name)
def test_record_is_complete(op: Op) -> None:
    assert op.kind in KINDS
    assert op.doc.strip(), "no docstring"
    assert op.kind == "leaf" or op.reference, "no reference"
    assert op.samples or op.name in WITHOUT_SAMPLES, "no samples"
    needed = COMPUTED_BY.get(op.kind)
    taken_apart = op in FORMS  # complex only: no kernel sees it
    assert needed is None or taken_apart or getattr(op, needed) is not None, f"no {needed}"
    if isinstance(op.gradient, NoGradient):
        assert len(op.gradient.reason) > 10
        assert op.gradient.reason != "none was given"
    else:
        assert op.gradient.__name__.endswith("gradient"), "a gradient is a named function"
        assert op.gradient.__doc__, "a gradient says its formula"


def test_two_ops_of_one_name_are_refused() -> None:
    with pytest.raises(InternalError, match="two ops are called 'add'"):
        register(dataclasses.replace(REGISTRY["add"], doc="again"))


def test_table_shows_every_op() -> None:
    lines = table().splitlines()
    assert all(heading in lines[0] for heading in HEADINGS)
    assert sorted(line.split()[0] for line in lines[1:]) == sorted(REGISTRY)


@pytest.mark.parametrize("name", sorted({op.name for op in REGISTRY.values() if op.kind == "leaf"}))
def test_leaves_say_why_they_have_no_gradient(name: str) -> None:
    gradient: Any = REGISTRY[name].gradient
    assert gradient.reason == "a leaf has no inputs"
