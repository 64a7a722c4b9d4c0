"""Memory: blocks, and the caching allocator that they come from."""

from bedplate.memory.allocator import Block, allocate, line_of, readable, release_cache

__all__ = ["Block", "allocate", "line_of", "readable", "release_cache"]
