"""Pages from the operating system: aligned, private, with large pages where they pay."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from weakref import ref

from bedplate.memory.classes import ALIGNMENT, HUGE_PAGE_BYTES, round_up

# From here on large pages are asked for: the first touch of fresh memory ran at 1.7-3.2 GB/s
# with pages of 4 KiB and at 4-16 GB/s with large ones, but a large page that is only half
# used is resident in full.
HUGE_FROM_BYTES = 2 * HUGE_PAGE_BYTES


class Account:
    """What this process has mapped, and the lock of all that is slow in this floor.

    lock    taken for free ranges, kept mappings and this account; held around fork
    inside  somebody is between two steps of a change: what its own thread's finalisers want
            meanwhile is done by itself, or later
    mapped  bytes of all mappings there are; more, if Ctrl-C ended a finaliser
    free    of those, what the medium and large tiers keep for reuse
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.inside = False
        self.mapped = 0
        self.free = 0
        self.mappings: dict[int, ref[Mapping]] = {}  # by address

    def recount(self) -> None:
        """Set `mapped` right; the lock is held."""
        found = [made() for made in list(self.mappings.values())]
        self.mapped = sum([mapping.nbytes for mapping in found if mapping is not None])


ACCOUNT = Account()


class Mapping:
    """A range of fresh, zeroed pages; given back to the system when the object goes."""

    __slots__ = ("__weakref__", "_pages", "address", "nbytes")

    def __init__(self, nbytes: int) -> None:
        """raises MemoryError if the system has no such range"""
        self.nbytes = 0
        huge = nbytes >= HUGE_FROM_BYTES
        alignment = HUGE_PAGE_BYTES if huge else ALIGNMENT
        try:
            self._pages = _map(nbytes + (alignment if huge else 0))
        except (OSError, OverflowError, ValueError) as error:
            raise MemoryError(str(error)) from None
        self.address = round_up(_address(self._pages), alignment)
        if huge and hasattr(mmap, "MADV_HUGEPAGE"):
            _advise_huge(self._pages)
        with ACCOUNT.lock:
            ACCOUNT.mappings[self.address] = ref(self)
            ACCOUNT.mapped += nbytes
            self.nbytes = nbytes

    # the default keeps the name alive while the interpreter shuts down
    def __del__(self, account: Account = ACCOUNT) -> None:
        with account.lock:
            if self.nbytes:
                account.mapped -= self.nbytes
                del account.mappings[self.address]


def _map(nbytes: int) -> mmap.mmap:
    if os.name == "nt":
        return mmap.mmap(-1, nbytes)
    # private: a child made by fork must not write into its parent's values
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _address(pages: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(pages))


def _advise_huge(pages: mmap.mmap) -> None:
    try:
        pages.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # a kernel built without large pages; small ones serve as well
        return


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
