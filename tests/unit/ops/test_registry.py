"""Every record is complete, and the printed table shows all of them."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

import bedplate  # noqa: F401 - fills the registry
from bedplate.dtypes import COMPLEX
from bedplate.errors import InternalError
from bedplate.ops.complex_numbers.form import FORMS
from bedplate.ops.record import KINDS, REGISTRY, NoGradient, Op, register
from bedplate.ops.table import HEADINGS, table

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


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("add", {"kind": "element"}, "odd: no kind 'element'; there are leaf, elementwise, "),
        ("matmul", {"lower": None}, "odd: a record of kind kernel needs lower"),
        ("cross_entropy", {"expand": None}, "odd: a record of kind composed needs expand"),
        ("add", {"reference": None}, "odd: a record of kind elementwise needs reference"),
        ("add", {"combine": max}, "odd: kind elementwise does not use combine"),
        ("sum", {"promote": "float"}, "odd: kind reduce does not use promote"),
        ("eigh", {"epilogue": True}, "odd: kind host does not use epilogue"),
    ],
)
def test_fields_of_another_kind_are_refused(name: str, change: Any, text: str) -> None:
    with pytest.raises(InternalError, match=re.escape(text)):
        register(dataclasses.replace(REGISTRY[name], name="odd", **change))
    assert "odd" not in REGISTRY


def test_every_op_on_complex_numbers_has_a_form_or_is_by_parts() -> None:
    """Without one, the pass that takes complex nodes apart fails where the user reads a value."""
    taken = {op for op in REGISTRY.values() if set(op.dtypes) & set(COMPLEX)}
    # expand: what it is composed of has forms; leaves and these two the pass knows itself
    known = {op for op in taken if op.by_parts or op in FORMS or op.expand or op.kind == "leaf"}
    assert {op.name for op in taken - known} == {"as_real", "output"}


def test_table_shows_every_op() -> None:
    lines = table().splitlines()
    assert all(heading in lines[0] for heading in HEADINGS)
    assert sorted(line.split()[0] for line in lines[1:]) == sorted(REGISTRY)


@pytest.mark.parametrize("name", sorted({op.name for op in REGISTRY.values() if op.kind == "leaf"}))
def test_leaves_say_why_they_have_no_gradient(name: str) -> None:
    gradient: Any = REGISTRY[name].gradient
    assert gradient.reason == "a leaf has no inputs"
