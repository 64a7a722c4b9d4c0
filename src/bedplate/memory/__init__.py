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

__all__ = [
    "Block",
    "ForeignBlock",
    "allocate",
    "allocate_all",
    "line_of",
    "observe_blocks",
    "readable",
    "release_cache",
]
