"""Pages from the operating system: aligned, private, with large pages where they pay."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from typing import Any
from weakref import ref

from bedplate.memory.classes import ALIGNMENT, HUGE_PAGE_BYTES, round_up
from bedplate.owners import Owner

# From here on large pages are asked for: the first touch of fresh memory ran at 1.7-3.2 GB/s
# with pages of 4 KiB and at 4-16 GB/s with large ones, but a large page that is only half
# used is resident in full.
HUGE_FROM_BYTES = 2 * HUGE_PAGE_BYTES
# Linux (mman-common.h): addresses without a promise of memory; large pages; pages that may go
ON_LINUX = sys.platform == "linux"
NO_RESERVE, HUGE, NOT_NEEDED = 0x4000, 14, 4
NO_ADDRESS = ctypes.c_void_p(-1).value
# Large mappings are asked for far from where the system puts everybody else's: LLVM needs the parts
# of what it compiles within 2 GiB of each other, and ends the process if a tensor lies between.
FIRST_HINT, LAST_HINT = 1 << 44, 3 << 45


class Account:
    """What this process has mapped, and the lock of all that is slow in this floor.

    lock    taken for free ranges, kept mappings and this account; held around fork
    inside  somebody is between two steps of a change: what its own thread's finalisers want
            meanwhile is done by itself, or later
    mapped  bytes of all mappings there are; more, if Ctrl-C ended a finaliser
    free    of those, the free ranges of medium tiers
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.inside = False
        self.mapped = 0
        self.free = 0
        self.hint = FIRST_HINT
        self.mappings: dict[int, ref[Mapping]] = {}  # by address

    def recount(self) -> None:
        """Set `mapped` right; the lock is held."""
        found = [made() for made in list(self.mappings.values())]
        self.mapped = sum([mapping.nbytes for mapping in found if mapping is not None])


ACCOUNT = Account()


class Mapping(Owner):
    """A range of fresh, zeroed pages; given back to the system when the object goes.

    nbytes   of it that count
    """

    __slots__ = ("__weakref__", "_pages", "address", "nbytes")

    def __init__(self, nbytes: int) -> None:
        """raises MemoryError if the system has no such range"""
        self._map(nbytes)
        with ACCOUNT.lock:
            ACCOUNT.mapped += nbytes
            self.nbytes = nbytes

    def _map(self, nbytes: int) -> None:
        self.nbytes = 0
        huge = nbytes >= HUGE_FROM_BYTES
        alignment = HUGE_PAGE_BYTES if huge else ALIGNMENT
        self._pages = _Pages(nbytes + (alignment if huge else 0))
        self.address = round_up(self._pages.address, alignment)
        if huge:
            self._pages.advise(self._pages.address, self._pages.nbytes, HUGE)
        with ACCOUNT.lock:
            ACCOUNT.mappings[self.address] = ref(self)

    @property
    def extent(self) -> int:
        """Bytes from the address on that blocks may lie in."""
        return self.nbytes

    # the default keeps the name alive while the interpreter shuts down
    def __del__(self, account: Account = ACCOUNT) -> None:
        with account.lock:
            account.mapped -= self.nbytes
            if hasattr(self, "address"):
                account.mappings.pop(self.address, None)


class Segment(Mapping):
    """Addresses of which a beginning is used, up to `end`; the rest has no pages yet.

    room    bytes that are left
    nbytes  that may have pages: up to `end`, less what was discarded
    """

    __slots__ = ("end", "room")

    def __init__(self, length: int) -> None:
        """raises MemoryError if the system has no such range"""
        self._map(length)
        self.end, self.room = self.address, length

    @property
    def extent(self) -> int:
        """Bytes from the address up to the end."""
        return self.end - self.address

    def grow(self, nbytes: int) -> None:
        """Use more at the end."""
        # no call in between that Ctrl-C could come after
        self.end += nbytes
        self.room -= nbytes
        self.nbytes += nbytes
        ACCOUNT.mapped += nbytes

    def shrink(self, nbytes: int) -> None:
        """Use less at the end; its pages go back to the system."""
        self.discard(self.end - nbytes, nbytes)
        self.end -= nbytes
        self.room += nbytes

    def discard(self, start: int, nbytes: int) -> None:
        """Give pages back to the system; they count no longer, and would be fresh when used."""
        self._pages.advise(start, nbytes, NOT_NEEDED)
        self.count(-nbytes)

    def count(self, nbytes: int) -> None:
        """So much more has pages."""
        ACCOUNT.mapped += nbytes
        self.nbytes += nbytes


def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    ]  # fmt: skip
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


_LIBRARY: Any = _libc() if ON_LINUX else None


class _Pages:
    """What the system gave: addresses, and pages as they are touched."""

    __slots__ = ("_python", "address", "nbytes")

    def __init__(self, nbytes: int) -> None:
        """raises MemoryError"""
        self.address, self.nbytes = 0, nbytes
        if _LIBRARY is None:
            self._python = _mapped_by_python(nbytes)
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._python))
            return
        if nbytes >> 62:
            raise MemoryError
        hint = _next_hint(nbytes) if nbytes >= HUGE_FROM_BYTES else 0
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        # private: a child made by fork must not write into its parent's values
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
        address = _LIBRARY.mmap(hint, nbytes, protection, flags, -1, 0)
        if address is None or address == NO_ADDRESS:
            raise MemoryError
        self.address = address

    # the default keeps the name alive while the interpreter shuts down
    def __del__(self, library: Any = _LIBRARY) -> None:
        if library is not None and self.address:
            library.munmap(self.address, self.nbytes)

    def advise(self, start: int, nbytes: int, advice: int) -> None:
        """Tell the system what becomes of pages; where it has no ear for it, nothing changes."""
        if _LIBRARY is not None:
            _LIBRARY.madvise(start, nbytes, advice)


def _mapped_by_python(nbytes: int) -> mmap.mmap:
    try:
        if os.name == "nt":
            return mmap.mmap(-1, nbytes)
        return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryError(str(error)) from None


def _next_hint(nbytes: int) -> int:
    """Where the next mapping would best lie."""
    with ACCOUNT.lock:
        hint = ACCOUNT.hint
        ACCOUNT.hint = FIRST_HINT if hint > LAST_HINT else hint + round_up(nbytes, 1 << 30)
    return hint


def machine_bytes() -> int:
    """The memory that this process may use: the machine's, or its control group's if less."""
    found = []
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(file) as text:
                found.append(int(text.read()))
        except (OSError, ValueError):  # absent, or "max"
            continue
    return min(found) if found else 1 << 62


# Held around fork, so that a child finds the accounts whole.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=ACCOUNT.lock.acquire,
        after_in_parent=ACCOUNT.lock.release,
        after_in_child=ACCOUNT.lock.release,
    )
