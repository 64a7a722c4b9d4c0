"""Tiers: where memory of every size is taken from, within one limit for the whole process.

| tier   | bytes          | where from                              | when freed          |
|--------|----------------|-----------------------------------------|---------------------|
| small  | up to 1 MiB    | free lists of each thread (`small.py`)  | kept by the thread  |
| medium | up to 100 MiB  | one long range, by best fit (`medium.py`) | kept for all      |
| large  | more           | a mapping for each (`large.py`)         | given back at once  |

The library has one object of this class (`LIBRARY`), each `MemoryManager` has one. All are changed
under one lock (`ACCOUNT.lock`), so that whoever is short of memory may trim all of them. A
finaliser may run in the middle of anything, even of a section that holds the lock on the same
thread (which may enter it again): what is freed then waits in `returned`, and what is wanted then
gets a mapping of its own. Ctrl-C may end a section after any call in it: the steps come in an order
in which the worst that is left behind is memory that nobody uses. The lock is only taken by `with`,
which no signal can come in between.
"""

from __future__ import annotations

import contextlib
import gc
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import ref

from bedplate.config import config
from bedplate.errors import OutOfMemoryError
from bedplate.memory.classes import MEBIBYTE, Classes, round_up
from bedplate.memory.holders import out_of_memory
from bedplate.memory.large import Large
from bedplate.memory.mapping import ACCOUNT, Mapping
from bedplate.memory.medium import Medium
from bedplate.memory.pressure import (
    KEEPERS,
    in_use,
    limit_bytes,
    pool_bytes,
    require_mapped,
    require_room,
    trim_all,
)
from bedplate.memory.small import Here, Small

MEDIUM, LARGE, STRAY = -1, -2, -3  # in place of a size class


class Tiers:
    """See the head of this file.

    small_bytes   up to here requests are small
    medium_bytes  up to here they are medium
    holders       of what is in use of the medium and large tiers: address -> weak reference
    """

    def __init__(self, small_bytes: int, medium_bytes: int) -> None:
        self.small_bytes = small_bytes
        self.medium_bytes = max(medium_bytes, small_bytes)
        self.medium = Medium()
        self.small = Small(Classes(small_bytes))
        self.large = Large()
        self.returned: deque[tuple[int, int]] = deque()
        self.holders: dict[int, ref[Any]] = {}
        self.here = Here(self.small)
        with ACCOUNT.lock:
            KEEPERS.add(self)

    # ---- taking

    def take(self, nbytes: int, site: Any = None) -> tuple[int, int, Any]:
        """Memory for a request: (address, size class or tier, where it goes back to).

        raises  OutOfMemoryError
        """
        if nbytes <= self.small_bytes:
            index = self.small.classes.of(nbytes)
            home = getattr(self.here, "home", None)
            if home is None:  # the thread is going down
                return self.patiently(self.small.take, index, nbytes, site), index, self
            try:
                return home.free[index].pop(), index, home
            except IndexError:
                return self.refill(home, index, nbytes, site), index, home
        if nbytes <= self.medium_bytes:
            tier, take = MEDIUM, self._take_medium
        else:
            tier, take = LARGE, self._take_large
        found = self.patiently(take, nbytes, nbytes, site)
        if type(found) is int:
            return found, tier, self
        return found.address, STRAY, found

    def refill(self, home: Any, index: int, nbytes: int, site: Any) -> int:
        """An address of a small class whose list has run dry in this thread."""
        return self.patiently(home.refill, index, nbytes, site)

    def patiently(self, take: Callable[[Any], Any], what: Any, nbytes: int, site: Any) -> Any:
        """Take something, once more when the garbage collector has freed what it can.

        raises  OutOfMemoryError
        """
        try:
            return take(what)
        except MemoryError:
            pass
        gc.collect()  # there may be tensors in cycles
        release_all()
        with contextlib.suppress(MemoryError):
            return take(what)
        raise OutOfMemoryError(out_of_memory(nbytes, in_use(), limit_bytes(), list(KEEPERS), site))

    def pages(self, nbytes: int, site: Any) -> Mapping:
        """A mapping that no tier keeps: it is given back when the object goes.

        raises  OutOfMemoryError
        """
        return self.patiently(_pages, nbytes, nbytes, site)

    def _take_medium(self, nbytes: int) -> int | Mapping:
        with ACCOUNT.lock:
            if ACCOUNT.inside:
                return Mapping(round_up(nbytes, MEBIBYTE))
            ACCOUNT.inside = True
            try:
                self._collect()
                require_room(nbytes)
                return self.medium.take(nbytes)
            finally:
                ACCOUNT.inside = False

    def _take_large(self, nbytes: int) -> int | Mapping:
        with ACCOUNT.lock:
            if ACCOUNT.inside:
                return Mapping(nbytes)
            ACCOUNT.inside = True
            try:
                self._collect()
                require_room(nbytes)
                return self.large.take(nbytes)
            finally:
                ACCOUNT.inside = False

    # ---- giving back

    def give_back(self, size_class: int, address: int) -> None:
        """Memory is no longer in use; may be called by a finaliser, on any thread."""
        if size_class >= 0:
            self.small.free[size_class].append(address)
            return
        self.returned.append((size_class, address))
        self.collect()

    def collect(self) -> None:
        """Take in what was returned, unless somebody on this thread is in the middle of it."""
        if not self.returned:
            return
        with ACCOUNT.lock:
            if ACCOUNT.inside:
                return
            ACCOUNT.inside = True
            try:
                self._collect()
            finally:
                ACCOUNT.inside = False

    def _collect(self) -> None:
        while self.returned:
            try:
                size_class, address = self.returned.popleft()
            except IndexError:
                break
            self.holders.pop(address, None)
            if size_class == MEDIUM:
                self.medium.give_back(address)
            else:
                self.large.give_back(address)
        self._trim(pool_bytes())

    def _trim(self, bound_bytes: int) -> None:
        """Give pages back until the medium tier keeps so little."""
        if self.medium.free_bytes > bound_bytes:
            self.medium.trim(bound_bytes)

    def trim(self) -> None:
        """Give back everything of which nothing is in use; the lock is held, `inside` is set."""
        while self.returned:
            self._collect()
        self.small.trim()
        self.medium.trim(0)

    def release(self) -> int:
        """Give everything of which nothing is in use back to the system.

        returns  the bytes that went back
        """
        with ACCOUNT.lock:
            if ACCOUNT.inside:
                return 0
            ACCOUNT.inside = True
            try:
                before = ACCOUNT.mapped
                self.trim()
                return before - ACCOUNT.mapped
            finally:
                ACCOUNT.inside = False


def release_all() -> None:
    """Give everything that is kept for reuse back to the system, of the library and of managers."""
    with ACCOUNT.lock:
        if not ACCOUNT.inside:
            ACCOUNT.inside = True
            try:
                trim_all()
            finally:
                ACCOUNT.inside = False


def _pages(nbytes: int) -> Mapping:
    """Fresh pages, of no tier."""
    with ACCOUNT.lock:
        if ACCOUNT.inside:
            return Mapping(nbytes)
        ACCOUNT.inside = True
        try:
            while not require_mapped(nbytes):
                pass
            return Mapping(nbytes)
        finally:
            ACCOUNT.inside = False


# More than any machine has: every block that the library frees is kept for the next one.
_EVERY_SIZE = 1 << 62
LIBRARY = Tiers(
    config.small_bound * MEBIBYTE,
    _EVERY_SIZE if config.keep_large else config.medium_bound * MEBIBYTE,
)
