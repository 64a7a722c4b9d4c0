"""The kernel that this thread is tracing, the user's line, and errors that name both."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from bedplate.errors import KernelError

if TYPE_CHECKING:  # the tracer stands above: it makes values, and values need to find it
    from bedplate.kernel.trace import Tracer


class _State(threading.local):
    tracer: Any = None


state = _State()


def tracer() -> Tracer:
    """The tracer of the kernel being traced on this thread.

    raises KernelError outside a kernel
    """
    found = state.tracer
    if found is None:
        raise KernelError(
            "a function of the kernel language was called outside a kernel\n"
            f"  at {line_of(user_site())}\n"
            "  legal: inside a function under @kernel, while it is being traced"
        )
    return found


# This folder, spelled as in the code objects that frames hold.
_PACKAGE = os.path.dirname(tracer.__code__.co_filename) + os.sep


def user_site(code: Any = None) -> Any:
    """(code, instruction) of the first frame outside this package, or of the traced function."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code or not frame.f_code.co_filename.startswith(_PACKAGE):
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return None


def line_of(site: Any) -> str:
    """`file:line` of a site, or 'unknown line'."""
    if site is None:
        return "unknown line"
    code, instruction = site
    if isinstance(code, str):  # read back from a text
        return f"{code}:{instruction}"
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
            break
    return f"{code.co_filename}:{line}"


def describe(value: Any) -> str:
    """A value as errors show it: its name, its type and the line that made it."""
    type_ = getattr(value, "type", None)
    if type_ is None:
        return f"{value!r} (Python {type(value).__name__})"
    if getattr(value, "op", "") == "literal":
        return f"{value.attributes['value']!r} {type_}"
    number = getattr(value, "number", 0)
    return f"%{number} {type_}  made at {line_of(getattr(value, 'site', None))}"


def failure(rule: str, legal: str, **values: Any) -> KernelError:
    """The error for a broken rule: kernel, rule, each value, the user's line, what is legal."""
    tracer_ = state.tracer
    name = f"kernel {tracer_.name}: " if tracer_ is not None else ""
    lines = [f"{name}{rule}"]
    lines.extend(f"  {key}  {describe(value)}" for key, value in values.items())
    lines.append(f"  at {line_of(user_site(tracer_.code if tracer_ is not None else None))}")
    lines.append(f"  legal: {legal}")
    return KernelError("\n".join(lines))
