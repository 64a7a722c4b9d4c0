"""Which function is described on which page of docs/functions/.

A page names folders or modules of the package; what they define and the public namespaces show is
described there, under its shortest name. So a new function needs no line here, nor has a new module
in a folder that a page names.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from docs import example_gradients

import bedplate
from bedplate.dtypes import as_dtype
from bedplate.ops.cost import cost_of
from bedplate.ops.leaves import placeholder
from bedplate.ops.record import REGISTRY, NoGradient, Op
from bedplate.ops.table import named_dtypes, second_order

PAGES = Path(__file__).parent / "functions"
PEER_TEST = Path(__file__).parents[1] / "tests" / "external" / "test_torch_samples.py"
MODULES = re.compile(r"^```\{functions\} (.*)$", re.MULTILINE)
NAMESPACES = (
    "bedplate", "bedplate.linalg", "bedplate.fft", "bedplate.special", "bedplate.nn.functional",
    "bedplate.random",
)  # fmt: skip


@dataclass
class Function:
    """A public function: the object, and its names, the shortest first."""

    function: Callable[..., Any]
    names: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """The first sentence of its docstring."""
        return " ".join((inspect.getdoc(self.function) or "").split("\n\n")[0].split())


def namespace(name: str) -> Any:
    """`bedplate.linalg` and the others, by name."""
    found: Any = bedplate
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


@functools.cache
def by_module() -> dict[str, list[Function]]:
    """Every public function by the module that defines it, without `bedplate.`."""
    found: dict[int, Function] = {}
    for space in NAMESPACES:
        members = namespace(space)
        names = getattr(members, "__all__", None) or own_names(members)
        for name in sorted(names):
            member = getattr(members, name)
            if inspect.isfunction(member):
                entry = found.setdefault(id(inspect.unwrap(member)), Function(member))
                entry.names.append(f"{space}.{name}")
    modules: dict[str, list[Function]] = {}
    for entry in found.values():
        entry.names.sort(key=lambda name: (len(name), name))
        module = defined_in(entry.function)
        modules.setdefault(module, []).append(entry)
    for entries in modules.values():
        entries.sort(key=lambda entry: entry.names[0])
    return modules


def defined_in(thing: Any) -> str:
    """The module where something is written, without `bedplate.`."""
    written = inspect.unwrap(thing) if callable(thing) else thing
    return str(getattr(written, "__module__", "")).removeprefix("bedplate.")


def own_names(module: Any) -> list[str]:
    """The functions that a module without `__all__` defines itself."""
    return [
        name for name, member in vars(module).items()
        if not name.startswith("_") and getattr(member, "__module__", "") == module.__name__
    ]  # fmt: skip


def named() -> dict[str, list[str]]:
    """What each page names, by the page's file name without its ending."""
    return {
        path.stem: [name for line in MODULES.findall(path.read_text()) for name in line.split()]
        for path in sorted(PAGES.glob("*.md"))
    }


@functools.cache
def alone() -> set[str]:
    """The modules that some page names by themselves."""
    return {name for names in named().values() for name in names} & set(by_module())


@functools.cache
def pages() -> dict[str, list[str]]:
    """The modules that each page describes."""
    return {page: modules_of(names) for page, names in named().items()}


def modules_of(names: list[str]) -> list[str]:
    """The modules of this list; a folder stands for those that no page names by themselves."""
    found: list[str] = []
    for name in names:
        inside = [m for m in sorted(by_module()) if m.startswith(f"{name}.") and m not in alone()]
        found += inside or [name]
    return found


def described() -> set[str]:
    """Every module that some page names."""
    return {module for modules in pages().values() for module in modules}


def record_of(function: Callable[..., Any]) -> Op | None:
    """The record of the op that a function applies, if it is named like it."""
    found = getattr(function, "op", None)
    return found or REGISTRY.get(function.__name__.strip("_"))


def derived_rows(function: Callable[..., Any], docstring: str) -> list[str]:
    """What the docstring does not say: result, dtypes, gradient, cost, as far as they are known."""
    op = record_of(function)
    if op is None:
        rows = {"gradient": "" if "gradient" in docstring else _gradient_of_call(function)}
    else:
        rows = {
            "returns": _returns(op),
            "dtypes": named_dtypes(op.dtypes),
            "gradient": _gradient(op),
            "cost": cost_of(op).words,
        }
    missing = [word for word in rows if not re.search(rf"^ *{word} ", docstring, re.MULTILINE)]
    column = re.search(r"^(\w[\w, ]*?  +)\S", docstring, re.MULTILINE)
    width = max(len(column[1]) if column else 0, 10)
    return [f"{word:<{width}}{rows[word]}" for word in missing if rows[word]]


def _gradient_of_call(function: Callable[..., Any]) -> str:
    """For a public function of tensors that is made of others."""
    module = defined_in(function)
    if not module.startswith(("ops.", "nn.")):
        return ""
    plain = inspect.unwrap(function)
    entries = by_module().get(module, [])
    entry = next((e for e in entries if inspect.unwrap(e.function) is plain), None)
    names = [] if entry is None else entry.names
    spaces = [(namespace(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in names]
    return example_gradients.gradient_of(function, spaces) if names else ""


def _returns(op: Op) -> str:
    """The shape and dtype of an element-wise op, as far as its promotion says it."""
    if op.kind != "elementwise" or not op.samples:
        return ""
    inputs = [np.asarray(x) for x in op.samples[0].inputs(np.random.default_rng(0))]
    places = tuple(placeholder(i, x.shape, as_dtype(x.dtype), None) for i, x in enumerate(inputs))
    _, dtype = op.infer(places, op.samples[0].attributes)
    kinds = {"float": "its dtype, integers as float32", "common": "the dtype that holds all"}
    kind = "bool" if dtype.kind == "b" else kinds.get(op.promote, "see the formula")
    return f"the shape to which all broadcast; {kind}" if len(inputs) > 1 else f"shape of x; {kind}"


def _gradient(op: Op) -> str:
    if isinstance(op.gradient, NoGradient):
        return f"none: {op.gradient.reason}"
    order = second_order(op)
    return {"yes": "yes, and a second one", "zero": "yes; the second is 0"}.get(order, "yes")


def differences() -> list[tuple[str, str]]:
    """Where the comparison with PyTorch expects another answer, and why: the peer test's tables.

    That test imports PyTorch, which the site must not need, so only its tables are evaluated.
    """
    tree = ast.parse(PEER_TEST.read_text(encoding="utf-8"))
    tables = [node for node in tree.body if _is_table(node)]
    found: dict[str, Any] = {}
    exec(compile(ast.Module(tables, []), str(PEER_TEST), "exec"), found)
    return [*found["DIFFERS"].items(), *(("", reason) for reason in found["REFUSED"].values())]


def _is_table(node: ast.stmt) -> bool:
    """Whether a statement is one of the two tables, or a sentence that they share."""
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node.target) in ("DIFFERS", "REFUSED")
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
