"""The memory of a device: freed blocks are kept by queue and size, and reused in its order.

A queue works in order, so what is freed on it can be given out again at once for later work of
the same queue, even while earlier work still uses it. Other queues that used a block left their
marks on it: the reuse starts after these. Another queue takes a block only when all its marks are
reached. Small sizes are cut from slabs. When the device has no room, all queues are waited for and
what is kept goes back to it.

Blocks come home by finalisers, which run anywhere, even in the middle of the functions here on the
same thread; they only append to `returned`.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from bedplate.config import config
from bedplate.devices.queue import Queue, Work
from bedplate.errors import OutOfMemoryError
from bedplate.memory import line_of, readable
from bedplate.memory.classes import SMALL_BYTES, class_bytes

if TYPE_CHECKING:
    from bedplate.devices.backend import Driver
    from bedplate.devices.runtime import Runtime

SLAB_BYTES = 1 << 20
SHOWN_HOLDERS = 5
MOST_USERS = 8  # queues that used a block, from which on those that are done are forgotten


class Free:
    """A freed piece of memory.

    own    the driver's event behind all work of its queue when it came home, or None
    marks  events behind work of other queues that used it
    """

    __slots__ = ("address", "marks", "own")

    def __init__(self, address: int, own: Any, marks: tuple[Any, ...]) -> None:
        self.address = address
        self.own = own
        self.marks = marks

    def is_reached(self, driver: Driver) -> bool:
        """Whether nothing uses it any more."""
        if self.own is not None and driver.is_reached(self.own):
            self.own = None
        self.marks = tuple([mark for mark in self.marks if not driver.is_reached(mark)])
        return self.own is None and not self.marks


class Pool:
    """The memory of one device; see the head of this file.

    live      address -> (bytes, site) of what is in use
    returned  (address, size, queue, marks) of blocks whose finaliser ran
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.live: dict[int, tuple[int, Any]] = {}
        self.returned: deque[tuple[int, int, Queue, tuple[Work, ...]]] = deque()
        self.free: dict[int, dict[int, list[Free]]] = {}  # size -> number of a queue -> pieces
        self.live_bytes = 0
        self.free_bytes = 0
        self._lock = threading.RLock()

    def take(self, nbytes: int, queue: Queue, site: Any) -> tuple[int, int]:
        """(address, size) of memory for work of `queue` that is started from now on.

        raises  OutOfMemoryError, which lists the largest holders
        """
        size = class_bytes(nbytes)
        with self._lock:
            self._collect()
            address = self._reuse(size, queue)
            if address is None:
                address = self._carve(size, queue) if size <= SMALL_BYTES else self._new(size, site)
            self.live[address] = (size, site)
            self.live_bytes += size
        return address, size

    def note(self, users: dict[int, Work], work: Work) -> None:
        """Add work of another queue to those that used a block; forget what is done.

        Work keeps its queue: a block that lives long would keep those of all threads that used it.
        """
        with self._lock:
            if len(users) >= MOST_USERS:
                for number in [n for n, user in users.items() if user.is_reached()]:
                    del users[number]
            users[work.queue.number] = work

    def _collect(self) -> None:
        """Take in what finalisers returned."""
        self._drain()
        if not config.pooling and self.free_bytes:
            self.release()

    def _drain(self) -> None:
        while self.returned:
            try:
                address, size, queue, marks = self.returned.popleft()
            except IndexError:
                return
            if self.live.pop(address, None) is not None:
                self.live_bytes -= size
            last = queue.last
            own = None if last is None or last.is_settled else last.event
            events = tuple([mark.event for mark in marks if not mark.is_settled])
            self._keep(size, queue.number, Free(address, own, events))

    def _keep(self, size: int, number: int, piece: Free) -> None:
        self.free.setdefault(size, {}).setdefault(number, []).append(piece)
        self.free_bytes += size

    def _reuse(self, size: int, queue: Queue) -> int | None:
        kept = self.free.get(size)
        if not kept:
            return None
        driver = self.runtime.driver
        if queue.number in kept:
            piece = self._taken(kept, queue.number, -1)
            for mark in piece.marks:
                if not driver.is_reached(mark):
                    driver.wait(queue.handle, mark)
        else:
            done = [number for number in kept if kept[number][0].is_reached(driver)]
            if not done:
                return None
            piece = self._taken(kept, done[0], 0)
        self.free_bytes -= size
        return piece.address

    @staticmethod
    def _taken(kept: dict[int, list[Free]], number: int, place: int) -> Free:
        """A piece of a queue's, no longer kept."""
        piece = kept[number].pop(place)
        if not kept[number]:
            del kept[number]
        return piece

    def _carve(self, size: int, queue: Queue) -> int:
        """The first piece of a new slab; the others are kept."""
        try:
            slab = self.runtime.driver.allocate(SLAB_BYTES)
        except MemoryError:  # a slab is no longer to be had; a single piece may be
            return self._new(size, None)
        count = SLAB_BYTES // size
        for number in range(count - 1, 0, -1):
            self._keep(size, queue.number, Free(slab + number * size, None, ()))
        return slab

    def _new(self, size: int, site: Any) -> int:
        try:
            return self.runtime.driver.allocate(size)
        except MemoryError:
            self.release()
        try:
            return self.runtime.driver.allocate(size)
        except MemoryError as error:
            raise OutOfMemoryError(self._describe(size, site, str(error))) from None

    def release(self) -> None:
        """Give what is kept back to the device, but for slabs, once all work is done."""
        with self._lock:
            self._drain()
            self.runtime.settle_all()
            for size in [size for size in self.free if size > SMALL_BYTES]:
                for pieces in self.free.pop(size).values():
                    while pieces:
                        self.runtime.driver.free(pieces.pop().address)
                        self.free_bytes -= size

    def after_fork(self) -> None:
        """Another thread may have held the lock when the process forked."""
        self._lock = threading.RLock()

    def _describe(self, size: int, site: Any, reason: str) -> str:
        lines = [f"allocate: no memory for {readable(size)} on {self.runtime.device}"]
        if site is not None:
            lines[0] += f", asked for at {line_of(site)}"
        if reason:
            lines.append(f"  the device says: {reason}")
        holders = sorted(self.live.values(), key=lambda held: -held[0])[:SHOWN_HOLDERS]
        lines.append(
            f"  in use {readable(self.live_bytes)}, kept {readable(self.free_bytes)}"
            + ("; the largest holders are" if holders else "")
        )
        lines += [f"  {readable(held):>10}   made at {line_of(where)}" for held, where in holders]
        lines.append("  use smaller tensors, or drop what is no longer needed")
        return "\n".join(lines)
