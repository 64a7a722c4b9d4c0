"""The kernel of a program, made once."""

from __future__ import annotations

import functools
from typing import Any

from bedplate.compiler.emit import Emitter, make_kernel
from bedplate.compiler.emit_tiled import TiledEmitter
from bedplate.compiler.program import Program

# kernels that are kept, the most recently used; a model needs a few dozen
CACHE_SIZE = 4096


@functools.lru_cache(CACHE_SIZE)
def fused_kernel(program: Program) -> Any:
    """The kernel of a program; its name says what it does."""
    return make_kernel(program, TiledEmitter if program.tiled else Emitter)
