"""Write src/bedplate/tensor/functions.py and its types, functions.pyi.

A function of the ops floor is public if its docstring shows it in use as `bp.NAME(`. The
module with their plain names is derived from that, and the types of the functions and of the
methods of tensors from their signatures, so that adding an op touches one file and this is
run again:

    python tools/namespace.py          writes both
    python tools/namespace.py --check  fails if one is out of date (tests do this too)
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

# the package must import although the module that is written here is out of date
_empty = ModuleType("bedplate.tensor.functions")
_empty.__dict__["__all__"] = []
sys.modules["bedplate.tensor.functions"] = _empty

import bedplate.ops  # noqa: E402
from bedplate.ops.operators import Operators  # noqa: E402

FOLDER = Path(__file__).resolve().parents[1] / "src" / "bedplate" / "tensor"
HEAD = '''"""The functions of all ops under their plain names. Written by tools/namespace.py."""

# ruff: noqa: I001, RUF022

'''
TYPES_HEAD = '''"""Types of the functions of all ops, and of the methods that tensors have of them.

Written by tools/namespace.py."""

from collections.abc import Sequence
from typing import Any

from bedplate.tensor.tensor import Tensor

'''
# names of types in the signatures of ops -> types that users see
TYPES = {
    "Value": "Any",
    "Value | None": "Any",
    "Sequence[Value]": "Sequence[Any]",
    "Axes": "int | Sequence[int]",
    "Axes | None": "int | Sequence[int] | None",
    "Axis": "int | Sequence[int] | None",
    "Number": "bool | int | float",
    "-> Value": "Tensor",
    "-> Any": "Tensor",
    "-> tuple[Value, ...]": "tuple[Tensor, ...]",
}
# what Tensor defines itself
OWN = ("__hash__", "__getitem__", "__module__", "__doc__", "__slots__")


def public_functions() -> dict[str, list[tuple[str, str]]]:
    """{module: [(name there, plain name), ...]}, sorted."""
    found: dict[str, list[tuple[str, str]]] = {}
    for info in sorted(pkgutil.iter_modules(bedplate.ops.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"bedplate.ops.{info.name}")
        for name, member in sorted(vars(module).items()):
            plain = name.rstrip("_")
            own = getattr(member, "__module__", None) == module.__name__
            if own and callable(member) and f"bp.{plain}(" in (member.__doc__ or ""):
                found.setdefault(info.name, []).append((name, plain))
    return found


def source() -> str:
    """The text of functions.py."""
    lines = []
    names = []
    for module, functions in public_functions().items():
        names += [plain for _, plain in functions]
        same = [name for name, plain in functions if name == plain]
        if same:
            lines.append(_import(f"bedplate.ops.{module}", same))
        for name, plain in functions:
            if name != plain:
                lines.append(f"from bedplate.ops.{module} import {name} as {plain}\n")
    return f"{HEAD}{''.join(lines)}\n{_all(names)}"


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}\n"
    if len(line) <= 101:
        return line
    return f"from {module} import (\n{''.join(f'    {name},{chr(10)}' for name in names)})\n"


def _all(names: list[str]) -> str:
    listed = "".join(f'    "{name}",\n' for name in sorted(names))
    return f"__all__ = [\n{listed}]\n"


def types() -> str:
    """The text of functions.pyi."""
    lines = []
    names = []
    for module, functions in public_functions().items():
        members = vars(importlib.import_module(f"bedplate.ops.{module}"))
        for name, plain in functions:
            names.append(plain)
            lines.append(f"def {plain}{_signature(members[name])}: ...\n")
    methods = [
        f"    def {name}{_signature(member, True)}: ...{_override(name)}\n"
        for name, member in vars(Operators).items()
        if name not in OWN and callable(member)
    ]
    head = "class Methods:\n    __slots__ = ()\n    def __hash__(self) -> int: ...\n"
    body = f"{head}{''.join(methods)}"
    return f"{TYPES_HEAD}{''.join(lines)}\n{body}\n{_all(names)}"


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
        written.append(_parameter(parameter))
        after = parameters[place + 1 : place + 2]
        last = not after or after[0].kind is not inspect.Parameter.POSITIONAL_ONLY
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and last:
            written.append("/")
    result = TYPES.get(f"-> {signature.return_annotation}", str(signature.return_annotation))
    return f"({', '.join(written)}) -> {result}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    kind = TYPES.get(str(parameter.annotation), str(parameter.annotation))
    text = f"{stars.get(parameter.kind, '')}{parameter.name}: {kind}"
    if parameter.default is inspect.Parameter.empty:
        return text
    plain = parameter.default is None or isinstance(parameter.default, bool | int | float | str)
    return f"{text} = {parameter.default!r}" if plain else f"{text} = ..."


def main() -> int:
    """Write or check; returns the exit status."""
    wanted = {FOLDER / "functions.py": source(), FOLDER / "functions.pyi": types()}
    if "--check" not in sys.argv[1:]:
        for path, text in wanted.items():
            path.write_text(text)
        return 0
    stale = [p.name for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    print(f"out of date: {stale}; run python tools/namespace.py" if stale else "up to date")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
