"""LLVM, loaded when it is first used: importing llvmlite takes 60 ms, and a program that only
reads settings or builds graphs need not pay for it."""

from __future__ import annotations

import functools
import importlib
from typing import Any


@functools.cache
def binding() -> Any:
    """llvmlite's binding, with every target initialised."""
    module = importlib.import_module("llvmlite.binding")
    module.initialize_all_targets()
    module.initialize_all_asmprinters()
    module.initialize_native_asmparser()
    return module
