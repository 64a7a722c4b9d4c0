"""The ways to get memory that are compared: the tiers, each of them alone, and malloc.

All give a `Block` that goes back with its last reference. The single strategies are the tiers' own
code with the bounds moved, so that what is compared is the choice, not the workmanship:

    tiers            as the library has them: lists up to 1 MiB, above best fit in one range
    tiers, at once   as a manager has them: above 100 MiB a mapping each, given back at once
    pool             lists by size class for every size
    reuse            reference-counted blocks of every size, by best fit, in whole pages
    mapping          a mapping for each block, given back at once
    malloc           malloc and free of the C library
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from bedplate.memory import Block
from bedplate.memory.allocator import taken_from
from bedplate.memory.tiers import Tiers

Allocate = Callable[[int], Block]
_EVERY = 1 << 44
MIB = 1 << 20


class _Malloc:
    """The C library, as a home of blocks."""

    def __init__(self) -> None:
        library: Any = ctypes.CDLL(None)
        self._malloc, self._free = library.malloc, library.free
        self._malloc.argtypes, self._malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
        self._free.argtypes, self._free.restype = [ctypes.c_void_p], None

    def allocate(self, nbytes: int) -> Block:
        return Block(self._malloc(nbytes or 1), nbytes, None, -1, self)

    def give_back(self, _size_class: int, address: int) -> None:
        self._free(address)


def _tiers(small: int, medium: int) -> Allocate:
    tiers = Tiers(small, medium)
    return lambda nbytes: taken_from(tiers, nbytes, None)


STRATEGIES: dict[str, Callable[[], Allocate]] = {
    "tiers": lambda: _tiers(MIB, _EVERY),
    "tiers, at once": lambda: _tiers(MIB, 100 * MIB),
    "pool": lambda: _tiers(_EVERY, _EVERY),
    "reuse": lambda: _tiers(0, _EVERY),
    "mapping": lambda: _tiers(0, 0),
    "malloc": lambda: _Malloc().allocate,
}
SINGLE = ("pool", "reuse", "mapping")
