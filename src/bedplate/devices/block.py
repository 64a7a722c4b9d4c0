"""Blocks of memory on a device, and blocks of the host that a device still fills.

A `DeviceBlock` stands where a `Block` of the host does: it is the value of a node. Its address
means something to the device alone; whoever reads the value asks for an `array`, which waits for
the work that wrote it and copies it to the host.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from bedplate.devices.queue import Queue, Work
from bedplate.errors import InternalError
from bedplate.memory import Block, allocate, readable
from bedplate.owners import Owner

if TYPE_CHECKING:
    from bedplate.devices.runtime import Runtime

Array = np.ndarray[Any, Any]


class DeviceBlock(Owner):
    """A range of bytes on a device, freed with its last reference.

    address  of the first byte, for the device alone
    site     where it was asked for; see `Block`
    home     the queue for whose work it was taken
    work     what wrote it last
    """

    __slots__ = ("__weakref__", "_size", "_users", "address", "home", "nbytes", "site", "work")

    def __init__(self, nbytes: int, queue: Queue, site: Any = None) -> None:
        self.address, self._size = queue.runtime.pool.take(nbytes, queue, site)
        self.nbytes = nbytes
        self.site = site
        self.home = queue
        self.work: Work | None = None
        self._users: dict[int, Work] = {}

    @property
    def runtime(self) -> Runtime:
        """What drives the device that it lies on."""
        return self.home.runtime

    def used_by(self, work: Work) -> None:
        """Note work that reads or writes it: what comes after it in this memory starts later."""
        if work.queue is not self.home:
            self.runtime.pool.note(self._users, work)

    def __del__(self) -> None:
        try:
            home, size = self.home, self._size
        except AttributeError:  # there was no memory for it
            return
        marks = tuple(self._users.values())
        home.runtime.pool.returned.append((self.address, size, home, marks))

    def wait(self) -> None:
        """Return when its content is there.

        raises  DeviceError or IndexError if the work that wrote it failed
        """
        if self.work is not None:
            self.work.wait()

    def array(self, dtype: Any, shape: tuple[int, ...]) -> Array:
        """A copy in the host's memory; waits for it.

        raises  what `wait` raises; InternalError if the block is too small
        """
        numpy_dtype = np.dtype(getattr(dtype, "numpy", dtype))
        wanted = numpy_dtype.itemsize
        for size in shape:
            wanted *= size
        if wanted > self.nbytes:
            raise InternalError(f"array {shape} {numpy_dtype} does not fit {self.nbytes} bytes")
        return self._bytes(wanted).view(numpy_dtype).reshape(shape)

    def _bytes(self, nbytes: int) -> Array:
        self.wait()
        into = np.empty(nbytes, np.uint8)
        if not nbytes:
            return into
        if self.runtime.driver.host_can_address:
            ctypes.memmove(into.ctypes.data, self.address, nbytes)
            return into
        queue = self.runtime.downloads
        with queue.runtime.starting(queue, into):
            self.runtime.driver.read(queue.handle, into, self.address)
            work = queue.started(kept=(into, self))
        work.wait()
        return into

    def shown(self, dtype: Any, shape: tuple[int, ...]) -> Array:
        """As `array`, but nobody can write it."""
        array = self.array(dtype, shape)
        owner: Any = array.base
        for each in (owner, array):  # a view of a copy that nobody can write either
            each.flags.writeable = False
        return array

    def __repr__(self) -> str:
        return f"<DeviceBlock {readable(self.nbytes)} on {self.runtime.device}>"


class ArrivingBlock(Block):
    """A block of the host that a device is filling: its address is given out once it is full.

    work  the copy; who asks for the address waits for it, and gets its fault if it failed
    """

    __slots__ = ("_memory", "work")

    def __init__(self, memory: Block, work: Work) -> None:
        self._memory = memory
        self.work = work
        self.nbytes = memory.nbytes
        self.site = memory.site
        self._class, self._home, self._kept_alive = -1, None, None

    def __del__(self, *_: Any) -> None:
        """Nothing: the memory comes home by itself."""

    @property
    def address(self) -> int:  # type: ignore[override]
        if not self.work.is_settled or self.work.fault is not None:
            self.work.wait()
        return self._memory.address


def arriving(nbytes: int, site: Any) -> tuple[Block, Array]:
    """Memory of the host for a copy from a device, and its bytes."""
    memory = allocate(nbytes, site)
    return memory, memory.array(np.uint8, (nbytes,))
