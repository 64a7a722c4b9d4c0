"""The rules of the house that a program can hold, and proof that each rule catches its breach."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import bedplate  # noqa: F401 - fills the registry
from bedplate.ops.record import REGISTRY

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = sorted((ROOT / "src" / "bedplate").rglob("*.py"))
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PEERS = {"torch", "jax", "tensorflow", "transformers", "tinygrad", "numba"}

Rule = Callable[[ast.Module], Iterator[tuple[int, str]]]


# ------------------------------------------------------------------------------- the rules


def starts_with_docstring(tree: ast.Module) -> Iterator[tuple[int, str]]:
    if tree.body and ast.get_docstring(tree) is None:
        yield 1, "no docstring at the head of the file"


def imports_at_the_top(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield node.lineno, f"import inside {function.name}"


def imports_no_peer(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.split(".")[0] in PEERS:
                yield node.lineno, f"imports {name}, a peer"


def only_re_exports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_list = isinstance(node, ast.Assign) and all(
            isinstance(target, ast.Name) and target.id in ("__all__", "__version__")
            for target in node.targets
        )
        is_more = isinstance(node, ast.AugAssign) and ast.unparse(node).startswith("__all__ += ")
        is_for_editors = (
            isinstance(node, ast.If)
            and ast.unparse(node.test) == "TYPE_CHECKING"
            and all(isinstance(inner, ast.ImportFrom) for inner in node.body)
        )
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        if not (is_docstring or is_list or is_more or is_for_editors or is_import):
            yield node.lineno, "more than re-exports in an __init__.py"


def asserts_nothing(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield node.lineno, "an assert in the product"


def names_what_it_catches(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield node.lineno, "a bare except"


def is_finished(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and "NotImplementedError" in ast.dump(node):
            yield node.lineno, "raises NotImplementedError"


def has_short_functions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > 60:
                yield node.lineno, f"{node.name} has {length} lines: something wants a name"


def lists_no_ops(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Five or more names of computing ops in one literal: such a list belongs to the records.

    The structural kinds (leaf, view, gather, assemble) and the cast are the compiler's own words.
    """
    structural = {"leaf", "view", "gather", "assemble"}
    computing = {name for name, op in REGISTRY.items() if op.kind not in structural} - {"cast"}
    for node in _literals_outside_all(tree):
        elements = node.keys if isinstance(node, ast.Dict) else node.elts
        names = {e.value for e in elements if isinstance(e, ast.Constant)}
        if len(names & computing) >= 5:
            yield node.lineno, f"a second list of ops: {sorted(map(str, names & computing))}"


def _literals_outside_all(tree: ast.Module) -> Iterator[ast.Dict | ast.List | ast.Set | ast.Tuple]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and "__all__" in ast.dump(statement.targets[0]):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Dict | ast.List | ast.Set | ast.Tuple):
                yield node


