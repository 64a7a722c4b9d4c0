"""The limit of this process, and who can make room when it is reached.

All of this runs under `ACCOUNT.lock`.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet

from bedplate.config import settings_of
from bedplate.memory.classes import MEBIBYTE
from bedplate.memory.mapping import ACCOUNT, machine_bytes

_MACHINE_BYTES = machine_bytes()
_settings = settings_of("pooling", "pool_size", "memory_limit")


class Keeper(Protocol):
    """Whoever keeps memory for reuse."""

    def trim(self) -> None:
        """Give back everything of which nothing is in use."""


KEEPERS: WeakSet[Keeper] = WeakSet()


def limit_bytes() -> int:
    """What this process may have mapped, as seen by this thread."""
    return _settings()[2] * MEBIBYTE or _MACHINE_BYTES


def pool_bytes() -> int:
    """What each keeper may keep of the medium tier."""
    pooling, pool_size, limit = _settings()
    if not pooling:
        return 0
    return pool_size * MEBIBYTE or (limit * MEBIBYTE or _MACHINE_BYTES) // 2


def in_use() -> int:
    """Bytes that are mapped and not kept for reuse by a medium tier."""
    return ACCOUNT.mapped - ACCOUNT.free


def trim_all() -> None:
    """Give back everything of which nothing is in use, whoever keeps it."""
    for keeper in list(KEEPERS):
        keeper.trim()
    ACCOUNT.recount()


def require_room(nbytes: int) -> None:
    """raises MemoryError if so many bytes more in use would be above the limit"""
    limit = limit_bytes()
    if in_use() + nbytes > limit:
        trim_all()  # what threads keep for small blocks counts as in use
        if in_use() + nbytes > limit:
            raise MemoryError


def require_mapped(nbytes: int) -> bool:
    """Whether so many bytes more may be mapped; if False, room was made: look again.

    raises  MemoryError if nobody has anything left to give back
    """
    if ACCOUNT.mapped + nbytes <= limit_bytes():
        return True
    ACCOUNT.recount()
    before = ACCOUNT.mapped
    trim_all()
    if ACCOUNT.mapped == before:
        raise MemoryError
    return False
