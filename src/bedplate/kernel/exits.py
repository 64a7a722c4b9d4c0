"""Ways out of a branch that the trace cannot see: return, break, continue inside `with when(...)`.

Under trace both sides of a branch run, so a Python `return` there would silently leave out the
rest of the kernel, whatever the condition says. Where the source of a kernel can be read, it is
looked through for them once, before the kernel is traced. (Loops notice it themselves.)
"""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from collections.abc import Iterator
from typing import Any

from bedplate.errors import KernelError
from bedplate.kernel.context import _PACKAGE
from bedplate.kernel.language.statements import otherwise, when

# Bedplate's own kernels are looked through by a test, not each time they are traced.
_BEDPLATE = os.path.dirname(os.path.dirname(_PACKAGE)) + os.sep


def check_exits(function: Any, names: dict[str, Any]) -> None:
    """Look for a statement that leaves a branch, if the function is a user's with a source.

    names   what names stand for inside the function
    raises  KernelError naming its line
    """
    code = function.__code__
    if code.co_filename.startswith(_BEDPLATE):
        return
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return  # no source, or part of an expression
    if getattr(tree.body[0], "name", None) != code.co_name:
        return  # the file was changed since it was imported
    for word, line in exits(tree, names):
        raise KernelError(
            f"kernel {function.__name__}: {word} leaves a branch while it is traced\n"
            f"  at {code.co_filename}:{first + line - 1}\n"
            "  legal: give_back() returns at run time; otherwise() for what else should happen"
        )


def exits(tree: ast.AST, names: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """(word, line) of each return, break or continue that leaves a branch.

    names  what names stand for where the tree runs
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and any(_is_branch(item, names) for item in node.items):
            for statement in node.body:
                yield from _leaving(statement, False)


def _is_branch(item: ast.withitem, names: dict[str, Any]) -> bool:
    call = item.context_expr
    if not isinstance(call, ast.Call):
        return False
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in ("when", "otherwise")
    return isinstance(call.func, ast.Name) and names.get(call.func.id) in (when, otherwise)


def _leaving(node: ast.AST, in_loop: bool) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        return
    if isinstance(node, ast.Return):
        yield "return", node.lineno
    if isinstance(node, ast.Break | ast.Continue) and not in_loop:
        yield type(node).__name__.lower(), node.lineno
    inside = in_loop or isinstance(node, ast.For | ast.While)
    for child in ast.iter_child_nodes(node):
        yield from _leaving(child, inside)
