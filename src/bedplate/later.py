"""What is imported when it is first used, so that `import bedplate` stays quick: parts that a
script may never name, the compiler, which the first value calls, and kernels, which the first use
of their op calls.

Everywhere else imports stand at the top of a module, where tools see them. Here nothing runs in a
caller's module: what is deferred is named by its whole name, and tests import every one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

# names of the top level that such a part defines
NAMES = {
    "check_operation": "tensor.check_operation", "detect_nan": "tensor.detect",
    "explain": "compiler.explain", "kaiming_init": "nn", "profile": "inspect",
    "MemoryManager": "memory", "ThreadLocalPool": "memory",
}  # fmt: skip
SPACES = ("fft", "linalg", "special")  # functions of the tensor floor under a name of their own
HOMES = ("random", *SPACES, "nn", "optim", "data")  # told to who looks here
PARTS = ("cli", "compiler", "data", "inspect", "kernel", "memory", "nn", "olmo", "optim")
DEFERRED: list[tuple[str, str]] = []  # (module, name, or "" for the whole module)


def __getattr__(name: str) -> Any:
    """The module-level hook of the package: `bedplate.NAME` for a part not imported yet."""
    if name in PARTS:
        return importlib.import_module(f"bedplate.{name}")
    if name in SPACES:
        return importlib.import_module(f"bedplate.tensor.{name}")
    if name in NAMES:
        return getattr(importlib.import_module(f"bedplate.{NAMES[name]}"), name)
    raise AttributeError(f"module 'bedplate' has no attribute {name!r}{_elsewhere(name)}")


# what PyTorch and NumPy call it -> what it is called here
OTHER_NAMES = {
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arcsin": "asin",
    "arctan": "atan", "arctan2": "atan2", "array": "tensor", "bmm": "matmul", "cat": "concat",
    "checkpoint": "rematerialise", "clamp": "clip", "compile": "jit", "concatenate": "concat",
    "device": "Device", "div": "divide", "double": "float64", "eq": "equal", "float": "float32",
    "ge": "greater_equal", "gt": "greater", "half": "float16", "hstack": "concat",
    "inference_mode": "no_grad", "int": "int32", "le": "less_equal", "long": "int64", "lt": "less",
    "mm": "matmul", "mul": "multiply", "ne": "not_equal", "neg": "negative", "power": "pow",
    "set_num_threads": "config", "sgn": "sign", "sub": "subtract", "unsqueeze": "expand_dims",
    "vstack": "concat",
}  # fmt: skip


def _elsewhere(name: str) -> str:
    """Where a name is that somebody looks for at the top level: its second line, or nothing."""
    if name in OTHER_NAMES:
        return f"\n  there is bedplate.{OTHER_NAMES[name]}"
    places = () if name.startswith("_") else HOMES
    package = sys.modules["bedplate"]
    homes = [place for place in places if hasattr(getattr(package, place), name)]
    return f"\n  there is {' and '.join(f'bedplate.{home}.{name}' for home in homes)}" * bool(homes)


def __dir__() -> list[str]:
    """The names of the package, those of parts not imported yet among them."""
    return sorted({*vars(sys.modules["bedplate"]), *PARTS, *SPACES, *NAMES})


class Later:
    """A module that is imported when something of it is first used; each use costs 0.5 us.

    >>> json = Later("json")
    >>> json.loads("[1]")
    [1]
    """

    def __init__(self, module: str) -> None:
        DEFERRED.append((module, ""))
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what copy and pickle look for, before there is a `_module`
            raise AttributeError(name)
        return getattr(importlib.import_module(self._module), name)


def deferred(module: str, name: str) -> Callable[..., Any]:
    """Function `name` of a module that is imported at its first call; each costs 0.1 us more.

    >>> dumps = deferred("json", "dumps")
    >>> dumps([1])
    '[1]'
    """
    DEFERRED.append((module, name))
    known: Callable[..., Any] | None = None

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal known
        function = known
        if function is None:
            function = known = getattr(importlib.import_module(module), name)
        return function(*arguments, **named)

    call.__name__ = call.__qualname__ = name
    return call
