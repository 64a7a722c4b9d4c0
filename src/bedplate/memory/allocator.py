"""The caching allocator: `allocate(nbytes)` gives a Block, which comes home by itself.

A little long, because all that touches the free lists stands together.

A request is rounded up to a size class (see classes.py). What is freed is kept in the free
list of its class, because fresh pages cost more than anything that is computed in them:

    small    each thread has its own free lists, so that the usual path takes no lock. A
             block that is freed on another thread than its maker's goes into its maker's
             `returned` queue, which the maker empties when one of its lists runs dry.
    medium   shared lists; a lock only to carve more
    large    shared lists under a lock; the oldest go back to the system when more is kept
             than `config.pool_size` allows, and all of them when memory runs out

Nothing here relies on the interpreter's lock: lists and deques are only appended to and
popped from, which is atomic in every CPython, and the rest is done under `_Shared.lock`.
A finaliser may run in the middle of anything, even of a section that holds the lock on
the same thread (which may enter it again), and Ctrl-C may end a section after any call in it.
The steps of each section therefore come in an order in which the worst that is left behind is
memory that nobody uses: the lock is only taken by `with`, which no signal can come in between.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.config import config
from bedplate.errors import InternalError, OutOfMemoryError
from bedplate.memory.classes import (
    ALIGNMENT,
    INDEX,
    MEDIUM_BYTES,
    N_SMALL,
    SIZES,
    SMALL_BYTES,
    SMALL_CLASS,
    class_bytes,
)
from bedplate.memory.mapping import Mapping, machine_bytes

_REFILL_BYTES = 1 << 15  # a thread takes this much of a small class at once
_MIB = 1 << 20


class _Shared:
    """What all threads share: slabs, the medium and large free lists, and the accounts."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.free: list[list[int]] = [[] for _ in SIZES]  # small (of ended threads) and medium
        self.slabs: list[Mapping] = []
        self.slab_bytes = 0
        self.large_live: dict[int, tuple[Mapping, Any]] = {}  # address -> (mapping, site)
        self.large_live_bytes = 0
        self.large_free: dict[int, list[Mapping]] = {}  # size -> mappings, the newest last
        self.large_free_bytes = 0
        self.large_age: dict[int, Mapping] = {}  # every kept mapping, the oldest first
        self.returned: deque[int] = deque()  # addresses of freed large mappings
        self.limit_bytes = machine_bytes()

    def collect(self) -> None:
        """Keep the large mappings that finalisers returned."""
        if self.returned:
            with self.lock:
                self._collect_locked()

    def _collect_locked(self) -> None:
        while self.returned:
            try:
                address = self.returned.popleft()
            except IndexError:
                break
            self._keep_large(address)
        self._trim(_pool_bytes(self.limit_bytes))

    def take(self, index: int) -> int:
        """An address of a small or medium class."""
        free = self.free[index]
        while True:
            try:
                return free.pop()
            except IndexError:
                with self.lock:
                    if not free:
                        self._carve(index)

    def _carve(self, index: int) -> None:
        size = SIZES[index]
        slab = self._map(_MIB if index < N_SMALL else 8 * _MIB, None)
        self.slabs.append(slab)  # before any of its addresses is known
        self.slab_bytes += slab.nbytes
        # the lowest address is handed out first
        last = slab.address + (slab.nbytes // size - 1) * size
        self.free[index].extend(range(last, slab.address - 1, -size))

    def take_large(self, nbytes: int, site: Any) -> int:
        """The address of a mapping of the class of `nbytes`, kept or fresh."""
        size = class_bytes(nbytes)
        with self.lock:
            self._collect_locked()
            mapping = self._reuse(size) or self._map(size, site)
            self.large_live[mapping.address] = (mapping, site)
            self.large_live_bytes += size
        return mapping.address

    def _reuse(self, size: int) -> Mapping | None:
        """A kept mapping of that size, no longer kept."""
        kept = self.large_free.get(size)
        if not kept:
            return None
        mapping = kept.pop()
        if self.large_age.pop(mapping.address, None) is not None:
            self.large_free_bytes -= size
        return mapping

    def _keep_large(self, address: int) -> None:
        mapping, _ = self.large_live[address]
        size = mapping.nbytes
        self.large_live_bytes -= size
        del self.large_live[address]
        self.large_free_bytes += size
        self.large_age[address] = mapping
        self.large_free.setdefault(size, []).append(mapping)

    def _trim(self, bound_bytes: int) -> None:
        """Give the oldest kept mappings back to the system until at most `bound_bytes` are kept."""
        if self.large_free_bytes > bound_bytes:
            # counted anew: a step that was interrupted leaves too many
            self.large_free_bytes = sum(kept.nbytes for kept in list(self.large_age.values()))
        while self.large_age and self.large_free_bytes > bound_bytes:
            mapping = self.large_age.pop(next(iter(self.large_age), 0), None)
            if mapping is not None:
                self.large_free_bytes -= mapping.nbytes
                with contextlib.suppress(ValueError, KeyError):
                    self.large_free[mapping.nbytes].remove(mapping)

    def _map(self, nbytes: int, site: Any) -> Mapping:
        """Fresh pages; what is kept makes room for them if need be."""
        limit = config.memory_limit * _MIB or self.limit_bytes
        room = limit - self.slab_bytes - self.large_live_bytes - nbytes
        self._trim(max(room, 0))
        try:
            if room < 0:
                raise MemoryError
            return Mapping(nbytes)
        except MemoryError:
            self._trim(0)
        if room >= 0:
            try:
                return Mapping(nbytes)
            except MemoryError:
                pass
        raise OutOfMemoryError(self._describe(nbytes, limit, site))

    def _describe(self, nbytes: int, limit: int, site: Any) -> str:
        holders = sorted(self.large_live.values(), key=lambda held: -held[0].nbytes)[:5]
        lines = [f"allocate: no memory for {readable(nbytes)}"]
        if site is not None:
            lines[0] += f", asked for at {line_of(site)}"
        in_use = self.slab_bytes + self.large_live_bytes
        lines.append(f"  in use {readable(in_use)} of {readable(limit)}; the largest holders are")
        lines += [f"  {readable(m.nbytes):>10}   made at {line_of(where)}" for m, where in holders]
        if not holders:
            lines[-1] = f"  in use {readable(in_use)} of {readable(limit)}"
        lines.append("  use smaller tensors, drop what is no longer needed, or raise memory_limit")
        return "\n".join(lines)


def _pool_bytes(limit_bytes: int) -> int:
    if not config.pooling:
        return 0
    return config.pool_size * _MIB or limit_bytes // 2


class _Home:
    """One thread's free lists of the small classes, and what other threads returned."""

    __slots__ = ("ended", "free", "returned")

    def __init__(self) -> None:
        self.free: list[list[int]] = [[] for _ in range(N_SMALL)]
        self.returned: deque[tuple[int, int]] = deque()
        self.ended = False

    def refill(self, index: int) -> int:
        """An address of a class whose list has run dry."""
        while self.returned:
            returned_index, address = self.returned.popleft()
            self.free[returned_index].append(address)
        free = self.free[index]
        if not free:
            for _ in range(max(_REFILL_BYTES // SIZES[index], 1)):
                free.append(_shared.take(index))
        return free.pop()

    def end(self) -> None:
        """The thread is gone: all it kept, and all that comes home later, is for everybody."""
        self.ended = True
        for index, free in enumerate(self.free):
            while free:
                _shared.free[index].append(free.pop())
        while self.returned:
            index, address = self.returned.popleft()
            _shared.free[index].append(address)


class _Here(threading.local):
    """This thread's home; Python drops the object when the thread ends."""

    def __init__(self) -> None:
        self.home = _Home()
        self._sentinel = _Sentinel(self.home)


class _Sentinel:
    __slots__ = ("_home",)

    def __init__(self, home: _Home) -> None:
        self._home = home

    def __del__(self) -> None:
        self._home.end()


_shared = _Shared()
_here = _Here()


class Block:
    """A range of bytes at a fixed, 64-byte aligned address, freed with its last reference.

    address   of the first byte
    nbytes    as asked for; what lies behind it up to the size class must not be used
    site      (code, instruction) or text: where it was asked for; None if not known
    """

    __slots__ = ("__weakref__", "_class", "_home", "_kept_alive", "address", "nbytes", "site")

    def __init__(
        self,
        address: int,
        nbytes: int,
        site: Any = None,
        size_class: int = -1,
        home: Any = None,
        kept_alive: Any = None,
    ) -> None:
        self.address = address
        self.nbytes = nbytes
        self.site = site
        self._class = size_class
        self._home = home
        self._kept_alive = kept_alive

    # the defaults keep the names alive while the interpreter shuts down
    def __del__(self, here: Any = _here, shared: _Shared = _shared) -> None:
        home = self._home
        if home is None:
            return
        # a thread that is going down may have lost its home already
        if home is getattr(here, "home", None):
            home.free[self._class].append(self.address)
        elif self._class < 0:
            shared.returned.append(self.address)
            shared.collect()
        elif home is shared or home.ended:
            shared.free[self._class].append(self.address)
        else:
            home.returned.append((self._class, self.address))
            if home.ended:  # it ended in between: nobody would look into the queue again
                home.end()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False),
                "version": 3}  # fmt: skip

    def array(self, dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """A NumPy array over the first bytes of the block, which it keeps alive.

        dtype   a Bedplate or NumPy dtype
        raises  InternalError if the block is too small
        """
        numpy_dtype = np.dtype(getattr(dtype, "numpy", dtype))
        wanted = numpy_dtype.itemsize
        for size in shape:
            wanted *= size
        if wanted > self.nbytes:
            raise InternalError(f"array {shape} {numpy_dtype} does not fit {self.nbytes} bytes")
        return np.asarray(self)[:wanted].view(numpy_dtype).reshape(shape)

    def shown(self, dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """As `array`, but nobody can write it, nor make it writable."""
        view = Block.array(_Shown(self), dtype, shape)  # type: ignore[arg-type]
        view.flags.writeable = False
        return view

    @classmethod
    def from_numpy(cls, array: np.ndarray[Any, Any], site: Any = None) -> Block:
        """The memory of a C-contiguous array, which stays alive with the block; no copy.

        raises  InternalError if the array is not contiguous
        """
        if not array.flags.c_contiguous:
            raise InternalError("Block.from_numpy takes a C-contiguous array")
        return cls(array.__array_interface__["data"][0], array.nbytes, site, kept_alive=array)

    def __repr__(self) -> str:
        return f"<Block {readable(self.nbytes)} at {self.address:#x}>"


def observe_blocks(
    made: Callable[[Block], None], gone: Callable[[Block], None]
) -> Callable[[], None]:
    """Call `made` after each block is made, and `gone` before it is freed.

    returns  a function that ends it
    cost     while nobody observes, none: the maker and the finaliser of the class are exchanged
    """
    plain_init, plain_del = Block.__init__, Block.__del__

    def observed_init(self: Block, *args: Any, **named: Any) -> None:
        plain_init(self, *args, **named)
        made(self)

    def observed_del(self: Block) -> None:
        gone(self)
        plain_del(self)

    def restore() -> None:
        Block.__init__, Block.__del__ = plain_init, plain_del

    # on the class, so that blocks cost nothing while nobody observes
    Block.__init__, Block.__del__ = observed_init, observed_del  # type: ignore[method-assign]
    return restore


class ForeignBlock(Block):
    """Memory that somebody else owns, who may read it at any time: it is never written."""

    __slots__ = ()


class _Shown:
    """A block as it is shown to others: memory that is kept alive, and is not writable."""

    __slots__ = ("block", "nbytes")

    def __init__(self, block: Block) -> None:
        self.block, self.nbytes = block, block.nbytes

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.block.address, True),
                "version": 3}  # fmt: skip


def allocate(nbytes: int, site: Any = None) -> Block:
    """A block of at least `nbytes` bytes, 64-byte aligned, with undefined content.

    site     where it was asked for, for reports and errors
    raises   OutOfMemoryError, which lists the largest holders; everything stays usable
    cost     about half a micro-second when a freed block of the size class is at hand
    """
    if 0 <= nbytes <= SMALL_BYTES and config.pooling:
        index = SMALL_CLASS[(nbytes + (ALIGNMENT - 1)) >> 6]
        home = getattr(_here, "home", None)
        if home is None:  # the thread is going down
            return Block(_shared.take(index), nbytes, site, index, _shared)
        try:
            address = home.free[index].pop()
        except IndexError:
            address = home.refill(index)
        return Block(address, nbytes, site, index, home)
    if nbytes < 0:
        raise InternalError(f"allocate: nbytes must not be negative, got {nbytes}")
    if nbytes > MEDIUM_BYTES:
        return Block(_shared.take_large(nbytes, site), nbytes, site, -1, _shared)
    if config.pooling:
        index = INDEX[class_bytes(nbytes)]
        return Block(_shared.take(index), nbytes, site, index, _shared)
    return _unpooled(nbytes, site)


def allocate_all(sizes: list[int]) -> list[Block]:
    """A block for each number of bytes, as `allocate` gives them; quicker for several."""
    home = getattr(_here, "home", None) if config.pooling else None
    if home is None:
        return [allocate(nbytes) for nbytes in sizes]
    blocks = []
    free = home.free
    for nbytes in sizes:
        if nbytes > SMALL_BYTES:
            blocks.append(allocate(nbytes))
            continue
        index = SMALL_CLASS[(nbytes + (ALIGNMENT - 1)) >> 6]
        try:
            address = free[index].pop()
        except IndexError:
            address = home.refill(index)
        blocks.append(Block(address, nbytes, None, index, home))
    return blocks


def _unpooled(nbytes: int, site: Any) -> Block:
    """A block that NumPy allocates, and frees with the block."""
    array = np.empty(nbytes + ALIGNMENT, np.uint8)
    address = array.__array_interface__["data"][0]
    return Block(-(-address // ALIGNMENT) * ALIGNMENT, nbytes, site, kept_alive=array)


def release_cache() -> None:
    """Give every kept large mapping back to the system."""
    with _shared.lock:
        _shared._collect_locked()
        _shared._trim(0)
    _shared.collect()


def readable(nbytes: int) -> str:
    """A number of bytes for people, as in `1.5 GiB`."""
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def line_of(site: Any) -> str:
    """`file:line` of a site: (code, instruction), or text as it is."""
    if not isinstance(site, tuple):
        return "unknown line" if site is None else str(site)
    code, instruction = site
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return f"{code.co_filename}:{line}"
    return f"{code.co_filename}:{code.co_firstlineno}"


# Held around fork, so that a child finds the accounts whole.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_shared.lock.acquire,
        after_in_parent=_shared.lock.release,
        after_in_child=_shared.lock.release,
    )
