"""One record per instruction of the language: its name, its LLVM text, its meaning."""

from bedplate.kernel.instructions import (
    arithmetic,
    atomics,
    bits,
    blocks,
    calls,
    convert,
    dots,
    floats,
    memory,
    statements,
    vectors,
)
from bedplate.kernel.instructions.operation import OPERATIONS, Operation

__all__ = [
    "OPERATIONS", "Operation", "arithmetic", "atomics", "bits", "blocks", "calls", "convert",
    "dots", "floats", "memory", "statements", "vectors",
]  # fmt: skip
