"""`allocate(nbytes)`: a Block from the library's tiers, which goes back by itself.

The usual path is written out here, since every op of an eager program takes it: no call, no lock.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from bedplate.config import config
from bedplate.errors import InternalError
from bedplate.memory.block import OBSERVERS, Block, unobserved
from bedplate.memory.classes import ALIGNMENT, SMALL_BYTES
from bedplate.memory.mapping import Mapping
from bedplate.memory.small import Home
from bedplate.memory.tiers import LIBRARY, Tiers, release_all

_here = LIBRARY.here
_QUICK_BYTES = min(LIBRARY.small_bytes, LIBRARY.small.classes.TABLE_BYTES)
_CLASS = LIBRARY.small.classes.by_line


def allocate(nbytes: int, site: Any = None) -> Block:
    """A block of at least `nbytes` bytes, 64-byte aligned, with undefined content.

    site     where it was asked for, for reports and errors
    raises   OutOfMemoryError, which lists the largest holders; everything stays usable
    cost     about half a micro-second when a freed block of the size class is at hand
    """
    if 0 <= nbytes <= _QUICK_BYTES and config.pooling:
        index = _CLASS[(nbytes + (ALIGNMENT - 1)) >> 6]
        home = getattr(_here, "home", None)
        if home is not None:
            try:
                address = home.free[index].pop()
            except IndexError:
                address = LIBRARY.refill(home, index, nbytes, site)
            return Block(address, nbytes, site, index, home)
    if nbytes < 0:
        raise InternalError(f"allocate: nbytes must not be negative, got {nbytes}")
    return taken_from(LIBRARY, nbytes, site) if config.pooling else _unpooled(nbytes, site)


def allocate_all(sizes: list[int]) -> list[Block]:
    """A block for each number of bytes, as `allocate` gives them; quicker for several."""
    home = getattr(_here, "home", None) if config.pooling else None
    if home is None:
        return [allocate(nbytes) for nbytes in sizes]
    blocks = []
    free = home.free
    together = OBSERVERS.together
    make = Block if together is None else unobserved
    for nbytes in sizes:
        if nbytes > _QUICK_BYTES:
            blocks.append(allocate(nbytes))
            continue
        index = _CLASS[(nbytes + (ALIGNMENT - 1)) >> 6]
        try:
            address = free[index].pop()
        except IndexError:
            address = LIBRARY.refill(home, index, nbytes, None)
        blocks.append(make(address, nbytes, None, index, home))
    if together is not None:
        _tell(together, blocks, sizes)
    return blocks


def _tell(together: Any, blocks: list[Block], sizes: list[int]) -> None:
    """Tell of blocks, those left out that `allocate` gave."""
    if sizes and max(sizes) > _QUICK_BYTES:
        blocks = [block for block in blocks if block.nbytes <= _QUICK_BYTES]
        sizes = [block.nbytes for block in blocks]
    if blocks:
        together(blocks, sizes)


def taken_from(tiers: Tiers, nbytes: int, site: Any) -> Block:
    """A block of any size.

    raises  OutOfMemoryError
    """
    address, size_class, home = tiers.take(nbytes, site)
    if isinstance(home, Home):
        return Block(address, nbytes, site, size_class, home)
    if isinstance(home, Mapping):
        return Block(address, nbytes, site, kept_alive=home)
    block = Block(address, nbytes, site, size_class, home)
    if size_class < 0:
        tiers.holders[address] = ref(block)
    return block


def _unpooled(nbytes: int, site: Any) -> Block:
    """A block whose memory is given back with it."""
    if nbytes > SMALL_BYTES:  # below, a mapping would be pages for a little
        pages = LIBRARY.pages(nbytes, site)
        return Block(pages.address, nbytes, site, kept_alive=pages)
    array = np.empty(nbytes + ALIGNMENT, np.uint8)
    address = array.__array_interface__["data"][0]
    return Block(-(-address // ALIGNMENT) * ALIGNMENT, nbytes, site, kept_alive=array)


def release_cache() -> None:
    """Give everything that is kept for reuse back to the system."""
    release_all()
