"""Parts of the package that are imported when they are first named, so that `import bedplate`
stays quick for a script that does not need them."""

from __future__ import annotations

import importlib
from typing import Any

# names of the top level that such a part defines
NAMES = {"kaiming_init": "nn", "profile": "inspect"}
SPACES = ("fft", "linalg", "special")  # functions of the tensor floor under a name of their own
PARTS = ("cli", "compiler", "data", "inspect", "kernel", "memory", "nn", "olmo", "optim")


def __getattr__(name: str) -> Any:
    """The module-level hook of the package: `bedplate.NAME` for a part not imported yet."""
    if name in PARTS:
        return importlib.import_module(f"bedplate.{name}")
    if name in SPACES:
        return importlib.import_module(f"bedplate.tensor.{name}")
    if name in NAMES:
        return getattr(importlib.import_module(f"bedplate.{NAMES[name]}"), name)
    raise AttributeError(f"module 'bedplate' has no attribute {name!r}")