def skips_nothing(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("skip", "xfail"):
            yield node.lineno, f"{node.attr}: a test that does not run"


# raised by the tests' own code, or by leaving the interpreter: their text is not ours
UNMATCHED = {"ZeroDivisionError", "AssertionError", "SystemExit", "KeyboardInterrupt"}


def matches_refusals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises":
            matched = "match" in {keyword.arg for keyword in node.keywords}
            foreign = ast.unparse(node.args[0]) in UNMATCHED
            if not (matched or foreign or _text_is_read(tree, node)):
                yield node.lineno, "a refusal whose text is not matched"


def _text_is_read(tree: ast.Module, raises: ast.Call) -> bool:
    """Whether it is `with pytest.raises(...) as caught`: the test looks at `caught` itself."""
    withs = (node for node in ast.walk(tree) if isinstance(node, ast.With))
    items = (item for node in withs for item in node.items)
    return any(item.context_expr is raises and item.optional_vars is not None for item in items)


RULES: list[tuple[Rule, list[Path]]] = [
    (starts_with_docstring, PRODUCT + BENCHMARKS + TESTS),
    (imports_at_the_top, PRODUCT + BENCHMARKS),
    (imports_no_peer, PRODUCT),
    (only_re_exports, [path for path in PRODUCT if path.name == "__init__.py"]),
    (asserts_nothing, PRODUCT),
    (names_what_it_catches, PRODUCT + BENCHMARKS),
    (is_finished, PRODUCT),
    (has_short_functions, PRODUCT + BENCHMARKS),
    (lists_no_ops, [p for p in PRODUCT if p.parent.name not in ("ops", "maths", "instructions")]),
    (skips_nothing, TESTS),
    (matches_refusals, TESTS),
]


@pytest.mark.parametrize(("rule", "paths"), RULES, ids=[rule.__name__ for rule, _ in RULES])
def test_files_keep_the_rule(rule: Rule, paths: list[Path]) -> None:
    breaches = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in paths
        for line, what in rule(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not breaches, "\n" + "\n".join(breaches)


BREACHES: list[tuple[Rule, str]] = [
    (starts_with_docstring, "x = 1"),
    (imports_at_the_top, "def f():\n    import os"),
    (imports_no_peer, "from torch.nn import Linear"),
    (only_re_exports, "def f(): pass"),
    (asserts_nothing, "def f(x):\n    assert x, 'message'"),
    (names_what_it_catches, "try:\n    f()\nexcept:\n    pass"),
    (is_finished, "def f():\n    raise NotImplementedError('later')"),
    (has_short_functions, "def f():\n" + "    x = 1\n" * 60),
    (lists_no_ops, "FAST = ['exp', 'log', 'sin', 'tanh', 'cos']"),
    (skips_nothing, "import pytest\n@pytest.mark.skip\ndef test_f(): pass"),
    (matches_refusals, "with pytest.raises(ValueError):\n    f()"),
]


@pytest.mark.parametrize(("rule", "source"), BREACHES, ids=[rule.__name__ for rule, _ in BREACHES])
def test_rule_catches_its_breach(rule: Rule, source: str) -> None:
    assert list(rule(ast.parse(source)))


def test_every_rule_has_a_breach() -> None:
    assert {rule for rule, _ in RULES} == {rule for rule, _ in BREACHES}


# --------------------------------------------------------------------------------- layout


def test_no_file_is_a_drawer() -> None:
    drawers = {"utils.py", "helpers.py", "misc.py", "common.py"}
    assert not [path for path in PRODUCT + BENCHMARKS if path.name in drawers]


def test_long_files_say_why() -> None:
    silent = []
    for path in PRODUCT + BENCHMARKS + TESTS:
        text = path.read_text(encoding="utf-8")
        head = ast.get_docstring(ast.parse(text)) or ""
        if text.count("\n") > 400 and not re.search(r"\b(?:[Ll]ong|[Ww]ritten by tools)\b", head):
            silent.append(str(path.relative_to(ROOT)))
    assert not silent, "above 400 lines the head says why the file is long"


def _named_paths() -> list[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    return re.findall(r"`([\w.-]*/[\w./-]*|[A-Z]+\.md)`", text)


def test_architecture_names_only_what_exists() -> None:
    assert not [name for name in _named_paths() if not (ROOT / name).exists()]


def test_architecture_names_every_folder() -> None:
    folders = {path.parent.relative_to(ROOT) for path in PRODUCT} - {Path("src/bedplate")}
    made = {"site", "runs", "build", "dist"}
    folders |= {
        path.relative_to(ROOT)
        for path in ROOT.iterdir()
        if path.is_dir() and not path.name.startswith(".") and path.name not in made | {"src"}
    }
    named = {Path(name) for name in _named_paths()}
    assert not sorted(str(folder) for folder in folders - named)


def test_architecture_has_the_floors_of_the_import_contract() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    drawn = text.rsplit("```", 2)[1].strip().splitlines()
    assert drawn == _layers(0)


def test_architecture_has_the_families_in_the_order_of_the_import_contract() -> None:
    named = re.findall(
        r"^\| `src/bedplate/ops/(\w+)/`", (ROOT / "ARCHITECTURE.md").read_text(), re.M
    )
    layers = [name for layer in reversed(_layers(1)) for name in layer.split(" | ")]
    assert named == [name for name in layers if (ROOT / "src/bedplate/ops" / name).is_dir()]


def _layers(contract: int) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers: list[str] = project["tool"]["importlinter"]["contracts"][contract]["layers"]
    return layers


def test_contributing_names_only_what_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:tests|src|docs|benchmarks)/[\w./-]*)`", text)
    assert paths
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_settings_are_read_in_one_place() -> None:
    readers = [
        str(path.relative_to(ROOT))
        for path in PRODUCT
        if re.search(r"environ[^\n]*BEDPLATE_", path.read_text()) and path.name != "config.py"
    ]
    assert not readers
