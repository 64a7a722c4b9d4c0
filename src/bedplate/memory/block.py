"""Block: a range of bytes that goes back where it came from with its last reference."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bedplate.errors import InternalError
from bedplate.forks import renewed
from bedplate.memory.small import Here
from bedplate.memory.text import readable
from bedplate.memory.tiers import LIBRARY
from bedplate.owners import Owner


class Block(Owner):
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

    # the default keeps the name alive while the interpreter shuts down
    def __del__(self, here: Here = LIBRARY.here) -> None:
        home = self._home
        if home is None:
            return
        # a thread that is going down may have lost its home already
        if home is getattr(here, "home", None):
            home.free[self._class].append(self.address)
        else:
            home.give_back(self._class, self.address)

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


@dataclass(frozen=True, slots=True, eq=False)
class Observer:
    """Who is told of blocks; see `observe_blocks`."""

    made: Callable[[Block], None]
    gone: Callable[[tuple[int, Any]], None]
    together: Callable[[list[Block], list[int]], None] | None

    def all_made(self, blocks: list[Block], sizes: list[int]) -> None:
        """Several blocks were made."""
        if self.together is not None:
            self.together(blocks, sizes)
        else:
            for block in blocks:
                self.made(block)


class Observers:
    """Who observes, the oldest first.

    together  to be told of blocks that `unobserved` made; None while nobody observes
    """

    def __init__(self) -> None:
        self.all: list[Observer] = []
        self.lock = renewed(threading.RLock())
        self.together: Callable[[list[Block], list[int]], None] | None = None


OBSERVERS = Observers()
_PLAIN = Block.__init__, Block.__del__
_new = object.__new__


def unobserved(address: int, nbytes: int, site: Any, index: int, home: Any) -> Block:
    """As `Block`, of a block that observers are told of later."""
    block = _new(Block)
    block.address = address
    block.nbytes = nbytes
    block.site = site
    block._class = index
    block._home = home
    block._kept_alive = None
    return block


def observe_blocks(
    made: Callable[[Block], None],
    gone: Callable[[tuple[int, Any]], None],
    together: Callable[[list[Block], list[int]], None] | None = None,
) -> Callable[[], None]:
    """Call `made` with each block that is made, `gone` with (identity, site) before it is freed.

    together  called for several that were made at once, with their bytes; None: `made` for each
    returns   a function that ends it; observers may end in any order
    cost      while nobody observes, none: the maker and the finaliser of the class are exchanged
    """
    observer = Observer(made, gone, together)

    def end() -> None:
        with OBSERVERS.lock:
            OBSERVERS.all.remove(observer)
            _exchange()

    with OBSERVERS.lock:
        OBSERVERS.all.append(observer)
        _exchange()
    return end


def _exchange() -> None:
    """Make and free blocks as the observers that there are want it."""
    init, finalise = _PLAIN
    together = None
    if found := list(OBSERVERS.all):
        made, gone = _all([x.made for x in found]), _all([x.gone for x in found])
        init, finalise = _observed(made, gone)
        together = _all([x.together or x.all_made for x in found])
    OBSERVERS.together = together
    # on the class, so that blocks cost nothing while nobody observes
    Block.__init__, Block.__del__ = init, finalise  # type: ignore[method-assign]


def _all(functions: list[Callable[..., None]]) -> Callable[..., None]:
    """One function that calls all of them."""
    if len(functions) == 1:
        return functions[0]

    def call(*arguments: Any) -> None:
        for function in functions:
            function(*arguments)

    return call


def _observed(
    made: Callable[[Block], None], gone: Callable[[tuple[int, Any]], None]
) -> tuple[Any, Any]:
    """The maker and the finaliser of blocks that tell of it, each as the plain one does.

    They are written out: calls, and a signature with stars, cost 0.15 us each.
    """

    def observed_init(
        self: Block,
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
        made(self)

    def observed_del(self: Block, here: Here = LIBRARY.here) -> None:
        gone((id(self), self.site))
        home = self._home
        if home is None:
            return
        if home is getattr(here, "home", None):
            home.free[self._class].append(self.address)
        else:
            home.give_back(self._class, self.address)

    return observed_init, observed_del
