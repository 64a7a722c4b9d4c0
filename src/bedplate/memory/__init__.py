"""Memory: blocks, and the caching allocator that they come from."""

from bedplate.memory.allocator import (
    Block,
    ForeignBlock,
    allocate,
    line_of,
    readable,
    release_cache,
)

__all__ = ["Block", "ForeignBlock", "allocate", "line_of", "readable", "release_cache"]
