"""Write src/bedplate/tensor/functions.py: the functions of all ops under their plain names.

A function of the ops floor is public if its docstring shows it in use as `bp.NAME(`. The
module is derived from that, so that adding an op touches one file and this is run again:

    python tools/namespace.py          writes the module
    python tools/namespace.py --check  fails if it is out of date (tests do this too)
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

import bedplate.ops

TARGET = Path(__file__).resolve().parents[1] / "src" / "bedplate" / "tensor" / "functions.py"
HEAD = '''"""The functions of all ops under their plain names. Written by tools/namespace.py."""

# ruff: noqa: I001, RUF022

'''


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


def text() -> str:
    """The module's source."""
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
    listed = "".join(f'    "{name}",\n' for name in sorted(names))
    return f"{HEAD}{''.join(lines)}\n__all__ = [\n{listed}]\n"


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}\n"
    if len(line) <= 101:
        return line
    return f"from {module} import (\n{''.join(f'    {name},{chr(10)}' for name in names)})\n"


def main() -> int:
    """Write or check; returns the exit status."""
    if "--check" in sys.argv[1:]:
        current = TARGET.read_text() == text()
        print("up to date" if current else f"{TARGET}: run python tools/namespace.py")
        return 0 if current else 1
    TARGET.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
