"""Write the modules of functions by their plain names, with types: src/bedplate/tensor/*.py, *.pyi.

A function of the ops floor is public if its docstring shows it in use, and under the name that
is shown there: `bp.NAME(` puts it into the top level, `bp.linalg.NAME(` into `bp.linalg`, and so
on for each row of `TARGETS`. A function of the top level whose first argument is a tensor called
`x`, `a` or `x1` is a method too. So adding an op touches one file, and this is run again:

    python tools/namespace.py          writes all
    python tools/namespace.py --check  fails if one is out of date (tests do this too)
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "src" / "bedplate" / "tensor"
# what stands before the name in a docstring -> (module in tensor/, its first line)
TARGETS = {
    "bp.": ("functions", "The functions of all ops under their plain names, and as methods."),
    "bp.linalg.": ("linalg", "Linear algebra: the functions of `bedplate.linalg`."),
    "bp.fft.": ("fft", "Discrete Fourier transforms: the functions of `bedplate.fft`."),
    "bp.special.": ("special", "Special functions: the functions of `bedplate.special`."),
    "bp.nn.functional.": ("network", "Functions of neural networks that are ops."),
}
TOP = "functions"
# where functions stand, beside the modules of the ops floor: those that no tensor is given to
MAKERS = ("bedplate.tensor.frequencies",)

# the package must import although the modules that are written here are out of date
for _name, _ in TARGETS.values():
    _empty = ModuleType(f"bedplate.tensor.{_name}")
    _empty.__dict__.update(__all__=[], Methods=type("Methods", (), {"__slots__": ()}))
    sys.modules[_empty.__name__] = _empty

import bedplate.ops  # noqa: E402
from bedplate.ops.operators import ALSO, Operators  # noqa: E402
from bedplate.ops.public import other_words  # noqa: E402

TYPES_IMPORTS = """
from collections.abc import Sequence
from typing import Any

from bedplate.tensor.tensor import Tensor

