"""Memory: blocks, and the caching allocator that they come from."""

from bedplate.memory.allocator import (
    Block,
    ForeignBlock,
    allocate,
    allocate_all,
    line_of,
    observe_blocks,
    readable,
    release_cache,
)
from bedplate.memory.inspection import expect_no_leak, leaks

__all__ = [
    "Block",
    "ForeignBlock",
    "allocate",
    "allocate_all",
    "expect_no_leak",
    "leaks",
    "line_of",
    "observe_blocks",
    "readable",
    "release_cache",
]
