"""The small tier: free lists of each thread, by size class, of addresses carved from slabs.

The usual path takes no lock: a thread pops from a list that is its own, and appends to it. A block
that is freed on another thread than its maker's goes into its maker's `returned` queue, which the
maker empties when one of its lists runs dry. What an ended thread kept is for everybody.

Lists and deques are only appended to and popped from, each of which is one step in every CPython,
with or without the interpreter's lock. So whoever needs memory may pop from the lists of all
threads (`trim`): what it gets nobody else can have got, and what it does not get counts as in use.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from typing import Any
from weakref import WeakSet

from bedplate.memory.classes import PAGE_BYTES, SMALL_BYTES, Classes, round_up
from bedplate.memory.mapping import ACCOUNT, Mapping
from bedplate.memory.medium import Medium
from bedplate.memory.pressure import require_room

_REFILL_BYTES = 1 << 15  # a thread takes this much of a class at once
# A slab holds so many blocks of a class, within these bounds; above SMALL_BYTES it is a block.
_SLAB_BLOCKS, _LEAST_SLAB_BYTES = 16, 1 << 16


class ThreadLocalPool(threading.local):
    """A list for each thread, to keep things in that are to be used again.

    pool   this thread's list: always the same one in a thread, another one in each

    It needs no lock, since no other thread reaches it, and goes with its thread.

    >>> buffers = ThreadLocalPool()
    >>> buffers.pool.append(bytearray(10))
    >>> len(buffers.pool)
    1
    """

    def __init__(self) -> None:
        self.pool: list[Any] = []


class Home:
    """One thread's free lists, and what other threads returned."""

    __slots__ = ("__weakref__", "ended", "free", "returned", "small", "thread")

    def __init__(self, small: Small, lists: list[list[int]]) -> None:
        self.small = small
        self.free = lists
        self.returned: deque[tuple[int, int]] = deque()
        self.thread = threading.get_ident()
        self.ended = False

    def give_back(self, index: int, address: int) -> None:
        """A block was freed, on any thread."""
        if self.thread == threading.get_ident() and not self.ended:
            self.free[index].append(address)
            return
        if self.ended:
            self.small.free[index].append(address)
            return
        self.returned.append((index, address))
        if self.ended:  # it ended in between: nobody would look into the queue again
            self.end()

    def refill(self, index: int) -> int:
        """An address of a class whose list has run dry."""
        self.collect()
        free = self.free[index]
        for _ in range(max(_REFILL_BYTES // self.small.classes.sizes[index], 1)):
            free.append(self.small.take(index))
        try:
            return free.pop()
        except IndexError:  # somebody who was short of memory took them
            return self.small.take(index)

    def collect(self) -> None:
        """Take in what other threads returned."""
        while self.returned:
            try:
                index, address = self.returned.popleft()
            except IndexError:
                return
            self.free[index].append(address)

    def end(self) -> None:
        """The thread is gone: all it kept, and all that comes home later, is for everybody."""
        self.ended = True
        self.collect()
        for index, free in enumerate(self.free):
            _move(free, self.small.free[index])


class Here(ThreadLocalPool):
    """This thread's home; Python drops the object when the thread ends. Its pool are the lists."""

    def __init__(self, small: Small) -> None:
        super().__init__()
        self.pool = [[] for _ in small.classes.sizes]
        self.home = Home(small, self.pool)
        with ACCOUNT.lock:
            small.homes.add(self.home)
        self._sentinel = _Sentinel(self.home)


class _Sentinel:
    __slots__ = ("_home",)

    def __init__(self, home: Home) -> None:
        self._home = home

    def __del__(self) -> None:
        self._home.end()


class Small:
    """What all threads share: slabs, and the free lists of ended threads.

    ranges  where slabs come from: apart from larger blocks, so that no slab lies in their way
    slabs   address -> (bytes, class, mapping of its own or None)
    """

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self.ranges = Medium()
        self.free: list[list[int]] = [[] for _ in classes.sizes]
        self.homes: WeakSet[Home] = WeakSet()
        self.slabs: dict[int, tuple[int, int, Mapping | None]] = {}

    def take(self, index: int) -> int:
        """An address of a class.

        raises  MemoryError
        """
        free = self.free[index]
        while True:
            try:
                return free.pop()
            except IndexError:
                with ACCOUNT.lock:
                    if not free:
                        self._carve(index)

    def _carve(self, index: int) -> None:
        size = self.classes.sizes[index]
        blocks = _SLAB_BLOCKS if size <= SMALL_BYTES else 1
        nbytes = round_up(max(blocks * size, _LEAST_SLAB_BYTES), PAGE_BYTES)
        if ACCOUNT.inside:
            apart = Mapping(nbytes)
            start = apart.address
        else:
            apart = None
            ACCOUNT.inside = True
            try:
                require_room(nbytes)
                start = self.ranges.take(nbytes)
            finally:
                ACCOUNT.inside = False
        self.slabs[start] = nbytes, index, apart  # before any of its addresses is known
        # the lowest address is handed out first
        last = start + (nbytes // size - 1) * size
        self.free[index].extend(range(last, start - 1, -size))

    @property
    def free_bytes(self) -> int:
        """What no block has, in all threads' lists; what is too small for a block counts too."""
        homes, sizes = list(self.homes), self.classes.sizes
        found = sum([nbytes % sizes[index] for nbytes, index, _ in self.slabs.values()])
        for lists in (self.free, *(home.free for home in homes)):
            found += sum([len(free) * size for free, size in zip(lists, sizes, strict=True)])
        return found + sum([sizes[i] for home in homes for i, _ in list(home.returned)])

    @property
    def live_bytes(self) -> int:
        """What blocks have."""
        return sum([nbytes for nbytes, _, _ in self.slabs.values()]) - self.free_bytes

    def trim(self) -> None:
        """Give back every slab of which nothing is in use; runs under the account's lock."""
        for home in list(self.homes):
            for index, address in _drained(home.returned):
                self.free[index].append(address)
            for mine, free in zip(home.free, self.free, strict=True):
                _move(mine, free)
        free = [address for addresses in self.free for address in _drained(addresses)]
        starts = sorted(self.slabs)
        unused: dict[int, list[int]] = {start: [] for start in starts}
        for address in free:
            unused[starts[bisect_right(starts, address) - 1]].append(address)
        for start, addresses in unused.items():
            nbytes, index, apart = self.slabs[start]
            if len(addresses) == nbytes // self.classes.sizes[index]:
                del self.slabs[start]
                if apart is None:
                    self.ranges.give_back(start)
            else:
                self.free[index].extend(reversed(addresses))
        self.ranges.trim(0)


def _drained(things: Any) -> list[Any]:
    """All that was in a list or a deque that others pop from and append to meanwhile."""
    found = []
    while things:
        try:
            found.append(things.pop())
        except IndexError:
            break
    return found


def _move(source: list[int], target: list[int]) -> None:
    while source:
        try:
            target.append(source.pop())
        except IndexError:
            return