"""
# names of types in the signatures of ops -> types that users see; other names of unions are
# written out
TYPES = {
    "Value": "Any",
    "Value | None": "Any",
    "Sequence[Value]": "Sequence[Any]",
    "Axes": "int | Sequence[int]",
    "Axes | None": "int | Sequence[int] | None",
    "Axis": "int | Sequence[int] | None",
    "Number": "bool | int | float",
    "Order": "float",
    "Order | str": "float | str",
    "Order | str | None": "float | str | None",
    "-> Value": "Tensor",
    "-> Any": "Tensor",
    "-> tuple[Value, ...]": "tuple[Tensor, ...]",
    "-> tuple[Value, Value]": "tuple[Tensor, Tensor]",
}
# what Tensor defines itself
OWN = ("__hash__", "__getitem__", "__module__", "__doc__", "__slots__")
FIRST = ("x", "a", "x1")  # first arguments that make a function a method
Found = dict[str, list[tuple[str, str]]]  # {module: [(name there, plain name), ...]}


def public_functions(prefix: str) -> Found:
    """The functions whose docstrings show them in use after `prefix`, sorted."""
    found: Found = {}
    walked = pkgutil.walk_packages(bedplate.ops.__path__, "bedplate.ops.")
    ops = [info.name for info in walked if not info.ispkg]
    for path in (*sorted(ops), *MAKERS):
        module = importlib.import_module(path)
        for name, member in sorted(vars(module).items()):
            plain = name.rstrip("_")
            own = getattr(member, "__module__", None) == module.__name__
            use = re.compile(rf"(?<![\w.]){re.escape(prefix)}{re.escape(plain)}\(")
            if own and callable(member) and use.search(member.__doc__ or ""):
                found.setdefault(path, []).append((name, plain))
    return found


def source(prefix: str) -> str:
    """The text of the module of functions for `prefix`."""
    module, title = TARGETS[prefix]
    found = public_functions(prefix)
    names = [plain for functions in found.values() for _, plain in functions]
    body = f"{_methods(found)}\n\n" if module == TOP else ""
    operators = _import("bedplate.ops.operators", ["Operators"]) if module == TOP else ""
    operators += _import("bedplate.ops.public", ["public"])
    head = f'"""{title}\n\nWritten by tools/namespace.py."""\n\n'
    imports = f"{_imports(found)}{operators}"
    calls = _calls(found)
    return f"{head}{imports}{imports and chr(10)}{calls}{body}{_all(names)}"


def _calls(found: Found) -> str:
    """The lines that make the functions of ops what users call."""
    names = [
        plain
        for module, functions in found.items()
        for name, plain in functions
        if _is_wrapped(vars(importlib.import_module(module))[name])
    ]
    return "".join(f"{plain} = public({plain}, __name__)\n" for plain in names) + "\n"


def _is_wrapped(function: Callable[..., Any]) -> bool:
    """Whether `public` has something to add to a function."""
    return not hasattr(function, "op")


def _imports(found: Found) -> str:
    lines = []
    for module, functions in found.items():
        same = [name for name, plain in functions if name == plain]
        if same:
            lines.append(_import(module, same))
        for name, plain in functions:
            if name != plain:
                lines.append(f"from {module} import {name} as {plain}\n")
    return "".join(lines)


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}\n"
    if len(line) <= 101:
        return line
    return f"from {module} import (\n{''.join(f'    {name},{chr(10)}' for name in names)})\n"


def _methods(found: Found) -> str:
    """The class that adds the functions of the top level to the operators."""
    names = sorted(name for name, _ in _method_functions(found))
    lines = [f"    {name} = {ALSO.get(name, name)}\n" for name in names]
    doc = '    """The functions of the top level as methods."""\n\n    __slots__ = ()\n\n'
    return f"\nclass Methods(Operators):\n{doc}{''.join(lines)}"


def _method_functions(found: Found) -> list[tuple[str, Callable[..., Any]]]:
    """(name, function) of what becomes a method, also under a second name; not properties."""
    result = []
    properties = {n for n, member in vars(Operators).items() if isinstance(member, property)}
    for module, functions in found.items():
        members = vars(importlib.import_module(module))
        for name, plain in functions:
            first = next(iter(inspect.signature(members[name]).parameters), "")
            if first in FIRST and not plain.endswith("_like") and plain not in properties:
                also = [second for second, ours in ALSO.items() if ours == plain]
                result += [(called, members[name]) for called in (plain, *also)]
    return result


def _all(names: list[str]) -> str:
    listed = "".join(f'    "{name}",\n' for name in sorted(names))
    return f"__all__ = [\n{listed}]\n" if listed else "__all__: list[str] = []\n"


def types(prefix: str) -> str:
    """The text of the types of the module of functions for `prefix`."""
    module, title = TARGETS[prefix]
    found = public_functions(prefix)
    lines = []
    for place, functions in found.items():
        members = vars(importlib.import_module(place))
        lines += [f"def {plain}{_signature(members[name])}: ...\n" for name, plain in functions]
    names = [plain for functions in found.values() for _, plain in functions]
    head = f'"""{title}\n\nTypes, written by tools/namespace.py."""\n{TYPES_IMPORTS}'
    methods = f"\n{_method_types(found)}" if module == TOP else ""
    return f"{head}{_results(found)}{''.join(lines)}{methods}\n{_all(names)}"


def _results(found: Found) -> str:
    """Imports of the named tuples that functions give."""
    lines = []
    for place, functions in found.items():
        members = vars(importlib.import_module(place))
        given = {inspect.signature(members[name]).return_annotation for name, _ in functions}
        classes = sorted(name for name in given if hasattr(members.get(name), "_fields"))
        lines += [_import(place, classes)] if classes else []
    return "".join(lines) + "\n" * bool(lines)


def _method_types(found: Found) -> str:
    signs = [(n, m) for n, m in vars(Operators).items() if n.startswith("__") and n not in OWN]
    lines = [
        f"    def {name}{_signature(member, True)}: ...{_override(name)}\n"
        for name, member in signs + sorted(_method_functions(found))
    ]
    head = "class Methods:\n    __slots__ = ()\n    def __hash__(self) -> int: ...\n"
    return f"{head}{''.join(lines)}"


def _override(name: str) -> str:
    return "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""


def _signature(function: Callable[..., Any], method: bool = False) -> str:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    written = ["self"] if method else []
    only_keywords = False
    for place, parameter in enumerate(parameters[method:], int(method)):
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            only_keywords = True
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY and not only_keywords:
            written.append("*")
            only_keywords = True
        written.append(_parameter(parameter, function))
        after = parameters[place + 1 : place + 2]
        last = not after or after[0].kind is not inspect.Parameter.POSITIONAL_ONLY
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and last:
            written.append("/")
    for theirs, ours in other_words(function).items():
        if ours in signature.parameters:
            written += [] if only_keywords else ["*"]
            only_keywords = True
            other = signature.parameters[ours].replace(name=theirs)
            # one of the two is given, so neither is required
            required = other.default is inspect.Parameter.empty
            other = other.replace(default=...) if required else other
            written.append(_parameter(other, function))
    result = TYPES.get(f"-> {signature.return_annotation}", str(signature.return_annotation))
    return f"({', '.join(written)}) -> {result}"


def _parameter(parameter: inspect.Parameter, function: Callable[..., Any]) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    kind = _written_out(str(parameter.annotation), function)
    text = f"{stars.get(parameter.kind, '')}{parameter.name}: {kind}"
    if parameter.default is inspect.Parameter.empty:
        return text
    plain = parameter.default is None or isinstance(parameter.default, bool | int | float | str)
    return f"{text} = {parameter.default!r}" if plain else f"{text} = ..."


def _written_out(kind: str, function: Callable[..., Any]) -> str:
    """The type of a parameter, without names that only the module of the function knows."""
    if kind in TYPES:
        return TYPES[kind]
    known = inspect.unwrap(function).__globals__

    def union(word: re.Match[str]) -> str:
        value = known.get(word[0])
        plain = str(value).replace("collections.abc.", "")
        return plain if isinstance(value, UnionType) else word[0]

    return re.sub(r"\w+", union, kind)


def main() -> int:
    """Write or check; returns the exit status."""
    wanted = {}
    for prefix, (module, _) in TARGETS.items():
        wanted[FOLDER / f"{module}.py"] = source(prefix)
        wanted[FOLDER / f"{module}.pyi"] = types(prefix)
    if "--check" not in sys.argv[1:]:
        for path, text in wanted.items():
            path.write_text(text)
        return 0
    stale = [p.name for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    print(f"out of date: {stale}; run python tools/namespace.py" if stale else "up to date")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
