"""Memory: three tiers by size, blocks that go back by themselves, managers, the limit."""

from bedplate.memory.allocator import allocate, allocate_all, release_cache
from bedplate.memory.block import Block, ForeignBlock, observe_blocks
from bedplate.memory.inspection import expect_no_leak, leaks, peak, report
from bedplate.memory.limit import limit
from bedplate.memory.manager import Buffer, BufferLeak, MemoryManager
from bedplate.memory.small import ThreadLocalPool
from bedplate.memory.text import line_of, readable

__all__ = [
    "Block",
    "Buffer",
    "BufferLeak",
    "ForeignBlock",
    "MemoryManager",
    "ThreadLocalPool",
    "allocate",
    "allocate_all",
    "expect_no_leak",
    "leaks",
    "limit",
    "line_of",
    "observe_blocks",
    "peak",
    "readable",
    "release_cache",
    "report",
]
