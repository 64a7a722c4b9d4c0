"""What BEDPLATE_DEBUG shows of a kernel when it is compiled: program, LLVM text, assembly."""

from __future__ import annotations

import sys
from typing import Any

from bedplate.config import config


def show(kernel: Any, text: str) -> None:
    """Print the program (level 4), its LLVM text (5) and its assembly (6) to standard error."""
    level = config.debug
    if level < 4 or config.debug_filter not in kernel.name:
        return
    _print(f"kernel {kernel.name}: program", str(kernel.ir))
    if level >= 5:
        _print(f"kernel {kernel.name}: LLVM", text)
    if level >= 6:
        _print(f"kernel {kernel.name}: assembly", kernel.assembly())


def _print(title: str, text: str) -> None:
    print(f"--- {title}\n{text}", file=sys.stderr)
