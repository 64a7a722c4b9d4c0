"""Block: a range of bytes that goes back where it came from with its last reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.errors import InternalError
from bedplate.memory.small import Here
from bedplate.memory.text import readable
from bedplate.memory.tiers import LIBRARY


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


def observe_blocks(
    made: Callable[[Block], None], gone: Callable[[Block], None]
) -> Callable[[], None]:
    """Call `made` after each block is made, and `gone` before it is freed.

    returns  a function that ends it
    cost     while nobody observes, none: the maker and the finaliser of the class are exchanged
    """
    plain_init, plain_del = Block.__init__, Block.__del__

    def observed_init(  # all arguments by name: a signature with stars costs 0.15 us more
        self: Block,
        address: int,
        nbytes: int,
        site: Any = None,
        size_class: int = -1,
        home: Any = None,
        kept_alive: Any = None,
    ) -> None:
        plain_init(self, address, nbytes, site, size_class, home, kept_alive)
        made(self)

    def observed_del(self: Block) -> None:
        gone(self)
        plain_del(self)

    def restore() -> None:
        Block.__init__, Block.__del__ = plain_init, plain_del

    # on the class, so that blocks cost nothing while nobody observes
    Block.__init__, Block.__del__ = observed_init, observed_del  # type: ignore[method-assign]
    return restore
